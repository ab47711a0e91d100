//! Sizes, data type and parallelism of the workload, by how its model was called.

use std::collections::BTreeMap;

use rooflens_schemas::workload::Mode;
use serde_json::Value;

use super::facts::{Call, Model, Notes};

/// Names of mesh dimensions whose devices share one model.
const MODEL_PARALLEL: [&str; 6] = [
    "tp",
    "tensor",
    "tensor_parallel",
    "pp",
    "pipeline",
    "pipeline_parallel",
];

/// What is known of the sizes. A value that changes from call to call is none.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sizes {
    pub(super) mode: Option<Mode>,
    pub(super) dtype: Option<&'static str>,
    pub(super) batch: Option<u64>,
    pub(super) prompt_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) model_parallel: Option<u64>,
    pub(super) recomputation: Option<bool>,
    pub(super) weight_gradients: Option<f64>,
    pub(super) input_gradients: Option<f64>,
    /// What could not be said, for people.
    pub(super) remarks: Vec<String>,
}

/// The model that the workload is about: the one with the most parameters.
pub(super) fn model_of(notes: &Notes) -> Option<&Model> {
    notes.models.iter().max_by_key(|model| parameters(model))
}

/// Parameters of all data types.
pub(super) fn parameters(model: &Model) -> u64 {
    model
        .parameters
        .values()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

/// The sizes of a run.
pub(super) fn of(notes: &Notes) -> Sizes {
    let Some(model) = model_of(notes) else {
        let mode = (!notes.engines.is_empty()).then_some(Mode::Inference);
        return Sizes {
            mode,
            model_parallel: model_parallel(notes, None),
            ..Sizes::default()
        };
    };
    let called = |phase: &str| model.calls.iter().any(|call| call.phase == phase);
    let trains = notes.optimizers.values().any(|updates| *updates > 0) && called("train");
    let phase = match trains {
        true => "train",
        false if called("prefill") => "prefill",
        false => "forward",
    };
    let frozen = model
        .gradients
        .filter(|gradients| trains && gradients.weights < 1.0);
    let mut sizes = Sizes {
        mode: (!model.calls.is_empty()).then_some(if trains {
            Mode::Training
        } else {
            Mode::Inference
        }),
        dtype: dtype(model),
        model_parallel: model_parallel(notes, Some(model)),
        recomputation: (trains && model.recomputes).then_some(true),
        weight_gradients: frozen.map(|gradients| gradients.weights),
        input_gradients: frozen.map(|gradients| gradients.inputs),
        ..Sizes::default()
    };
    let own = || model.calls.iter().filter(|call| call.phase == phase);
    sizes.batch = sizes.usual("batch", own().map(|call: &Call| (call.batch, call.count)));
    // Of calls without a phase, those of one token after longer ones are decode steps.
    let has_prompts = phase == "forward" && own().any(|call| call.tokens > Some(1));
    let prompts = own().filter(|call| !has_prompts || call.tokens > Some(1));
    let lengths: Vec<_> = prompts.map(|call| (call.tokens, call.count)).collect();
    sizes.prompt_tokens = sizes.usual("prompt_tokens", lengths.into_iter());
    sizes.output_tokens = sizes.usual(
        "output_tokens",
        model
            .decodes
            .iter()
            .map(|(steps, count)| (Some(*steps), *count)),
    );
    if trains && let (Some(batch), Some(passes)) = (sizes.batch, accumulated(notes)) {
        sizes.batch = batch.checked_mul(passes);
        if passes > 1 {
            sizes.remarks.push(format!(
                "batch: {passes} forward passes of {batch} before each update"
            ));
        }
    }
    sizes
}

impl Sizes {
    /// The value of more than half of the calls. Without one, the remarks say what there was.
    fn usual(
        &mut self,
        what: &str,
        values: impl Iterator<Item = (Option<u64>, u64)>,
    ) -> Option<u64> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in values {
            if let Some(value) = value {
                *counts.entry(value).or_default() += count;
            }
        }
        let all: u64 = counts.values().sum();
        let (value, count) = counts.iter().max_by_key(|(_, count)| **count)?;
        if 2 * count > all {
            return Some(*value);
        }
        let (least, most) = (counts.keys().next()?, counts.keys().next_back()?);
        self.remarks.push(format!(
            "{what} is skipped: it changes, from {least} to {most}"
        ));
        None
    }
}

