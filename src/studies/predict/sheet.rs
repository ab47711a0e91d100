//! A model in numbers, without a GPU: parameters by part, FLOPs and cache by context, weights by format.

use rooflens_llm::{Convention, Layer, Llm, Matrix, Part, Shape, forward};

use crate::{Precision, Setup, weight_bytes};

/// Contexts at which FLOPs and cache are told, as far as the model was made for them.
const CONTEXTS: [u64; 5] = [1024, 4096, 16_384, 65_536, 262_144];

/// Formats in which weights are often stored.
const FORMATS: [&str; 5] = ["bf16", "fp8", "int8", "int4", "nvfp4"];

/// What a model has to store and to compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Parameters by part; their sum is that of the model.
    pub sizes: Vec<Size>,
    /// FLOPs and cache at some contexts, the smallest first.
    pub contexts: Vec<AtContext>,
    /// Bytes of the weights by format, that of the config first.
    pub stored: Vec<Stored>,
}

/// Parameters of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Name of the part: those of [`Part`], `embedding`, `norms`.
    pub part: &'static str,
    /// Parameters.
    pub parameters: u64,
    /// Parameters that a token passes through.
    pub active: u64,
}

/// Work and cache at a context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtContext {
    /// Positions of the sequence.
    pub context: u64,
    /// FLOPs of a token in a prefill of that length, with causal attention: their mean.
    pub prefill: f64,
    /// FLOPs of the last token of that context, in decode; absent for encoders.
    pub decode: Option<f64>,
    /// Bytes of cache and recurrent states of a sequence, in 16 bits.
    pub cache: f64,
}

/// Weights in a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// The format.
    pub format: Precision,
    /// Bytes of all weights; embeddings, head, norms and routers in 16 bits.
    pub bytes: f64,
    /// The config states this format.
    pub stated: bool,
}

/// The numbers of a model.
pub fn sheet(llm: &Llm) -> Sheet {
    Sheet {
        sizes: sizes(llm),
        contexts: contexts(llm),
        stored: stored(llm),
    }
}

fn sizes(llm: &Llm) -> Vec<Size> {
    let of_part = |part: Part, value: fn(&Matrix) -> u64| {
        let sum = |matrices: &[Matrix]| -> u64 {
            let own = matrices.iter().filter(|one| one.part == part);
            own.map(value).fold(0, u64::saturating_add)
        };
        let layers = llm.layers.iter();
        let layers =
            layers.map(|(count, layer): &(u64, Layer)| count.saturating_mul(sum(&layer.matrices)));
        let head = llm
            .head
            .iter()
            .filter(|one| one.part == part && !llm.tied)
            .map(value);
        layers
            .chain(head)
            .fold(sum(&llm.matrices), u64::saturating_add)
    };
    let parts = Part::ALL.iter().map(|part| Size {
        part: part.name(),
        parameters: of_part(*part, Matrix::parameters),
        active: of_part(*part, Matrix::active),
    });
    let vectors = llm
        .layers
        .iter()
        .map(|(count, layer)| count.saturating_mul(layer.vectors));
    let norms = vectors.fold(llm.vectors, u64::saturating_add);
    let whole = |part, parameters| Size {
        part,
        parameters,
        active: parameters,
    };
    let all = std::iter::once(whole("embedding", llm.tables)).chain(parts);
    all.chain([whole("norms", norms)])
        .filter(|size| size.parameters > 0)
        .collect()
}

fn contexts(llm: &Llm) -> Vec<AtContext> {
    let longest = llm.max_context.unwrap_or(u64::MAX).max(CONTEXTS[0]);
    let known: Vec<u64> = match llm.sequence {
        Some(tokens) => vec![tokens],
        None => CONTEXTS
            .into_iter()
            .filter(|context| *context <= longest)
            .collect(),
    };
    let at = |context: u64| {
        let shape = |new| Shape {
            batch: 1,
            new,
            past: context - new,
            logits: 1,
        };
        let flops = |new| forward(llm, shape(new), Convention::Causal);
        AtContext {
            context,
            prefill: flops(context) / context as f64,
            decode: llm.generates().then(|| flops(1)),
            cache: 2.0 * (llm.cached_elements(context) + llm.state_elements()),
        }
    };
    known
        .into_iter()
        .filter(|context| *context > 0)
        .map(at)
        .collect()
}

