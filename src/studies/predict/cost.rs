//! One forward pass: FLOPs, bytes and time of each part.

use rooflens_llm::{Convention, Core, Layer, Llm, Matrix, Part, Shape};

use crate::{Machine, Precision, Setup};

/// Matrices of one part of a layer that are stored and split alike.
#[derive(Clone, Debug, PartialEq)]
struct Weights {
    part: Part,
    /// Elements of one copy, over all matrices.
    elements: f64,
    copies: f64,
    used: f64,
    bytes: f64,
    rate: f64,
    /// GPUs that share one of them.
    shards: f64,
    /// They see the tokens of all replicas, not of one.
    shared: bool,
}

/// One kind of layer as it runs.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    count: f64,
    weights: Vec<Weights>,
    cores: Vec<Core>,
    state: Option<rooflens_llm::State>,
    reductions: f64,
    exchanged: Option<f64>,
}

/// A model on a machine, ready to be asked for any batch and context.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    kinds: Vec<Kind>,
    outside: Vec<Weights>,
    hidden: f64,
    setup: Setup,
    kv_rate: f64,
    kv_bytes: f64,
    act_bytes: f64,
    bandwidth: f64,
    link: Option<f64>,
}

/// FLOPs, bytes and time of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations of one GPU.
    pub flops: f64,
    /// Bytes that one GPU moves at least.
    pub bytes: f64,
    /// Seconds of computing at the peak rate.
    pub compute: f64,
    /// Seconds of moving at the peak bandwidth.
    pub memory: f64,
    /// Lower bound in seconds: the greater of both, layer by layer.
    pub seconds: f64,
}

impl Cost {
    fn of(flops: f64, rate: f64, bytes: f64, bandwidth: f64) -> Self {
        let (compute, memory) = (flops / rate, bytes / bandwidth);
        Self {
            flops,
            bytes,
            compute,
            memory,
            seconds: compute.max(memory),
        }
    }

    fn add(&mut self, other: Self) {
        self.flops += other.flops;
        self.bytes += other.bytes;
        self.compute += other.compute;
        self.memory += other.memory;
        self.seconds += other.seconds;
    }

    fn times(self, count: f64) -> Self {
        Self {
            flops: self.flops * count,
            bytes: self.bytes * count,
            compute: self.compute * count,
            memory: self.memory * count,
            seconds: self.seconds * count,
        }
    }

    /// FLOPs per byte.
    pub fn intensity(&self) -> f64 {
        if self.bytes > 0.0 {
            self.flops / self.bytes
        } else {
            0.0
        }
    }

    /// Whether computing takes longer than moving.
    pub fn compute_bound(&self) -> bool {
        self.compute > self.memory
    }
}

/// A forward pass on each GPU of a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Each part, over all layers, in the order of [`Part::ALL`].
    pub parts: [Cost; Part::ALL.len()],
    /// Seconds of communication that nothing hides.
    pub communication: f64,
}

impl Pass {
    /// All parts together.
    pub fn total(&self) -> Cost {
        let mut total = Cost::default();
        self.parts.iter().for_each(|part| total.add(*part));
        total
    }

    /// Lower bound in seconds.
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(|part| part.seconds).sum::<f64>() + self.communication
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.parts
            .iter_mut()
            .zip(&other.parts)
            .for_each(|(part, other)| part.add(*other));
        self.communication += other.communication;
    }

    /// The cost of a part.
    pub const fn part(&self, part: Part) -> &Cost {
        &self.parts[part as usize]
    }

    /// What takes longest: computing, moving weights and caches, or communication.
    pub fn bound(&self) -> &'static str {
        let total = self.total();
        match () {
            () if self.communication > total.seconds => "communication",
            () if total.compute_bound() => "compute",
            () => "memory",
        }
    }
}

