//! What an action costs: code to copy, how much work it is, and what can go wrong. Judgements by kind of change, one row a
//! remedy.

use super::actions::{Action, Effect};
use crate::evidence::Evidence;
use crate::practices;
use crate::stage::StageLine;
use rooflens_schemas::StageKind;

/// How much work a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// An option, an argument, a line.
    Option,
    /// A line that changes how the whole program runs: results and speed have to be tested.
    Trial,
    /// The source of the program.
    Code,
    /// The sizes of the model, or its data types.
    Model,
    /// The source of kernels, or other kernels.
    Kernels,
}

impl Effort {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Option => "summary.effort_option",
            Self::Trial => "summary.effort_trial",
            Self::Code => "summary.effort_code",
            Self::Model => "summary.effort_model",
            Self::Kernels => "summary.effort_kernels",
        }
    }
}

/// What can go wrong with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Risk {
    Accuracy,
    Failure,
    HostMemory,
    Memory,
    Order,
    Rounding,
    Shapes,
    Slower,
    Start,
    Upkeep,
    Weights,
}

impl Risk {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Accuracy => "summary.risk_accuracy",
            Self::Failure => "summary.risk_failure",
            Self::HostMemory => "summary.risk_host_memory",
            Self::Memory => "summary.risk_memory",
            Self::Order => "summary.risk_order",
            Self::Rounding => "summary.risk_rounding",
            Self::Shapes => "summary.risk_shapes",
            Self::Slower => "summary.risk_slower",
            Self::Start => "summary.risk_start",
            Self::Upkeep => "summary.risk_upkeep",
            Self::Weights => "summary.risk_weights",
        }
    }
}

/// A remedy of a rule.
pub(super) struct Remedy {
    rule: &'static str,
    /// A word of what the action says; empty: whatever it says.
    word: &'static str,
    pub(super) effort: Effort,
    pub(super) risks: &'static [Risk],
    code: &'static str,
}

/// A remedy without code to copy.
const fn remedy(
    rule: &'static str,
    word: &'static str,
    effort: Effort,
    risks: &'static [Risk],
) -> Remedy {
    Remedy {
        rule,
        word,
        effort,
        risks,
        code: "",
    }
}

impl Remedy {
    const fn code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }
}

