from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.server_args import ServerArgs


class Engine:
    def __init__(self, **kwargs):
        kwargs.setdefault("log_level", "error")
        self.server_args = ServerArgs(**kwargs)
        self.config = ModelConfig(self.server_args.model_path)

    def generate(self, prompt=None, sampling_params=None):
        return {"text": ""}