impl Plan {
    /// Puts a model on a machine; none if the GPU cannot multiply numbers of these formats.
    pub fn new(llm: &Llm, machine: &Machine, setup: &Setup) -> Option<Self> {
        let stored = Stored {
            weights: (setup.weights, machine.rate(&setup.weights)?.1),
            other: (setup.activations, machine.rate(&setup.activations)?.1),
            experts: llm.outline.experts > 0,
            setup,
        };
        let kinds = llm
            .layers
            .iter()
            .map(|(count, layer)| stored.kind(*count, layer))
            .collect();
        let outside = llm.matrices.iter().chain(&llm.head);
        Some(Self {
            kinds,
            outside: stored.group(outside),
            hidden: llm.hidden as f64,
            setup: *setup,
            kv_rate: machine.rate(&setup.kv)?.1.max(stored.other.1),
            kv_bytes: setup.kv.bytes,
            act_bytes: setup.activations.bytes,
            bandwidth: machine.bandwidth,
            link: setup.link.or(machine.link),
        })
    }

    /// A pass in which all replicas together have the sequences of `shape`.
    pub fn pass(&self, shape: Shape) -> Pass {
        let replicas = self.setup.data.max(1);
        let own = Shape {
            batch: shape.batch.div_ceil(replicas),
            ..shape
        };
        let mut pass = Pass::default();
        for kind in &self.kinds {
            let one = self.layer(kind, own, shape);
            one.parts
                .iter()
                .zip(&mut pass.parts)
                .for_each(|(cost, sum)| sum.add(cost.times(kind.count)));
            pass.communication += one.communication * kind.count;
        }
        for weights in &self.outside {
            let tokens = match weights.part {
                Part::Head => own.batch as f64 * shape.logits as f64,
                _ => own.tokens(),
            };
            pass.parts[weights.part as usize].add(self.matrices(weights, tokens, own.tokens()));
        }
        // Rows of the embedding.
        let rows = own.tokens() * self.hidden * self.act_bytes;
        pass.parts[Part::Other as usize].add(Cost::of(0.0, 1.0, rows, self.bandwidth));
        let hops = self.setup.pipeline.saturating_sub(1) as f64;
        pass.communication += self.transfer(hops * own.tokens() * self.hidden * self.act_bytes);
        pass
    }

    fn layer(&self, kind: &Kind, own: Shape, all: Shape) -> Pass {
        let mut pass = Pass::default();
        // Matrices of a part that run at one rate are one after another; they share no time with those of another.
        for weights in &kind.weights {
            let tokens = if weights.shared {
                all.tokens()
            } else {
                own.tokens()
            };
            pass.parts[weights.part as usize].add(self.matrices(weights, tokens, tokens));
        }
        let mut attention = Cost::default();
        for core in &kind.cores {
            let split = self.setup.tensor.min(core.heads.max(1)) as f64;
            let flops = own.batch as f64 * executed(core, own) / split;
            let held = self.setup.tensor.min(core.kv_heads.max(1)) as f64;
            let bytes = own.batch as f64 * core.moved(own) * self.kv_bytes / held;
            attention.add(Cost::of(flops, self.kv_rate, bytes, self.bandwidth));
        }
        if let Some(state) = &kind.state {
            let split = self.setup.tensor as f64;
            let flops = own.tokens() * state.flops as f64 / split;
            // A state is read and written once a pass.
            let bytes = 2.0 * own.batch as f64 * state.elements as f64 * self.act_bytes / split;
            attention.add(Cost::of(flops, self.kv_rate, bytes, self.bandwidth));
        }
        pass.parts[Part::Attention as usize].add(attention);
        let activations = own.tokens() * self.hidden * self.act_bytes;
        pass.communication = self.transfer(kind.reductions * activations);
        if let Some(exchanged) = kind.exchanged {
            let each = all.tokens() / self.setup.expert as f64 * self.hidden * self.act_bytes;
            pass.communication += self.transfer(2.0 * exchanged * each);
        }
        pass
    }

