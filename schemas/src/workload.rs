//! `workload.toml`: what ran. Written by hand or by the capture program; unknown keys are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "json-schema")]
use schemars::JsonSchema;

/// The file name of a bundle's workload description.
pub const FILE_NAME: &str = "workload.toml";

/// Description of the workload: the model, the sizes, the stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A name for people, such as "Llama-3-8B, batch 8".
    #[serde(default)]
    pub name: Option<String>,
    /// Inference or training.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Data type of the matrix work: `bf16`, `fp16`, `fp8`, `tf32`, `fp32`, `int8`.
    #[serde(default)]
    pub dtype: Option<String>,
    /// Path of the model's `config.json` inside the bundle.
    #[serde(default)]
    pub config: Option<String>,
    /// Sequences in a batch, per GPU.
    #[serde(default)]
    pub batch: Option<u64>,
    /// Prompt length in tokens (inference) or sequence length (training).
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    /// Tokens decoded one by one in a `decode` stage instance.
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// Images of a sequence that a `vision` stage reads; their positions are part of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// Width and height of an image in pixels, where the model reads images of any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_size: Option<[u64; 2]>,
    /// Leading instances of each stage that are warm-up by declaration.
    #[serde(default)]
    pub warmup: Option<u64>,
    /// GPUs that share one model (tensor and pipeline parallel); 1 if absent.
    #[serde(default)]
    pub model_parallel: Option<u64>,
    /// Activations are recomputed in the backward pass (training).
    #[serde(default)]
    pub recomputation: Option<bool>,
    /// Share of the matrix parameters that training updates; 1 if absent, less with frozen weights (LoRA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_gradients: Option<f64>,
    /// Share of the matrix parameters that gradients pass through to those; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_gradients: Option<f64>,
    /// How ranges become stages. Absent: the built-in names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRule>,
    /// Differences of single passes, by pass id: a profiled pass often runs fewer tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passes: BTreeMap<String, PassOverride>,
    /// Keys of this file that nobody stated: the capture program inferred them from the workload as it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inferred: Vec<String>,
    /// What the capture program saw of the workload in addition to, for people: optimizer, parallelism, arguments of a
    /// serving engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<String, String>,
}

/// What a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Prefill and decode.
    Inference,
    /// Forward, backward, optimizer.
    Training,
}

/// One stage: a name, and the ranges that are its instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StageRule {
    /// The stage's name in the report.
    pub name: String,
    /// Regular expression over range names; the whole name must match. Absent: equal to `name`.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What the stage computes, for FLOPs and bytes. Absent: guessed from the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StageKind>,
}

/// What a stage computes; decides its model FLOPs and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Encoder of images, whose outputs are part of the prompt.
    Vision,
    /// The prompt in one forward pass.
    Prefill,
    /// A loop of decode steps.
    Decode,
    /// One token a sequence.
    DecodeStep,
    /// Forward pass of training.
    Forward,
    /// Backward pass of training.
    Backward,
    /// Weight update.
    Optimizer,
    /// Forward, backward and update.
    TrainStep,
    /// Anything without a FLOPs formula.
    Other,
}

impl StageKind {
    /// Whether it is a part of training.
    pub const fn is_training(self) -> bool {
        matches!(
            self,
            Self::Forward | Self::Backward | Self::Optimizer | Self::TrainStep
        )
    }

    /// Whether only training has it: inference has forward passes, too.
    pub const fn is_training_only(self) -> bool {
        matches!(self, Self::Backward | Self::Optimizer | Self::TrainStep)
    }
}

/// Names of ranges that are stages where a description names none. Case does not matter, and `_` may be a space, a
/// hyphen or nothing.
pub const BUILT_IN_STAGES: [(&str, StageKind); 12] = [
    ("vision", StageKind::Vision),
    ("prefill", StageKind::Prefill),
    ("decode", StageKind::Decode),
    ("decode_step", StageKind::DecodeStep),
    ("forward", StageKind::Forward),
    ("backward", StageKind::Backward),
    ("optimizer", StageKind::Optimizer),
    ("optimizer_step", StageKind::Optimizer),
    ("train_step", StageKind::TrainStep),
    ("training_step", StageKind::TrainStep),
    ("eager", StageKind::Other),
    ("offload", StageKind::Other),
];

/// What differs in one pass from the workload as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PassOverride {
    /// As in [`Workload::batch`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// As in [`Workload::prompt_tokens`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// As in [`Workload::output_tokens`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// As in [`Workload::warmup`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u64>,
}

impl Workload {
    /// Whether nobody stated this key of the file: the capture program inferred it.
    pub fn infers(&self, key: &str) -> bool {
        self.inferred.iter().any(|inferred| inferred == key)
    }

    /// The workload as one pass ran it.
    pub fn for_pass(&self, pass: &str) -> Self {
        let mut own = self.clone();
        if let Some(change) = self.passes.get(pass) {
            own.batch = change.batch.or(own.batch);
            own.prompt_tokens = change.prompt_tokens.or(own.prompt_tokens);
            own.output_tokens = change.output_tokens.or(own.output_tokens);
            own.warmup = change.warmup.or(own.warmup);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        mode = "inference"
        batch = 8
        prompt_tokens = 1024
        output_tokens = 64

        [[stages]]
        name = "decode"
        match = "decode|generate"
        kind = "decode_step"

        [passes.nsys]
        output_tokens = 16
        warmup = 2
    "#;

    #[test]
    fn a_pass_overrides_what_it_states_and_inherits_the_rest() {
        let workload: Workload = toml::from_str(TEXT).expect("valid");
        let nsys = workload.for_pass("nsys");
        assert_eq!((nsys.batch, nsys.prompt_tokens), (Some(8), Some(1024)));
        assert_eq!((nsys.output_tokens, nsys.warmup), (Some(16), Some(2)));
        assert_eq!(workload.for_pass("baseline"), workload);
        assert_eq!(
            workload.stages[0].pattern.as_deref(),
            Some("decode|generate")
        );
        assert_eq!(workload.stages[0].kind, Some(StageKind::DecodeStep));
    }

    #[test]
    fn unknown_keys_are_errors_that_name_the_key() {
        for text in [
            "batches = 8",
            "[[stages]]\nname = \"a\"\nkinds = 1",
            "[passes.x]\nsteps = 1",
        ] {
            let error = toml::from_str::<Workload>(text)
                .expect_err(text)
                .to_string();
            assert!(error.contains("unknown field"), "{error}");
        }
    }
}