/// The first that fits counts.
static REMEDIES: [Remedy; 109] = {
    use Effort::{Code, Kernels, Model, Option, Trial};
    use Risk::{
        Accuracy, Failure, HostMemory, Memory, Order, Rounding, Shapes, Slower, Start, Upkeep,
        Weights,
    };
    [
        remedy("host-pauses", "enable_cudnn_sdp", Option, &[Slower]).code(WITHOUT_CUDNN_ATTENTION),
        remedy("host-pauses", "gc.freeze", Option, &[HostMemory]).code(COLLECTION),
        remedy("host-pauses", "num_workers", Option, &[HostMemory]).code(LOADER),
        remedy("host-pauses", "warm up each", Code, &[Memory]),
        remedy("host-pauses", "", Code, &[Order]),
        remedy("launch-bound", "cache_implementation", Code, CAPTURING).code(GRAPHS_WITH_CACHE),
        remedy("launch-bound", "reduce-overhead", Trial, CAPTURING).code(GRAPHS),
        remedy("launch-bound", "torch.nn.LSTM", Code, &[Rounding])
            .code("output, state = torch.nn.LSTM(inputs, hidden, layers)(sequence)"),
        remedy("launch-bound", "loop over samples", Code, &[Rounding]),
        remedy("launch-bound", "Batch requests", Code, &[]),
        remedy("launch-bound", "micro-batch", Option, &[Memory, Weights]),
        remedy("launch-bound", "torch.compile", Trial, COMPILING).code(COMPILE),
        remedy("launch-bound", "", Code, &[Memory, Shapes]),
        remedy("short-kernels", "", Trial, CAPTURING).code(GRAPHS),
        remedy("queue-gaps", "CUDA graph", Trial, CAPTURING),
        remedy("queue-gaps", "", Code, &[]),
        remedy("graph-capture", "", Code, &[Memory, Shapes]),
        remedy("low-mfu", "max-autotune", Trial, COMPILING).code(AUTOTUNE),
        remedy("low-mfu", "compile", Trial, COMPILING).code(COMPILE),
        remedy("low-mfu", "", Code, &[Rounding, Upkeep]),
        remedy(
            "pointwise-unfused",
            "torch.compile(function)",
            Trial,
            COMPILING,
        )
        .code("function = torch.compile(function)  # which launches these kernels"),
        remedy("pointwise-unfused", "", Trial, COMPILING).code(COMPILE),
        remedy("norm-unfused", "", Trial, &[Rounding]).code(NORMS),
        remedy("attention-math", "", Trial, &[Rounding])
            .code("y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"),
        remedy("repeated-tensors", "", Trial, &[Rounding])
            .code("y = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)"),
        remedy("repeated-calls", "", Code, &[]),
        remedy("constant-calls", "", Code, &[Memory]),
        remedy("no-kv-cache", "", Code, &[Memory])
            .code("output = model(token, past_key_values=cache, use_cache=True)"),
        remedy("growing-cache", "", Code, &[Memory]),
        remedy("gathered-cache", "", Code, &[]),
        remedy("decode-rows", "", Code, &[Memory]),
        remedy("copied-cache", "", Trial, &[Rounding])
            .code("y = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)"),
        remedy("nan-checks", "", Option, &[]).code("torch.autograd.set_detect_anomaly(False)"),
        remedy("repeated-backward", "", Code, &[Rounding]).code("sum(losses).backward()"),
        remedy("sorted-sums", "", Code, &[Rounding]),
        remedy("depthwise-filters", "", Code, &[Rounding]),
        remedy("prime-ffts", "", Code, &[Rounding]),
        remedy("permutations", "", Code, &[Rounding])
            .code("rows = torch.randint(count, (batch,), device=\"cuda\")"),
        remedy("row-sampling", "", Code, &[Rounding]).code(
            "sums = weights.cumsum(0)  # of one row\n\
             drawn = torch.rand(batch, device=\"cuda\") * sums[-1]\n\
             rows = torch.searchsorted(sums, drawn)",
        ),
        remedy("value-sorts", "", Code, &[])
            .code("values, index = torch.topk(scores, count)  # instead of sort or argsort"),
        remedy("pool-windows", "", Code, &[]).code(
            "y = F.max_pool2d(x, (size, 1), stride=1, padding=(size // 2, 0))\n\
             y = F.max_pool2d(y, (1, size), stride=1, padding=(0, size // 2))",
        ),
        remedy("constant-masks", "", Code, &[Memory]),
        remedy("packed-attention", "", Code, &[Rounding]),
        remedy("one-hot-selection", "", Code, &[])
            .code("y = values.gather(-1, index[..., None]).squeeze(-1)"),
        remedy("early-upsampling", "", Code, &[Rounding])
            .code("y = torch.nn.functional.interpolate(classifier(h), size, mode=\"bilinear\")"),
        remedy("double-kernels", "", Code, &[Accuracy]),
        remedy("recomputed-activations", "", Option, &[Memory]),
        remedy("unused-gradients", "", Trial, &[]).code(FROZEN),
        remedy("dense-embeddings", "", Trial, &[Accuracy]).code(SPARSE),
        remedy("gathered-rows", "", Code, &[Rounding]),
        remedy("unread-logits", "", Code, &[]),
        remedy("optimizer-loop", "", Option, &[Rounding])
            .code("optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)"),
        remedy("layout-conversions", "compile", Trial, COMPILING).code(COMPILE),
        remedy("layout-conversions", "", Trial, &[Slower]).code(LAYOUT),
        remedy("transposed-copies", "", Code, &[Slower]),
        remedy("dtype-casts", "", Code, &[Accuracy]),
        remedy("expert-loop", "", Code, &[Rounding]),
        remedy("row-additions", "", Code, &[Rounding]),
        remedy("gemm-epilogue", "", Code, &[Rounding, Upkeep]),
        remedy("gemm-loop", "", Code, &[Memory]).code(BATCHED),
        remedy("repeated-gemms", "", Code, &[Memory]).code(BATCHED),
        remedy("summed-products", "", Code, &[Rounding])
            .code("scores = a @ b.T  # instead of (a[:, None] * b[None]).sum(-1)"),
        remedy("fp64-operators", "", Code, &[Accuracy]),
        remedy("double-precision", "", Code, &[Accuracy]),
        remedy("tf32-gemms", "", Option, &[Accuracy]).code(AUTOCAST),
        remedy(
            "no-tensor-cores",
            "set_float32_matmul_precision",
            Option,
            &[Accuracy],
        )
        .code(TF32),
        remedy("no-tensor-cores", "", Option, &[Accuracy]),
        remedy("data-loader", "", Option, &[HostMemory]).code(LOADER),
        remedy("garbage-collection", "", Option, &[HostMemory]).code(COLLECTION),
        remedy("pageable-copies", "cudaMemcpy", Code, &[Memory]),
        remedy("pageable-copies", "empty_like", Option, &[HostMemory]).code(PINNED_BACK),
        remedy("pageable-copies", "", Option, &[HostMemory]).code(PINNED),
        remedy("exposed-copies", "empty_like", Option, &[HostMemory]).code(PINNED_BACK),
        remedy("exposed-copies", "pin_memory", Option, &[HostMemory]).code(PINNED),
        remedy("exposed-copies", "out=", Code, &[]),
        remedy("exposed-copies", "", Code, &[Memory, Order]).code(STREAM),
        remedy("exposed-communication", "", Code, &[Memory, Order]),
        remedy("straggler", "nvidia-smi", Option, &[])
            .code("nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE  # what holds down the clock"),
        remedy("straggler", "Swap", Option, &[]),
        remedy("straggler", "", Code, &[]),
        remedy("compilation", "", Option, &[Slower])
            .code("model = torch.compile(model, dynamic=True)"),
        remedy("new-shapes", "enable_cudnn_sdp", Option, &[Slower]).code(WITHOUT_CUDNN_ATTENTION),
        remedy("new-shapes", "benchmark", Option, &[Slower])
            .code("torch.backends.cudnn.benchmark = False"),
        remedy("new-shapes", "", Code, &[Memory]),
        remedy("checkpoint", "", Code, &[Failure, HostMemory])
            .code("future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)"),
        remedy("os-waits", "", Code, &[Failure]),
        remedy("first-use", "EAGER", Option, &[Memory, Start])
            .code("export CUDA_MODULE_LOADING=EAGER"),
        remedy("first-use", "", Option, &[Start]),
        remedy("empty-cache", "", Option, &[Memory]),
        remedy("allocator-stalls", "", Code, &[Memory]),
        remedy("memory-pressure", "", Code, &[Slower]),
        remedy("clock-limits", "", Option, &[]),
        remedy("host-bound", "guard_filter_fn", Trial, &[Accuracy]).code(GUARDS),
        remedy("host-bound", "", Code, &[Order]),
        remedy("sync-bound", "", Code, &[Order]),
        remedy("between-stages", "", Code, &[Order]),
        remedy("gemm-alignment", "", Model, &[Memory]),
        remedy("gemm-quantization", "", Model, &[Accuracy]),
        remedy("gemm-roofline", "", Kernels, &[Upkeep]),
        remedy("gemm-bandwidth", "", Kernels, &[Upkeep]),
        remedy("decode-bandwidth", "", Kernels, &[Accuracy, Upkeep]),
        remedy("profiled-bound", "", Kernels, &[Upkeep]),
        remedy("bank-conflicts", "", Kernels, &[Upkeep]),
        remedy("uncoalesced-access", "", Kernels, &[Upkeep]),
        remedy("local-memory", "", Kernels, &[Upkeep]),
        remedy("contended-atomics", "", Kernels, &[Rounding]),
        remedy("divergent-branches", "", Kernels, &[Upkeep]),
        remedy("cache-traffic", "", Kernels, &[Upkeep]),
        remedy("low-occupancy", "", Kernels, &[Slower, Upkeep]),
    ]
};

