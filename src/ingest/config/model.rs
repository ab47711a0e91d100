//! A model's dimensions from its Hugging Face `config.json`.
//!
//! Only families whose layers are known are read. A key that is absent takes the default of the family's class in
//! `transformers`; a feature that changes the FLOPs and that [`ModelConfig`] cannot express makes the model
//! unsupported: its numbers would be invented.

use serde_json::Value;

use rooflens_model::model_config::{MlaConfig, ModelConfig, MoeConfig};

/// A model's dimensions and what is to be said about them.
pub(crate) struct Parsed {
    /// The dimensions.
    pub(crate) config: ModelConfig,
    /// Limits of what the dimensions say; lower case, no trailing stop.
    pub(crate) remarks: Vec<String>,
}

/// Why a config cannot be used.
#[derive(Debug, PartialEq)]
pub(crate) struct Unsupported(pub(crate) String);

/// What is fixed by the family rather than by keys.
struct Family {
    names: &'static [&'static str],
    gated_mlp: bool,
    attention_bias: bool,
    tied_embeddings: bool,
    experts: Experts,
}

/// Where a family keeps the size of its experts.
#[derive(Clone, Copy, PartialEq)]
enum Experts {
    /// No experts.
    None,
    /// `intermediate_size` is an expert's.
    Intermediate,
    /// `moe_intermediate_size` is an expert's, `intermediate_size` a dense layer's.
    Own,
}

const DENSE: Family = Family {
    names: &[
        "llama",
        "mistral",
        "qwen3",
        "qwen3_vl_text",
        "phi3",
        "mimo",
        "olmo",
        "olmo2",
        "granite",
        "stablelm",
        "smollm3",
        "internlm2",
        "glm4",
    ],
    gated_mlp: true,
    attention_bias: false,
    tied_embeddings: false,
    experts: Experts::None,
};

const FAMILIES: &[Family] = &[
    DENSE,
    Family { names: &["qwen2", "qwen2_vl", "qwen2_5_vl_text"], attention_bias: true, ..DENSE },
    Family {
        names: &["gemma", "gemma2", "gemma3_text", "cohere", "cohere2"],
        tied_embeddings: true,
        ..DENSE
    },
    Family { names: &["gpt_neox", "phi"], gated_mlp: false, attention_bias: true, ..DENSE },
    Family {
        names: &["gpt2", "opt", "starcoder2"],
        gated_mlp: false,
        attention_bias: true,
        tied_embeddings: true,
        ..DENSE
    },
    Family {
        names: &["mixtral", "minimax_m2", "olmoe", "granitemoe"],
        experts: Experts::Intermediate,
        ..DENSE
    },
    Family { names: &["gpt_oss"], attention_bias: true, experts: Experts::Intermediate, ..DENSE },
    Family {
        names: &[
            "qwen3_moe",
            "qwen3_vl_moe_text",
            "deepseek_v2",
            "deepseek_v3",
            "kimi_k2",
            "glm4_moe",
        ],
        experts: Experts::Own,
        ..DENSE
    },
    Family { names: &["qwen2_moe"], attention_bias: true, experts: Experts::Own, ..DENSE },
];

/// Keys of layers that [`ModelConfig`] has no words for, and what they are.
const FOREIGN: &[(&str, &str)] = &[
    ("index_topk", "sparse attention"),
    ("sparse_attention_config", "sparse attention"),
    ("compress_ratios", "compressed attention"),
    ("linear_num_value_heads", "linear-attention layers"),
    ("hybrid_layer_pattern", "layers of several kinds"),
    ("hybrid_override_pattern", "layers of several kinds"),
    ("layers_block_type", "layers of several kinds"),
    ("block_configs", "layers of several sizes"),
    ("ssm_cfg", "state-space layers"),
    ("mamba_d_state", "state-space layers"),
    ("ssm_state_size", "state-space layers"),
    ("attention_chunk_size", "chunked attention"),
];

/// Families in which only every other layer, or so, has a sliding window, whatever else the config says.
const ALTERNATING: &[&str] = &["gemma2", "gemma3_text", "gpt_oss", "cohere2"];

/// No dimension of a model is larger; keeps products of them within 64 bits where they are multiplied.
const MAX_DIMENSION: u64 = 1 << 24;

/// Whether a JSON document is a model config: it names its family and its size at the top level.
pub(super) fn is_config(value: &Value) -> bool {
    let named = value.get("model_type").is_some_and(Value::is_string)
        || value.get("architectures").is_some_and(Value::is_array);
    let layers = ["num_hidden_layers", "n_layer", "num_layers", "hidden_size", "n_embd"];
    named && (layers.iter().any(|key| value.get(key).is_some()) || nested(value).is_some())
}

