//! Decoders of which all layers are attention and a feed-forward block, dense or of experts.

use super::keys::{Keys, Unsupported};
use super::{decoder, project, push};
use crate::layer::{Attention, Core, Experts, Layer, Reach};
use crate::{Llm, Matrix};

/// What is fixed by the family rather than by keys.
#[derive(Clone, Copy)]
struct Family {
    names: &'static [&'static str],
    gated: bool,
    /// Biases of query, key and value; of the output; of the feed-forward block.
    biases: (bool, bool, bool),
    /// A flag for biases of attention is about its output too.
    flags_output: bool,
    tied: bool,
    experts: Kind,
    /// A bias of each expert balances their load.
    balanced: bool,
    /// Vectors of hidden size in a layer: norms and their biases.
    norms: u64,
    /// The same after the last layer.
    last_norm: u64,
    qk_norm: QkNorm,
    /// Every `n`-th layer sees everything, the others a window; 0: as the config says, or all alike.
    full_every: u64,
}

/// Where a family keeps the size of its experts.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// No experts.
    None,
    /// `intermediate_size` is an expert's.
    Intermediate,
    /// `moe_intermediate_size` is an expert's, `intermediate_size` a dense layer's.
    Own,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, PartialEq)]
enum QkNorm {
    None,
    /// One of the size of a head for all heads.
    Head,
    /// One over all heads together.
    Whole,
}

const DENSE: Family = Family {
    names: &[
        "llama",
        "mistral",
        "ministral",
        "ministral3",
        "phi3",
        "granite",
        "smollm3",
        "internlm2",
        "seed_oss",
        "ernie4_5",
        "exaone",
        "aquila",
        "yi",
        "baichuan",
        "helium",
    ],
    gated: true,
    biases: (false, false, false),
    flags_output: true,
    tied: false,
    experts: Kind::None,
    balanced: false,
    norms: 2,
    last_norm: 1,
    qk_norm: QkNorm::None,
    full_every: 0,
};

/// LayerNorm with a bias.
const LAYER_NORM: Family = Family {
    names: &[],
    gated: false,
    biases: (true, true, true),
    norms: 4,
    last_norm: 2,
    ..DENSE
};

/// Families whose feed-forward block is four times as wide as the hidden size where the config does not say.
const FOUR_TIMES: &[&str] = &[
    "gpt2",
    "gptj",
    "gpt_bigcode",
    "bloom",
    "falcon",
    "RefinedWeb",
    "RefinedWebModel",
];

