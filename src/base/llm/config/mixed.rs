//! Decoders with layers of several kinds: linear next to full attention, windows and chunks with sizes of their own.

use super::keys::Keys;
use super::plain::is_dense;
use super::{decoder, project, push};
use crate::Llm;
use crate::layer::{Attention, Experts, Layer, Matrix, Part, Reach, State};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let layer: fn(&Keys<'_>, u64, u64) -> Layer = match name {
        "qwen3_next" | "qwen3_5_text" | "qwen3_5_moe_text" | "qwen3_5" | "qwen3_5_moe" => qwen,
        "minimax" | "minimax_m1" | "minimax_text_01" | "MiniMaxText01" | "MiniMaxM1" => minimax,
        "minimax_m3" | "minimax_m3_vl" | "minimax_m3_vl_text" | "minimax_m3_text" => minimax_m3,
        "mimo_v2_flash" => mimo,
        "llama4_text" | "llama4" => llama4,
        "dbrx" => dbrx,
        "mllama_text_model" => mllama,
        _ => return false,
    };
    decoder(keys, llm, 1, false);
    if name == "mllama_text_model" {
        // Eight rows for images.
        llm.tables += 8 * llm.hidden;
    }
    for index in 0..keys.depth() {
        push(llm, layer(keys, llm.hidden, index).vectors(2 * llm.hidden));
    }
    true
}

/// The sizes of attention that most families share.
pub(super) fn attention(keys: &Keys<'_>, hidden: u64) -> Attention {
    let heads = keys.need(&["num_attention_heads"]);
    let head_dim = keys.or(&["head_dim"], hidden / heads);
    let kv_heads = keys.or(&["num_key_value_heads"], heads);
    let bias = keys.flag("attention_bias", false);
    Attention {
        hidden,
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        qkv_bias: bias,
        out_bias: bias,
        ..Attention::default()
    }
}

pub(super) fn experts(keys: &Keys<'_>, hidden: u64) -> Experts {
    Experts {
        hidden,
        count: keys.need(&["num_experts", "n_routed_experts", "num_local_experts"]),
        chosen: keys.need(&["num_experts_per_tok", "num_experts_per_token"]),
        intermediate: keys.need(&["moe_intermediate_size", "intermediate_size"]),
        gated: true,
        ..Experts::default()
    }
}

/// The type of a layer as the config lists it.
pub(super) fn kind<'a>(keys: &Keys<'a>, index: u64) -> Option<&'a str> {
    keys.words("layer_types")
        .and_then(|types| types.get(index as usize).copied())
}

/// Gated attention every fourth layer, gated delta nets between.
fn qwen(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let every = keys.or(&["full_attention_interval"], 4).max(1);
    let full = kind(keys, index).map_or((index + 1).is_multiple_of(every), |kind| {
        kind == "full_attention"
    });
    let layer = if full {
        let attention = Attention {
            gated: true,
            ..attention(keys, hidden)
        };
        Layer::default()
            .vectors(2 * attention.head_dim)
            .attention(&attention)
    } else {
        delta_net(keys, hidden)
    };
    let routed = keys
        .value("num_experts")
        .is_some_and(|count| count.as_u64() != Some(0));
    if !routed || is_dense(keys, index) {
        return layer.mlp(hidden, keys.need(&["intermediate_size"]), true, false);
    }
    let shared = keys.need(&["shared_expert_intermediate_size"]);
    layer
        .experts(&experts(keys, hidden))
        .mlp(hidden, shared, true, false)
        .matrix(Matrix::new(Part::Mlp, "shared gate", hidden, 1).ways(1))
}