/// Reads the dimensions of a config, or of the language model nested in one.
pub(crate) fn parse(value: &Value) -> Result<Parsed, Unsupported> {
    let mut remarks = Vec::new();
    let inner = nested(value);
    if inner.is_some() {
        remarks.push("only the language part of the model is counted".to_owned());
    }
    let keys = Keys { inner: inner.unwrap_or(value), outer: value };
    let name = keys.text("model_type").ok_or_else(|| unsupported("model_type is missing"))?;
    let family = FAMILIES
        .iter()
        .find(|family| family.names.contains(&name))
        .ok_or_else(|| Unsupported(format!("model type {name} is not supported")))?;
    refuse_foreign(&keys)?;

    let hidden = keys.dimension(&["hidden_size", "n_embd"])?;
    let heads = keys.dimension(&["num_attention_heads", "n_head"])?;
    let mla = mla(&keys)?;
    let config = ModelConfig {
        family: name.to_owned(),
        hidden,
        intermediate: intermediate(&keys, name, hidden)?,
        layers: keys.dimension(&["num_hidden_layers", "n_layer"])?,
        heads,
        kv_heads: keys.optional(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim: head_dim(&keys, hidden, heads, mla.as_ref())?,
        vocab: keys.dimension(&["vocab_size"])?,
        gated_mlp: family.gated_mlp,
        attention_bias: keys
            .flag("attention_bias")
            .or_else(|| keys.flag("qkv_bias"))
            .unwrap_or(family.attention_bias),
        tied_embeddings: keys.flag("tie_word_embeddings").unwrap_or(family.tied_embeddings),
        moe: moe(&keys, family.experts)?,
        sliding_window: sliding_window(&keys, name, &mut remarks)?,
        mla,
        dtype: dtype(&keys, &mut remarks),
    };
    Ok(Parsed { config, remarks })
}

/// The language model of a multimodal config.
fn nested(value: &Value) -> Option<&Value> {
    ["text_config", "llm_config", "language_config"]
        .iter()
        .find_map(|key| value.get(key).filter(|inner| inner.is_object()))
}

fn refuse_foreign(keys: &Keys<'_>) -> Result<(), Unsupported> {
    for (key, what) in FOREIGN {
        if keys.value(key).is_some() {
            return Err(Unsupported(format!("it has {what} ({key})")));
        }
    }
    let known =
        |kind: &Value| matches!(kind.as_str(), Some("full_attention" | "sliding_attention"));
    if let Some(kind) = keys.list("layer_types").unwrap_or(&[]).iter().find(|kind| !known(kind)) {
        return Err(Unsupported(format!("it has layers of type {kind}")));
    }
    // 1 is full attention, 0 linear attention.
    let types = keys.list("attn_type_list").unwrap_or(&[]);
    match types.iter().any(|kind| kind.as_u64() != Some(1)) {
        true => Err(unsupported("it has linear-attention layers")),
        false => Ok(()),
    }
}

fn intermediate(keys: &Keys<'_>, name: &str, hidden: u64) -> Result<u64, Unsupported> {
    match keys.optional(&["intermediate_size", "n_inner", "ffn_dim"])? {
        Some(size) => Ok(size),
        None if name == "gpt2" => Ok(4 * hidden),
        None => Err(unsupported("intermediate_size is missing")),
    }
}

fn head_dim(
    keys: &Keys<'_>,
    hidden: u64,
    heads: u64,
    mla: Option<&MlaConfig>,
) -> Result<u64, Unsupported> {
    if let Some(mla) = mla {
        return Ok(mla.qk_nope_head_dim + mla.qk_rope_head_dim);
    }
    match keys.optional(&["head_dim"])? {
        Some(size) => Ok(size),
        None if hidden.is_multiple_of(heads) => Ok(hidden / heads),
        None => Err(unsupported("head_dim is missing and hidden_size is no multiple of the heads")),
    }
}

fn mla(keys: &Keys<'_>) -> Result<Option<MlaConfig>, Unsupported> {
    let Some(kv_lora_rank) = keys.optional(&["kv_lora_rank"])? else {
        return Ok(None);
    };
    Ok(Some(MlaConfig {
        q_lora_rank: keys.optional(&["q_lora_rank"])?.unwrap_or(0),
        kv_lora_rank,
        qk_nope_head_dim: keys.dimension(&["qk_nope_head_dim"])?,
        qk_rope_head_dim: keys.dimension(&["qk_rope_head_dim"])?,
        v_head_dim: keys.dimension(&["v_head_dim"])?,
    }))
}

fn moe(keys: &Keys<'_>, kind: Experts) -> Result<Option<MoeConfig>, Unsupported> {
    if kind == Experts::None {
        return Ok(None);
    }
    let intermediate = match kind {
        Experts::Own => keys.dimension(&["moe_intermediate_size"])?,
        Experts::Intermediate | Experts::None => keys.dimension(&["intermediate_size"])?,
    };
    let shared = match keys.optional(&["shared_expert_intermediate_size"])? {
        Some(size) => size,
        None => keys.optional(&["n_shared_experts"])?.unwrap_or(0) * intermediate,
    };
    Ok(Some(MoeConfig {
        experts: keys.dimension(&["n_routed_experts", "num_local_experts", "num_experts"])?,
        experts_per_token: keys.dimension(&["num_experts_per_tok", "experts_per_token"])?,
        intermediate,
        shared_intermediate: shared,
        dense_layers: dense_layers(keys)?,
    }))
}

/// Leading dense layers; experts in every n-th layer only, or dense layers in between, are not supported.
fn dense_layers(keys: &Keys<'_>) -> Result<u64, Unsupported> {
    let mixed = || unsupported("dense and expert layers alternate");
    for key in ["decoder_sparse_step", "moe_layer_freq"] {
        if keys.value(key).is_some_and(|step| step.as_u64() != Some(1)) {
            return Err(mixed());
        }
    }
    let own = keys.list("mlp_only_layers").unwrap_or(&[]);
    if own.iter().enumerate().any(|(index, layer)| layer.as_u64() != Some(index as u64)) {
        return Err(mixed());
    }
    Ok(keys.optional(&["first_k_dense_replace"])?.unwrap_or(own.len() as u64))
}

/// The window, if all layers have it. Where only some do, attention is counted in full, and that is said.
fn sliding_window(
    keys: &Keys<'_>,
    name: &str,
    remarks: &mut Vec<String>,
) -> Result<Option<u64>, Unsupported> {
    let Some(window) = keys.optional(&["sliding_window"])? else {
        return Ok(None);
    };
    if keys.flag("use_sliding_window") == Some(false) {
        return Ok(None);
    }
    let is_sliding = |kind: &&Value| kind.as_str() == Some("sliding_attention");
    let (sliding, all) = match keys.list("layer_types") {
        Some(kinds) => (kinds.iter().filter(is_sliding).count(), kinds.len()),
        None if ALTERNATING.contains(&name) || keys.flag("use_sliding_window").is_some() => (1, 2),
        None => (1, 1),
    };
    if sliding > 0 && sliding < all {
        remarks.push(format!(
            "some layers attend to a window of {window} tokens only; attention is counted in full in all layers"
        ));
    }
    Ok((sliding == all && all > 0).then_some(window))
}

/// The type of the stored weights, as far as one name says it.
fn dtype(keys: &Keys<'_>, remarks: &mut Vec<String>) -> Option<String> {
    if let Some(quantization) = keys.value("quantization_config") {
        let text = |key: &str| quantization.get(key).and_then(Value::as_str);
        let method = text("quant_method").or_else(|| text("quant_algo")).unwrap_or("unnamed");
        remarks.push(format!("the weights are quantized ({method})"));
        return (method == "fp8").then(|| "fp8".to_owned());
    }
    let name = keys.text("torch_dtype").or_else(|| keys.text("dtype"))?;
    match name.strip_prefix("torch.").unwrap_or(name) {
        "bfloat16" => Some("bf16".to_owned()),
        "float16" => Some("fp16".to_owned()),
        "float32" => Some("fp32".to_owned()),
        _ => None,
    }
}

fn unsupported(reason: &str) -> Unsupported {
    Unsupported(reason.to_owned())
}

/// The keys of the language model, then those of the document around it. `null` is absent.
struct Keys<'a> {
    inner: &'a Value,
    outer: &'a Value,
}

