//! Names that engines and training frameworks give to their steps, and the stages that these are.
//!
//! One table for both programs. A pattern is the whole name of a range with the numbers in it as fields: `{context}` and
//! `{generation}` are requests in prefill and in decode, `{requests}` requests of a step of one kind, each with `_tokens`
//! the tokens of the step; `{n}` is a number without a meaning here, `{*}` any text.
//!
//! Engines batch continuously: a step may hold prompts and tokens of running requests at once. Such a step is a stage of
//! its own, `mixed_step`. Numbers of a step do not say how long the context of each request is, so no FLOPs follow.

use crate::StageKind;

/// A step of an engine with continuous batching that holds prefill and decode at once.
pub const MIXED: &str = "mixed_step";

/// A step by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stage that it is an instance of.
    pub stage: &'static str,
    /// What that computes.
    pub kind: StageKind,
    /// It is a step of a serving engine, each of which may have another batch.
    pub is_batch: bool,
    /// It is a part of steps that other ranges name, and a stage only without these.
    pub is_part: bool,
    /// Requests in it.
    pub requests: Option<u64>,
    /// Tokens that it computes.
    pub tokens: Option<u64>,
}

/// What a pattern represents.
#[derive(Clone, Copy)]
enum Means {
    /// A step of an engine: prefill, decode or both, as the numbers of requests say.
    Counts,
    /// The same, but what was cached may be prompts in parts or decode.
    NewAndCached,
    /// A step of an engine of this kind.
    Batch(&'static str, StageKind),
    /// A stage.
    Stage(&'static str, StageKind),
    /// A stage where no other name is one.
    Part(&'static str),
}

use Means::{Batch, Counts, NewAndCached, Part, Stage};
use StageKind::{Backward, DecodeStep, Forward, Other, Prefill, TrainStep};

const PREFILL: Means = Batch("prefill", Prefill);
const DECODE: Means = Batch("decode_step", DecodeStep);

/// Patterns with their meaning, by the source that they are from. The first that matches counts.
const NAMES: &[(&str, Means)] = &[
    // vLLM, `Worker.annotate_profile` of vllm/v1/worker/gpu_worker.py: as it is, with `detailed_trace_annotation`
    // (pull request 37524), and before `compute_iteration_details` (pull request 22496).
    (
        "execute_context_{context}({context_tokens})_generation_{generation}({generation_tokens})",
        Counts,
    ),
    (
        "execute_{n}_context_{context}(sq{context_tokens}sk{n}sqsq{n}sqsk{n})_generation_{generation}\
         (sq{generation_tokens}sk{n}sqsq{n}sqsk{n})",
        Counts,
    ),
    ("execute_new_{context}_cached_{generation}", NewAndCached),
    // vLLM, `VLLM_CUSTOM_SCOPES_FOR_PROFILING` and `VLLM_NVTX_SCOPES_FOR_PROFILING`, vllm/v1/worker/gpu_model_runner.py.
    (
        "gpu_model_runner: forward",
        Part("gpu_model_runner: forward"),
    ),
    // SGLang, `build_step_span_name` of python/sglang/srt/utils/profile_utils.py, with the names of `ForwardMode`
    // (pull requests 23419, 24911, 38630). What may follow the numbers are sums for rooflines.
    (
        "step[EXTEND bs={requests} toks={requests_tokens}{*}]",
        PREFILL,
    ),
    ("step[SPLIT_PREFILL bs={requests}{*}]", PREFILL),
    ("step[DECODE bs={requests}{*}]", DECODE),
    ("step[MIXED bs={requests}{*}]", Batch(MIXED, Other)),
    (
        "step[TARGET_VERIFY bs={requests}{*}]",
        Batch("verify_step", Other),
    ),
    ("step[VERIFY bs={requests}{*}]", Batch("verify_step", Other)),
    (
        "step[DRAFT{*} bs={requests}{*}]",
        Batch("draft_step", Other),
    ),
    ("step[IDLE{*}]", Batch("idle_step", Other)),
    // TensorRT-LLM, `PyExecutor._forward_step` of tensorrt_llm/_torch/pyexecutor/py_executor.py: as it is (pull request
    // 14206), without tokens, and without the number of the step.
    (
        "[Executor] _forward_step {n}: {context} ctx reqs, {context_tokens} ctx tokens, {generation} gen reqs",
        Counts,
    ),
    (
        "[Executor] _forward_step {n}: {context} ctx reqs, {generation} gen reqs",
        Counts,
    ),
    (
        "[Executor] _forward_step: {context} ctx reqs, {generation} gen reqs",
        Counts,
    ),
    // ATOM, `run_model` (ROCm/ATOM, pull request 477).
    ("prefill[bs={requests} tok={requests_tokens} {*}]", PREFILL),
    ("decode[bs={requests} tok={requests_tokens} {*}]", DECODE),
    // PyTorch Lightning, `PyTorchProfiler.start` of lightning/pytorch/profilers/pytorch.py; the actions are named in
    // loops/training_epoch_loop.py and trainer/call.py. `optimizer_step` is excluded: it calls the closure with forward and
    // backward.
    (
        "[pl][profile]run_training_batch",
        Stage("train_step", TrainStep),
    ),
    (
        "[pl][profile][Strategy]{*}.training_step",
        Stage("forward", Forward),
    ),
    (
        "[pl][profile][Strategy]{*}.backward",
        Stage("backward", Backward),
    ),
    (
        "[pl][profile][Strategy]{*}.validation_step",
        Stage("validation_step", Other),
    ),
    // DeepSpeed, `instrument_w_nvtx` of deepspeed/utils/nvtx.py (the qualified name of the function) on
    // deepspeed/runtime/engine.py.
    ("DeepSpeedEngine.forward", Stage("forward", Forward)),
    ("DeepSpeedEngine.backward", Stage("backward", Backward)),
    (
        "DeepSpeedEngine.allreduce_gradients",
        Stage("allreduce_gradients", Other),
    ),
    // Megatron-LM, `nvtx_range_push(suffix=…)` of megatron/core/pipeline_parallel/schedules.py: the function's path and the
    // suffix. (Its inference engine names steps `Prefill` and `Decode`, which need no pattern.)
    (
        "megatron.core.pipeline_parallel.schedules.{*}.warmup",
        Stage("pipeline_warmup", Other),
    ),
    (
        "megatron.core.pipeline_parallel.schedules.{*}.steady",
        Stage("pipeline_steady", Other),
    ),
    (
        "megatron.core.pipeline_parallel.schedules.{*}.cooldown",
        Stage("pipeline_cooldown", Other),
    ),
];

/// The step that a range of this name is.
pub fn step(name: &str) -> Option<Step> {
    // No name of the table begins otherwise; most ranges are none of them.
    if !name.starts_with(['e', 'g', 's', '[', 'p', 'd', 'D', 'm']) {
        return None;
    }
    NAMES
        .iter()
        .find_map(|(pattern, means)| Some(means.step(&numbers(pattern, name)?)))
}

/// The numbers of a name.
#[derive(Default)]
struct Numbers {
    context: Option<u64>,
    context_tokens: Option<u64>,
    generation: Option<u64>,
    generation_tokens: Option<u64>,
    requests: Option<u64>,
    requests_tokens: Option<u64>,
}

impl Numbers {
    fn field(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match name {
            "context" => &mut self.context,
            "context_tokens" => &mut self.context_tokens,
            "generation" => &mut self.generation,
            "generation_tokens" => &mut self.generation_tokens,
            "requests" => &mut self.requests,
            "requests_tokens" => &mut self.requests_tokens,
            _ => return None,
        })
    }
}

/// The numbers of a name that a pattern matches.
fn numbers(pattern: &str, name: &str) -> Option<Numbers> {
    let mut found = Numbers::default();
    let (first, mut fields) = pattern.split_once('{').unwrap_or((pattern, ""));
    let mut rest = name.strip_prefix(first)?;
    while let Some((field, after)) = fields.split_once('}') {
        let (literal, next) = after.split_once('{').unwrap_or((after, ""));
        let length = if field != "*" {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        } else if next.is_empty() {
            rest.len().checked_sub(literal.len())?
        } else {
            rest.find(literal)?
        };
        let (value, end) = rest.split_at_checked(length)?;
        if field != "*" {
            let number = value.parse().ok()?;
            if let Some(field) = found.field(field) {
                *field = Some(number);
            }
        }
        rest = end.strip_prefix(literal)?;
        fields = next;
    }
    rest.is_empty().then_some(found)
}

impl Means {
    fn step(self, numbers: &Numbers) -> Step {
        let (requests, tokens) = match self {
            Counts | NewAndCached => (
                sum(numbers.context, numbers.generation),
                sum(numbers.context_tokens, numbers.generation_tokens),
            ),
            _ => (numbers.requests, numbers.requests_tokens),
        };
        let (stage, kind) = match self {
            Counts => by_counts(numbers),
            NewAndCached if numbers.generation == Some(0) => ("prefill", Prefill),
            NewAndCached => ("engine_step", Other),
            Batch(stage, kind) | Stage(stage, kind) => (stage, kind),
            Part(stage) => (stage, Other),
        };
        let is_batch = matches!(self, Counts | NewAndCached | Batch(..));
        Step {
            stage,
            kind,
            is_batch,
            is_part: matches!(self, Part(_)),
            requests,
            tokens,
        }
    }
}

fn by_counts(numbers: &Numbers) -> (&'static str, StageKind) {
    match (
        numbers.context.unwrap_or(0),
        numbers.generation.unwrap_or(0),
    ) {
        (0, 0) => ("idle_step", Other),
        (_, 0) => ("prefill", Prefill),
        (0, _) => ("decode_step", DecodeStep),
        _ => (MIXED, Other),
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_add(b?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_engines_are_prefill_decode_or_both() {
        let of = |name: &str| step(name).map(|step| (step.stage, step.requests, step.tokens));
        let is = |stage, requests, tokens| Some((stage, requests, tokens));
        assert_eq!(
            of("execute_context_0(0)_generation_8(8)"),
            is("decode_step", Some(8), Some(8))
        );
        assert_eq!(
            of("execute_context_2(900)_generation_0(0)"),
            is("prefill", Some(2), Some(900))
        );
        assert_eq!(
            of("execute_context_1(100)_generation_7(7)"),
            is(MIXED, Some(8), Some(107))
        );
        assert_eq!(
            of("execute_context_0(0)_generation_0(0)"),
            is("idle_step", Some(0), Some(0))
        );
        let detailed =
            "execute_107_context_1(sq100sk120sqsq10000sqsk12000)_generation_7(sq7sk70sqsq7sqsk70)";
        assert_eq!(of(detailed), is(MIXED, Some(8), Some(107)));
        assert_eq!(of("execute_new_3_cached_0"), is("prefill", Some(3), None));
        assert_eq!(
            of("execute_new_0_cached_4"),
            is("engine_step", Some(4), None)
        );
        assert_eq!(
            of("step[EXTEND bs=2 toks=4096]"),
            is("prefill", Some(2), Some(4096))
        );
        assert_eq!(
            of("step[DECODE bs=64 g_sqsq=64 g_sk=9]"),
            is("decode_step", Some(64), None)
        );
        assert_eq!(of("step[MIXED bs=5]"), is(MIXED, Some(5), None));
        assert_eq!(
            of("step[DRAFT_EXTEND_V2 bs=5]"),
            is("draft_step", Some(5), None)
        );
        let executor = "[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 32 gen reqs";
        assert_eq!(of(executor), is("decode_step", Some(32), None));
        assert_eq!(
            of("[Executor] _forward_step: 1 ctx reqs, 2 gen reqs"),
            is(MIXED, Some(3), None)
        );
        assert_eq!(
            of("decode[bs=64 tok=64 d=64]"),
            is("decode_step", Some(64), Some(64))
        );
    }

    #[test]
    fn steps_of_training_are_stages_without_a_batch() {
        let of = |name: &str| step(name).map(|step| (step.stage, step.kind, step.is_batch));
        let is = |stage, kind| Some((stage, kind, false));
        assert_eq!(
            of("[pl][profile]run_training_batch"),
            is("train_step", TrainStep)
        );
        let forward = "[pl][profile][Strategy]DDPStrategy.training_step";
        assert_eq!(of(forward), is("forward", Forward));
        assert_eq!(of("DeepSpeedEngine.backward"), is("backward", Backward));
        let warmup = "megatron.core.pipeline_parallel.schedules.forward_backward_pipelining_with_interleaving.warmup";
        assert_eq!(of(warmup), is("pipeline_warmup", Other));
        assert!(step("gpu_model_runner: forward").is_some_and(|step| step.is_part));
    }

    #[test]
    fn other_names_and_damaged_ones_are_no_steps() {
        for name in [
            "",
            "step",
            "decode",
            "execute_context_0(0)_generation_8(8",
            "execute_context_0(0)_generation_8(8) ",
            "execute_context_(0)_generation_8(8)",
            "execute_context_99999999999999999999(0)_generation_8(8)",
            "step[DECODE bs=]",
            "step[DECODE bs=4",
            "[pl][profile][Strategy].é",
            "DeepSpeedEngine.forward_more",
        ] {
            assert_eq!(step(name), None, "{name}");
        }
    }
}
