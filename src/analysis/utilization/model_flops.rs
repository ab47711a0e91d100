//! Model FLOPs and bytes from a model's dimensions, without recomputation.
//!
//! Matrix products count 2·M·N·K; embedding look-ups, norms, softmax and activations count 0 (the
//! convention of PaLM, appendix B). Attention counts 2 products per query-key pair and head.

use rooflens_model::ModelConfig;

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

/// A model's dimensions as numbers that cannot overflow, whatever a config file claims.
struct Dims {
    hidden: f64,
    layers: f64,
    sparse_layers: f64,
    heads: f64,
    mlp_matrices: f64,
}

impl Dims {
    fn new(model: &ModelConfig) -> Self {
        let dense =
            model.moe.as_ref().map_or(model.layers, |moe| moe.dense_layers.min(model.layers));
        Self {
            hidden: model.hidden as f64,
            layers: model.layers as f64,
            sparse_layers: (model.layers - dense) as f64,
            heads: model.heads as f64,
            mlp_matrices: if model.gated_mlp { 3.0 } else { 2.0 },
        }
    }
}

/// Matrix parameters that one token passes through in all layers, without the LM head.
///
/// Grouped-query attention narrows the key and value projections; a mixture of experts counts the
/// router, the chosen experts and the shared ones.
pub fn parameters_per_token(model: &ModelConfig) -> f64 {
    let dims = Dims::new(model);
    let mlp = dims.mlp_matrices * dims.hidden;
    let sparse = model.moe.as_ref().map_or(0.0, |moe| {
        let routed = moe.experts_per_token as f64 * mlp * moe.intermediate as f64;
        let shared = mlp * moe.shared_intermediate as f64;
        routed + shared + dims.hidden * moe.experts as f64
    });
    dims.layers * attention_parameters(model)
        + dims.sparse_layers * sparse
        + (dims.layers - dims.sparse_layers) * mlp * model.intermediate as f64
}

/// Matrix parameters of all layers that a forward pass over `tokens` tokens must read, without the LM head.
///
/// Of a mixture of experts only those that some token chose: E·(1 − (1 − k/E)^tokens) expected distinct
/// experts under uniform routing.
pub fn parameters_read(model: &ModelConfig, tokens: f64) -> f64 {
    let Some(moe) = &model.moe else { return parameters_per_token(model) };
    let dims = Dims::new(model);
    let (experts, chosen) = (moe.experts as f64, moe.experts_per_token as f64);
    let touched = experts * (1.0 - libm::pow(1.0 - chosen / experts, tokens));
    let one = dims.mlp_matrices * dims.hidden * moe.intermediate as f64;
    parameters_per_token(model) + dims.sparse_layers * (touched - chosen) * one
}

/// FLOPs of one forward pass.
pub fn forward(model: &ModelConfig, shape: Shape, convention: Convention) -> f64 {
    let projections = 2.0 * shape.tokens() * parameters_per_token(model);
    let head = 2.0 * shape.batch as f64 * shape.logits as f64 * head_parameters(model);
    projections + attention(model, shape, convention) + head
}

/// FLOPs of the attention products alone.
pub fn attention(model: &ModelConfig, shape: Shape, convention: Convention) -> f64 {
    let (query_key, value) = head_dims(model);
    let pairs = pairs(shape, model.sliding_window, convention);
    2.0 * (query_key + value)
        * model.layers as f64
        * model.heads as f64
        * shape.batch as f64
        * pairs
}

/// Query-key pairs of one sequence and head: `new` queries behind `past` keys.
fn pairs(shape: Shape, window: Option<u64>, convention: Convention) -> f64 {
    let (new, past) = (shape.new as f64, shape.past as f64);
    let all = match convention {
        Convention::Causal => new * past + new * (new + 1.0) / 2.0,
        Convention::Full => new * (past + new),
    };
    let Some(window) = window.map(|window| window as f64) else { return all };
    if convention == Convention::Full || past + new <= window {
        return all.min(new * window);
    }
    // Queries that see fewer keys than the window, then those that see exactly the window.
    let short = (window - past).clamp(0.0, new);
    short * past + short * (short + 1.0) / 2.0 + (new - short) * window
}

/// Bytes of key-value cache that one token adds, over all layers.
pub fn kv_bytes_per_token(model: &ModelConfig, element_bytes: f64) -> f64 {
    let per_layer = match &model.mla {
        Some(mla) => mla.kv_lora_rank as f64 + mla.qk_rope_head_dim as f64,
        None => 2.0 * model.kv_heads as f64 * model.head_dim as f64,
    };
    model.layers as f64 * per_layer * element_bytes
}

/// Bytes that one forward pass must move at least: weights once, cache of the past and of the new
/// positions read, cache of the new positions written.
pub fn forward_bytes(model: &ModelConfig, shape: Shape, element_bytes: f64) -> f64 {
    let tokens = shape.tokens();
    let embedding_rows = tokens * model.hidden as f64;
    let weights =
        (parameters_read(model, tokens) + head_parameters(model) + embedding_rows) * element_bytes;
    let attended = shape.past as f64 + shape.new as f64;
    let attended = model.sliding_window.map_or(attended, |window| attended.min(window as f64));
    let positions = shape.batch as f64 * (attended + shape.new as f64);
    weights + positions * kv_bytes_per_token(model, element_bytes)
}

impl Shape {
    fn tokens(&self) -> f64 {
        self.batch as f64 * self.new as f64
    }
}

fn head_parameters(model: &ModelConfig) -> f64 {
    model.hidden as f64 * model.vocab as f64
}

