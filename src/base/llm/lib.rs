//! Large language models layer by layer: what one has to store, to compute and to move.
//!
//! A layer is a list of matrices, which tokens are multiplied by, and of [`Core`]s, in which tokens see one another:
//! attention over a cache of keys and values, or a recurrent state. Parameters, FLOPs, bytes and cache are sums over
//! these, so every family of models is counted in the same way. Counts are per model, not per GPU.

#![forbid(unsafe_code)]

use std::borrow::Cow;

mod config;
mod count;
mod layer;
mod modules;
mod view;
mod work;

pub use config::{Unsupported, is_config, parse, weight_format};
pub use layer::{Attention, Core, Experts, Layer, Matrix, Part, Reach, State};
pub use modules::{Module, modules};
pub use view::{Fit, View};
pub use work::{
    Convention, Shape, attention, forward, forward_bytes, kv_bytes_per_token, parameters_per_token,
    parameters_read,
};

/// A transformer or another language or vision model, as far as its shape says what it costs to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Llm {
    /// `model_type`, such as `llama`.
    pub family: String,
    /// Hidden size.
    pub hidden: u64,
    /// Vocabulary, or classes of a classifier.
    pub vocab: u64,
    /// Kinds of layers, each with how many there are of it.
    pub layers: Vec<(u64, Layer)>,
    /// Parameters of look-up tables: embeddings of tokens and positions.
    pub tables: u64,
    /// Matrices outside of the layers, without the head.
    pub matrices: Vec<Matrix>,
    /// Parameters of norms and other vectors outside of the layers.
    pub vectors: u64,
    /// What makes logits, if anything does.
    pub head: Option<Matrix>,
    /// The head shares the weights of the embedding.
    pub tied: bool,
    /// Sizes that people know a model by.
    pub outline: Outline,
    /// Tokens of a sequence, where the model fixes it: patches of an image.
    pub sequence: Option<u64>,
    /// Longest context that the model was made for.
    pub max_context: Option<u64>,
    /// Weights are stored in this type, such as `bf16`, where the config says so.
    pub dtype: Option<String>,
    /// How weights are quantized, where the config says so: `int4`, `mxfp4`, `nvfp4`, `fp8`, `int8`.
    pub quantized: Option<String>,
    /// Models whose outputs are inputs: of images, of sound, of a text to translate.
    pub encoders: Vec<Encoder>,
    /// Limits of what the counts say; lower case, no trailing stop.
    pub remarks: Vec<String>,
}

/// A model that runs once per input, before tokens are generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoder {
    /// What it reads: `vision`, `audio`, `text`.
    pub name: &'static str,
    /// Its layers; [`Llm::sequence`] has the tokens of an input.
    pub llm: Llm,
    /// Positions that an input takes in the prompt of the decoder; 0 where the decoder attends to them instead.
    pub outputs: u64,
    /// The image that it reads, where images may have any size.
    pub view: Option<View>,
}

/// The sizes of the first attention and the first feed-forward block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Inner size of the dense feed-forward block, or that of an expert.
    pub intermediate: u64,
    /// The feed-forward block is gated (three matrices) rather than plain (two).
    pub gated: bool,
    /// Routed experts in a layer; 0 without.
    pub experts: u64,
    /// Routed experts that a token passes through.
    pub experts_per_token: u64,
    /// Keys and values are cached in compressed form (multi-head latent attention).
    pub latent: bool,
}

/// A decoder whose layers are all alike: grouped-query attention and a dense feed-forward block, without biases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoder {
    /// Family, such as `llama`.
    pub family: &'static str,
    /// Hidden size.
    pub hidden: u64,
    /// Inner size of the feed-forward block.
    pub intermediate: u64,
    /// Layers.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Vocabulary.
    pub vocab: u64,
    /// The feed-forward block is gated.
    pub gated: bool,
}

impl Llm {
    /// Whether it attends to what an encoder gives, and cannot do without it.
    pub fn attends_to_encoder(&self) -> bool {
        let mut cores = self.layers.iter().flat_map(|(_, layer)| &layer.cores);
        self.generates() && cores.any(|core| matches!(core.reach, Reach::Fixed(_)))
    }

    /// The same with a text of this length to read, for a model that reads a text before it writes one.
    pub fn reading(&self, tokens: u64) -> Cow<'_, Self> {
        let text = |encoder: &Encoder| encoder.name == "text";
        let Some(stated) = self.encoders.iter().find(|encoder| text(encoder)) else {
            return Cow::Borrowed(self);
        };
        let length = stated.llm.sequence;
        let mut read = self.clone();
        for encoder in read.encoders.iter_mut().filter(|encoder| text(encoder)) {
            encoder.llm.sequence = Some(tokens);
            for matrix in &mut encoder.llm.matrices {
                matrix.rows = matrix.rows.map(|_| tokens);
            }
        }
        let layers = read.layers.iter_mut();
        for core in layers.flat_map(|(_, layer)| &mut layer.cores) {
            if length.is_some_and(|length| core.reach == Reach::Fixed(length)) {
                core.reach = Reach::Fixed(tokens);
            }
        }
        Cow::Owned(read)
    }
}

impl From<Decoder> for Llm {
    fn from(decoder: Decoder) -> Self {
        let attention = Attention {
            hidden: decoder.hidden,
            heads: decoder.heads,
            kv_heads: decoder.kv_heads,
            head_dim: decoder.head_dim,
            value_dim: decoder.head_dim,
            ..Attention::default()
        };
        let layer = Layer::default()
            .attention(&attention)
            .mlp(decoder.hidden, decoder.intermediate, decoder.gated, false)
            .vectors(2 * decoder.hidden);
        Self {
            family: decoder.family.to_owned(),
            hidden: decoder.hidden,
            vocab: decoder.vocab,
            layers: vec![(decoder.layers, layer)],
            tables: decoder.hidden * decoder.vocab,
            vectors: decoder.hidden,
            head: Some(Matrix::head(decoder.hidden, decoder.vocab, false)),
            outline: Outline {
                heads: decoder.heads,
                kv_heads: decoder.kv_heads,
                head_dim: decoder.head_dim,
                intermediate: decoder.intermediate,
                gated: decoder.gated,
                ..Outline::default()
            },
            ..Self::default()
        }
    }
}
