//! FLOPs and bytes of a forward pass, without recomputation.
//!
//! Matrix products count 2·M·N·K; embedding look-ups, norms, softmax and activations count 0 (the
//! convention of PaLM, appendix B). Attention counts 2 products per query-key pair and head.

use super::{Architecture, Core, Layer, Matrix, Reach};

/// How attention pairs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// A query attends the keys up to its own position: what causal kernels compute.
    Causal,
    /// Every query attends every key: the convention of PaLM and Megatron.
    Full,
}

/// Sizes of one forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: u64,
    /// New positions per sequence.
    pub new: u64,
    /// Positions per sequence before this pass (key-value cache).
    pub past: u64,
    /// Positions per sequence for which logits are computed.
    pub logits: u64,
}

impl Shape {
    /// New positions of all sequences.
    pub const fn tokens(&self) -> f64 {
        self.batch as f64 * self.new as f64
    }
}

impl Matrix {
    /// Elements of the copies that `tokens` tokens touch: of experts E·(1 − (1 − k/E)^tokens), the expected distinct
    /// ones under uniform routing.
    pub fn touched(&self, tokens: f64) -> f64 {
        let (copies, used) = (self.copies as f64, self.used as f64);
        let touched = match self.used < self.copies {
            true => copies * (1.0 - libm::pow(1.0 - used / copies, tokens)),
            false => copies,
        };
        touched * self.elements() as f64
    }
}

impl Reach {
    /// Query-key pairs of one sequence and head: `new` queries behind `past` keys.
    pub fn pairs(self, shape: Shape, convention: Convention) -> f64 {
        let (new, past) = (shape.new as f64, shape.past as f64);
        let causal = new * past + new * (new + 1.0) / 2.0;
        let all = if convention == Convention::Causal { causal } else { new * (past + new) };
        match self {
            Self::Causal => all,
            Self::All => new * (past + new),
            Self::Window(size) | Self::Top(size) if convention == Convention::Full => {
                all.min(new * size as f64)
            }
            Self::Window(size) | Self::Top(size) => windowed(new, past, size as f64),
            Self::Chunk(size) => {
                let size = size.max(1);
                let before = |at: u64| {
                    let (whole, rest) = ((at / size) as f64, (at % size) as f64);
                    whole * size as f64 * (size as f64 + 1.0) / 2.0 + rest * (rest + 1.0) / 2.0
                };
                before(shape.past.saturating_add(shape.new)) - before(shape.past)
            }
            Self::Compressed { ratio, top } => {
                let ratio = ratio.max(1);
                let before = |at: u64| entries(at, ratio, top);
                before(shape.past.saturating_add(shape.new)) - before(shape.past)
            }
        }
    }

    /// Cached entries that a pass must read at least.
    pub fn read(self, shape: Shape) -> f64 {
        let context = shape.past.saturating_add(shape.new);
        match self {
            Self::Top(size) => context.min(size) as f64,
            Self::Compressed { ratio, top } => {
                (context / ratio.max(1)).min(top.unwrap_or(u64::MAX)) as f64
            }
            _ => self.stored(context),
        }
    }
}

/// Queries that see fewer keys than the window, then those that see exactly the window.
fn windowed(new: f64, past: f64, window: f64) -> f64 {
    let short = (window - past).clamp(0.0, new);
    short * past + short * (short + 1.0) / 2.0 + (new - short) * window
}

/// Σ over the positions 1 to `count` of the whole entries before each, `top` of them at most.
fn entries(count: u64, ratio: u64, top: Option<u64>) -> f64 {
    // From position ratio·top on there are `top` of them.
    let full = top.map_or(u64::MAX, |top| ratio.saturating_mul(top).saturating_sub(1));
    let (rising, flat) = (count.min(full), count.saturating_sub(full));
    let (whole, ratio) = ((rising / ratio) as f64, ratio as f64);
    let rest = rising as f64 - whole * ratio;
    ratio * whole * (whole - 1.0) / 2.0
        + whole * (rest + 1.0)
        + flat as f64 * top.unwrap_or(0) as f64
}

impl Core {
    /// FLOPs of one sequence by the dimensions of the model.
    pub fn flops(&self, shape: Shape, convention: Convention) -> f64 {
        2.0 * (self.query_key as f64 + self.value as f64)
            * self.heads as f64
            * self.reach.pairs(shape, convention)
    }