impl<'a> Keys<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        let own = |value: &'a Value| value.get(key).filter(|value| !value.is_null());
        own(self.inner).or_else(|| own(self.outer))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    fn list(&self, key: &str) -> Option<&'a [Value]> {
        self.value(key)?.as_array().map(Vec::as_slice)
    }

    fn optional(&self, keys: &[&str]) -> Result<Option<u64>, Unsupported> {
        let Some((key, value)) = keys.iter().find_map(|key| Some((key, self.value(key)?))) else {
            return Ok(None);
        };
        match value.as_u64().filter(|number| *number <= MAX_DIMENSION) {
            Some(number) => Ok(Some(number)),
            None => Err(Unsupported(format!("{key} is not a plausible number"))),
        }
    }

    /// A dimension that must be there and not be 0.
    fn dimension(&self, keys: &[&str]) -> Result<u64, Unsupported> {
        let missing = || Unsupported(format!("{} is missing", keys.first().unwrap_or(&"")));
        self.optional(keys)?.filter(|number| *number > 0).ok_or_else(missing)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: &Value) -> ModelConfig {
        parse(value).unwrap_or_else(|error| panic!("{}", error.0)).config
    }

    fn reason(value: &Value) -> String {
        parse(value).err().map(|error| error.0).unwrap_or_default()
    }

    #[test]
    fn a_llama_has_gated_layers_and_grouped_queries() {
        let read = config(&json!({
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "vocab_size": 128256, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        }));
        let expected = ModelConfig {
            family: "llama".to_owned(),
            hidden: 4096,
            intermediate: 14336,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            vocab: 128256,
            gated_mlp: true,
            dtype: Some("bf16".to_owned()),
            ..ModelConfig::default()
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn gpt2_has_its_own_key_names_and_defaults() {
        let read = config(&json!({
            "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257,
        }));
        assert_eq!((read.hidden, read.layers, read.kv_heads, read.head_dim), (768, 12, 12, 64));
        assert_eq!((read.intermediate, read.gated_mlp, read.tied_embeddings), (3072, false, true));
        assert_eq!(read.dtype, None);
    }

    #[test]
    fn deepseek_has_latent_attention_shared_experts_and_leading_dense_layers() {
        let read = config(&json!({
            "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
            "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
            "vocab_size": 129280, "kv_lora_rank": 512, "q_lora_rank": 1536, "v_head_dim": 128,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "moe_intermediate_size": 2048,
            "n_routed_experts": 256, "n_shared_experts": 2, "num_experts_per_tok": 8,
            "first_k_dense_replace": 3, "moe_layer_freq": 1,
            "quantization_config": {"quant_method": "fp8"},
        }));
        assert_eq!(read.head_dim, 192);
        assert_eq!(read.mla.unwrap().q_lora_rank, 1536);
        let moe = read.moe.unwrap();
        assert_eq!((moe.experts, moe.experts_per_token, moe.intermediate), (256, 8, 2048));
        assert_eq!((moe.shared_intermediate, moe.dense_layers), (4096, 3));
        assert_eq!(read.dtype.as_deref(), Some("fp8"));
    }

    #[test]
    fn the_language_model_of_a_multimodal_config_is_read_with_a_remark() {
        let value = json!({
            "model_type": "qwen3_vl_moe", "tie_word_embeddings": true,
            "text_config": {
                "model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "intermediate_size": 6144,
                "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
                "head_dim": 128, "vocab_size": 151936, "moe_intermediate_size": 768,
                "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [],
                "decoder_sparse_step": 1, "dtype": "bfloat16",
            },
        });
        assert!(is_config(&value));
        let parsed = parse(&value).unwrap();
        assert_eq!(parsed.remarks, ["only the language part of the model is counted"]);
        assert_eq!(parsed.config.head_dim, 128);
        assert!(parsed.config.tied_embeddings);
        assert_eq!(parsed.config.moe.unwrap().experts, 128);
    }

    #[test]
    fn a_window_counts_only_where_all_layers_have_it() {
        let base = json!({
            "model_type": "mistral", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
            "sliding_window": 16,
        });
        let with = |key: &str, value: Value| {
            let mut changed = base.clone();
            changed[key] = value;
            parse(&changed).unwrap()
        };
        assert_eq!(parse(&base).unwrap().config.sliding_window, Some(16));
        assert_eq!(with("use_sliding_window", json!(false)).config.sliding_window, None);
        let mixed = with("layer_types", json!(["full_attention", "sliding_attention"]));
        assert_eq!(mixed.config.sliding_window, None);
        assert_eq!(mixed.remarks.len(), 1);
    }

    #[test]
    fn what_cannot_be_expressed_is_refused_with_the_reason() {
        let base = json!({
            "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
            "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
        });
        let with = |key: &str, value: Value| {
            let mut changed = base.clone();
            changed[key] = value;
            reason(&changed)
        };
        assert_eq!(reason(&base), "");
        assert!(with("layer_types", json!(["linear_attention"])).contains("linear_attention"));
        assert!(with("attn_type_list", json!([1, 0])).contains("linear-attention"));
        assert_eq!(with("attn_type_list", json!([1, 1])), "", "all layers are full");
        assert!(with("index_topk", json!(2048)).contains("sparse attention"));
        assert!(with("decoder_sparse_step", json!(2)).contains("alternate"));
        assert!(with("mlp_only_layers", json!([2])).contains("alternate"));
        assert!(with("num_hidden_layers", Value::Null).contains("num_hidden_layers is missing"));
        assert!(with("vocab_size", json!(u64::MAX)).contains("plausible"));
        assert!(with("model_type", json!("nemotron_h")).contains("nemotron_h"));
    }
}