const FAMILIES: &[Family] = &[
    DENSE,
    Family {
        names: &[
            "qwen2",
            "qwen2_vl",
            "qwen2_vl_text",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            "mimo",
        ],
        biases: (true, false, false),
        flags_output: false,
        ..DENSE
    },
    Family {
        names: &["qwen3", "qwen3_vl_text"],
        qk_norm: QkNorm::Head,
        ..DENSE
    },
    Family {
        names: &["hunyuan_v1_dense", "hunyuan"],
        qk_norm: QkNorm::Head,
        ..DENSE
    },
    Family {
        names: &["exaone4"],
        qk_norm: QkNorm::Head,
        full_every: 4,
        ..DENSE
    },
    Family {
        names: &["minicpm3"],
        tied: true,
        ..DENSE
    },
    Family {
        names: &["glm", "chatglm"],
        biases: (true, false, false),
        flags_output: false,
        ..DENSE
    },
    Family {
        names: &["glm4"],
        norms: 4,
        flags_output: false,
        ..DENSE
    },
    Family {
        names: &["gemma"],
        tied: true,
        ..DENSE
    },
    Family {
        names: &["gemma2"],
        tied: true,
        norms: 4,
        full_every: 2,
        ..DENSE
    },
    Family {
        names: &["gemma3_text"],
        tied: true,
        norms: 4,
        qk_norm: QkNorm::Head,
        full_every: 6,
        ..DENSE
    },
    Family {
        names: &["cohere"],
        tied: true,
        norms: 1,
        ..DENSE
    },
    Family {
        names: &["cohere2"],
        tied: true,
        norms: 1,
        full_every: 4,
        ..DENSE
    },
    Family {
        names: &["olmo"],
        norms: 0,
        last_norm: 0,
        ..DENSE
    },
    Family {
        names: &["olmo2"],
        qk_norm: QkNorm::Whole,
        ..DENSE
    },
    Family {
        names: &["olmo3"],
        qk_norm: QkNorm::Whole,
        full_every: 4,
        ..DENSE
    },
    Family {
        names: &["stablelm"],
        norms: 4,
        last_norm: 2,
        ..DENSE
    },
    Family {
        names: &["nemotron"],
        gated: false,
        norms: 4,
        last_norm: 2,
        ..DENSE
    },
    Family {
        names: &["gpt_neox"],
        ..LAYER_NORM
    },
    Family {
        names: &["phi"],
        norms: 2,
        ..LAYER_NORM
    },
    Family {
        names: &["gptj"],
        norms: 2,
        biases: (false, false, true),
        ..LAYER_NORM
    },
    Family {
        names: &["gpt2", "gpt_bigcode", "opt", "starcoder2", "bloom"],
        tied: true,
        ..LAYER_NORM
    },
    Family {
        names: &["falcon", "RefinedWeb", "RefinedWebModel"],
        biases: (false, false, false),
        tied: true,
        ..LAYER_NORM
    },
    Family {
        names: &["mixtral", "granitemoe"],
        experts: Kind::Intermediate,
        ..DENSE
    },
    Family {
        names: &["olmoe"],
        experts: Kind::Intermediate,
        qk_norm: QkNorm::Whole,
        ..DENSE
    },
    Family {
        names: &["minimax_m2"],
        experts: Kind::Intermediate,
        balanced: true,
        qk_norm: QkNorm::Whole,
        ..DENSE
    },
    Family {
        names: &["phimoe"],
        experts: Kind::Intermediate,
        norms: 4,
        last_norm: 2,
        ..DENSE
    },
    Family {
        names: &["gpt_oss"],
        biases: (true, true, true),
        experts: Kind::Intermediate,
        full_every: 2,
        ..DENSE
    },
    Family {
        names: &["qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"],
        experts: Kind::Own,
        qk_norm: QkNorm::Head,
        ..DENSE
    },
    Family {
        names: &["qwen2_moe"],
        biases: (true, false, false),
        flags_output: false,
        experts: Kind::Own,
        ..DENSE
    },
    Family {
        names: &["glm4_moe", "glm4_moe_text", "glm4v_moe_text"],
        balanced: true,
        biases: (true, false, false),
        flags_output: false,
        experts: Kind::Own,
        ..DENSE
    },
    Family {
        names: &["deepseek_v2", "deepseek_vl_v2", "deepseekocr"],
        experts: Kind::Own,
        ..DENSE
    },
    Family {
        names: &["grok-1"],
        tied: true,
        norms: 4,
        experts: Kind::Intermediate,
        ..DENSE
    },
    Family {
        names: &["hunyuan_v1_moe"],
        experts: Kind::Own,
        qk_norm: QkNorm::Head,
        ..DENSE
    },
    Family {
        names: &["ernie4_5_moe"],
        tied: true,
        experts: Kind::Own,
        balanced: true,
        ..DENSE
    },
    Family {
        names: &["dots1"],
        experts: Kind::Own,
        balanced: true,
        qk_norm: QkNorm::Head,
        ..DENSE
    },
    Family {
        names: &[
            "deepseek_v3",
            "kimi_k2",
            "deepseek_v32",
            "glm_moe_dsa",
            "glm4_moe_lite",
        ],
        experts: Kind::Own,
        balanced: true,
        ..DENSE
    },
];

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let Some(family) = FAMILIES.iter().find(|family| family.names.contains(&name)) else {
        return false;
    };
    decoder(keys, llm, family.last_norm, family.tied);
    outside(name, keys, llm);
    let depth = keys.depth();
    let reaches = reaches(keys, family, depth);
    for (index, reach) in (0..depth).zip(reaches) {
        let mut layer = Layer::default().vectors(family.norms_of(name, keys) * llm.hidden);
        layer = match keys.maybe(&["kv_lora_rank"]) {
            Some(rank) => latent(layer, keys, llm.hidden, rank, index),
            None => attention(layer, name, keys, family, llm.hidden, reach),
        };
        push(
            llm,
            feed_forward(layer, name, keys, family, (llm.hidden, index)),
        );
    }
    true
}

