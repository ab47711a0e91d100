//! State-space models, alone or between layers of attention.

use super::keys::{Keys, Unsupported};
use super::{decoder, project, push};
use crate::layer::{Attention, Experts, Layer, State};
use crate::{Llm, Matrix, Part};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    match name {
        "mamba" | "falcon_mamba" => {
            decoder(keys, llm, 1, name == "mamba");
            let inner = keys.or(&["intermediate_size"], keys.or(&["expand"], 2) * llm.hidden);
            let layer = mamba(keys, llm.hidden, inner);
            llm.layers.push((keys.depth(), layer.vectors(llm.hidden)));
        }
        "mamba2" => {
            decoder(keys, llm, 1, false);
            let inner = keys.or(&["expand"], 2) * llm.hidden;
            let heads = keys.or(&["num_heads"], 128);
            let layer = mamba2(keys, llm.hidden, (heads, inner));
            llm.layers.push((keys.depth(), layer.vectors(llm.hidden)));
        }
        "nemotron_h" => {
            decoder(keys, llm, 1, false);
            for kind in kinds(keys) {
                let layer = block(keys, llm.hidden, kind).vectors(llm.hidden);
                push(llm, layer);
            }
        }
        _ => return false,
    }
    true
}

/// Mamba: a state of `state_size` for each inner channel.
pub(super) fn mamba(keys: &Keys<'_>, hidden: u64, inner: u64) -> Layer {
    let state = keys.or(&["state_size", "mamba_d_state"], 16);
    let kernel = keys.or(&["conv_kernel", "mamba_d_conv"], 4);
    let stated = ["time_step_rank", "mamba_dt_rank"]
        .into_iter()
        .filter(|key| keys.text(key) != Some("auto"))
        .find_map(|key| keys.maybe(&[key]));
    let rank = stated.unwrap_or(hidden.div_ceil(16));
    let bias = keys.flag("use_bias", keys.flag("mamba_proj_bias", false));
    let convolution = inner * (kernel + u64::from(convolves_with_bias(keys)));
    let recurrence = State {
        elements: inner * (state + kernel.saturating_sub(1)),
        flops: 4 * inner * state + 2 * kernel * inner,
    };
    Layer {
        mixer: "Mamba",
        state: Some(recurrence),
        ..Layer::default()
    }
    .vectors(convolution + inner * state + inner)
    .matrix(project("in", hidden, 2 * inner).bias(bias))
    .matrix(project("x", inner, rank + 2 * state))
    .matrix(project("dt", rank, inner).bias(true))
    .matrix(project("out", inner, hidden).bias(bias))
}

fn convolves_with_bias(keys: &Keys<'_>) -> bool {
    keys.flag("use_conv_bias", keys.flag("mamba_conv_bias", true))
}

/// Mamba-2: a state of head size × `state` for each head.
pub(super) fn mamba2(keys: &Keys<'_>, hidden: u64, (heads, inner): (u64, u64)) -> Layer {
    let state = keys.or(&["ssm_state_size", "mamba_d_state", "state_size"], 128);
    let groups = keys.or(&["n_groups", "mamba_n_groups", "mamba_ngroups"], 8);
    let kernel = keys.or(&["conv_kernel", "mamba_d_conv"], 4);
    let channels = inner + 2 * groups * state;
    let bias = ["use_bias", "mamba_proj_bias", "add_bias_linear"];
    let bias = bias
        .iter()
        .find_map(|key| keys.value(key)?.as_bool())
        .unwrap_or(false);
    let convolution = channels * (kernel + u64::from(convolves_with_bias(keys)));
    // Falcon-H1 may do without a norm of the outputs.
    let norm = if keys.flag("mamba_rms_norm", true) {
        inner
    } else {
        0
    };
    let recurrence = State {
        elements: inner * state + kernel.saturating_sub(1) * channels,
        flops: 4 * inner * state + 2 * kernel * channels,
    };
    Layer {
        mixer: "Mamba-2",
        state: Some(recurrence),
        ..Layer::default()
    }
    .vectors(convolution + 3 * heads + norm)
    .matrix(
        project("in", hidden, inner + channels + heads)
            .ways(heads)
            .bias(bias),
    )
    .matrix(project("out", inner, hidden).ways(heads).bias(bias))
}

/// The blocks of Nemotron-H by their letters.
fn kinds(keys: &Keys<'_>) -> Vec<char> {
    let types = keys
        .words("layers_block_type")
        .or_else(|| keys.words("layer_types"));
    if let Some(types) = types {
        let letter = |kind: &&str| match *kind {
            "mamba" | "mamba2" | "linear_attention" => 'M',
            "attention" | "full_attention" => '*',
            "mlp" | "dense" => '-',
            "moe" | "sparse" => 'E',
            _ => '?',
        };
        return types.iter().map(letter).collect();
    }
    let pattern = keys.text("hybrid_override_pattern").unwrap_or_default();
    if pattern.is_empty() || pattern.len() > 4096 {
        keys.need(&["hybrid_override_pattern"]);
    }
    pattern.chars().take(4096).collect()
}

fn block(keys: &Keys<'_>, hidden: u64, kind: char) -> Layer {
    let bias = keys.flag("mlp_bias", false);
    match kind {
        'M' => {
            let heads = keys.need(&["mamba_num_heads"]);
            let inner = heads * keys.need(&["mamba_head_dim"]);
            mamba2(keys, hidden, (heads, inner))
        }
        '*' => {
            let heads = keys.need(&["num_attention_heads"]);
            let size = keys.or(&["head_dim", "attention_head_dim"], hidden / heads);
            let kv_heads = keys.or(&["num_key_value_heads"], heads);
            Layer::default().attention(&Attention {
                hidden,
                heads,
                kv_heads,
                head_dim: size,
                value_dim: size,
                ..Attention::default()
            })
        }
        '-' => Layer::default().mlp(hidden, keys.need(&["intermediate_size"]), false, bias),
        'E' => {
            let latent = keys.maybe(&["moe_latent_size"]);
            let intermediate = keys.need(&["moe_intermediate_size"]);
            let shared = keys.or(&["moe_shared_expert_intermediate_size"], intermediate);
            let layer = Layer::default()
                .mlp(hidden, shared, false, bias)
                .experts(&Experts {
                    hidden,
                    input: latent.unwrap_or(hidden),
                    count: keys.need(&["n_routed_experts"]),
                    chosen: keys.need(&["num_experts_per_tok"]),
                    intermediate,
                    balanced: true,
                    ..Experts::default()
                });
            let Some(latent) = latent else { return layer };
            layer
                .matrix(Matrix::new(Part::Mlp, "latent in", hidden, latent).bias(bias))
                .matrix(Matrix::new(Part::Mlp, "latent out", latent, hidden).bias(bias))
        }
        other => {
            keys.refuse(Unsupported::Feature(format!("blocks of kind {other}")));
            Layer::default()
        }
    }
}
