"""Arguments of vLLM and SGLang, the config of the model that they serve, and the batches that they compute."""
from . import loading, marks, notes, steps

# Arguments that are noted. The list keeps out tokens, hosts and paths of files.
VLLM = (
    "model", "dtype", "quantization", "kv_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel", "block_size",
    "gpu_memory_utilization", "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "cpu_offload_gb",
    "speculative_config", "compilation_config", "load_format", "seed",
)
SGLANG = (
    "model_path", "dtype", "quantization", "kv_cache_dtype", "context_length", "max_running_requests",
    "max_total_tokens", "max_prefill_tokens", "chunked_prefill_size", "tp_size", "pp_size", "dp_size", "ep_size",
    "mem_fraction_static", "attention_backend", "disable_cuda_graph", "cuda_graph_max_bs", "disable_radix_cache",
    "enable_torch_compile", "speculative_algorithm", "schedule_policy", "load_format", "random_seed",
)

_engines = {}


def _note(engine, owner, names):
    values = {name: getattr(owner, name) for name in names if getattr(owner, name, None) is not None}
    plain = {name: value if isinstance(value, (bool, int, float)) else str(value) for name, value in values.items()}
    _engines.setdefault(engine, {}).update(plain)
    notes.part("engines", _engines)
    notes.write()


def _note_config(engine, config):
    if hasattr(config, "to_dict"):
        notes.part("served_config", {"engine": engine, "config": config.to_dict()})
        notes.write()


def hook_vllm_arguments(module):
    cls = module.EngineArgs
    for name in ("create_model_config", "create_engine_config"):
        if hasattr(cls, name):
            loading.after(cls, name, _vllm_config)


def _vllm_config(result, self, *args, **kwargs):
    _note("vllm", self, VLLM)
    model = getattr(result, "model_config", result)
    _note_config("vllm", getattr(model, "hf_config", None))


def hook_sglang_arguments(module):
    loading.after(module.ServerArgs, "__init__", lambda _, self, *args, **kwargs: _note("sglang", self, SGLANG))


def hook_sglang_config(module):
    def built(_, self, *args, **kwargs):
        _note_config("sglang", getattr(self, "hf_config", None))

    loading.after(module.ModelConfig, "__init__", built)


def _times_generate(cls):
    """Calls of generate are timed by the host's clock: the GPU's work is in other processes."""

    def wrapper(generate):
        def called(*args, **kwargs):
            current = steps.current
            if current is None:
                return generate(*args, **kwargs)
            current.generates()
            try:
                return generate(*args, **kwargs)
            finally:
                current.generated()

        return called

    loading.replace(cls, "generate", wrapper)


def _computes(cls, name, batch_of):
    """Calls of this method compute a batch each: of a phase and sizes, or none if there is nothing to compute."""
    steps.has_batches, batch_of = True, loading.quiet(batch_of)

    def wrapper(compute):
        def called(*args, **kwargs):
            current = steps.current
            batch = batch_of(*args, **kwargs) if current is not None else None
            told = batch is not None and current.batch_begins(*batch)
            mark = marks.call(*batch, is_new=False) if batch is not None else None
            try:
                return compute(*args, **kwargs)
            finally:
                marks.end(mark)
                if told:
                    current.batch_ends()

        return called

    loading.replace(cls, name, wrapper)


def _vllm_batch(self, scheduler_output, *args, **kwargs):
    """decode if each request has one token and those that are guessed."""
    guessed = getattr(scheduler_output, "scheduled_spec_decode_tokens", None) or {}
    scheduled = scheduler_output.num_scheduled_tokens
    if not scheduled:
        return None
    most = max(tokens - len(guessed.get(request, ())) for request, tokens in scheduled.items())
    return "prefill" if most > 1 else "decode", {"batch": len(scheduled), "tokens": max(scheduled.values())}


def _sglang_batch(self, forward_batch, *args, **kwargs):
    mode = forward_batch.forward_mode
    if mode.is_idle() or getattr(self, "is_draft_worker", False):
        return None
    phase = "decode" if mode.is_decode() or mode.is_target_verify() else "prefill"
    return phase, {"batch": getattr(forward_batch, "batch_size", None)}


# Modules that are hooked once they are imported.
LATER = [
    ("vllm.engine.arg_utils", hook_vllm_arguments),
    ("vllm.entrypoints.llm", lambda module: _times_generate(module.LLM)),
    ("vllm.v1.worker.gpu_model_runner", lambda module: _computes(module.GPUModelRunner, "execute_model", _vllm_batch)),
    ("sglang.srt.server_args", hook_sglang_arguments),
    ("sglang.srt.configs.model_config", hook_sglang_config),
    ("sglang.srt.model_executor.model_runner", lambda module: _computes(module.ModelRunner, "forward", _sglang_batch)),
    ("sglang.srt.entrypoints.engine", lambda module: _times_generate(module.Engine)),
]