/// What can go wrong with torch.compile, and with CUDA graphs.
const COMPILING: &[Risk] = &[Risk::Rounding, Risk::Shapes, Risk::Start];
const CAPTURING: &[Risk] = &[Risk::Memory, Risk::Shapes, Risk::Start];

/// Of rules without a row.
static OTHER: Remedy = remedy("", "", Effort::Code, &[]);

const WITHOUT_CUDNN_ATTENTION: &str = "torch.backends.cuda.enable_cudnn_sdp(False)";
const GRAPHS: &str = "model = torch.compile(model, mode=\"reduce-overhead\")  # CUDA graphs";
const GRAPHS_WITH_CACHE: &str = "model.generation_config.cache_implementation = \"static\"  # Transformers\nmodel.forward = torch.compile(model.forward, mode=\"reduce-overhead\")  # CUDA graphs";
const GRAPHS_AFTER_CACHE: &str = "# after the KV cache has a fixed size\nmodel.forward = torch.compile(model.forward, mode=\"reduce-overhead\")  # CUDA graphs";
const COMPILED: &str = "model = torch.compile(model";
const COMPILED_FORWARD: &str = "model.forward = torch.compile(model.forward";
const COMPILED_FUNCTION: &str = "function = torch.compile(function";
const COMPILE: &str = "model = torch.compile(model)";
const CHANGED: &str = "# replaces the call of torch.compile in the program\n";
const GUARDS: &str = "model = torch.compile(model, options={  # instead of a mode\n    \"triton.cudagraphs\": True,\n    \"guard_filter_fn\": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe,\n})";
const AUTOTUNE: &str = "model = torch.compile(model, mode=\"max-autotune\")";
const COLLECTION: &str =
    "import gc\ngc.collect()\ngc.freeze()\ngc.disable()  # collect between epochs";