fn stored(llm: &Llm) -> Vec<Stored> {
    let stated = llm.quantized.as_deref().or(llm.dtype.as_deref());
    let names = stated
        .into_iter()
        .chain(FORMATS.into_iter().filter(|name| Some(*name) != stated));
    let sixteen = Precision::find("bf16");
    let of = |name: &str| {
        let (format, sixteen) = (Precision::find(name)?, sixteen?);
        // What is not quantized stays in the format of activations.
        let activations = if format.bytes >= 2.0 { format } else { sixteen };
        let setup = Setup {
            weights: format,
            ..Setup::plain(activations)
        };
        let bytes = weight_bytes(llm, &setup);
        Some(Stored {
            format,
            bytes,
            stated: Some(name) == stated,
        })
    };
    names.filter_map(of).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, clippy::unwrap_used)]
mod tests {
    use super::*;
    use rooflens_llm::{Decoder, parse};
    use serde_json::json;

    #[test]
    fn parts_add_up_and_work_follows_from_sizes() {
        let llm: Llm = Decoder {
            family: "llama",
            hidden: 4096,
            intermediate: 14336,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            vocab: 128_256,
            gated: true,
        }
        .into();
        let found = sheet(&llm);
        let size = |part: &str| {
            found
                .sizes
                .iter()
                .find(|size| size.part == part)
                .map(|size| size.parameters)
        };
        // Embedding and head 4096·128 256; projections 32·(2·4096² + 2·4096·1024); MLP 32·3·4096·14336; 65 norms.
        assert_eq!(
            (size("embedding"), size("head")),
            (Some(525_336_576), Some(525_336_576))
        );
        assert_eq!(
            (size("projections"), size("mlp")),
            (Some(1_342_177_280), Some(5_637_144_576))
        );
        assert_eq!((size("norms"), size("experts")), (Some(266_240), None));
        assert_eq!(
            found.sizes.iter().map(|size| size.parameters).sum::<u64>(),
            llm.parameters()
        );
        // A decode step at 1024: 2·7 504 658 432 and 524 288 for each of 1024 keys.
        let first = found.contexts[0];
        assert_eq!(
            (first.context, first.decode),
            (1024, Some(15_009_316_864.0 + 536_870_912.0))
        );
        // Prefill: the head once, 1024·1025/2 pairs.
        let pairs = 524_288.0 * 524_800.0;
        let matrices = 2.0 * (1024.0 * 6_979_321_856.0 + 525_336_576.0);
        assert_eq!(first.prefill, (matrices + pairs) / 1024.0);
        assert_eq!(first.cache, 131_072.0 * 1024.0);
        // 2 bytes a parameter; int4 leaves embedding, head and norms.
        assert_eq!(found.stored[0].bytes, 2.0 * 8_030_261_248.0);
        let four = found
            .stored
            .iter()
            .find(|one| one.format.name == "int4")
            .unwrap();
        assert_eq!(
            four.bytes,
            6_979_321_856.0 * (0.5 + 2.0 / 128.0) + 2.0 * 1_050_939_392.0
        );
    }

    #[test]
    fn the_format_of_the_config_comes_first_and_contexts_end_where_the_model_does() {
        let llm = parse(&json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
            "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 4096,
            "quantization_config": {"quant_method": "awq", "bits": 4}, "tie_word_embeddings": true,
        }));
        let found = sheet(&llm.unwrap());
        assert_eq!(
            (found.stored[0].format.name, found.stored[0].stated),
            ("int4", true)
        );
        assert_eq!(
            found
                .contexts
                .iter()
                .map(|at| at.context)
                .collect::<Vec<_>>(),
            [1024, 4096]
        );
        assert!(
            found.sizes.iter().all(|size| size.part != "head"),
            "a tied head is the embedding"
        );
    }
}
