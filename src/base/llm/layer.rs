//! One layer: its matrices, and the places in which tokens see one another.

/// A layer of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// How tokens see one another, such as `sliding-window attention`; empty if they do not.
    pub mixer: &'static str,
    /// The feed-forward block, `MLP` or `MoE`; empty without one.
    pub feed: &'static str,
    /// Matrices that tokens are multiplied by.
    pub matrices: Vec<Matrix>,
    /// Parameters of norms, convolutions and other vectors, without biases of matrices.
    pub vectors: u64,
    /// Attention over a cache.
    pub cores: Vec<Core>,
    /// A recurrent state instead of a cache.
    pub state: Option<State>,
}

/// The parts of a forward pass that follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Projections before and after attention or a recurrence.
    #[default]
    Projections,
    /// Attention itself, or a recurrence: no weights.
    Attention,
    /// Dense feed-forward block, shared experts.
    Mlp,
    /// Routed experts and their router.
    Experts,
    /// LM head, classifier.
    Head,
    /// Matrices outside of the layers.
    Other,
}

impl Part {
    /// All parts in the order of a forward pass.
    pub const ALL: [Self; 6] = [
        Self::Projections,
        Self::Attention,
        Self::Mlp,
        Self::Experts,
        Self::Head,
        Self::Other,
    ];

    /// The name in data files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Projections => "projections",
            Self::Attention => "attention",
            Self::Mlp => "mlp",
            Self::Experts => "experts",
            Self::Head => "head",
            Self::Other => "other",
        }
    }
}

/// A weight matrix, or several alike of which a token uses some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// When it is used.
    pub part: Part,
    /// Its name, such as `q` or `gate`.
    pub name: &'static str,
    /// Rows: size of what comes in.
    pub inputs: u64,
    /// Columns: size of what goes out.
    pub outputs: u64,
    /// It has a bias of the size of its output.
    pub bias: bool,
    /// How many alike there are: experts.
    pub copies: u64,
    /// How many of them a token passes through.
    pub used: u64,
    /// Over how many GPUs tensor parallelism can split one of them; 1: each GPU holds all of it.
    pub ways: u64,
    /// Positions of a sequence that it multiplies, where these are not the new ones: a condition, the outputs of an
    /// encoder.
    pub rows: Option<u64>,
}

impl Matrix {
    /// A matrix that all tokens pass through.
    pub const fn new(part: Part, name: &'static str, inputs: u64, outputs: u64) -> Self {
        Self {
            part,
            name,
            inputs,
            outputs,
            bias: false,
            copies: 1,
            used: 1,
            ways: u64::MAX,
            rows: None,
        }
    }

    /// The matrix that makes logits.
    pub const fn head(hidden: u64, vocab: u64, bias: bool) -> Self {
        Self {
            bias,
            ..Self::new(Part::Head, "head", hidden, vocab)
        }
    }

    /// The same, split over at most `ways` GPUs.
    #[must_use]
    pub const fn ways(self, ways: u64) -> Self {
        Self { ways, ..self }
    }

    /// The same for so many positions of a sequence.
    #[must_use]
    pub const fn rows(self, rows: u64) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// The same with a bias.
    #[must_use]
    pub const fn bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }

    /// The same `copies` times, `used` of them by a token.
    #[must_use]
    pub const fn copies(self, copies: u64, used: u64) -> Self {
        Self {
            copies,
            used,
            ..self
        }
    }

    /// Elements of one copy, without its bias.
    pub const fn elements(&self) -> u64 {
        self.inputs.saturating_mul(self.outputs)
    }
}

/// Which keys a query attends to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All up to its own position.
    #[default]
    Causal,
    /// All of the sequence: encoders.
    All,
    /// The last ones up to its own position.
    Window(u64),
    /// Those of its own chunk up to its own position.
    Chunk(u64),
    /// So many that an indexer selects; all of them are cached.
    Top(u64),
    /// So many, whatever the position: outputs of an encoder, a window of an image.
    Fixed(u64),
    /// One entry for so many positions, all of them or those that an indexer selects.
    Compressed {
        /// Positions of an entry.
        ratio: u64,
        /// Entries that are attended to at most.
        top: Option<u64>,
    },
}