const LOADER: &str = "loader = torch.utils.data.DataLoader(\n    dataset, batch_size, num_workers=8, prefetch_factor=4,\n    pin_memory=True, persistent_workers=True,\n)";
const LAYOUT: &str = "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)  # volumes: channels_last_3d";
const PINNED: &str = "# pin in the loader (DataLoader(..., pin_memory=True)), or a reused tensor once\nbatch = batch.to(\"cuda\", non_blocking=True)";
const STREAM: &str = "copies = torch.cuda.Stream()  # one per direction\nwith torch.cuda.stream(copies):\n    following = pinned.to(\"cuda\", non_blocking=True)  # while kernels of `batch` run\ntorch.cuda.current_stream().wait_stream(copies)  # before the kernels that read it";
const AUTOCAST: &str =
    "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n    loss = model(batch)";
const AUTOCAST_INFERENCE: &str =
    "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n    y = model(x)";
const TF32: &str = "torch.set_float32_matmul_precision(\"high\")  # GEMMs in TF32\ntorch.backends.cudnn.allow_tf32 = True  # convolutions";
const PINNED_BACK: &str = "out = torch.empty_like(x, device=\"cpu\", pin_memory=True)\nout.copy_(x, non_blocking=True)  # synchronize before reading it";
const FROZEN: &str =
    "encoder.requires_grad_(False)\nwith torch.no_grad():\n    features = encoder(batch)";
const SPARSE: &str = "table = torch.nn.Embedding(rows, size, sparse=True)\noptimizer = torch.optim.SparseAdam(table.parameters(), lr=lr)  # others as before";
const NORMS: &str = "import torch.nn.functional as F  # one of these\ny = F.rms_norm(x, weight.shape, weight, eps)  # without a mean\ny = F.layer_norm(x, weight.shape, weight, bias, eps)\ny = F.group_norm(x, groups, weight, bias, eps)  # groups of channels";
const BATCHED: &str = "c = torch.bmm(a, b)  # a: [n, M, K], b: [n, K, N]";

/// What the remedy of an action is.
pub(super) fn of_action(evidence: &Evidence<'_>, action: &Action<'_>) -> &'static Remedy {
    let what = action.what_to_do(evidence.text);
    let fits = |remedy: &&Remedy| remedy.rule == action.finding.id && what.contains(remedy.word);
    REMEDIES.iter().find(fits).unwrap_or(&OTHER)
}