impl Family {
    /// Falcon's and GPT-J's attention and feed-forward block share a norm.
    fn norms_of(&self, name: &str, keys: &Keys<'_>) -> u64 {
        let falcon = name == "falcon" || name.starts_with("Refined");
        let shares =
            keys.flag("parallel_attn", true) && !keys.flag("new_decoder_architecture", false);
        if falcon && shares { 2 } else { self.norms }
    }
}

/// Tables of positions, projections around the layers, biases of the head.
fn outside(name: &str, keys: &Keys<'_>, llm: &mut Llm) {
    let hidden = llm.hidden;
    match name {
        "gpt2" | "gpt_bigcode" => {
            llm.tables += hidden * keys.or(&["n_positions", "max_position_embeddings"], 1024);
        }
        "opt" => {
            // Two positions are kept for padding; small ones have another size of embedding.
            let width = keys.or(&["word_embed_proj_dim"], hidden);
            llm.tables = width * llm.vocab;
            llm.tables += hidden * (keys.or(&["max_position_embeddings"], 2048) + 2);
            if width != hidden {
                llm.head = Some(Matrix::head(width, llm.vocab, false));
                llm.matrices.push(project("embedding in", width, hidden));
                llm.matrices.push(project("embedding out", hidden, width));
            }
            if !keys.flag("do_layer_norm_before", true) {
                llm.vectors = 0;
            }
        }
        "bloom" => llm.vectors += 2 * hidden,
        "phi" | "gptj" => llm.head = Some(Matrix::head(hidden, llm.vocab, true)),
        _ => (),
    }
}

/// What each layer's queries see.
fn reaches(keys: &Keys<'_>, family: &Family, depth: u64) -> Vec<Reach> {
    let full = vec![Reach::Causal; depth as usize];
    let supported = [
        "full_attention",
        "sliding_attention",
        "deepseek_sparse_attention",
        "indexed_attention",
    ];
    let types = keys.words("layer_types");
    if let Some(kind) = types
        .iter()
        .flatten()
        .find(|kind| !supported.contains(kind))
    {
        keys.refuse(Unsupported::Feature(format!("layers of type {kind}")));
    }
    let Some(window) = keys.maybe(&["sliding_window"]) else {
        return full;
    };
    if keys.value("use_sliding_window").is_some() && !keys.flag("use_sliding_window", false) {
        return full;
    }
    let reach = |slides: bool| {
        if slides {
            Reach::Window(window)
        } else {
            Reach::Causal
        }
    };
    if let Some(types) = types {
        let reaches = types.iter().map(|kind| reach(*kind == "sliding_attention"));
        return reaches.chain(full).take(depth as usize).collect();
    }
    // Qwen2: the first layers see everything.
    let first = match keys.flag("use_sliding_window", false) {
        true => keys.or(&["max_window_layers"], 0),
        false => 0,
    };
    // EXAONE 4 writes the pattern as letters, the last of them for a layer that sees everything.
    let every = match keys.text("sliding_window_pattern") {
        Some(letters) => letters.len() as u64,
        None => keys.or(&["sliding_window_pattern"], family.full_every),
    };
    let slides = |index: u64| index >= first && (every == 0 || !(index + 1).is_multiple_of(every));
    (0..depth).map(|index| reach(slides(index))).collect()
}

