//! One forward pass: FLOPs, bytes and time of each part.

use rooflens_llm::{Convention, Core, Layer, Llm, Matrix, Part, Shape, State};
use rooflens_units::{Bytes, BytesPerSecond, Count, Flops, FlopsPerByte, FlopsPerSecond, Seconds};

use crate::{Machine, Precision, Setup};

/// Matrices of one part of a layer that are stored and split alike.
#[derive(Clone, Debug, PartialEq)]
struct Weights {
    part: Part,
    /// Elements of one copy, over all matrices.
    elements: u64,
    copies: u64,
    used: u64,
    format: Format,
    /// GPUs that share a copy.
    shards: u64,
    /// They see the tokens of all replicas instead of those of one replica.
    shared: bool,
    /// Positions of a sequence that they multiply, where these are not the new ones.
    rows: Option<u64>,
}

/// How elements are stored and multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Format {
    /// Size of an element.
    element: Bytes,
    rate: FlopsPerSecond,
}

/// One kind of layer as it runs.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    count: u64,
    weights: Vec<Weights>,
    cores: Vec<Core>,
    state: Option<State>,
    /// All-reduces of a layer.
    reductions: u64,
    /// Other GPUs that hold an expert of a token, on average.
    exchanged: Option<Count>,
}

/// A model on a machine, for any batch and context.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    kinds: Vec<Kind>,
    outside: Vec<Weights>,
    /// What reads inputs before the prompt, in order.
    encoders: Vec<Reader>,
    hidden: u64,
    setup: Setup,
    kv_rate: FlopsPerSecond,
    bandwidth: BytesPerSecond,
    link: Option<BytesPerSecond>,
}

/// An encoder on a machine.
#[derive(Clone, Debug, PartialEq)]
struct Reader {
    name: &'static str,
    plan: Plan,
    /// The pass that reads one input.
    shape: Shape,
}

/// Answers of as many sequences as a replica has at a time, in any order of passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Sequences of a replica.
    pub sequences: f64,
    /// Passes that they need at least.
    pub passes: f64,
    /// Those that give outputs.
    pub output_passes: f64,
    /// New positions of a prompt behind its cached ones.
    pub prefill: Shape,
    /// Generated positions behind the prompt, without the first, which the prompt gives.
    pub decode: Shape,
    /// Positions that are computed for a generated one: more than one with guesses.
    pub work: f64,
    /// Tokens that a sequence gets of a pass.
    pub tokens_of_pass: f64,
    /// Positions of a sequence with logits.
    pub outputs: f64,
}

impl Round {
    /// Computed positions of a sequence.
    fn tokens(&self) -> f64 {
        self.prefill.new as f64 + self.decode.new as f64 * self.work
    }
}

/// FLOPs, bytes and time of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Operations of one GPU.
    pub flops: Flops,
    /// Least size that one GPU moves.
    pub bytes: Bytes,
    /// Time of computing at the peak rate.
    pub compute: Seconds,
    /// Time of moving at the peak bandwidth.
    pub memory: Seconds,
    /// Lower bound of the time: the greater of both, layer by layer.
    pub bound: Seconds,
}

impl Cost {
    fn new(flops: Flops, rate: FlopsPerSecond, bytes: Bytes, bandwidth: BytesPerSecond) -> Self {
        let (compute, memory) = (flops / rate, bytes / bandwidth);
        Self {
            flops,
            bytes,
            compute,
            memory,
            bound: compute.max(memory),
        }
    }

    /// The cost of moving alone.
    fn moving(bytes: Bytes, bandwidth: BytesPerSecond) -> Self {
        Self::new(Flops::ZERO, FlopsPerSecond(1.0), bytes, bandwidth)
    }

    fn add(&mut self, other: Self) {
        self.flops += other.flops;
        self.bytes += other.bytes;
        self.compute += other.compute;
        self.memory += other.memory;
        self.bound += other.bound;
    }