/// Attention over a cache: products of queries with keys, and of their weights with values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Query heads.
    pub heads: u64,
    /// Multiply-adds of a query-key pair and head.
    pub query_key: u64,
    /// Multiply-adds of a weight-value pair and head; 0 for an indexer.
    pub value: u64,
    /// Cached elements of a position, over all heads; 0 where another layer's cache is read.
    pub stored: u64,
    /// Elements of a position that are read.
    pub read: u64,
    /// Over how many GPUs the cache can be split.
    pub kv_heads: u64,
    /// Which keys a query attends to.
    pub reach: Reach,
    /// Of a latent cache: multiply-adds of a pair and head where it is not expanded, and those that expand a position
    /// for a head.
    pub absorbed: Option<(u64, u64)>,
}

/// A recurrent state: linear attention, a state-space model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Elements of a sequence.
    pub elements: u64,
    /// FLOPs of a token.
    pub flops: u64,
}

/// Attention with keys and values of their own, shared by groups of query heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attention {
    /// Hidden size.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a query or key head.
    pub head_dim: u64,
    /// Size of a value head.
    pub value_dim: u64,
    /// Query, key and value projections have biases.
    pub qkv_bias: bool,
    /// The output projection has one.
    pub out_bias: bool,
    /// The query projection also makes a gate of the output.
    pub gated: bool,
    /// Keys serve as values too.
    pub key_is_value: bool,
    /// Reads the cache of an earlier layer and has no keys and values of its own.
    pub shares_cache: bool,
    /// Which keys a query attends to.
    pub reach: Reach,
}

impl Attention {
    /// As many heads of keys as of queries, which divide the hidden size; with a bias of each projection or of none.
    pub fn multi_head(hidden: u64, heads: u64, bias: bool, reach: Reach) -> Self {
        let size = hidden / heads.max(1);
        Self {
            hidden,
            heads,
            kv_heads: heads,
            head_dim: size,
            value_dim: size,
            qkv_bias: bias,
            out_bias: bias,
            reach,
            ..Self::default()
        }
    }
}

/// Routed experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experts {
    /// Hidden size.
    pub hidden: u64,
    /// What experts read and write, where it is not the hidden size.
    pub input: u64,
    /// Experts.
    pub count: u64,
    /// Experts that a token passes through.
    pub chosen: u64,
    /// Inner size of an expert.
    pub intermediate: u64,
    /// Experts are gated.
    pub gated: bool,
    /// Experts have biases.
    pub bias: bool,
    /// The router has one.
    pub router_bias: bool,
    /// Scores are corrected by a bias of each expert, which balances their load.
    pub balanced: bool,
}

impl Layer {
    /// Adds parameters that are no matrices.
    #[must_use]
    pub const fn vectors(mut self, count: u64) -> Self {
        self.vectors = self.vectors.saturating_add(count);
        self
    }

    /// Adds a matrix.
    #[must_use]
    pub fn matrix(mut self, matrix: Matrix) -> Self {
        self.matrices.push(matrix);
        self
    }