fn attention(
    layer: Layer,
    name: &str,
    keys: &Keys<'_>,
    family: &Family,
    hidden: u64,
    reach: Reach,
) -> Layer {
    let heads = keys.need(&["num_attention_heads", "n_head"]);
    let kv_heads = kv_heads(name, keys, heads);
    let head_dim = keys
        .maybe(&["head_dim", "attention_head_dim", "kv_channels"])
        .filter(|size| *size > 0)
        .unwrap_or_else(|| {
            if !hidden.is_multiple_of(heads) {
                keys.need(&["head_dim"]);
            }
            hidden / heads
        });
    let (qkv, out, _) = family.biases;
    let stated = ["attention_bias", "use_bias", "bias"]
        .iter()
        .find_map(|key| keys.value(key)?.as_bool());
    let of_queries = ["qkv_bias", "add_qkv_bias", "use_qkv_bias"];
    let of_queries = of_queries.iter().find_map(|key| keys.value(key)?.as_bool());
    let qkv_bias = of_queries.or(stated).unwrap_or(qkv);
    let out_bias = stated.filter(|_| family.flags_output).unwrap_or(out);
    let out_bias = keys.flag("attention_out_bias", out_bias);
    let sinks = if name == "gpt_oss" { heads } else { 0 };
    let norm = match family.qk_norm {
        _ if name == "glm4_moe" && keys.flag("use_qk_norm", false) => 2 * head_dim,
        _ if name == "cohere" && keys.flag("use_qk_norm", false) => (heads + kv_heads) * head_dim,
        QkNorm::None => 0,
        QkNorm::Head => 2 * head_dim,
        QkNorm::Whole => (heads + kv_heads) * head_dim,
    };
    layer.vectors(norm + sinks).attention(&Attention {
        hidden,
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        qkv_bias,
        out_bias,
        reach,
        ..Attention::default()
    })
}

/// Key and value heads: as stated, one, or as many as there are of queries.
fn kv_heads(name: &str, keys: &Keys<'_>, heads: u64) -> u64 {
    let is_single = match name {
        "falcon" | "RefinedWebModel" | "RefinedWeb" => {
            if keys.flag("new_decoder_architecture", name == "RefinedWeb") {
                return keys.or(&["num_kv_heads", "n_head_kv"], heads);
            }
            keys.flag("multi_query", true)
        }
        "gpt_bigcode" => keys.flag("multi_query", true),
        "chatglm" if keys.flag("multi_query_attention", false) => {
            return keys.need(&["multi_query_group_num"]);
        }
        _ => false,
    };
    if is_single {
        1
    } else {
        keys.or(&["num_key_value_heads"], heads)
    }
}

/// Multi-head latent attention of DeepSeek, with the indexer of its sparse form.
pub(super) fn latent(layer: Layer, keys: &Keys<'_>, hidden: u64, rank: u64, index: u64) -> Layer {
    let heads = keys.need(&["num_attention_heads"]);
    let (nope, rope) = (
        keys.need(&["qk_nope_head_dim"]),
        keys.need(&["qk_rope_head_dim"]),
    );
    let value = keys.or(&["v_head_dim"], hidden / heads);
    let bias = keys.flag("attention_bias", false);
    let mut layer = match keys.or(&["q_lora_rank"], 0) {
        0 => layer.matrix(project("q", hidden, heads * (nope + rope)).ways(heads)),
        rank => layer
            .vectors(rank)
            .matrix(project("q down", hidden, rank).ways(1).bias(bias))
            .matrix(project("q up", rank, heads * (nope + rope)).ways(heads)),
    };
    layer = layer
        .vectors(rank)
        .matrix(project("kv down", hidden, rank + rope).ways(1).bias(bias))
        .matrix(project("kv up", rank, heads * (nope + value)).ways(heads))
        .matrix(project("o", heads * value, hidden).ways(heads).bias(bias));
    let top = keys.maybe(&["index_topk"]);
    layer.mixer = if top.is_some() {
        "sparse latent attention"
    } else {
        "latent attention"
    };
    layer.cores.push(Core {
        heads,
        query_key: nope + rope,
        value,
        stored: rank + rope,
        read: rank + rope,
        kv_heads: 1,
        reach: top.map_or(Reach::Causal, Reach::Top),
        absorbed: Some((2 * rank + rope, rank * (nope + value))),
    });
    let shared = keys
        .words("indexer_types")
        .is_some_and(|types| types.get(index as usize) == Some(&"shared"));
    match top {
        Some(_) if !shared => indexer(layer, keys, hidden),
        _ => layer,
    }
}