    fn times(self, count: u64) -> Self {
        let count = count as f64;
        Self {
            flops: self.flops * count,
            bytes: self.bytes * count,
            compute: self.compute * count,
            memory: self.memory * count,
            bound: self.bound * count,
        }
    }

    /// Arithmetic intensity; 0 where nothing is moved.
    pub fn intensity(&self) -> FlopsPerByte {
        if self.bytes > Bytes::ZERO {
            self.flops / self.bytes
        } else {
            FlopsPerByte::ZERO
        }
    }

    /// Whether computing takes longer than moving.
    pub fn is_compute_bound(&self) -> bool {
        self.compute > self.memory
    }
}

/// A forward pass on each GPU of a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// Each part, over all layers, in the order of [`Part::ALL`].
    pub parts: [Cost; Part::ALL.len()],
    /// Time of communication, which nothing hides.
    pub communication: Seconds,
}

impl Pass {
    /// All parts together.
    pub fn total(&self) -> Cost {
        let mut total = Cost::default();
        for part in &self.parts {
            total.add(*part);
        }
        total
    }

    /// Lower bound of the time.
    pub fn time(&self) -> Seconds {
        self.parts.iter().map(|part| part.bound).sum::<Seconds>() + self.communication
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (part, more) in self.parts.iter_mut().zip(&other.parts) {
            part.add(*more);
        }
        self.communication += other.communication;
    }

    /// The cost of a part.
    pub const fn part(&self, part: Part) -> &Cost {
        &self.parts[part as usize]
    }

    /// The longest of computing, moving weights and caches, and communication.
    pub fn bound(&self) -> &'static str {
        let total = self.total();
        if self.communication > total.bound {
            "communication"
        } else if total.is_compute_bound() {
            "compute"
        } else {
            "memory"
        }
    }
}

impl Plan {
    /// Puts a model on a machine; none if the GPU cannot multiply numbers of these formats.
    pub fn new(llm: &Llm, machine: &Machine, setup: &Setup) -> Option<Self> {
        let format = |precision: &Precision| {
            let (_, rate) = machine.rate_of(precision)?;
            Some(Format {
                element: precision.element,
                rate,
            })
        };
        let activations = format(&setup.activations)?;
        let storage = Storage {
            weights: format(&setup.weights)?,
            activations,
            has_experts: llm.outline.experts > 0,
            setup,
        };
        let mut kinds = Vec::new();
        for (count, layer) in &llm.layers {
            kinds.push(storage.kind(*count, layer));
        }
        let mut encoders = Vec::new();
        for encoder in &llm.encoders {
            encoders.push(Reader {
                name: encoder.name,
                plan: Self::new(&encoder.llm, machine, setup)?,
                shape: encoder.shape(1),
            });
        }
        Some(Self {
            encoders,
            kinds,
            outside: storage.group(llm.matrices.iter().chain(&llm.head)),
            hidden: llm.hidden,
            setup: *setup,
            kv_rate: format(&setup.kv)?.rate.max(activations.rate),
            bandwidth: machine.bandwidth,
            link: setup.link.or(machine.link),
        })
    }

