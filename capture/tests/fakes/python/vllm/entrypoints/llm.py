from vllm.engine.arg_utils import EngineArgs


class LLM:
    def __init__(self, model, *, tensor_parallel_size=1, dtype="auto", hf_token=None, **kwargs):
        arguments = EngineArgs(
            model=model, tensor_parallel_size=tensor_parallel_size, dtype=dtype, hf_token=hf_token, **kwargs)
        self.config = arguments.create_engine_config()

    def generate(self, prompts, sampling_params=None, *, use_tqdm=True):
        return list(prompts)