impl Remedy {
    /// Code for programs that use PyTorch.
    pub(super) fn snippet(&self, evidence: &Evidence<'_>, action: &Action<'_>) -> Option<String> {
        let has_bf16 = evidence.platform.has_tf32() != Some(false);
        // Training in fp16 scales its loss as well, which is more than a line.
        let is_fit = evidence.platform.pytorch && (self.code != AUTOCAST || has_bf16);
        if !is_fit || self.code.is_empty() {
            return None;
        }
        let mut stages = evidence.stages.iter();
        let trains = stages.clone().any(|stage| stage.kind.is_training());
        let code = match self.code {
            AUTOCAST if !trains => AUTOCAST_INFERENCE,
            // A loop of the program's own reads no options of `generate`.
            GRAPHS_WITH_CACHE if !practices::calls_generate(evidence) => GRAPHS_AFTER_CACHE,
            code => code,
        };
        let compiles = code.contains("torch.compile(");
        let is_compiled = evidence.platform.compiled && compiles;
        // What is compiled already needs another mode, not a second call.
        if is_compiled && code == COMPILE || compiles && evidence.platform.is_old_python {
            return None;
        }
        let head = if is_compiled { CHANGED } else { "" };
        let is_of_model =
            !matches!(action.effect, Effect::Stage(stage) if stage.kind == StageKind::Other);
        let compiled = match is_of_model {
            // What generates calls the method and not the model, which alone would be compiled.
            true if stages.any(StageLine::is_decode) => match evidence.session.model {
                Some(_) => COMPILED_FORWARD,
                None => COMPILED_FUNCTION,
            },
            true => COMPILED,
            false => COMPILED_FUNCTION,
        };
        Some(head.to_owned() + &code.replace(COMPILED, compiled))
    }
}

/// What code compiles with torch.compile, and with which arguments.
pub(super) fn compiled(code: &str) -> Option<(&str, &str)> {
    let (_, call) = code.split_once("torch.compile(")?;
    let (arguments, _) = call.split_once(')')?;
    Some(arguments.split_once(", ").unwrap_or((arguments, "")))
}

/// Whether an action does what a later one does: with the same call of torch.compile, or with a KV cache whose length
/// stays, for which no plan of a new length is built.
pub(super) fn does(evidence: &Evidence<'_>, action: &Action<'_>, later: &Action<'_>) -> bool {
    let [remedy, of_later] = [action, later].map(|action| of_action(evidence, action));
    if remedy.code == GRAPHS_WITH_CACHE && of_later.code == WITHOUT_CUDNN_ATTENTION {
        return action.changes_stage_of(later);
    }
    let code = remedy.snippet(evidence, action);
    match code.zip(of_later.snippet(evidence, later)) {
        Some((code, later)) => compiles(&code, &later),
        None => false,
    }
}

/// Whether code does what later code does with torch.compile.
fn compiles(code: &str, later: &str) -> bool {
    match (compiled(code), compiled(later)) {
        (Some((model, options)), Some((later, asked))) => {
            model == later && (asked.is_empty() || asked == options)
        }
        _ => false,
    }
}

/// The code with another comment on the call of torch.compile that it replaces.
pub(super) fn replacing(code: &str, number: usize) -> String {
    let code = code.strip_prefix(CHANGED).unwrap_or(code);
    format!("# replaces the call of torch.compile of action {number}\n{code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is copied is run: neither tabs nor lines wider than a page.
    #[test]
    fn code_fits_on_a_page() {
        for remedy in &REMEDIES {
            let code = remedy.code.replace(COMPILED, COMPILED_FORWARD);
            for line in code.lines() {
                let is_fit = line.is_ascii() && line.len() <= 84;
                assert!(is_fit, "{}: {line}", remedy.rule);
            }
        }
    }

    #[test]
    fn a_call_with_graphs_compiles_and_not_the_reverse() {
        assert!(compiles(GRAPHS, COMPILE));
        assert!(compiles(GRAPHS, GRAPHS));
        assert!(!compiles(COMPILE, GRAPHS));
        // The method of a model is not the model.
        assert!(!compiles(GRAPHS_WITH_CACHE, COMPILE));
        assert!(compiles(GRAPHS_AFTER_CACHE, GRAPHS_WITH_CACHE));
        assert!(!compiles(LOADER, COMPILE));
    }

    #[test]
    fn rules_of_remedies_exist() {
        for remedy in &REMEDIES {
            let is_known = crate::rules().any(|known| known.id == remedy.rule);
            assert!(is_known, "{}", remedy.rule);
        }
    }
}