    /// The passes of the encoders over so many inputs, one for each kind of inputs.
    pub fn read(&self, inputs: u64) -> Vec<(&'static str, Pass)> {
        let mut passes: Vec<(&'static str, Pass)> = Vec::new();
        for reader in self.encoders.iter().filter(|_| inputs > 0) {
            let pass = reader.plan.pass(Shape {
                batch: inputs,
                ..reader.shape
            });
            match passes.iter_mut().find(|(name, _)| *name == reader.name) {
                Some((_, sum)) => sum.add(&pass),
                None => passes.push((reader.name, pass)),
            }
        }
        passes
    }

    /// A pass in which all replicas together have the sequences of `shape`.
    pub fn pass(&self, shape: Shape) -> Pass {
        let replicas = self.setup.data.max(1);
        let of_replica = Shape {
            batch: shape.batch.div_ceil(replicas),
            ..shape
        };
        let mut pass = Pass::default();
        for kind in &self.kinds {
            let layer = self.layer(kind, of_replica, shape);
            for (cost, sum) in layer.parts.iter().zip(&mut pass.parts) {
                sum.add(cost.times(kind.count));
            }
            pass.communication += layer.communication * kind.count as f64;
        }
        let tokens = of_replica.tokens();
        for weights in &self.outside {
            let multiplied = match weights.part {
                Part::Head => Count(of_replica.batch as f64 * shape.logits as f64),
                _ => weights.tokens(of_replica),
            };
            // A chunk that does not end its prompt needs no head.
            if multiplied > Count::ZERO {
                pass.parts[weights.part as usize].add(self.matrices(weights, multiplied, tokens));
            }
        }
        // Rows of the embedding.
        let rows = self.activations(tokens);
        pass.parts[Part::Other as usize].add(Cost::moving(rows, self.bandwidth));
        let hops = self.setup.pipeline.saturating_sub(1) as f64;
        pass.communication += self.transfer(self.activations(hops * tokens));
        pass
    }

    /// The least work of a round of answers, part by part, whatever the schedule: a pass may carry prompts next to
    /// sequences that generate. Each part takes at least its computing, and at least its reading of weights in each
    /// pass, so no order of passes is faster than the sum of the greater ones.
    pub fn round(&self, round: &Round) -> Pass {
        let mut pass = Pass::default();
        let replicas = self.setup.data.max(1) as f64;
        let add = |pass: &mut Pass, weights: &Weights, count: u64| {
            let sequences = if weights.shared {
                round.sequences * replicas
            } else {
                round.sequences
            };
            let (multiplied, passes) = match weights.part {
                Part::Head => (Count(sequences * round.outputs), round.output_passes),
                _ => {
                    let rows = weights
                        .rows
                        .map_or_else(|| round.tokens(), |rows| rows as f64);
                    (Count(sequences * rows), round.passes)
                }
            };
            let once = self.matrices(weights, multiplied, Count(sequences));
            let cost = Cost::new(
                once.flops,
                weights.format.rate,
                once.bytes * passes,
                self.bandwidth,
            );
            pass.parts[weights.part as usize].add(cost.times(count));
        };
        for kind in &self.kinds {
            for weights in &kind.weights {
                add(&mut pass, weights, kind.count);
            }
            let attention = self.attention_of_round(kind, round);
            pass.parts[Part::Attention as usize].add(attention.times(kind.count));
            let activations = self.activations(Count(round.sequences * round.tokens()));
            let mut communication = self.transfer(kind.reductions as f64 * activations);
            if let Some(exchanged) = kind.exchanged {
                let of_gpu = activations * (replicas / self.setup.expert as f64);
                communication += self.transfer(2.0 * exchanged.0 * of_gpu);
            }
            pass.communication += communication * kind.count as f64;
        }
        for weights in &self.outside {
            add(&mut pass, weights, 1);
        }
        let rows = self.activations(Count(round.sequences * round.tokens()));
        pass.parts[Part::Other as usize].add(Cost::moving(rows, self.bandwidth));
        let hops = self.setup.pipeline.saturating_sub(1) as f64;
        pass.communication += self.transfer(rows * hops);
        pass
    }

    /// Attention of a round: of the prompts in one pass, and of each generated token over the keys before it.
    fn attention_of_round(&self, kind: &Kind, round: &Round) -> Cost {
        let (sequences, tensor) = (round.sequences, self.setup.tensor);
        let mut attention = Cost::default();
        for core in &kind.cores {
            let query_shards = tensor.min(core.heads.max(1)) as f64;
            let decode = executed(core, round.decode) * round.work;
            let flops = sequences * (executed(core, round.prefill) + decode) / query_shards;
            let cache_shards = tensor.min(core.kv_heads.max(1)) as f64;
            let keys = core.reach.pairs(round.decode, Convention::Causal);
            let read = core.read as f64 * keys / round.tokens_of_pass;
            let written = core.written(round.decode.new);
            let moved = core.moved(round.prefill) + read + written;
            let bytes = sequences * moved * self.setup.kv.element / cache_shards;
            attention.add(Cost::new(flops, self.kv_rate, bytes, self.bandwidth));
        }
        if let Some(state) = &kind.state {
            let shards = tensor as f64;
            let flops = Flops(sequences * round.tokens() * state.flops as f64 / shards);
            let element = self.setup.activations.element;
            let passes = 1.0 + round.decode.new as f64 / round.tokens_of_pass;
            let bytes = 2.0 * sequences * passes * state.elements as f64 * element / shards;
            attention.add(Cost::new(flops, self.kv_rate, bytes, self.bandwidth));
        }
        attention
    }

    fn layer(&self, kind: &Kind, of_replica: Shape, whole: Shape) -> Pass {
        let mut pass = Pass::default();
        // Matrices of a part that run at one rate are one after another; they share no time with those of another.
        for weights in &kind.weights {
            let shape = if weights.shared { whole } else { of_replica };
            let tokens = weights.tokens(shape);
            pass.parts[weights.part as usize].add(self.matrices(weights, tokens, tokens));
        }
        pass.parts[Part::Attention as usize].add(self.attention(kind, of_replica));
        let activations = self.activations(of_replica.tokens());
        pass.communication = self.transfer(kind.reductions as f64 * activations);
        if let Some(exchanged) = kind.exchanged {
            let of_gpu = self.activations(whole.tokens() / self.setup.expert as f64);
            pass.communication += self.transfer(2.0 * exchanged.0 * of_gpu);
        }
        pass
    }

    /// Attention and recurrences of one layer.
    fn attention(&self, kind: &Kind, shape: Shape) -> Cost {
        let (batch, tensor) = (shape.batch as f64, self.setup.tensor);
        let mut attention = Cost::default();
        for core in &kind.cores {
            let query_shards = tensor.min(core.heads.max(1)) as f64;
            let flops = batch * executed(core, shape) / query_shards;
            let cache_shards = tensor.min(core.kv_heads.max(1)) as f64;
            let bytes = batch * core.moved(shape) * self.setup.kv.element / cache_shards;
            attention.add(Cost::new(flops, self.kv_rate, bytes, self.bandwidth));
        }
        if let Some(state) = &kind.state {
            let shards = tensor as f64;
            let flops = Flops(shape.tokens().0 * state.flops as f64 / shards);
            // A state is read and written once a pass.
            let element = self.setup.activations.element;
            let bytes = 2.0 * batch * state.elements as f64 * element / shards;
            attention.add(Cost::new(flops, self.kv_rate, bytes, self.bandwidth));
        }
        attention
    }

    /// Products of `multiplied` tokens with the copies that `seen` tokens choose.
    fn matrices(&self, weights: &Weights, multiplied: Count, seen: Count) -> Cost {
        let (copies, used) = (weights.copies as f64, weights.used as f64);
        let (elements, shards) = (weights.elements as f64, weights.shards as f64);
        let touched = if weights.used < weights.copies {
            copies * (1.0 - libm::pow(1.0 - used / copies, seen.0))
        } else {
            copies
        };
        let flops = Flops(2.0 * multiplied.0 * used * elements / shards);
        let bytes = touched * elements * weights.format.element / shards;
        Cost::new(flops, weights.format.rate, bytes, self.bandwidth)
    }

    /// The size of the hidden states of so many tokens.
    fn activations(&self, tokens: Count) -> Bytes {
        tokens.0 * self.hidden as f64 * self.setup.activations.element
    }

    fn transfer(&self, size: Bytes) -> Seconds {
        self.link.map_or(Seconds::ZERO, |link| size / link)
    }
}

/// FLOPs of attention as it is computed: from a latent cache either by expanding what is cached, or by multiplying
/// queries and outputs with the factors instead, whichever is less.
fn executed(core: &Core, shape: Shape) -> Flops {
    let expanded = core.flops(shape, Convention::Causal);
    let Some((pair, expansion)) = core.absorbed else {
        return expanded;
    };
    let heads = core.heads as f64;
    let pairs = core.reach.pairs(shape, Convention::Causal);
    let absorbed = Flops(2.0 * heads * pair as f64 * pairs);
    absorbed.min(expanded + Flops(2.0 * heads * expansion as f64 * shape.past as f64))
}

/// How matrices are stored and split.
struct Storage<'a> {
    weights: Format,
    activations: Format,
    has_experts: bool,
    setup: &'a Setup,
}

