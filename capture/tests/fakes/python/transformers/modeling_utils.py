import os

import torch


class Config:
    _attn_implementation = "sdpa"

    def to_dict(self):
        # The secret is planted: it must not get into the bundle.
        return {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "_name_or_path": os.environ.get("FAKE_SECRET_TOKEN")}


class PreTrainedModel(torch.nn.Module):
    def __init__(self, config):
        self.config = config