/// Gated DeltaNet: of each head a state of key size × value size.
fn delta_net(keys: &Keys<'_>, hidden: u64) -> Layer {
    let (key_heads, heads) = (
        keys.need(&["linear_num_key_heads"]),
        keys.need(&["linear_num_value_heads"]),
    );
    let (key, value) = (
        keys.need(&["linear_key_head_dim"]),
        keys.need(&["linear_value_head_dim"]),
    );
    let kernel = keys.or(&["linear_conv_kernel_dim"], 4);
    let channels = 2 * key_heads * key + heads * value;
    // Forgotten, read by the key, corrected, read by the query: three products of key × value.
    let state = State {
        elements: heads * key * value + kernel.saturating_sub(1) * channels,
        flops: 6 * heads * key * value + 2 * kernel * channels,
    };
    let layer = Layer {
        mixer: "gated delta net",
        state: Some(state),
        ..Layer::default()
    };
    layer
        .vectors(kernel * channels + 2 * heads + value)
        .matrix(project("qkv", hidden, channels).ways(key_heads))
        .matrix(project("z", hidden, heads * value).ways(heads))
        .matrix(project("ba", hidden, 2 * heads).ways(heads))
        .matrix(project("o", heads * value, hidden).ways(heads))
}

/// Lightning attention, and full attention in some layers; experts in all.
fn minimax(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let listed = keys
        .list("attn_type_list")
        .and_then(|list| list.get(index as usize)?.as_u64());
    let full = listed
        .map(|kind| kind == 1)
        .or_else(|| Some(kind(keys, index)? == "full_attention"));
    let attention = attention(keys, hidden);
    let layer = if full.unwrap_or(!index.is_multiple_of(2)) {
        Layer::default().attention(&attention)
    } else {
        let (heads, size) = (attention.heads, attention.head_dim);
        let state = State {
            elements: heads * size * size,
            flops: 4 * heads * size * size,
        };
        Layer {
            mixer: "lightning attention",
            state: Some(state),
            ..Layer::default()
        }
        .vectors(heads * size)
        .matrix(project("qkv", hidden, 3 * heads * size).ways(heads))
        .matrix(project("gate of output", hidden, heads * size).ways(heads))
        .matrix(project("o", heads * size, hidden).ways(heads))
    };
    layer.experts(&Experts {
        intermediate: keys.need(&["intermediate_size"]),
        ..experts(keys, hidden)
    })
}

/// Block-sparse attention with an indexer behind dense layers.
fn minimax_m3(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let sparse = keys.value("sparse_attention_config");
    let of_sparse = |key: &str, default: u64| {
        sparse
            .and_then(|config| config.get(key)?.as_u64())
            .unwrap_or(default)
    };
    let listed = sparse.and_then(|config| {
        config
            .get("sparse_attention_freq")?
            .get(index as usize)?
            .as_u64()
    });
    let is_sparse = listed.map_or_else(
        || kind(keys, index).is_some_and(|kind| kind != "full_attention"),
        |listed| listed == 1,
    );
    let blocks = keys.or(&["index_topk_blocks"], of_sparse("sparse_topk_blocks", 16));
    let top = blocks * keys.or(&["index_block_size"], of_sparse("sparse_block_size", 128));
    let reach = if is_sparse {
        Reach::Top(top)
    } else {
        Reach::Causal
    };
    let attention = Attention {
        reach,
        ..attention(keys, hidden)
    };
    let mut layer = Layer::default()
        .vectors(2 * attention.head_dim)
        .attention(&attention);
    if is_sparse {
        let heads = keys.or(&["index_n_heads"], of_sparse("sparse_num_index_heads", 4));
        let size = keys.or(&["index_head_dim"], of_sparse("sparse_index_dim", 128));
        layer = layer
            .vectors(2 * size)
            .matrix(project("index q", hidden, heads * size).ways(1))
            .matrix(project("index k", hidden, size).ways(1))
            .indexer(heads, size, 1);
    }
    if is_dense(keys, index) {
        return layer.mlp(hidden, keys.need(&["dense_intermediate_size"]), true, false);
    }
    let experts = experts(keys, hidden);
    let shared = keys.or(&["n_shared_experts"], 1) * keys.or(&["shared_intermediate_size"], 0);
    let layer = layer.experts(&Experts {
        balanced: true,
        ..experts
    });
    if shared > 0 {
        layer.mlp(hidden, shared, true, false)
    } else {
        layer
    }
}

