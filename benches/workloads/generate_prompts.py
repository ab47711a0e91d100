"""Answers five prompts of different lengths with `generate()` of transformers, in bfloat16."""
import time

import torch
import transformers

torch.manual_seed(0)
config = transformers.LlamaConfig(
    hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
    vocab_size=32000, max_position_embeddings=4096,
)
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
for length in (128, 700, 1500, 256, 1024):
    prompt = torch.randint(0, 32000, (1, length), device="cuda")
    start = time.perf_counter()
    answer = model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0)
    print(length, answer.shape[1] - length, round(time.perf_counter() - start, 2))
