//! An LLM from its Hugging Face `config.json`.
//!
//! Only families whose layers are known are read. A key that is absent takes the default of the family's class in
//! `transformers`; a family or a feature that is not known makes the model unsupported: its numbers would be invented.

mod compressed;
mod diffusion;
mod encoder;
mod gemma;
mod hybrid;
mod keys;
mod mixed;
mod nas;
mod plain;
mod seq2seq;
mod state_space;
mod vision;

use std::sync::OnceLock;

use serde_json::Value;

use super::{Layer, Llm, Matrix, Outline, Part};
use keys::Keys;
pub use keys::Unsupported;

/// Families by `model_type`, and what reads them.
const READERS: &[Reader] = &[
    plain::read,
    mixed::read,
    nas::read,
    gemma::read,
    compressed::read,
    state_space::read,
    hybrid::read,
    seq2seq::read,
    encoder::read,
    diffusion::read,
];

/// Fills an LLM if it knows the family.
type Reader = fn(&str, &Keys<'_>, &mut Llm) -> bool;

/// Whether a JSON document is a model config: it names its family and its size at the top level.
pub fn is_config(value: &Value) -> bool {
    let named = ["model_type", "_class_name"]
        .iter()
        .any(|key| value.get(key).is_some_and(Value::is_string))
        || value.get("architectures").is_some_and(Value::is_array);
    let layers = [
        "num_hidden_layers",
        "n_layer",
        "num_layers",
        "n_layers",
        "hidden_size",
        "n_embd",
    ];
    named && (layers.iter().any(|key| value.get(key).is_some()) || nested(value).is_some())
}

/// Reads the LLM of a config, or the language model nested in one.
///
/// # Errors
/// [`Unsupported`] names the model type, and the fields that are missing.
pub fn parse(value: &Value) -> Result<Llm, Unsupported> {
    // A model that speaks has another one that thinks.
    let speaks = value.get("thinker_config").filter(|part| part.is_object());
    let value = speaks.unwrap_or(value);
    let inner = nested(value);
    let of_class = match inner {
        Some(inner) => defaults(inner["model_type"].as_str().unwrap_or_default()),
        None => &Value::Null,
    };
    let keys = Keys::new(inner.unwrap_or(value), value, of_class);
    let family = keys.text("model_type").or_else(|| keys.text("_class_name"));
    let family = family.ok_or(Unsupported::NoType)?;
    let mut llm = Llm {
        family: family.to_owned(),
        max_context: keys.maybe(&["max_position_embeddings", "n_positions", "max_seq_len"]),
        ..Llm::default()
    };
    if speaks.is_some() {
        llm.remarks
            .push("the part that speaks is not counted".to_owned());
    }
    if !READERS.iter().any(|read| read(family, &keys, &mut llm)) {
        let fields = [
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
        ];
        let missing = fields
            .into_iter()
            .filter(|field| keys.value(field).is_none())
            .collect();
        return Err(Unsupported::Type {
            model_type: family.to_owned(),
            missing,
        });
    }
    keys.check(family)?;
    vision::read(value, &mut llm);
    storage(&keys, &mut llm);
    outline(&keys, &mut llm);
    if keys
        .maybe(&[
            "num_nextn_predict_layers",
            "num_mtp_modules",
            "mtp_num_hidden_layers",
        ])
        .is_some_and(|layers| layers > 0)
    {
        llm.remarks
            .push("layers for multi-token prediction are not counted".to_owned());
    }
    Ok(llm)
}

/// Defaults of the classes in `transformers` by `model_type`: a config that is nested in another is published without
/// what equals them (`PretrainedConfig.to_diff_dict`). Written by `tests/reference/parameters.py`.
const DEFAULTS: &str = include_str!("defaults.json");

/// The defaults of a class; null for one that is not listed.
fn defaults(family: &str) -> &'static Value {
    static ALL: OnceLock<Value> = OnceLock::new();
    let all = ALL.get_or_init(|| serde_json::from_str(DEFAULTS).unwrap_or_default());
    all.get(family).unwrap_or(&Value::Null)
}

/// The language model of a multimodal config.
fn nested(value: &Value) -> Option<&Value> {
    ["text_config", "llm_config", "language_config"]
        .iter()
        .find_map(|key| value.get(key).filter(|inner| inner.is_object()))
}