/// Windows with heads of their own between layers of full attention.
fn mimo(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let pattern = keys
        .list("hybrid_layer_pattern")
        .and_then(|list| list.get(index as usize)?.as_u64());
    let slides = pattern.map_or(kind(keys, index) == Some("sliding_attention"), |kind| {
        kind == 1
    });
    let full = attention(keys, hidden);
    let full = Attention {
        out_bias: false,
        value_dim: keys.or(&["v_head_dim"], full.head_dim),
        ..full
    };
    let attention = match slides {
        false => full,
        true => Attention {
            heads: keys.or(&["swa_num_attention_heads"], full.heads),
            kv_heads: keys.or(&["swa_num_key_value_heads"], 8),
            head_dim: keys.or(&["swa_head_dim"], full.head_dim),
            value_dim: keys.or(&["swa_v_head_dim"], full.value_dim),
            reach: Reach::Window(keys.need(&["sliding_window"])),
            ..full
        },
    };
    let layer = Layer::default()
        .vectors(if slides { attention.heads } else { 0 })
        .attention(&attention);
    if is_dense(keys, index) {
        return layer.mlp(hidden, keys.need(&["intermediate_size"]), true, false);
    }
    layer.experts(&Experts {
        balanced: true,
        ..experts(keys, hidden)
    })
}

/// Chunks in three layers of four, a shared expert next to the routed ones.
fn llama4(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let interval = keys.or(&["no_rope_layer_interval"], 4).max(1);
    let listed = keys
        .list("no_rope_layers")
        .and_then(|list| list.get(index as usize)?.as_u64());
    let rotates = listed.map_or(!(index + 1).is_multiple_of(interval), |rotates| {
        rotates == 1
    });
    let chunked = kind(keys, index).map_or(rotates, |kind| kind == "chunked_attention");
    let chunk = keys.maybe(&["attention_chunk_size"]).filter(|_| chunked);
    let reach = chunk.map_or(Reach::Causal, Reach::Chunk);
    let layer = Layer::default().attention(&Attention {
        reach,
        ..attention(keys, hidden)
    });
    let step = keys.or(&["interleave_moe_layer_step"], 1).max(1);
    let listed = keys.list("moe_layers");
    let routed = match listed {
        Some(list) => list.iter().any(|layer| layer.as_u64() == Some(index)),
        None => (index + 1).is_multiple_of(step),
    };
    let inner = keys.need(&["intermediate_size"]);
    if !routed {
        return layer.mlp(hidden, keys.need(&["intermediate_size_mlp"]), true, false);
    }
    let experts = Experts {
        intermediate: inner,
        ..experts(keys, hidden)
    };
    layer.experts(&experts).mlp(hidden, inner, true, false)
}

/// Experts in all layers, sizes in objects of their own.
fn dbrx(keys: &Keys<'_>, hidden: u64, _: u64) -> Layer {
    let (of_attention, of_experts) = (keys.of("attn_config"), keys.of("ffn_config"));
    let heads = keys.need(&["n_heads"]);
    let head_dim = hidden / heads;
    Layer::default()
        .attention(&Attention {
            hidden,
            heads,
            kv_heads: of_attention.or(&["kv_n_heads"], 1),
            head_dim,
            value_dim: head_dim,
            ..Attention::default()
        })
        .experts(&Experts {
            hidden,
            count: of_experts.or(&["moe_num_experts"], 4),
            chosen: of_experts.or(&["moe_top_k"], 1),
            intermediate: of_experts.or(&["ffn_hidden_size"], 3584),
            gated: true,
            ..Experts::default()
        })
}

/// Llama 3.2: some layers attend to an image instead of the text before.
fn mllama(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let attention = attention(keys, hidden);
    let listed = keys.list("cross_attention_layers").unwrap_or_default();
    let crosses = listed.iter().any(|layer| layer.as_u64() == Some(index));
    let layer = if crosses {
        // Four tiles of 40 × 40 patches of 14 pixels and a token of the tile.
        let vision = keys.of("vision_config");
        let grid = vision.or(&["image_size"], 560) / vision.or(&["patch_size"], 14).max(1);
        let seen = vision.or(&["max_num_tiles"], 4) * (grid * grid + 1);
        let reach = Reach::Fixed(seen);
        Layer::default()
            .vectors(2 * attention.head_dim + 2)
            .cross(&Attention { reach, ..attention })
    } else {
        Layer::default().attention(&attention)
    };
    layer.mlp(hidden, keys.need(&["intermediate_size"]), true, false)
}
