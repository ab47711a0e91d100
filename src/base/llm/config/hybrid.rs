//! Recurrences and convolutions between or next to layers of attention.
//!
//! Jamba, Bamba, Falcon-H1, Granite 4, Zamba 2, LFM2, Kimi Linear and RWKV 4, after their classes in `transformers`.

use super::keys::{Keys, Unsupported};
use super::mixed::{attention, experts, kind};
use super::plain::{is_dense, latent};
use super::state_space::{mamba, mamba2};
use super::{decoder, project, push};
use crate::Llm;
use crate::layer::{Attention, Experts, Layer, Matrix, Part, State};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let layer: fn(&Keys<'_>, u64, u64) -> Layer = match name {
        "jamba" => jamba,
        "bamba" => bamba,
        "falcon_h1" => falcon,
        "granitemoehybrid" => granite,
        "lfm2" | "lfm2_moe" => lfm,
        "kimi_linear" => kimi,
        "rwkv" => rwkv,
        "zamba2" => {
            zamba(keys, llm);
            return true;
        }
        _ => return false,
    };
    let (last_norm, tied) = match name {
        "rwkv" => (4, false), // Before the first and after the last layer, with biases.
        "lfm2" | "lfm2_moe" => (1, keys.flag("tie_embedding", true)),
        _ => (1, false),
    };
    decoder(keys, llm, last_norm, tied);
    for index in 0..keys.depth() {
        push(llm, layer(keys, llm.hidden, index).vectors(2 * llm.hidden));
    }
    true
}

fn dense(layer: Layer, keys: &Keys<'_>, hidden: u64) -> Layer {
    let inner = keys.need(&["intermediate_size"]);
    layer.mlp(hidden, inner, true, keys.flag("mlp_bias", false))
}

/// Whether a list of indices has this layer.
fn lists(keys: &Keys<'_>, key: &str, index: u64) -> bool {
    let listed = keys.list(key).unwrap_or_default();
    listed.iter().any(|layer| layer.as_u64() == Some(index))
}

/// Mamba-2 with the sizes that most families state.
fn mamba2_of(keys: &Keys<'_>, hidden: u64) -> Layer {
    let heads = keys.need(&["mamba_n_heads"]);
    let stated = keys.maybe(&["mamba_d_ssm"]);
    let inner = stated.unwrap_or_else(|| keys.or(&["mamba_expand"], 2) * hidden);
    mamba2(keys, hidden, (heads, inner))
}

/// Attention in one layer of eight, Mamba with norms of its inputs in the others, experts in every other layer.
fn jamba(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let is_nth = |period: &'static str, offset: &'static str, (every, first): (u64, u64)| {
        let (every, first) = (keys.or(&[period], every).max(1), keys.or(&[offset], first));
        index % every == first
    };
    let layer = if is_nth("attn_layer_period", "attn_layer_offset", (8, 4)) {
        Layer::default().attention(&attention(keys, hidden))
    } else {
        let inner = keys.or(&["mamba_expand"], 2) * hidden;
        let layer = mamba(keys, hidden, inner);
        let rank = layer.matrices.iter().find(|matrix| matrix.name == "dt");
        let rank = rank.map_or(0, |matrix| matrix.inputs);
        layer.vectors(rank + 2 * keys.or(&["mamba_d_state"], 16))
    };
    let routed = keys.or(&["num_experts"], 16) > 1
        && is_nth("expert_layer_period", "expert_layer_offset", (2, 1));
    match routed {
        true => layer.experts(&experts(keys, hidden)),
        false => dense(layer, keys, hidden),
    }
}

fn bamba(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let attends = lists(keys, "attn_layer_indices", index)
        || matches!(kind(keys, index), Some("attention" | "full_attention"));
    let layer = match attends {
        true => Layer::default().attention(&attention(keys, hidden)),
        false => mamba2_of(keys, hidden),
    };
    dense(layer, keys, hidden)
}

/// Attention and Mamba-2 next to one another in each layer.
fn falcon(keys: &Keys<'_>, hidden: u64, _: u64) -> Layer {
    let has_norm = keys.flag("mamba_rms_norm", false);
    let mut layer = mamba2_of(keys, hidden);
    if keys.value("mamba_rms_norm").is_none() && !has_norm {
        // Its class has none by default.
        let inner = keys.or(&["mamba_d_ssm"], keys.or(&["mamba_expand"], 2) * hidden);
        layer.vectors -= inner;
    }
    let layer = layer.attention(&attention(keys, hidden));
    let layer = Layer {
        mixer: "full attention and Mamba-2",
        ..layer
    };
    dense(layer, keys, hidden)
}