fn indexer(layer: Layer, keys: &Keys<'_>, hidden: u64) -> Layer {
    let (heads, size) = (
        keys.need(&["index_n_heads"]),
        keys.need(&["index_head_dim"]),
    );
    layer
        .vectors(2 * size)
        .matrix(project("index q", keys.need(&["q_lora_rank"]), heads * size).ways(1))
        .matrix(project("index k", hidden, size).ways(1))
        .matrix(project("index weights", hidden, heads).ways(1))
        .indexer(heads, size, 1)
}

fn feed_forward(
    layer: Layer,
    name: &str,
    keys: &Keys<'_>,
    family: &Family,
    (hidden, index): (u64, u64),
) -> Layer {
    let (_, _, bias) = family.biases;
    let stated = ["mlp_bias", "use_bias", "bias"]
        .iter()
        .find_map(|key| keys.value(key)?.as_bool());
    let bias = stated.unwrap_or(bias);
    if family.experts == Kind::None || is_dense(keys, index) {
        let names = ["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"];
        let inner = match keys.maybe(&names) {
            None if FOUR_TIMES.contains(&name) => 4 * hidden,
            _ => keys.need(&names),
        };
        return layer.mlp(hidden, inner, family.gated, bias);
    }
    let intermediate = match family.experts {
        Kind::Own => keys.need(&["moe_intermediate_size"]),
        _ => keys.need(&["intermediate_size"]),
    };
    let experts = Experts {
        hidden,
        count: keys.need(&[
            "n_routed_experts",
            "num_local_experts",
            "num_experts",
            "moe_num_experts",
        ]),
        chosen: keys.need(&[
            "num_experts_per_tok",
            "experts_per_token",
            "moe_topk",
            "moe_k",
        ]),
        intermediate,
        gated: true,
        bias,
        router_bias: name == "gpt_oss",
        balanced: family.balanced,
        ..Experts::default()
    };
    let shared = keys.maybe(&["shared_expert_intermediate_size"]);
    let shared = shared.unwrap_or_else(|| {
        let count = [
            "n_shared_experts",
            "num_shared_expert",
            "moe_num_shared_experts",
        ];
        keys.or(&count, 0) * intermediate
    });
    let layer = layer.experts(&experts);
    let layer = if shared > 0 {
        layer.mlp(hidden, shared, true, false)
    } else {
        layer
    };
    if name == "qwen2_moe" {
        layer.matrix(Matrix::new(crate::Part::Mlp, "shared gate", hidden, 1).ways(1))
    } else {
        layer
    }
}

/// Whether a layer of a mixture of experts has none: leading ones, listed ones, or all but every n-th.
pub(super) fn is_dense(keys: &Keys<'_>, index: u64) -> bool {
    if let Some(types) = keys.words("mlp_layer_types") {
        return types.get(index as usize) == Some(&"dense");
    }
    if let Some(list) = keys.list("moe_layer_freq") {
        return list.get(index as usize).and_then(serde_json::Value::as_u64) == Some(0);
    }
    let listed = keys.list("mlp_only_layers").unwrap_or(&[]);
    let step = keys.or(&["decoder_sparse_step"], 1).max(1);
    let every = keys.or(&["moe_layer_freq"], 1).max(1);
    let last = keys.or(&["moe_layer_end_index"], u64::MAX);
    index < keys.or(&["first_k_dense_replace", "moe_layer_start_index"], 0)
        || index > last
        || listed.iter().any(|layer| layer.as_u64() == Some(index))
        || !(index + 1).is_multiple_of(step)
        || !index.is_multiple_of(every)
}
