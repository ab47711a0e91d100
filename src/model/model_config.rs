//! Dimensions of a transformer model, from its Hugging Face `config.json`.

/// What the FLOPs and bytes formulas need to know of a model. All counts are per model, not per GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelConfig {
    /// `model_type`, such as `llama`.
    pub family: String,
    /// Hidden size.
    pub hidden: u64,
    /// Inner size of the dense feed-forward block.
    pub intermediate: u64,
    /// Layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Vocabulary.
    pub vocab: u64,
    /// The feed-forward block is gated (three matrices) rather than plain (two).
    pub gated_mlp: bool,
    /// Query, key and value projections have biases.
    pub attention_bias: bool,
    /// The LM head shares the embedding's weights.
    pub tied_embeddings: bool,
    /// Mixture of experts, if it is one.
    pub moe: Option<MoeConfig>,
    /// Sliding attention window, where all layers use one.
    pub sliding_window: Option<u64>,
    /// Multi-head latent attention, if the model uses it.
    pub mla: Option<MlaConfig>,
    /// Weights are stored in this type, such as `bf16`, where the config says so.
    pub dtype: Option<String>,
}

/// Mixture-of-experts part of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MoeConfig {
    /// Routed experts in a layer.
    pub experts: u64,
    /// Routed experts that a token passes through.
    pub experts_per_token: u64,
    /// Inner size of an expert.
    pub intermediate: u64,
    /// Inner size of all shared experts of a layer together; 0 if none.
    pub shared_intermediate: u64,
    /// Leading layers that are dense.
    pub dense_layers: u64,
}

/// Multi-head latent attention (DeepSeek).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MlaConfig {
    /// Rank of the query compression; 0 if queries are not compressed.
    pub q_lora_rank: u64,
    /// Rank of the key-value compression.
    pub kv_lora_rank: u64,
    /// Part of a query or key head without position encoding.
    pub qk_nope_head_dim: u64,
    /// Part of a query or key head with rotary position encoding.
    pub qk_rope_head_dim: u64,
    /// Size of a value head.
    pub v_head_dim: u64,
}
