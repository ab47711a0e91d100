from transformers.modeling_utils import Config


class ModelConfig:
    def __init__(self, model_path):
        self.hf_config = Config()