/// Forward passes before an update, where ranges of single passes do not count them one by one.
fn accumulated(notes: &Notes) -> Option<u64> {
    let steps = notes.steps.get("train_step")?;
    let seen = super::stages::most_frequent(steps.seen.iter().filter_map(|seen| seen.get("train")));
    let is_split = notes.ranges.values().any(|stage| {
        stage
            .seen
            .first()
            .is_some_and(|seen| seen.contains_key("train") && !seen.contains_key("update"))
    });
    seen.copied()
        .map(|passes| if is_split { 1 } else { passes })
}

/// Data type of the matrix work.
fn dtype(model: &Model) -> Option<&'static str> {
    if model.layers.keys().any(|layer| layer.contains("Float8")) {
        return Some("fp8");
    }
    let by_name = |name: &str| match name {
        "bfloat16" => Some("bf16"),
        "float16" => Some("fp16"),
        "float8_e4m3fn" | "float8_e5m2" => Some("fp8"),
        "float32" => match model.matmul_precision.as_deref() {
            Some("high" | "medium") => Some("tf32"),
            _ => Some("fp32"),
        },
        _ => None,
    };
    // Weights of four or eight bits are packed into integers: the work has the type of the others.
    let of_weights = model
        .parameters
        .iter()
        .filter(|(name, _)| by_name(name).is_some());
    let most = of_weights
        .max_by_key(|(_, count)| **count)
        .and_then(|(name, _)| by_name(name));
    model.autocast.as_deref().and_then(by_name).or(most)
}

