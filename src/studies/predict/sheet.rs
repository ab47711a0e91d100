//! A model in numbers, without a GPU: parameters by part, FLOPs and cache by context, weights by format.

use rooflens_llm::{Convention, Llm, Matrix, Part, Shape, forward};
use rooflens_units::{Bytes, Flops};

use crate::{Precision, Setup, weight_bytes};

/// Contexts of FLOPs and cache, up to the longest that the model was made for.
const CONTEXTS: [u64; 5] = [1024, 4096, 16_384, 65_536, 262_144];

/// Formats in which weights are often stored.
const FORMATS: [&str; 5] = ["bf16", "fp8", "int8", "int4", "nvfp4"];

/// Parameters, work and storage of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Parameters by part; their sum is that of the model.
    pub sizes: Vec<Size>,
    /// FLOPs and cache at some contexts, the smallest first.
    pub contexts: Vec<AtContext>,
    /// Sizes of the weights by format, that of the config first.
    pub stored: Vec<Stored>,
}

/// Parameters of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Name of the part: those of [`Part`], `embedding`, `norms`, and of encoders.
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
    /// Operations of a token in a prefill of that length, with causal attention: their mean.
    pub prefill: Flops,
    /// Operations of the last token of that context, in decode; absent for encoders.
    pub decode: Option<Flops>,
    /// Cache and recurrent states of a sequence, in 16 bits.
    pub cache: Bytes,
}

/// Weights in a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// The format.
    pub format: Precision,
    /// All weights; embeddings, head, norms and routers in 16 bits.
    pub bytes: Bytes,
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

impl Size {
    /// A part that every token passes through.
    const fn dense(part: &'static str, parameters: u64) -> Self {
        Self {
            part,
            parameters,
            active: parameters,
        }
    }
}

fn sizes(llm: &Llm) -> Vec<Size> {
    let mut sizes = vec![Size::dense("embedding", llm.tables)];
    for part in Part::ALL {
        sizes.push(Size {
            part: part.name(),
            parameters: sum_of_part(llm, part, Matrix::parameters),
            active: sum_of_part(llm, part, Matrix::active),
        });
    }
    let mut norms = llm.vectors;
    for (count, layer) in &llm.layers {
        norms = norms.saturating_add(count.saturating_mul(layer.vectors));
    }
    sizes.push(Size::dense("norms", norms));
    for encoder in &llm.encoders {
        let parameters = encoder.llm.parameters();
        match sizes.iter_mut().find(|size| size.part == encoder.name) {
            Some(size) => size.parameters += parameters,
            None => sizes.push(Size {
                part: encoder.name,
                parameters,
                active: 0,
            }),
        }
    }
    sizes.retain(|size| size.parameters > 0);
    sizes
}

/// Sum of a figure over the matrices of a part; a tied head counts once, as the embedding.
fn sum_of_part(llm: &Llm, part: Part, figure: fn(&Matrix) -> u64) -> u64 {
    let sum = |matrices: &[Matrix]| {
        let of_part = matrices.iter().filter(|matrix| matrix.part == part);
        of_part.map(figure).fold(0, u64::saturating_add)
    };
    let mut total = sum(&llm.matrices);
    for (count, layer) in &llm.layers {
        total = total.saturating_add(count.saturating_mul(sum(&layer.matrices)));
    }
    if let Some(head) = llm.head.as_ref().filter(|_| !llm.tied) {
        total = total.saturating_add(sum(std::slice::from_ref(head)));
    }
    total
}

fn contexts(llm: &Llm) -> Vec<AtContext> {
    let longest = llm.max_context.unwrap_or(u64::MAX).max(CONTEXTS[0]);
    let mut contexts = match llm.sequence {
        Some(tokens) => vec![tokens],
        None => CONTEXTS.to_vec(),
    };
    if llm.sequence.is_none() {
        contexts.retain(|context| *context <= longest);
    }
    contexts.retain(|context| *context > 0);
    contexts
        .into_iter()
        .map(|context| AtContext::new(llm, context))
        .collect()
}

impl AtContext {
    fn new(llm: &Llm, context: u64) -> Self {
        let flops = |new| {
            let shape = Shape {
                batch: 1,
                new,
                past: context - new,
                logits: 1,
            };
            forward(llm, shape, Convention::Causal)
        };
        Self {
            context,
            prefill: flops(context) / context as f64,
            decode: llm.generates().then(|| flops(1)),
            cache: Bytes(2.0 * (llm.cached_elements(context) + llm.state_elements())),
        }
    }
}

fn stored(llm: &Llm) -> Vec<Stored> {
    let stated = llm.quantized.as_deref().or(llm.dtype.as_deref());
    let mut names: Vec<&str> = FORMATS.to_vec();
    if let Some(stated) = stated {
        names.retain(|name| *name != stated);
        names.insert(0, stated);
    }
    let Some(sixteen_bits) = Precision::find("bf16") else {
        return Vec::new();
    };
    let mut stored = Vec::new();
    for name in names {
        let Some(format) = Precision::find(name) else {
            continue;
        };
        // Activations keep 16 bits or more.
        let activations = if format.element >= Bytes(2.0) {
            format
        } else {
            sixteen_bits
        };
        let setup = Setup {
            weights: format,
            ..Setup::plain(activations)
        };
        stored.push(Stored {
            format,
            bytes: weight_bytes(llm, &setup),
            stated: Some(name) == stated,
        });
    }
    stored
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
        let sheet = super::sheet(&llm);
        let size = |part: &str| {
            sheet
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
            sheet.sizes.iter().map(|size| size.parameters).sum::<u64>(),
            llm.parameters()
        );
        // A decode step at 1024: 2·7 504 658 432 and 524 288 for each of 1024 keys.
        let first = sheet.contexts[0];
        assert_eq!(
            (first.context, first.decode),
            (1024, Some(Flops(15_009_316_864.0 + 536_870_912.0)))
        );
        // Prefill: the head once, 1024·1025/2 pairs.
        let pairs = 524_288.0 * 524_800.0;
        let matrices = 2.0 * (1024.0 * 6_979_321_856.0 + 525_336_576.0);
        assert_eq!(first.prefill, Flops((matrices + pairs) / 1024.0));
        assert_eq!(first.cache, Bytes(131_072.0 * 1024.0));
        // 2 bytes a parameter; int4 leaves embedding, head and norms.
        assert_eq!(sheet.stored[0].bytes, Bytes(2.0 * 8_030_261_248.0));
        let four = sheet
            .stored
            .iter()
            .find(|stored| stored.format.name == "int4")
            .unwrap();
        assert_eq!(
            four.bytes,
            Bytes(6_979_321_856.0 * (0.5 + 2.0 / 128.0) + 2.0 * 1_050_939_392.0)
        );
    }

    #[test]
    fn the_format_of_the_config_comes_first_and_contexts_end_where_the_model_does() {
        let llm = parse(&json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
            "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 4096,
            "quantization_config": {"quant_method": "awq", "bits": 4}, "tie_word_embeddings": true,
        }));
        let sheet = super::sheet(&llm.unwrap());
        assert_eq!(
            (sheet.stored[0].format.name, sheet.stored[0].stated),
            ("int4", true)
        );
        assert_eq!(
            sheet
                .contexts
                .iter()
                .map(|at| at.context)
                .collect::<Vec<_>>(),
            [1024, 4096]
        );
        assert!(
            sheet.sizes.iter().all(|size| size.part != "head"),
            "a tied head is the embedding"
        );
    }
}
