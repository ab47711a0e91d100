//! FLOPs and bytes of a forward pass, without recomputation.
//!
//! GEMMs count 2·M·N·K; embedding look-ups, norms, softmax and activations count 0 (the
//! convention of PaLM, appendix B). Attention counts 2 products per query-key pair and head.

use rooflens_units::{Bytes, Count, Flops};

use super::{Core, Encoder, Layer, Llm, Matrix, Reach};

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
    pub const fn tokens(&self) -> Count {
        Count(self.batch as f64 * self.new as f64)
    }
}

impl Matrix {
    /// Elements of the copies that `tokens` tokens touch: of experts E·(1 − (1 − k/E)^tokens), the expected distinct
    /// ones under uniform routing.
    pub fn touched(&self, tokens: Count) -> f64 {
        let (copies, used) = (self.copies as f64, self.used as f64);
        let touched = match self.used < self.copies {
            true => copies * (1.0 - libm::pow(1.0 - used / copies, tokens.0)),
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
        let full = new * (past + new);
        let end = shape.past.saturating_add(shape.new);
        match (self, convention) {
            (Self::Causal, Convention::Causal) => causal,
            (Self::Causal, Convention::Full) | (Self::All, _) => full,
            (Self::Window(size) | Self::Top(size), Convention::Full) => full.min(new * size as f64),
            (Self::Window(size) | Self::Top(size), Convention::Causal) => windowed(shape, size),
            (Self::Fixed(size), _) => new * size as f64,
            (Self::Chunk(size), _) => chunked(end, size) - chunked(shape.past, size),
            (Self::Compressed { ratio, top }, _) => {
                let ratio = ratio.max(1);
                entries(end, ratio, top) - entries(shape.past, ratio, top)
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
fn windowed(shape: Shape, window: u64) -> f64 {
    let (new, past, window) = (shape.new as f64, shape.past as f64, window as f64);
    let short = (window - past).clamp(0.0, new);
    short * past + short * (short + 1.0) / 2.0 + (new - short) * window
}

/// Σ over the first `count` positions of the keys that each sees of its chunk.
fn chunked(count: u64, size: u64) -> f64 {
    let size = size.max(1);
    let (whole, rest) = ((count / size) as f64, (count % size) as f64);
    whole * size as f64 * (size as f64 + 1.0) / 2.0 + rest * (rest + 1.0) / 2.0
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
    /// Elements of one sequence's cache that so many new positions write; what an encoder gives, it writes itself.
    pub fn written(&self, new: u64) -> f64 {
        let entries = match self.reach {
            Reach::Compressed { ratio, .. } => new as f64 / ratio.max(1) as f64,
            Reach::Fixed(_) => 0.0,
            _ => new as f64,
        };
        self.stored as f64 * entries
    }

    /// FLOPs of one sequence by the dimensions of the model.
    pub fn flops(&self, shape: Shape, convention: Convention) -> Flops {
        let pairs = self.reach.pairs(shape, convention);
        Flops(2.0 * (self.query_key as f64 + self.value as f64) * self.heads as f64 * pairs)
    }

    /// Elements of one sequence's cache that a pass moves: what it attends to is read, what is new is written.
    pub fn moved(&self, shape: Shape) -> f64 {
        self.read as f64 * self.reach.read(shape) + self.written(shape.new)
    }
}

impl Layer {
    /// FLOPs of attention and recurrences of all sequences.
    pub fn mixing(&self, shape: Shape, convention: Convention) -> Flops {
        let cores = self.cores.iter();
        let cores: Flops = cores.map(|core| core.flops(shape, convention)).sum();
        let state = self.state.as_ref().map_or(0.0, |state| state.flops as f64);
        shape.batch as f64 * (cores + Flops(state * shape.new as f64))
    }

    /// Elements of caches and states that a pass moves; a state is read and written once.
    pub fn moved(&self, shape: Shape) -> f64 {
        let cores: f64 = self.cores.iter().map(|core| core.moved(shape)).sum();
        shape.batch as f64 * (cores + 2.0 * self.state_elements())
    }
}

/// Matrix parameters that one token passes through in all layers, without the LM head.
///
/// Grouped-query attention narrows the key and value projections; a mixture of experts counts the
/// router, the chosen experts and the shared ones.
pub fn parameters_per_token(llm: &Llm) -> f64 {
    over_matrices(llm, |matrix| match matrix.rows {
        Some(_) => 0.0,
        None => matrix.used as f64 * matrix.elements() as f64,
    })
}

/// Matrix parameters of all layers that a forward pass over `tokens` tokens must read, without the LM head.
///
/// Of a mixture of experts only those that some token chose.
pub fn parameters_read(llm: &Llm, tokens: Count) -> f64 {
    over_matrices(llm, |matrix| matrix.touched(tokens))
}

fn over_matrices(llm: &Llm, figure: impl Fn(&Matrix) -> f64) -> f64 {
    let sum = |matrices: &[Matrix]| matrices.iter().map(&figure).sum::<f64>();
    llm.over_layers(|layer| sum(&layer.matrices)) + sum(&llm.matrices)
}

/// FLOPs of one forward pass.
pub fn forward(llm: &Llm, shape: Shape, convention: Convention) -> Flops {
    let of_rows = over_matrices(llm, |matrix| match matrix.rows {
        Some(rows) => matrix.used as f64 * matrix.elements() as f64 * rows as f64,
        None => 0.0,
    });
    let of_tokens = shape.tokens().0 * parameters_per_token(llm);
    let projections = Flops(2.0 * (of_tokens + shape.batch as f64 * of_rows));
    let head = 2.0 * shape.batch as f64 * shape.logits as f64 * head_parameters(llm);
    projections + attention(llm, shape, convention) + Flops(head)
}

impl Encoder {
    /// The pass that reads so many inputs.
    pub fn shape(&self, inputs: u64) -> Shape {
        Shape {
            batch: inputs,
            new: self.llm.sequence.unwrap_or(1),
            past: 0,
            logits: 1,
        }
    }

    /// Least size that reading so many inputs moves.
    pub fn bytes(&self, inputs: u64, element: Bytes) -> Bytes {
        forward_bytes(&self.llm, self.shape(inputs), element)
    }

    /// FLOPs of reading so many inputs.
    pub fn forward(&self, inputs: u64) -> Flops {
        forward(&self.llm, self.shape(inputs), Convention::Causal)
    }
}

impl Llm {
    /// FLOPs of recurrences for a token.
    pub fn state_flops(&self) -> f64 {
        self.over_layers(|layer| layer.state.as_ref().map_or(0.0, |state| state.flops as f64))
    }
}

/// FLOPs of attention and recurrences alone.
pub fn attention(llm: &Llm, shape: Shape, convention: Convention) -> Flops {
    llm.over_layers(|layer| layer.mixing(shape, convention))
}

/// Bytes of key-value cache that one token adds, over all layers, before any window is full.
pub fn kv_bytes_per_token(llm: &Llm, element: Bytes) -> Bytes {
    llm.over_layers(|layer| layer.cores.iter().map(|core| core.written(1)).sum::<f64>()) * element
}

/// Bytes that one forward pass must move at least: weights once, cache of the past and of the new
/// positions read, cache of the new positions written.
pub fn forward_bytes(llm: &Llm, shape: Shape, element: Bytes) -> Bytes {
    let tokens = shape.tokens();
    let embedding_rows = tokens.0 * llm.hidden as f64;
    let weights = parameters_read(llm, tokens) + head_parameters(llm) + embedding_rows;
    (weights + llm.over_layers(|layer| layer.moved(shape))) * element
}

fn head_parameters(llm: &Llm) -> f64 {
    llm.head.as_ref().map_or(0.0, |head| head.elements() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Experts};

    /// Llama-3-8B: the shape of the showcase.
    fn llama_8b() -> Llm {
        let decoder = Decoder {
            family: "llama",
            hidden: 4096,
            intermediate: 14336,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            vocab: 128_256,
            gated: true,
        };
        decoder.into()
    }

    #[test]
    fn llama_8b_parameters_are_those_of_its_layers() {
        // A layer: q and o 2·4096², k and v 2·4096·1024, three MLP matrices 3·4096·14336
        // = 33 554 432 + 8 388 608 + 176 160 768 = 218 103 808; 32 layers = 6 979 321 856.
        // With embedding and head (2·4096·128 256) and 65 norms of 4096 that is the published
        // 8 030 261 248 parameters.
        let llm = llama_8b();
        assert_eq!(parameters_per_token(&llm), 6_979_321_856.0);
        assert_eq!(llm.parameters(), 8_030_261_248);
    }

    #[test]
    fn prefill_of_llama_8b_batch_8_prompt_1024() {
        // Projections 2·8192·6 979 321 856 = 114 349 209 288 704 (1.1435e14).
        // Attention 4·128·32·32·8·(1024·1025/2) = 2 201 170 739 200 (causal), full: ·1024².
        // Head, last position only: 2·8·4096·128 256 = 8 405 385 216.
        let shape = Shape {
            batch: 8,
            new: 1024,
            past: 0,
            logits: 1,
        };
        let llm = llama_8b();
        let projections = 2.0 * 8192.0 * 6_979_321_856.0;
        assert_eq!(projections, 114_349_209_288_704.0);
        let causal = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 524_800.0;
        let head = 8_405_385_216.0;
        assert_eq!(
            forward(&llm, shape, Convention::Causal),
            Flops(projections + causal + head)
        );
        let full = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 1_048_576.0;
        assert_eq!(
            forward(&llm, shape, Convention::Full),
            Flops(projections + full + head)
        );
    }

    #[test]
    fn a_decode_step_attends_its_context_and_reads_weights_and_cache() {
        // One token behind 1024: 1025 pairs either way.
        let shape = Shape {
            batch: 8,
            new: 1,
            past: 1024,
            logits: 1,
        };
        let llm = llama_8b();
        let pairs = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 1025.0;
        assert_eq!(attention(&llm, shape, Convention::Causal), Flops(pairs));
        assert_eq!(attention(&llm, shape, Convention::Full), Flops(pairs));
        // Cache: 2·8·128·2 bytes · 32 layers = 131 072 bytes a token; 8 sequences · (1025 read + 1 written).
        assert_eq!(kv_bytes_per_token(&llm, Bytes(2.0)), Bytes(131_072.0));
        let weights = (6_979_321_856.0 + 4096.0 * 128_256.0 + 8.0 * 4096.0) * 2.0;
        assert_eq!(
            forward_bytes(&llm, shape, Bytes(2.0)),
            Bytes(weights + 8.0 * 1026.0 * 131_072.0)
        );
    }

    #[test]
    fn experts_are_counted_by_use_and_read_by_expectation() {
        // One layer, hidden 10, 4 experts of inner size 5, 2 chosen, gated: an expert has 3·10·5 = 150.
        let attention = crate::Attention {
            hidden: 10,
            heads: 1,
            kv_heads: 1,
            head_dim: 10,
            value_dim: 10,
            ..crate::Attention::default()
        };
        let experts = Experts {
            hidden: 10,
            count: 4,
            chosen: 2,
            intermediate: 5,
            gated: true,
            ..Experts::default()
        };
        let layer = Layer::default().attention(&attention).experts(&experts);
        let llm = Llm {
            layers: vec![(1, layer)],
            ..Llm::default()
        };
        // Attention 4·100, router 40, two experts 300.
        assert_eq!(parameters_per_token(&llm), 400.0 + 40.0 + 300.0);
        // One token touches 2 experts; two tokens 4·(1 − (1/2)²) = 3.
        assert_eq!(parameters_read(&llm, Count(1.0)), 740.0);
        assert_eq!(parameters_read(&llm, Count(2.0)), 890.0);
    }

    #[test]
    fn windows_chunks_and_compression_bound_the_attended_keys() {
        // 4 queries, window 2: 1 + 2 + 2 + 2 keys.
        let shape = Shape {
            batch: 1,
            new: 4,
            past: 0,
            logits: 1,
        };
        let pairs = |reach: Reach, shape: Shape| reach.pairs(shape, Convention::Causal);
        assert_eq!(pairs(Reach::Window(2), shape), 7.0);
        assert_eq!(pairs(Reach::Top(2), shape), 7.0);
        // Behind 10 keys every query sees 2.
        let behind = Shape { past: 10, ..shape };
        assert_eq!(pairs(Reach::Window(2), behind), 8.0);
        // Chunks of 3: 1 + 2 + 3, 1; behind 10 keys 2 + 3, 1 + 2.
        assert_eq!(pairs(Reach::Chunk(3), shape), 7.0);
        assert_eq!(pairs(Reach::Chunk(3), behind), 8.0);
        // An entry for 2 positions: 0 + 1 + 1 + 2; behind 10 positions 5 + 6 + 6 + 7, of which 3 at most.
        let all = Reach::Compressed {
            ratio: 2,
            top: None,
        };
        assert_eq!((pairs(all, shape), pairs(all, behind)), (4.0, 24.0));
        let top = Reach::Compressed {
            ratio: 2,
            top: Some(3),
        };
        assert_eq!((pairs(top, shape), pairs(top, behind)), (4.0, 12.0));
        // Encoders see everything: 4 queries of 4 keys.
        assert_eq!(pairs(Reach::All, shape), 16.0);
    }
}