impl Storage<'_> {
    fn kind(&self, count: u64, layer: &Layer) -> Kind {
        let blocks = u64::from(!layer.mixer.is_empty()) + u64::from(!layer.feed.is_empty());
        let mut exchanged = None;
        if self.setup.expert > 1 {
            let routed = layer.matrices.iter().find(|matrix| is_routed(matrix));
            exchanged = routed.map(|matrix| other_holders(self.setup.expert, matrix.used));
        }
        Kind {
            count,
            weights: self.group(&layer.matrices),
            cores: layer.cores.clone(),
            state: layer.state.clone(),
            reductions: if self.setup.tensor > 1 { blocks } else { 0 },
            exchanged,
        }
    }

    /// Matrices that are alike in all but their size become one.
    fn group<'m>(&self, matrices: impl IntoIterator<Item = &'m Matrix>) -> Vec<Weights> {
        let mut groups: Vec<Weights> = Vec::new();
        for matrix in matrices {
            let weights = self.weights(matrix);
            match groups.iter_mut().find(|group| group.is_alike(&weights)) {
                Some(group) => group.elements = group.elements.saturating_add(weights.elements),
                None => groups.push(weights),
            }
        }
        groups
    }

    fn weights(&self, matrix: &Matrix) -> Weights {
        let is_quantized = is_quantized(&self.setup.weights, matrix, self.has_experts);
        Weights {
            part: matrix.part,
            elements: matrix.elements(),
            copies: matrix.copies,
            used: matrix.used,
            format: if is_quantized {
                self.weights
            } else {
                self.activations
            },
            shards: shards(self.setup, matrix),
            shared: is_routed(matrix) && self.setup.expert > 1,
            rows: matrix.rows,
        }
    }
}