    fn matrices(&self, of: &Weights, tokens: f64, seen: f64) -> Cost {
        let touched = match of.used < of.copies {
            true => of.copies * (1.0 - libm::pow(1.0 - of.used / of.copies, seen)),
            false => of.copies,
        };
        let flops = 2.0 * tokens * of.used * of.elements / of.shards;
        let bytes = touched * of.elements * of.bytes / of.shards;
        Cost::of(flops, of.rate, bytes, self.bandwidth)
    }

    fn transfer(&self, bytes: f64) -> f64 {
        self.link.map_or(0.0, |link| bytes / link)
    }
}

/// FLOPs of attention as it is computed: from a latent cache either by expanding what is cached, or by multiplying
/// queries and outputs with the factors instead, whichever is less.
fn executed(core: &Core, shape: Shape) -> f64 {
    let expanded = core.flops(shape, Convention::Causal);
    let Some((pair, expansion)) = core.absorbed else {
        return expanded;
    };
    let heads = core.heads as f64;
    let absorbed = 2.0 * heads * pair as f64 * core.reach.pairs(shape, Convention::Causal);
    absorbed.min(expanded + 2.0 * heads * expansion as f64 * shape.past as f64)
}

/// How matrices are stored and split.
struct Stored<'a> {
    weights: (Precision, f64),
    other: (Precision, f64),
    experts: bool,
    setup: &'a Setup,
}

impl Stored<'_> {
    fn kind(&self, count: u64, layer: &Layer) -> Kind {
        let (tensor, expert) = (self.setup.tensor, self.setup.expert);
        let blocks = u64::from(!layer.mixer.is_empty()) + u64::from(!layer.feed.is_empty());
        let routed = layer
            .matrices
            .iter()
            .find(|one| one.used < one.copies && expert > 1);
        // Distinct other GPUs that hold one of the chosen experts.
        let others = |chosen: u64| {
            let gpus = expert as f64;
            (gpus - 1.0) * (1.0 - libm::pow(1.0 - 1.0 / gpus, chosen as f64))
        };
        Kind {
            count: count as f64,
            weights: self.group(&layer.matrices),
            cores: layer.cores.clone(),
            state: layer.state.clone(),
            reductions: if tensor > 1 { blocks as f64 } else { 0.0 },
            exchanged: routed.map(|one| others(one.used)),
        }
    }

    /// Matrices that are alike in all but their size become one.
    fn group<'m>(&self, matrices: impl IntoIterator<Item = &'m Matrix>) -> Vec<Weights> {
        let mut groups: Vec<Weights> = Vec::new();
        for matrix in matrices {
            let one = self.one(matrix);
            let alike = |known: &&mut Weights| {
                Weights {
                    elements: one.elements,
                    ..(**known).clone()
                } == one
            };
            match groups.iter_mut().find(alike) {
                Some(known) => known.elements += one.elements,
                None => groups.push(one),
            }
        }
        groups
    }

    fn one(&self, matrix: &Matrix) -> Weights {
        let (precision, rate) = if self.quantizes(matrix) {
            self.weights
        } else {
            self.other
        };
        let routed = matrix.used < matrix.copies;
        let shared = routed && self.setup.expert > 1;
        let ways = if shared {
            self.setup.expert
        } else {
            self.setup.tensor.min(matrix.ways)
        };
        Weights {
            part: matrix.part,
            elements: matrix.elements() as f64,
            copies: matrix.copies as f64,
            used: matrix.used as f64,
            bytes: precision.bytes,
            rate,
            shards: ways.max(1) as f64,
            shared,
        }
    }

    fn quantizes(&self, matrix: &Matrix) -> bool {
        quantizes(&self.setup.weights, matrix, self.experts)
    }
}

/// Whether a format of weights holds for a matrix: not for embeddings, head, routers and one-column gates.
pub(crate) fn quantizes(weights: &Precision, matrix: &Matrix, has_experts: bool) -> bool {
    let routed = matrix.used < matrix.copies;
    let of_layer = matches!(matrix.part, Part::Projections | Part::Mlp | Part::Experts);
    let small = matches!(matrix.name, "router" | "shared gate");
    of_layer && !small && (routed || !(weights.experts_only && has_experts))
}
