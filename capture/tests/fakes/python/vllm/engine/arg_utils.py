"""As in vLLM 0.11: the dataclass of arguments makes the config of the model."""
import dataclasses

from transformers.modeling_utils import Config


class ModelConfig:
    def __init__(self):
        self.hf_config = Config()


class VllmConfig:
    def __init__(self, model_config):
        self.model_config = model_config


@dataclasses.dataclass
class EngineArgs:
    model: str
    dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    enforce_eager: bool = False
    hf_token: str | None = None

    def create_model_config(self):
        return ModelConfig()

    def create_engine_config(self, usage_context=None):
        return VllmConfig(self.create_model_config())