fn model_parallel(notes: &Notes, model: Option<&Model>) -> Option<u64> {
    let of_engine = notes.engines.values().map(|arguments| {
        let size = |names: [&str; 2]| {
            let value = names
                .iter()
                .find_map(|name| arguments.get(*name).and_then(Value::as_u64));
            value.unwrap_or(1).max(1)
        };
        size(["tensor_parallel_size", "tp_size"])
            .saturating_mul(size(["pipeline_parallel_size", "pp_size"]))
    });
    let of_meshes = notes.parallel.meshes.iter().map(|mesh| {
        let shared = mesh.names.iter().zip(&mesh.shape);
        let shared =
            shared.filter(|(name, _)| MODEL_PARALLEL.contains(&name.to_lowercase().as_str()));
        shared.fold(1, |product: u64, (_, size)| product.saturating_mul(*size))
    });
    let of_model = model
        .into_iter()
        .flat_map(|model| [model.tensor_parallel, model.devices])
        .flatten();
    of_engine
        .chain(of_meshes)
        .chain(of_model)
        .max()
        .filter(|count| *count > 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn notes(text: &str) -> Notes {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn calls_that_are_most_say_the_sizes() {
        let sizes = of(&notes(
            r#"{"models": [
            {"class": "Small", "parameters": {"float32": 10}, "calls": [{"phase": "forward", "batch": 1, "count": 9}]},
            {"class": "LlamaForCausalLM", "parameters": {"bfloat16": 1000, "float32": 7},
             "calls": [{"phase": "prefill", "batch": 4, "tokens": 512, "count": 5},
                       {"phase": "prefill", "batch": 4, "tokens": 8, "count": 2},
                       {"phase": "decode", "batch": 4, "tokens": 1, "count": 60}],
             "decodes": [[2, 2], [16, 3]]}]}"#,
        ));
        assert_eq!(sizes.mode, Some(Mode::Inference));
        assert_eq!(
            (sizes.batch, sizes.prompt_tokens, sizes.output_tokens),
            (Some(4), Some(512), Some(16))
        );
        assert_eq!((sizes.dtype, sizes.model_parallel), (Some("bf16"), None));
    }

    #[test]
    fn steps_of_a_cache_of_the_program_are_no_prompts() {
        let sizes = |calls: &str| {
            of(&notes(&format!(
                r#"{{"models": [{{"parameters": {{"bfloat16": 9}}, "calls": [{calls}]}}]}}"#
            )))
        };
        let step = r#"{"phase": "forward", "batch": 24, "tokens": 1, "count": 48}"#;
        let prompt = r#"{"phase": "forward", "batch": 24, "tokens": 2048, "count": 1}"#;
        let both = sizes(&format!("{prompt}, {step}"));
        assert_eq!((both.batch, both.prompt_tokens), (Some(24), Some(2048)));
        assert_eq!(sizes(step).prompt_tokens, Some(1));
    }

    #[test]
    fn a_size_that_changes_is_none_and_said() {
        let sizes = of(&notes(
            r#"{"optimizers": {"AdamW": 3}, "models": [{"parameters": {"float32": 1},
            "autocast": "bfloat16", "calls": [{"phase": "train", "batch": 8, "tokens": 100, "count": 1},
            {"phase": "train", "batch": 8, "tokens": 130, "count": 1}]}],
            "steps": {"train_step": {"seen": [{"train": 2, "update": 1}]}}}"#,
        ));
        assert_eq!(
            (sizes.mode, sizes.dtype),
            (Some(Mode::Training), Some("bf16"))
        );
        // Two passes of 8 before each update.
        assert_eq!((sizes.batch, sizes.prompt_tokens), (Some(16), None));
        assert_eq!(
            sizes.remarks[0],
            "prompt_tokens is skipped: it changes, from 100 to 130"
        );
    }

    #[test]
    fn the_gpus_that_share_a_model_are_those_of_meshes_and_engines() {
        let mesh = r#"{"parallel": {"meshes": [{"names": ["dp", "tp"], "shape": [2, 4]}]}}"#;
        assert_eq!(of(&notes(mesh)).model_parallel, Some(4));
        let engine =
            r#"{"engines": {"vllm": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}}}"#;
        assert_eq!(of(&notes(engine)).model_parallel, Some(4));
        let alone = r#"{"parallel": {"meshes": [{"names": ["dp"], "shape": [8]}], "ddp": 1}}"#;
        assert_eq!(of(&notes(alone)).model_parallel, None);
    }

    #[test]
    fn frozen_weights_of_training_are_shares() {
        let with = |optimizers: &str| {
            let model = r#"{"parameters": {"bfloat16": 9}, "gradients": {"weights": 0.25, "inputs": 0.75},
                "calls": [{"phase": "train", "batch": 8, "tokens": 100, "count": 3}]}"#;
            let sizes = of(&notes(&format!(
                r#"{{"optimizers": {optimizers}, "models": [{model}]}}"#
            )));
            (sizes.weight_gradients, sizes.input_gradients)
        };
        assert_eq!(with(r#"{"AdamW": 3}"#), (Some(0.25), Some(0.75)));
        assert_eq!(with("{}"), (None, None));
    }

    #[test]
    fn fp32_with_tensor_cores_is_tf32_and_packed_weights_are_no_data_type() {
        let with = |text: &str| of(&notes(&format!(r#"{{"models": [{text}]}}"#))).dtype;
        assert_eq!(
            with(r#"{"parameters": {"float32": 9}, "matmul_precision": "high"}"#),
            Some("tf32")
        );
        assert_eq!(with(r#"{"parameters": {"float32": 9}}"#), Some("fp32"));
        assert_eq!(
            with(r#"{"parameters": {"uint8": 9, "bfloat16": 2}}"#),
            Some("bf16")
        );
    }
}