/// Embedding, norm and head of a decoder.
fn decoder(keys: &Keys<'_>, llm: &mut Llm, norm: u64, tied: bool) {
    llm.hidden = keys.need(&["hidden_size", "n_embd", "d_model"]);
    llm.vocab = keys.need(&["vocab_size", "padded_vocab_size"]);
    llm.tables = llm.hidden * llm.vocab;
    llm.vectors = norm * llm.hidden;
    llm.tied = keys.flag("tie_word_embeddings", tied);
    llm.head = Some(Matrix::head(llm.hidden, llm.vocab, false));
}

/// Adds a layer; equal ones are counted together.
fn push(llm: &mut Llm, layer: Layer) {
    match llm.layers.iter_mut().find(|(_, known)| *known == layer) {
        Some((count, _)) => *count += 1,
        None => llm.layers.push((1, layer)),
    }
}

/// The sizes that people know the model by.
fn outline(keys: &Keys<'_>, llm: &mut Llm) {
    let layers = || llm.layers.iter().map(|(_, layer)| layer);
    let core = layers()
        .find_map(|layer| layer.cores.first())
        .cloned()
        .unwrap_or_default();
    let matrix = |names: &[&str]| {
        layers()
            .flat_map(|layer| &layer.matrices)
            .find(|matrix| names.contains(&matrix.name))
    };
    let inner = matrix(&["up"])
        .or(matrix(&["expert up"]))
        .map_or(0, |matrix| matrix.outputs);
    let routed = matrix(&["expert up"]);
    llm.outline = Outline {
        heads: core.heads,
        kv_heads: match core.absorbed {
            Some(_) => keys.or(&["num_key_value_heads"], core.heads),
            None => core.kv_heads,
        },
        head_dim: core.query_key,
        intermediate: keys
            .maybe(&["intermediate_size"])
            .filter(|_| routed.is_some())
            .unwrap_or(inner),
        gated: matrix(&["gate", "expert gate"]).is_some(),
        experts: routed.map_or(0, |expert| expert.copies),
        experts_per_token: routed.map_or(0, |expert| expert.used),
        latent: core.absorbed.is_some(),
    };
}

/// The type of the stored weights, as far as one name says it.
fn storage(keys: &Keys<'_>, llm: &mut Llm) {
    let name = keys
        .text("torch_dtype")
        .or_else(|| keys.text("dtype"))
        .unwrap_or_default();
    let stored = match name.strip_prefix("torch.").unwrap_or(name) {
        "bfloat16" => Some("bf16"),
        "float16" => Some("fp16"),
        "float32" => Some("fp32"),
        _ => None,
    };
    llm.dtype = stored.map(str::to_owned);
    let Some(quantization) = keys.value("quantization_config") else {
        return;
    };
    let text = |key: &str| {
        quantization
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_lowercase)
    };
    let algorithm = text("quant_algo").filter(|algorithm| algorithm != "mixed_precision");
    let method = algorithm.or_else(|| text("quant_method"));
    let method = method.unwrap_or_else(|| "unnamed".to_owned());
    let bits = || bits(quantization);
    llm.quantized = match method.as_str() {
        "gptq" | "awq" | "compressed-tensors" | "bitsandbytes" => match bits() {
            Some(4) => Some("int4"),
            Some(8) => Some("int8"),
            _ => None,
        },
        other => weight_format(other),
    }
    .map(str::to_owned);
    llm.dtype = (method == "fp8").then(|| "fp8".to_owned());
    llm.remarks
        .push(format!("the weights are quantized ({method})"));
}

/// The format of weights by the name of an algorithm, in lower case.
pub fn weight_format(algorithm: &str) -> Option<&'static str> {
    match algorithm {
        "fp8" | "fbgemm_fp8" | "fp8_pb_wo" => Some("fp8"),
        "mxfp4" => Some("mxfp4"),
        "nvfp4" => Some("nvfp4"),
        "w4a16_awq" | "w4a8_awq" => Some("awq"),
        "int8_sq" | "w8a16" => Some("int8"),
        _ => None,
    }
}

/// Bits of a weight, where a quantization says them once.
fn bits(quantization: &Value) -> Option<u64> {
    let of_group = || {
        let groups = quantization.get("config_groups")?.as_object()?;
        groups
            .values()
            .next()?
            .get("weights")?
            .get("num_bits")?
            .as_u64()
    };
    let four = || {
        quantization
            .get("load_in_4bit")
            .and_then(Value::as_bool)
            .filter(|four| *four)
    };
    quantization
        .get("bits")
        .and_then(Value::as_u64)
        .or_else(of_group)
        .or_else(|| four().map(|_| 4))
}

/// A matrix of projections.
const fn project(name: &'static str, inputs: u64, outputs: u64) -> Matrix {
    Matrix::new(Part::Projections, name, inputs, outputs)
}

#[cfg(test)]
mod tests;
