"""Generates with a static cache, whose decode steps transformers compiles. MODE=reduce-overhead adds CUDA graphs."""
import os
import time

import torch
import transformers
from transformers.generation.configuration_utils import CompileConfig

torch.manual_seed(0)
config = transformers.Qwen2Config(
    hidden_size=1536, intermediate_size=8960, num_hidden_layers=4, num_attention_heads=12, num_key_value_heads=2,
    vocab_size=32000, max_position_embeddings=2048,
)
with torch.device("cuda"):
    model = transformers.Qwen2ForCausalLM(config).to(torch.bfloat16).eval()
model.generation_config.cache_implementation = "static"
model.generation_config.compile_config = CompileConfig(mode=os.environ.get("MODE", "default"))
prompts = torch.randint(0, 32000, (4, 256), device="cuda")
for request in range(6):
    start = time.perf_counter()
    answer = model.generate(prompts, max_new_tokens=128, min_new_tokens=128, do_sample=False, pad_token_id=0)
    print(request, tuple(answer.shape), round(time.perf_counter() - start, 2))