    /// Elements of one sequence's cache that a pass moves: what it attends to is read, what is new is written.
    pub fn moved(&self, shape: Shape) -> f64 {
        let written = match self.reach {
            Reach::Compressed { ratio, .. } => shape.new as f64 / ratio.max(1) as f64,
            _ => shape.new as f64,
        };
        self.read as f64 * self.reach.read(shape) + self.stored as f64 * written
    }
}

impl Layer {
    /// FLOPs of attention and recurrences of all sequences.
    pub fn mixing(&self, shape: Shape, convention: Convention) -> f64 {
        let cores: f64 = self.cores.iter().map(|core| core.flops(shape, convention)).sum();
        let state = self.state.as_ref().map_or(0.0, |state| state.flops as f64);
        shape.batch as f64 * (cores + state * shape.new as f64)
    }

    /// Elements of caches and states that a pass moves; a state is read and written once.
    pub fn moved(&self, shape: Shape) -> f64 {
        let cores: f64 = self.cores.iter().map(|core| core.moved(shape)).sum();
        let state = self.state.as_ref().map_or(0.0, |state| 2.0 * state.elements as f64);
        shape.batch as f64 * (cores + state)
    }
}

/// Matrix parameters that one token passes through in all layers, without the LM head.
///
/// Grouped-query attention narrows the key and value projections; a mixture of experts counts the
/// router, the chosen experts and the shared ones.
pub fn parameters_per_token(model: &Architecture) -> f64 {
    over_matrices(model, |one| one.used as f64 * one.elements() as f64)
}

/// Matrix parameters of all layers that a forward pass over `tokens` tokens must read, without the LM head.
///
/// Of a mixture of experts only those that some token chose.
pub fn parameters_read(model: &Architecture, tokens: f64) -> f64 {
    over_matrices(model, |one| one.touched(tokens))
}

fn over_matrices(model: &Architecture, value: impl Fn(&Matrix) -> f64) -> f64 {
    let of = |matrices: &[Matrix]| matrices.iter().map(&value).sum::<f64>();
    let layers = model.layers.iter().map(|(count, layer)| *count as f64 * of(&layer.matrices));
    layers.sum::<f64>() + of(&model.matrices)
}

/// FLOPs of one forward pass.
pub fn forward(model: &Architecture, shape: Shape, convention: Convention) -> f64 {
    let projections = 2.0 * shape.tokens() * parameters_per_token(model);
    let head = 2.0 * shape.batch as f64 * shape.logits as f64 * head_parameters(model);
    projections + attention(model, shape, convention) + head
}

/// FLOPs of attention and recurrences alone.
pub fn attention(model: &Architecture, shape: Shape, convention: Convention) -> f64 {
    let of = |(count, layer): &(u64, Layer)| *count as f64 * layer.mixing(shape, convention);
    model.layers.iter().map(of).sum()
}

/// Bytes of key-value cache that one token adds, over all layers, before any window is full.
pub fn kv_bytes_per_token(model: &Architecture, element_bytes: f64) -> f64 {
    let entry = |core: &Core| match core.reach {
        Reach::Compressed { ratio, .. } => core.stored as f64 / ratio.max(1) as f64,
        _ => core.stored as f64,
    };
    let of = |layer: &Layer| layer.cores.iter().map(entry).sum::<f64>();
    model.layers.iter().map(|(count, layer)| *count as f64 * of(layer)).sum::<f64>() * element_bytes
}

/// Bytes that one forward pass must move at least: weights once, cache of the past and of the new
/// positions read, cache of the new positions written.
pub fn forward_bytes(model: &Architecture, shape: Shape, element_bytes: f64) -> f64 {
    let tokens = shape.tokens();
    let embedding_rows = tokens * model.hidden as f64;
    let weights = parameters_read(model, tokens) + head_parameters(model) + embedding_rows;
    let cache = |(count, layer): &(u64, Layer)| *count as f64 * layer.moved(shape);
    (weights + model.layers.iter().map(cache).sum::<f64>()) * element_bytes
}

fn head_parameters(model: &Architecture) -> f64 {
    model.head.as_ref().map_or(0.0, |head| head.elements() as f64)
}