/// Routed experts and a shared one, or the shared one alone.
fn granite(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let attends = matches!(kind(keys, index), Some("attention" | "full_attention"));
    let mut layer = match attends {
        true => Layer::default().attention(&attention(keys, hidden)),
        false => mamba2_of(keys, hidden),
    };
    if keys.or(&["num_local_experts"], 8) > 0 {
        layer = layer.experts(&Experts {
            intermediate: keys.need(&["intermediate_size"]),
            ..experts(keys, hidden)
        });
    }
    layer.mlp(
        hidden,
        keys.or(&["shared_intermediate_size"], 1024),
        true,
        false,
    )
}

/// Short gated convolutions, and attention in some layers.
fn lfm(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    let attends = match kind(keys, index) {
        Some(kind) => kind == "full_attention",
        None => lists(keys, "full_attn_idxs", index),
    };
    let layer = if attends {
        let attention = attention(keys, hidden);
        Layer::default()
            .vectors(2 * attention.head_dim)
            .attention(&attention)
    } else {
        let (length, bias) = (keys.or(&["conv_L_cache"], 3), keys.flag("conv_bias", false));
        let state = State {
            elements: hidden * length.saturating_sub(1),
            flops: 2 * length * hidden,
        };
        Layer {
            mixer: "short convolution",
            state: Some(state),
            ..Layer::default()
        }
        .vectors(hidden * (length + u64::from(bias)))
        .matrix(project("in", hidden, 3 * hidden).bias(bias))
        .matrix(project("out", hidden, hidden).bias(bias))
    };
    if keys.value("num_experts").is_some() {
        let routed = index >= keys.or(&["num_dense_layers"], 2);
        return match routed {
            true => layer.experts(&Experts {
                balanced: keys.flag("use_expert_bias", true),
                ..experts(keys, hidden)
            }),
            false => dense(layer, keys, hidden),
        };
    }
    let mut inner = keys.need(&["block_ff_dim", "intermediate_size"]);
    if keys.flag("block_auto_adjust_ff_dim", true) {
        let factor = keys
            .value("block_ffn_dim_multiplier")
            .and_then(serde_json::Value::as_f64);
        let widened = (2 * inner / 3) as f64 * factor.unwrap_or(1.0);
        inner = (widened as u64).next_multiple_of(keys.or(&["block_multiple_of"], 256).max(1));
    }
    layer.mlp(hidden, inner, true, false)
}

/// Kimi Delta Attention in three layers of four, latent attention in the others.
fn kimi(keys: &Keys<'_>, hidden: u64, index: u64) -> Layer {
    if keys.value("latent_moe_use_norm").is_some() || keys.value("attn_res_block_size").is_some() {
        keys.refuse(Unsupported::Feature(
            "experts of latent size or residuals of blocks".to_owned(),
        ));
    }
    let linear = keys.of("linear_attn_config");
    // Its lists count from 1.
    let attends = match kind(keys, index) {
        Some(kind) => kind == "full_attention",
        None => lists(&linear, "full_attn_layers", index + 1),
    };
    let layer = if attends {
        latent(
            Layer::default(),
            keys,
            hidden,
            keys.need(&["kv_lora_rank"]),
            index,
        )
    } else {
        let heads = linear.or(&["num_heads"], keys.or(&["linear_num_heads"], 32));
        let size = linear.or(&["head_dim"], keys.or(&["linear_head_dim"], 128));
        let kernel = linear.or(
            &["short_conv_kernel_size"],
            keys.or(&["linear_conv_kernel_dim"], 4),
        );
        let inner = heads * size;
        let state = State {
            elements: inner * size + 3 * inner * kernel.saturating_sub(1),
            flops: 6 * inner * size + 2 * kernel * 3 * inner,
        };
        let layer = Layer {
            mixer: "Kimi delta attention",
            state: Some(state),
            ..Layer::default()
        };
        layer
            .vectors(3 * inner * kernel + inner + heads + size)
            .matrix(project("q", hidden, inner).ways(heads))
            .matrix(project("k", hidden, inner).ways(heads))
            .matrix(project("v", hidden, inner).ways(heads))
            .matrix(project("forget down", hidden, size).ways(1))
            .matrix(project("forget up", size, inner).ways(heads))
            .matrix(project("b", hidden, heads).ways(heads))
            .matrix(project("gate down", hidden, size).ways(1))
            .matrix(project("gate up", size, inner).ways(heads))
            .matrix(project("o", inner, hidden).ways(heads))
    };
    if is_dense(keys, index) {
        return dense(layer, keys, hidden);
    }
    let experts = Experts {
        balanced: true,
        ..experts(keys, hidden)
    };
    let shared = keys.or(&["num_shared_experts"], 1) * experts.intermediate;
    layer.experts(&experts).mlp(hidden, shared, true, false)
}

