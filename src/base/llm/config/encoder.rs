//! Encoders of text and images: every token sees all others, nothing is generated.

use serde_json::Value;

use super::keys::Keys;
use super::project;
use crate::Llm;
use crate::layer::{Attention, Layer, Matrix, Part, Reach};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    match name {
        "bert" | "roberta" | "xlm-roberta" | "camembert" | "electra" | "distilbert" => {
            text(name, keys, llm);
        }
        "vit" | "deit" | "vit_msn" | "vit_mae" => image(keys, llm),
        _ => return false,
    }
    true
}

/// Layers with biases everywhere and two LayerNorms.
fn layers(keys: &Keys<'_>, llm: &mut Llm, qkv_bias: bool) {
    let hidden = llm.hidden;
    let heads = keys.need(&["num_attention_heads", "n_heads"]);
    let attention = Attention {
        qkv_bias,
        ..Attention::multi_head(hidden, heads, true, Reach::All)
    };
    let inner = keys.need(&["intermediate_size", "hidden_dim"]);
    let layer = Layer::default()
        .attention(&attention)
        .mlp(hidden, inner, false, true)
        .vectors(4 * hidden);
    llm.layers.push((keys.depth(), layer));
}

fn text(name: &str, keys: &Keys<'_>, llm: &mut Llm) {
    // DistilBERT calls its hidden size `dim`.
    let hidden = keys.need(&["hidden_size", "dim"]);
    llm.hidden = hidden;
    llm.vocab = keys.need(&["vocab_size"]);
    let types = if name == "distilbert" {
        0
    } else {
        keys.or(&["type_vocab_size"], 2)
    };
    llm.tables = hidden * (llm.vocab + keys.or(&["max_position_embeddings"], 512) + types);
    llm.vectors = 2 * hidden;
    layers(keys, llm, true);
    // The generator of Electra has sizes of its own.
    if name != "electra" && is_for(keys, "ForMaskedLM") {
        // A dense layer with a norm, and a projection to the vocabulary with a bias of its own.
        llm.matrices
            .push(Matrix::new(Part::Other, "head dense", hidden, hidden).bias(true));
        llm.vectors += 2 * hidden + llm.vocab;
        llm.tied = keys.flag("tie_word_embeddings", true);
        llm.head = Some(Matrix::head(hidden, llm.vocab, false));
        return;
    }
    if name != "distilbert" {
        llm.matrices.push(pooler(hidden));
    }
    llm.remarks
        .push("the encoder is counted, without a head for a task".to_owned());
}

fn image(keys: &Keys<'_>, llm: &mut Llm) {
    let hidden = keys.need(&["hidden_size"]);
    let (image, patch) = (
        keys.or(&["image_size"], 224),
        keys.or(&["patch_size"], 16).max(1),
    );
    let patches = (image / patch) * (image / patch);
    let inputs = keys.or(&["num_channels"], 3) * patch * patch;
    llm.hidden = hidden;
    llm.sequence = Some(patches + 1);
    llm.tables = hidden * (patches + 1);
    llm.vectors = hidden + 2 * hidden; // The class token, the last LayerNorm.
    llm.matrices
        .push(project("patches", inputs, hidden).bias(true).rows(patches));
    layers(keys, llm, keys.flag("qkv_bias", true));
    let labels = keys
        .value("id2label")
        .and_then(Value::as_object)
        .map(serde_json::Map::len);
    if is_for(keys, "ForImageClassification") {
        llm.vocab = labels.map_or(2, |count| count as u64);
        llm.head = Some(Matrix::head(hidden, llm.vocab, true));
    } else {
        llm.matrices.push(pooler(hidden));
    }
}

/// A dense layer of the first token of a sequence.
fn pooler(hidden: u64) -> Matrix {
    Matrix::new(Part::Other, "pooler", hidden, hidden)
        .bias(true)
        .rows(1)
}

/// Whether the config is of a class with such a name.
fn is_for(keys: &Keys<'_>, task: &str) -> bool {
    let classes = keys.list("architectures").unwrap_or_default();
    let mut names = classes.iter().filter_map(Value::as_str);
    names.any(|name| name.ends_with(task))
}
