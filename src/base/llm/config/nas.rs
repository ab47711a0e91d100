//! Decoders of neural architecture search (Nemotron, DeciLM): each layer has its own key heads and inner size, or lacks a part.
//!
//! After `configuration_decilm.py` and `modeling_decilm.py` of nvidia/Llama-3_3-Nemotron-Super-49B-v1.

use serde_json::Value;

use super::keys::{Keys, Unsupported};
use super::{decoder, project, push};
use crate::Llm;
use crate::layer::{Attention, Layer};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    if name != "nemotron-nas" {
        return false;
    }
    decoder(keys, llm, 1, false);
    let depth = keys.depth();
    let blocks = keys.list("block_configs").unwrap_or_default();
    if blocks.len() as u64 != depth {
        keys.refuse(Unsupported::Feature(format!(
            "{} blocks for {depth} layers",
            blocks.len()
        )));
    }
    for block in blocks.iter().take(depth as usize) {
        push(
            llm,
            feed_forward(
                attention(Layer::default(), keys, llm.hidden, block),
                keys,
                llm.hidden,
                block,
            ),
        );
    }
    true
}

fn attention(layer: Layer, keys: &Keys<'_>, hidden: u64, block: &Value) -> Layer {
    let part = &block["attention"];
    if part["no_op"] == true {
        return layer;
    }
    let layer = layer.vectors(hidden);
    if part["replace_with_linear"] == true {
        return layer.matrix(project("linear", hidden, hidden));
    }
    let heads = keys.need(&["num_attention_heads"]);
    let group = part["n_heads_in_group"]
        .as_u64()
        .filter(|group| (1..=heads).contains(group));
    if group.is_none() || !part["window_length"].is_null() {
        keys.refuse(Unsupported::Feature(
            "attention without a group of heads, or in a window".to_owned(),
        ));
    }
    let head_dim = keys.or(&["head_dim"], hidden / heads);
    layer.attention(&Attention {
        hidden,
        heads,
        kv_heads: heads / group.unwrap_or(1),
        head_dim,
        value_dim: head_dim,
        ..Attention::default()
    })
}

fn feed_forward(layer: Layer, keys: &Keys<'_>, hidden: u64, block: &Value) -> Layer {
    let part = &block["ffn"];
    if part["no_op"] == true {
        return layer;
    }
    let layer = layer.vectors(hidden);
    if part["replace_with_linear"] == true {
        return layer.matrix(project("linear", hidden, hidden));
    }
    let Some(factor) = part["ffn_mult"]
        .as_f64()
        .filter(|factor| (0.0..=64.0).contains(factor))
    else {
        keys.refuse(Unsupported::Feature(
            "a feed-forward block without a size".to_owned(),
        ));
        return layer;
    };
    // Two thirds of that many times the hidden size, in steps of 256.
    let inner = (2.0 * factor * hidden as f64 / 3.0) as u64;
    layer.mlp(hidden, inner.next_multiple_of(256), true, false)
}