impl Weights {
    /// Positions that they multiply in a pass.
    fn tokens(&self, shape: Shape) -> Count {
        match self.rows {
            Some(rows) => Count(shape.batch as f64 * rows as f64),
            None => shape.tokens(),
        }
    }

    /// Whether both differ in nothing but their size.
    fn is_alike(&self, other: &Self) -> bool {
        let resized = Self {
            elements: other.elements,
            ..self.clone()
        };
        resized == *other
    }
}

/// Whether a token passes through some of the copies only.
const fn is_routed(matrix: &Matrix) -> bool {
    matrix.used < matrix.copies
}

/// Expected number of distinct other GPUs that hold one of the experts that a token chooses.
fn other_holders(gpus: u64, chosen: u64) -> Count {
    let gpus = gpus as f64;
    Count((gpus - 1.0) * (1.0 - libm::pow(1.0 - 1.0 / gpus, chosen as f64)))
}

/// GPUs that share a matrix.
pub(crate) fn shards(setup: &Setup, matrix: &Matrix) -> u64 {
    let shards = if is_routed(matrix) && setup.expert > 1 {
        setup.expert
    } else {
        setup.tensor.min(matrix.ways)
    };
    shards.max(1)
}

/// Whether a format of weights holds for a matrix: not for embeddings, head, routers and one-column gates.
pub(crate) fn is_quantized(weights: &Precision, matrix: &Matrix, has_experts: bool) -> bool {
    let in_layer = matches!(matrix.part, Part::Projections | Part::Mlp | Part::Experts);
    let small = matches!(matrix.name, "router" | "shared gate");
    in_layer && !small && (is_routed(matrix) || !(weights.experts_only && has_experts))
}
