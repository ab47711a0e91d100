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

impl Half {
    fn new(
        keys: &Keys<'_>,
        family: &Family,
        hidden: u64,
        [depth, heads, inner]: [u64; 3],
        reach: Reach,
    ) -> Self {
        let whole = Attention::multi_head(hidden, heads, family.bias, reach);
        let size = keys.or(&["d_kv"], whole.head_dim);
        let gated = keys
            .text("feed_forward_proj")
            .is_some_and(|name| name.starts_with("gated"));
        Self {
            depth,
            attention: Attention {
                head_dim: size,
                value_dim: size,
                ..whole
            },
            inner,
            gated,
        }
    }

    fn layer(&self, name: &str, bias: bool) -> Layer {
        let layer = Layer::default().attention(&self.attention);
        let layer = without_key_bias(name, layer);
        layer.mlp(self.attention.hidden, self.inner, self.gated, bias)
    }
}

/// Keys of Whisper have no bias.
fn without_key_bias(name: &str, mut layer: Layer) -> Layer {
    let keys = layer
        .matrices
        .iter_mut()
        .filter(|matrix| matrix.name == "k" && name == "whisper");
    keys.for_each(|matrix| matrix.bias = false);
    layer
}

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let Some(family) = FAMILIES.iter().find(|family| family.names.contains(&name)) else {
        return false;
    };
    let hidden = keys.need(&["d_model"]);
    let depth = keys.need(&["encoder_layers", "num_layers"]);
    let source = match name {
        "whisper" => keys.or(&["max_source_positions"], 1500),
        _ => keys.or(&["n_positions", "max_position_embeddings"], 512),
    };
    let heads = keys.need(&["encoder_attention_heads", "num_heads"]);
    let inner = keys.need(&["encoder_ffn_dim", "d_ff"]);
    let encoder = Half::new(keys, family, hidden, [depth, heads, inner], Reach::All);
    let depth = keys.or(&["decoder_layers", "num_decoder_layers"], depth);
    let heads = keys.need(&["decoder_attention_heads", "num_heads"]);
    let inner = keys.need(&["decoder_ffn_dim", "d_ff"]);
    let decoder = Half::new(keys, family, hidden, [depth, heads, inner], Reach::Causal);
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
    let of_decoder = decoder
        .layer(name, family.bias)
        .cross(&crossing)
        .vectors(3 * family.norm * hidden);
    llm.layers.push((decoder.depth, of_decoder));
    let of_encoder = encoder.layer(name, family.bias);
    let mut reads = Llm {
        family: name.to_owned(),
        hidden,
        sequence: Some(source),
        layers: vec![(encoder.depth, of_encoder.vectors(2 * family.norm * hidden))],
        vectors: family.around * family.norm * hidden,
        matrices: crossed(name, &crossing, decoder.depth, source),
        ..Llm::default()
    };
    if family.norm == 1 {
        let buckets = keys.or(&["relative_attention_num_buckets"], 32);
        llm.tables += buckets * decoder.attention.heads;
        reads.tables = buckets * encoder.attention.heads;
    } else if name == "whisper" {
        llm.tables += hidden * keys.or(&["max_target_positions"], 448);
        listen(keys, source, &mut reads);
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
        view: None,
    });
    true
}

/// Keys and values, of what an encoder gives, for all layers that attend to it.
fn crossed(name: &str, crossing: &Attention, depth: u64, source: u64) -> Vec<Matrix> {
    let layer = without_key_bias(name, Layer::default().attention(crossing));
    let of_source = |matrix: Matrix| {
        let name = match matrix.name {
            "k" => "cross k",
            "v" => "cross v",
            _ => return None,
        };
        let matrix = Matrix {
            part: Part::Other,
            name,
            ..matrix
        };
        Some(matrix.rows(source).copies(depth, depth))
    };
    layer.matrices.into_iter().filter_map(of_source).collect()
}

/// What Whisper has before its layers: two convolutions over the spectrum, of which the second one halves the positions.
fn listen(keys: &Keys<'_>, source: u64, encoder: &mut Llm) {
    let hidden = encoder.hidden;
    let convolution = |inputs, rows| {
        Matrix::new(Part::Other, "convolution", 3 * inputs, hidden)
            .bias(true)
            .rows(rows)
    };
    encoder.tables = hidden * source;
    encoder.matrices.extend([
        convolution(keys.or(&["num_mel_bins"], 80), 2 * source),
        convolution(hidden, source),
    ]);
}
