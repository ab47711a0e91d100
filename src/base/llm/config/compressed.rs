//! DeepSeek V4: one key for all heads that is its own value, entries for many positions, hyper-connections.

use super::keys::{Keys, Unsupported};
use super::{decoder, project, push};
use crate::Llm;
use crate::layer::{Core, Experts, Layer, Matrix, Part, Reach};

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    // `deepseek_ref`: conversions of its weights.
    if !["deepseek_v4", "deepseek_ref"].contains(&name) {
        return false;
    }
    decoder(keys, llm, 1, false);
    let hidden = llm.hidden;
    let streams = keys.or(&["hc_mult"], 4);
    llm.matrices
        .push(Matrix::new(Part::Other, "streams", streams * hidden, streams).ways(1));
    llm.vectors += streams + 1;
    for index in 0..keys.depth() {
        let layer = attention(keys, hidden, ratio(keys, index));
        // A projection of all streams before attention and one before the experts.
        let mixed = (2 + streams) * streams;
        let mixing = Matrix::new(Part::Other, "hyper-connections", streams * hidden, mixed);
        let layer = layer
            .matrix(mixing.ways(1).copies(2, 2))
            .vectors(2 * (mixed + 3));
        let intermediate = keys.need(&["moe_intermediate_size"]);
        let experts = Experts {
            hidden,
            count: keys.need(&["n_routed_experts"]),
            chosen: keys.need(&["num_experts_per_tok"]),
            intermediate,
            gated: true,
            // The first layers choose by the token itself.
            balanced: index >= keys.or(&["num_hash_layers"], 3),
            ..Experts::default()
        };
        let shared = keys.or(&["n_shared_experts"], 1) * intermediate;
        let layer = layer.experts(&experts).mlp(hidden, shared, true, false);
        push(llm, layer.vectors(2 * hidden));
    }
    true
}

/// Positions of a compressed entry; 0: the layer sees its window only.
fn ratio(keys: &Keys<'_>, index: u64) -> u64 {
    let position = index as usize;
    if let Some(types) = keys.words("layer_types") {
        return match types.get(position).copied().unwrap_or_default() {
            "sliding_attention" => 0,
            "compressed_sparse_attention" => 4,
            "heavily_compressed_attention" => 128,
            other => {
                keys.refuse(Unsupported::Feature(format!("layers of type {other}")));
                0
            }
        };
    }
    let listed = keys
        .list("compress_ratios")
        .and_then(|list| list.get(position)?.as_u64());
    listed
        .unwrap_or(if index < 2 || index.is_multiple_of(2) {
            128
        } else {
            4
        })
        .min(1 << 20)
}

fn attention(keys: &Keys<'_>, hidden: u64, ratio: u64) -> Layer {
    let heads = keys.need(&["num_attention_heads"]);
    let (size, rank) = (keys.need(&["head_dim"]), keys.need(&["q_lora_rank"]));
    let (groups, out) = (keys.need(&["o_groups"]), keys.need(&["o_lora_rank"]));
    let mut layer = Layer::default()
        .vectors(rank + size + heads)
        .matrix(project("q down", hidden, rank).ways(1))
        .matrix(project("q up", rank, heads * size).ways(heads))
        .matrix(project("kv", hidden, size).ways(1))
        .matrix(
            project("o down", heads * size / groups, out)
                .copies(groups, groups)
                .ways(1),
        )
        .matrix(project("o up", groups * out, hidden).ways(groups));
    let core = Core {
        heads,
        query_key: size,
        value: size,
        stored: size,
        read: size,
        kv_heads: 1,
        reach: Reach::Window(keys.need(&["sliding_window"])),
        absorbed: None,
    };
    layer.cores.push(core.clone());
    if ratio == 0 {
        layer.mixer = "sliding-window attention";
        return layer;
    }
    // Small ratios have overlapping entries of twice the size, and an indexer that selects some.
    let indexed = ratio < 128;
    let width = if indexed { 2 * size } else { size };
    let top = keys.maybe(&["index_topk"]).filter(|_| indexed);
    layer = layer
        .vectors(ratio * width + size)
        .matrix(project("compressed kv", hidden, width).ways(1))
        .matrix(project("compressed gate", hidden, width).ways(1));
    layer.cores.push(Core {
        reach: Reach::Compressed { ratio, top },
        ..core
    });
    layer.mixer = "heavily compressed attention";
    if !indexed {
        return layer;
    }
    layer.mixer = "compressed sparse attention";
    let (index_heads, index_size) = (
        keys.need(&["index_n_heads"]),
        keys.need(&["index_head_dim"]),
    );
    layer
        .vectors(ratio * 2 * index_size + index_size)
        .matrix(project("index kv", hidden, 2 * index_size).ways(1))
        .matrix(project("index gate", hidden, 2 * index_size).ways(1))
        .matrix(project("index q", rank, index_heads * index_size).ways(1))
        .matrix(project("index weights", hidden, index_heads).ways(1))
        .indexer(index_heads, index_size, ratio)
}