/// RWKV 4: a decaying mean of values in each channel.
fn rwkv(keys: &Keys<'_>, hidden: u64, _: u64) -> Layer {
    let inner = keys.or(&["attention_hidden_size"], hidden);
    let wide = keys.or(&["intermediate_size"], 4 * hidden);
    // Numerator, denominator and exponent; the token before for both blocks.
    let state = State {
        elements: 3 * inner + 2 * hidden,
        flops: 8 * inner,
    };
    let feed = |name, inputs, outputs| Matrix::new(Part::Mlp, name, inputs, outputs);
    Layer {
        mixer: "RWKV",
        feed: "MLP",
        state: Some(state),
        ..Layer::default()
    }
    // Decay and bonus, five mixes with the token before, biases of the norms.
    .vectors(2 * inner + 5 * hidden + 2 * hidden)
    .matrix(project("k", hidden, inner))
    .matrix(project("v", hidden, inner))
    .matrix(project("receptance", hidden, inner))
    .matrix(project("o", inner, hidden))
    .matrix(feed("up", hidden, wide))
    .matrix(feed("receptance", hidden, hidden))
    .matrix(feed("down", wide, hidden))
}

/// Zamba 2: Mamba-2 everywhere; before some layers a block that they share, with adapters of their own.
fn zamba(keys: &Keys<'_>, llm: &mut Llm) {
    decoder(keys, llm, 1, true);
    let hidden = llm.hidden;
    let (blocks, rank) = (
        keys.or(&["num_mem_blocks"], 1),
        keys.or(&["adapter_rank"], 128),
    );
    let heads = keys.need(&["num_attention_heads"]);
    let kv_heads = keys.or(&["num_key_value_heads"], heads);
    let size = keys.or(&["attention_head_dim"], 2 * hidden / heads);
    let inner = keys.need(&["intermediate_size"]);
    let types = keys
        .words("layers_block_type")
        .or_else(|| keys.words("layer_types"));
    let mut shared = 0;
    for index in 0..keys.depth() {
        let listed = types.as_ref().and_then(|types| types.get(index as usize));
        let is_hybrid = match listed {
            Some(kind) => *kind == "hybrid",
            None => lists(keys, "hybrid_layer_ids", index),
        };
        let width = keys.or(&["mamba_expand"], 2) * hidden;
        let mamba_heads = keys.need(&["n_mamba_heads"]);
        let mut layer = mamba2(keys, hidden, (mamba_heads, width)).vectors(hidden);
        if is_hybrid {
            // The first of its block holds the weights.
            let copies = u64::from(shared < blocks);
            shared += 1;
            let attention = Attention {
                hidden: 2 * hidden,
                heads,
                kv_heads,
                head_dim: size,
                value_dim: size,
                ..Attention::default()
            };
            let mut block = Layer::default()
                .attention(&attention)
                .mlp(hidden, inner, true, false)
                .vectors(copies * 3 * hidden);
            for matrix in &mut block.matrices {
                matrix.copies = copies;
                if matrix.name == "o" {
                    matrix.outputs = hidden;
                }
            }
            let adapter = |layer: Layer, inputs, outputs| {
                layer
                    .matrix(project("adapter down", inputs, rank).ways(1))
                    .matrix(project("adapter up", rank, outputs))
            };
            if keys.flag("use_shared_attention_adapter", false) {
                for _ in 0..3 {
                    block = adapter(block, 2 * hidden, heads * size);
                }
            }
            block = adapter(block, hidden, 2 * inner);
            block = block.matrix(project("join", hidden, hidden));
            layer.vectors += block.vectors;
            layer.matrices.extend(block.matrices);
            layer.cores = block.cores;
            (layer.mixer, layer.feed) = ("shared attention and Mamba-2", "MLP");
        }
        push(llm, layer);
    }
}
