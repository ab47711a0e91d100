//! Encoders and decoders of T5, BART and Whisper: the decoder attends to what the encoder gives.

use super::keys::Keys;
use crate::layer::{Attention, Layer, Matrix, Part, Reach};
use crate::{Encoder, Llm};

/// What is fixed by the family rather than by keys.
struct Family {
    names: &'static [&'static str],
    /// Vectors of hidden size of a norm: with a bias or without.
    norm: u64,
    bias: bool,
    /// Norms outside of the layers of each half.
    around: u64,
}

const FAMILIES: &[Family] = &[
    Family {
        names: &["t5", "mt5"],
        norm: 1,
        bias: false,
        around: 1,
    },
    Family {
        names: &["bart"],
        norm: 2,
        bias: true,
        around: 1,
    },
    Family {
        names: &["mbart"],
        norm: 2,
        bias: true,
        around: 2,
    },
    Family {
        names: &["whisper"],
        norm: 2,
        bias: true,
        around: 1,
    },
];

/// Sizes of one half.
struct Half {
    depth: u64,
    attention: Attention,
    inner: u64,
    gated: bool,
}

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let Some(family) = FAMILIES.iter().find(|family| family.names.contains(&name)) else {
        return false;
    };
    let hidden = keys.need(&["d_model"]);
    let is_t5 = family.norm == 1;
    let depth = keys.need(&["encoder_layers", "num_layers"]);
    let source = match name {
        "whisper" => keys.or(&["max_source_positions"], 1500),
        _ => keys.or(&["n_positions", "max_position_embeddings"], 512),
    };
    let half = |depth, heads: u64, inner, reach| {
        let size = keys.or(&["d_kv"], hidden / heads);
        let attention = Attention {
            hidden,
            heads,
            kv_heads: heads,
            head_dim: size,
            value_dim: size,
            qkv_bias: family.bias,
            out_bias: family.bias,
            reach,
            ..Attention::default()
        };
        let gated = keys
            .text("feed_forward_proj")
            .is_some_and(|name| name.starts_with("gated"));
        Half {
            depth,
            attention,
            inner,
            gated,
        }
    };
    let encoder = half(
        depth,
        keys.need(&["encoder_attention_heads", "num_heads"]),
        keys.need(&["encoder_ffn_dim", "d_ff"]),
        Reach::All,
    );
    let decoder = half(
        keys.or(&["decoder_layers", "num_decoder_layers"], depth),
        keys.need(&["decoder_attention_heads", "num_heads"]),
        keys.need(&["decoder_ffn_dim", "d_ff"]),
        Reach::Causal,
    );
    let without_key_bias = |mut layer: Layer| {
        let keys = layer
            .matrices
            .iter_mut()
            .filter(|matrix| matrix.name == "k" && name == "whisper");
        keys.for_each(|matrix| matrix.bias = false);
        layer
    };
    let layer = |half: &Half| {
        let layer = Layer::default().attention(&half.attention);
        without_key_bias(layer).mlp(hidden, half.inner, half.gated, family.bias)
    };
    llm.hidden = hidden;
    llm.vocab = keys.need(&["vocab_size"]);
    llm.tables = hidden * llm.vocab;
    llm.vectors = family.around * family.norm * hidden;
    llm.tied = keys.flag("tie_word_embeddings", name != "mt5");
    llm.head = Some(Matrix::head(hidden, llm.vocab, false));
    let crossing = Attention {
        reach: Reach::Fixed(source),
        ..decoder.attention
    };
    let of_decoder = layer(&decoder)
        .cross(&crossing)
        .vectors(3 * family.norm * hidden);
    llm.layers.push((decoder.depth, of_decoder));
    let mut reads = Llm {
        family: name.to_owned(),
        hidden,
        sequence: Some(source),
        layers: vec![(depth, layer(&encoder).vectors(2 * family.norm * hidden))],
        vectors: family.around * family.norm * hidden,
        ..Llm::default()
    };
    // Keys and values of all layers that attend to it.
    let given = without_key_bias(Layer::default().attention(&crossing));
    for matrix in given
        .matrices
        .into_iter()
        .filter(|matrix| matches!(matrix.name, "k" | "v"))
    {
        let cross = if matrix.name == "k" {
            "cross k"
        } else {
            "cross v"
        };
        let matrix = Matrix {
            part: Part::Other,
            name: cross,
            ..matrix
        };
        reads
            .matrices
            .push(matrix.rows(source).copies(decoder.depth, decoder.depth));
    }
    if is_t5 {
        let buckets = keys.or(&["relative_attention_num_buckets"], 32);
        llm.tables += buckets * decoder.attention.heads;
        reads.tables = buckets * encoder.attention.heads;
    } else if name == "whisper" {
        let mels = keys.or(&["num_mel_bins"], 80);
        llm.tables += hidden * keys.or(&["max_target_positions"], 448);
        reads.tables = hidden * source;
        let convolution = |inputs, rows| {
            Matrix::new(Part::Other, "convolution", 3 * inputs, hidden)
                .bias(true)
                .rows(rows)
        };
        reads.matrices.push(convolution(mels, 2 * source));
        reads.matrices.push(convolution(hidden, source));
    } else {
        // Two positions are kept for padding.
        let places = hidden * (keys.or(&["max_position_embeddings"], 1024) + 2);
        llm.tables += places;
        reads.tables = places;
    }
    let name = if name == "whisper" { "audio" } else { "text" };
    llm.encoders.push(Encoder {
        name,
        llm: reads,
        outputs: 0,
    });
    true
}