    /// Adds attention.
    #[must_use]
    pub fn attention(mut self, attention: &Attention) -> Self {
        let project = |name, inputs, outputs| Matrix::new(Part::Projections, name, inputs, outputs);
        let queries = attention.heads * attention.head_dim * if attention.gated { 2 } else { 1 };
        self.matrices.push(
            project("q", attention.hidden, queries)
                .ways(attention.heads)
                .bias(attention.qkv_bias),
        );
        let (keys, values) = (
            attention.kv_heads * attention.head_dim,
            attention.kv_heads * attention.value_dim,
        );
        if !attention.shares_cache {
            let project = |name, outputs| {
                project(name, attention.hidden, outputs)
                    .ways(attention.kv_heads)
                    .bias(attention.qkv_bias)
            };
            self.matrices.push(project("k", keys));
            if !attention.key_is_value {
                self.matrices.push(project("v", values));
            }
        }
        let out = project("o", attention.heads * attention.value_dim, attention.hidden);
        self.matrices
            .push(out.ways(attention.heads).bias(attention.out_bias));
        self.mixer = match attention.reach {
            Reach::Causal => "full attention",
            Reach::All => "bidirectional attention",
            Reach::Window(_) => "sliding-window attention",
            Reach::Chunk(_) => "chunked attention",
            Reach::Top(_) => "sparse attention",
            Reach::Fixed(_) => "windowed attention",
            Reach::Compressed { .. } => "compressed attention",
        };
        let entry = keys + values;
        self.cores.push(Core {
            heads: attention.heads,
            query_key: attention.head_dim,
            value: attention.value_dim,
            stored: match attention.reach {
                Reach::All | Reach::Fixed(_) => 0,
                _ if attention.shares_cache => 0,
                _ => entry,
            },
            read: entry,
            kv_heads: attention.kv_heads,
            reach: attention.reach,
            absorbed: None,
        });
        self
    }

    /// Adds attention to what an encoder gives; its keys and values belong to the encoder.
    #[must_use]
    pub fn cross(mut self, attention: &Attention) -> Self {
        let inner = Self::default().attention(attention);
        for matrix in inner.matrices {
            match matrix.name {
                "q" => self.matrices.push(Matrix {
                    name: "cross q",
                    ..matrix
                }),
                "o" => self.matrices.push(Matrix {
                    name: "cross o",
                    ..matrix
                }),
                _ => (),
            }
        }
        if self.mixer.is_empty() {
            self.mixer = "cross-attention";
        }
        self.cores.extend(inner.cores.into_iter().map(|core| Core {
            stored: core.read,
            ..core
        }));
        self
    }

    /// Adds what selects the keys of sparse attention: heads of its own, and one key for all of them.
    #[must_use]
    pub fn indexer(mut self, heads: u64, size: u64, ratio: u64) -> Self {
        let reach = match ratio {
            1 => Reach::Causal,
            ratio => Reach::Compressed { ratio, top: None },
        };
        let core = Core {
            heads,
            query_key: size,
            stored: size,
            read: size,
            kv_heads: 1,
            ..Core::default()
        };
        self.cores.push(Core { reach, ..core });
        self
    }

    /// Adds a dense feed-forward block.
    #[must_use]
    pub fn mlp(mut self, hidden: u64, inner: u64, gated: bool, bias: bool) -> Self {
        let matrix =
            |name, inputs, outputs| Matrix::new(Part::Mlp, name, inputs, outputs).bias(bias);
        if gated {
            self.matrices.push(matrix("gate", hidden, inner));
        }
        self.matrices.push(matrix("up", hidden, inner));
        self.matrices.push(matrix("down", inner, hidden));
        if self.feed.is_empty() {
            self.feed = "MLP";
        }
        self
    }

    /// Adds routed experts and their router.
    #[must_use]
    pub fn experts(mut self, experts: &Experts) -> Self {
        let input = if experts.input == 0 {
            experts.hidden
        } else {
            experts.input
        };
        let matrix = |name, inputs, outputs| {
            let matrix = Matrix::new(Part::Experts, name, inputs, outputs).bias(experts.bias);
            matrix.copies(experts.count, experts.chosen)
        };
        let router = Matrix::new(Part::Experts, "router", experts.hidden, experts.count).ways(1);
        self.matrices.push(router.bias(experts.router_bias));
        self.vectors += if experts.balanced { experts.count } else { 0 };
        if experts.gated {
            self.matrices
                .push(matrix("expert gate", input, experts.intermediate));
        }
        self.matrices
            .push(matrix("expert up", input, experts.intermediate));
        self.matrices
            .push(matrix("expert down", experts.intermediate, input));
        self.feed = "MoE";
        self
    }
}
