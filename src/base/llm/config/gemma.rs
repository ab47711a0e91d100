//! Gemma 3n and 4: embeddings for each layer, caches that layers share.

use super::keys::Keys;
use super::{decoder, push};
use crate::Llm;
use crate::layer::{Attention, Experts, Layer, Matrix, Part, Reach};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let third = match name {
        "gemma3n_text" | "gemma3n" => true,
        "gemma4_text" | "gemma4" | "gemma4_unified_text" => false,
        _ => return false,
    };
    decoder(keys, llm, 1, true);
    let (hidden, depth) = (llm.hidden, keys.depth());
    let per_layer = keys.or(&["hidden_size_per_layer_input"], 256);
    if per_layer > 0 {
        llm.tables += keys.or(&["vocab_size_per_layer_input"], 262_144) * depth * per_layer;
        llm.vectors += per_layer;
        llm.matrices.push(Matrix::new(
            Part::Other,
            "inputs of layers",
            hidden,
            depth * per_layer,
        ));
    }
    let streams = keys.or(&["altup_num_inputs"], 4);
    if third && streams > 1 {
        let matrix = Matrix::new(Part::Other, "streams", hidden, hidden);
        llm.matrices
            .push(matrix.copies(2 * (streams - 1), 2 * (streams - 1)));
    }
    let shared = keys.or(&["num_kv_shared_layers"], if third { 15 } else { 0 });
    for index in 0..depth {
        let every = if third { 5 } else { 6 };
        let types = keys.words("layer_types");
        let listed = types.and_then(|types| types.get(index as usize).copied());
        let full = listed.map_or((index + 1).is_multiple_of(every), |kind| {
            kind == "full_attention"
        });
        let shares = index >= depth.saturating_sub(shared);
        let mut layer = attention(
            keys,
            hidden,
            third,
            (full || (!third && index + 1 == depth), shares),
        );
        let inner = keys.need(&["intermediate_size"]);
        let wide = keys.flag("use_double_wide_mlp", false) && shares;
        layer = layer.mlp(hidden, if wide { 2 * inner } else { inner }, true, false);
        if per_layer > 0 {
            layer = layer
                .vectors(hidden)
                .matrix(Matrix::new(Part::Mlp, "input gate", hidden, per_layer))
                .matrix(Matrix::new(Part::Mlp, "input", per_layer, hidden));
        }
        layer = if third {
            alternating(layer, keys, hidden, streams)
        } else {
            experts(layer, keys, hidden)
        };
        push(llm, layer.vectors(4 * hidden));
    }
    true
}

fn attention(keys: &Keys<'_>, hidden: u64, third: bool, (full, shares): (bool, bool)) -> Layer {
    let heads = keys.need(&["num_attention_heads"]);
    let (head_dim, kv_heads) = (
        keys.or(&["head_dim"], 256),
        keys.or(&["num_key_value_heads"], heads),
    );
    let (head_dim, kv_heads) = match full && !third {
        true => (
            keys.or(&["global_head_dim"], 512),
            keys.or(&["num_global_key_value_heads"], kv_heads),
        ),
        false => (head_dim, kv_heads),
    };
    let window = keys.or(&["sliding_window"], 512);
    let attention = Attention {
        hidden,
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        key_is_value: full && keys.flag("attention_k_eq_v", false),
        shares_cache: shares,
        reach: if full {
            Reach::Causal
        } else {
            Reach::Window(window)
        },
        ..Attention::default()
    };
    Layer::default()
        .vectors(head_dim * if shares { 1 } else { 2 })
        .attention(&attention)
}

/// Gemma 3n: low-rank residual (LAuReL), and several streams of which a layer computes one (AltUp).
fn alternating(layer: Layer, keys: &Keys<'_>, hidden: u64, streams: u64) -> Layer {
    let rank = keys.or(&["laurel_rank"], 64);
    let matrix = |name, inputs, outputs| Matrix::new(Part::Mlp, name, inputs, outputs);
    layer
        .vectors(hidden) // After the low-rank residual.
        .vectors(2 * hidden) // Scale and norm of the router.
        .matrix(matrix("laurel left", hidden, rank))
        .matrix(matrix("laurel right", rank, hidden))
        .matrix(matrix("correct", streams, streams))
        .matrix(matrix("predict", streams, streams * streams))
        .matrix(matrix("route streams", hidden, streams))
}

/// Gemma 4: routed experts next to the dense block.
fn experts(layer: Layer, keys: &Keys<'_>, hidden: u64) -> Layer {
    if !keys.flag("enable_moe_block", false) {
        return layer;
    }
    let count = keys.need(&["num_experts"]);
    layer
        .vectors(3 * hidden + hidden + count)
        .experts(&Experts {
            hidden,
            count,
            chosen: keys.need(&["top_k_experts", "num_experts_per_tok"]),
            intermediate: keys.need(&["moe_intermediate_size", "expert_intermediate_size"]),
            gated: true,
            ..Experts::default()
        })
}