fn attention_parameters(model: &ModelConfig) -> f64 {
    let Dims { hidden, heads, .. } = Dims::new(model);
    match &model.mla {
        Some(mla) => {
            let (query_key, value) = head_dims(model);
            let queries = match mla.q_lora_rank {
                0 => hidden * heads * query_key,
                rank => rank as f64 * (hidden + heads * query_key),
            };
            let rank = mla.kv_lora_rank as f64;
            let compressed = hidden * (rank + mla.qk_rope_head_dim as f64);
            let expanded = rank * heads * (mla.qk_nope_head_dim as f64 + value);
            queries + compressed + expanded + heads * value * hidden
        }
        None => {
            let head_dim = model.head_dim as f64;
            hidden * head_dim * (2.0 * heads + 2.0 * model.kv_heads as f64)
        }
    }
}

/// Sizes of a query-key product and of a value product per pair and head.
fn head_dims(model: &ModelConfig) -> (f64, f64) {
    match &model.mla {
        Some(mla) => {
            (mla.qk_nope_head_dim as f64 + mla.qk_rope_head_dim as f64, mla.v_head_dim as f64)
        }
        None => (model.head_dim as f64, model.head_dim as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_model::model_config::MoeConfig;

    /// Llama-3-8B: the shape of the showcase.
    fn llama_8b() -> ModelConfig {
        ModelConfig {
            family: "llama".into(),
            hidden: 4096,
            intermediate: 14336,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            vocab: 128_256,
            gated_mlp: true,
            ..ModelConfig::default()
        }
    }

    #[test]
    fn llama_8b_parameters_are_those_of_its_layers() {
        // A layer: q and o 2·4096², k and v 2·4096·1024, three MLP matrices 3·4096·14336
        // = 33 554 432 + 8 388 608 + 176 160 768 = 218 103 808; 32 layers = 6 979 321 856.
        // With embedding and head (2·4096·128 256) and 65 norms of 4096 that is the published
        // 8 030 261 248 parameters.
        let model = llama_8b();
        assert_eq!(parameters_per_token(&model), 6_979_321_856.0);
        assert_eq!(6_979_321_856_u64 + 2 * 4096 * 128_256 + 65 * 4096, 8_030_261_248);
    }

    #[test]
    fn prefill_of_llama_8b_batch_8_prompt_1024() {
        // Projections 2·8192·6 979 321 856 = 114 349 209 288 704 (1.1435e14).
        // Attention 4·128·32·32·8·(1024·1025/2) = 2 201 170 739 200 (causal), full: ·1024².
        // Head, last position only: 2·8·4096·128 256 = 8 405 385 216.
        let shape = Shape { batch: 8, new: 1024, past: 0, logits: 1 };
        let model = llama_8b();
        let projections = 2.0 * 8192.0 * 6_979_321_856.0;
        assert_eq!(projections, 114_349_209_288_704.0);
        let causal = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 524_800.0;
        let head = 8_405_385_216.0;
        assert_eq!(forward(&model, shape, Convention::Causal), projections + causal + head);
        let full = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 1_048_576.0;
        assert_eq!(forward(&model, shape, Convention::Full), projections + full + head);
    }

    #[test]
    fn a_decode_step_attends_its_context_and_reads_weights_and_cache() {
        // One token behind 1024: 1025 pairs either way.
        let shape = Shape { batch: 8, new: 1, past: 1024, logits: 1 };
        let model = llama_8b();
        let pairs = 4.0 * 128.0 * 32.0 * 32.0 * 8.0 * 1025.0;
        assert_eq!(attention(&model, shape, Convention::Causal), pairs);
        assert_eq!(attention(&model, shape, Convention::Full), pairs);
        // Cache: 2·8·128·2 bytes · 32 layers = 131 072 bytes a token; 8 sequences · (1025 read + 1 written).
        assert_eq!(kv_bytes_per_token(&model, 2.0), 131_072.0);
        let weights = (6_979_321_856.0 + 4096.0 * 128_256.0 + 8.0 * 4096.0) * 2.0;
        assert_eq!(forward_bytes(&model, shape, 2.0), weights + 8.0 * 1026.0 * 131_072.0);
    }

    #[test]
    fn experts_are_counted_by_use_and_read_by_expectation() {
        // One layer, hidden 10, 4 experts of inner size 5, 2 chosen, gated: an expert has 3·10·5 = 150.
        let model = ModelConfig {
            hidden: 10,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 10,
            gated_mlp: true,
            moe: Some(MoeConfig {
                experts: 4,
                experts_per_token: 2,
                intermediate: 5,
                ..MoeConfig::default()
            }),
            ..ModelConfig::default()
        };
        // Attention 4·100, router 40, two experts 300.
        assert_eq!(parameters_per_token(&model), 400.0 + 40.0 + 300.0);
        // One token touches 2 experts; two tokens 4·(1 − (1/2)²) = 3.
        assert_eq!(parameters_read(&model, 1.0), 740.0);
        assert_eq!(parameters_read(&model, 2.0), 890.0);
    }

    #[test]
    fn a_window_bounds_the_attended_keys() {
        // 4 queries, window 2: 1 + 2 + 2 + 2 keys.
        let shape = Shape { batch: 1, new: 4, past: 0, logits: 1 };
        assert_eq!(pairs(shape, Some(2), Convention::Causal), 7.0);
        // Behind 10 keys every query sees 2.
        let behind = Shape { past: 10, ..shape };
        assert_eq!(pairs(behind, Some(2), Convention::Causal), 8.0);
    }
}
