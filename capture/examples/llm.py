"""A small Llama with random weights: prefill, then tokens one by one. A workload to try rooflens-capture on.

    rooflens-capture all -o run1 --gate generate --window 0:1 -- python3 llm.py

NVTX ranges: `generate` around each repeat, in it `prefill` and `decode`, in that one `decode_step` a token. Warm-up runs
outside of any range. Into the folder ROOFLENS_OUT go timings.json (CUDA events), workload.toml and config.json: with
them rooflens needs to be told nothing else.
"""
import argparse
import json
import os

import torch
from torch.cuda import nvtx
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=512, help="prompt length in tokens")
    parser.add_argument("--new", type=int, default=16, help="tokens decoded one by one")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def build(args):
    """The shape of Llama-3.2-1B by default: heads of 64, four to a key-value head."""
    heads = args.hidden // 64
    config = LlamaConfig(
        hidden_size=args.hidden, intermediate_size=4 * args.hidden, num_hidden_layers=args.layers,
        num_attention_heads=heads, num_key_value_heads=max(1, heads // 4), vocab_size=128256,
        max_position_embeddings=8192, tie_word_embeddings=True)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
    return model.eval(), config


@torch.inference_mode()
def generate(model, prompt, new):
    """Milliseconds of prefill and decode."""
    cache = DynamicCache()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    events[0].record()
    nvtx.range_push("prefill")
    token = model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)
    nvtx.range_pop()
    events[1].record()
    nvtx.range_push("decode")
    for _ in range(new):
        nvtx.range_push("decode_step")
        token = model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        nvtx.range_pop()
    nvtx.range_pop()
    events[2].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])


@torch.inference_mode()
def warm_up(model, prompt):
    cache = DynamicCache()
    for ids in (prompt, prompt[:, :1], prompt[:, :1]):
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    torch.cuda.synchronize()


def describe(args, config, times, folder):
    """What rooflens wants to know of the workload."""
    stages = {"prefill": {"ms": [prefill for prefill, _ in times]},
              "decode": {"ms": [decode for _, decode in times], "steps": args.new}}
    timings = {"version": 1, "batch": args.batch, "prompt_tokens": args.prompt, "output_tokens": args.new,
               "torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(),
               "stages": stages}
    workload = f"""name = "Llama, {args.layers} layers of {args.hidden}, batch {args.batch}, prompt {args.prompt}"
mode = "inference"
dtype = "bf16"
config = "config.json"
batch = {args.batch}
prompt_tokens = {args.prompt}
output_tokens = {args.new}
warmup = 0
"""
    for stage in ("prefill", "decode", "decode_step"):
        workload += f'\n[[stages]]\nname = "{stage}"\nkind = "{stage}"\n'
    texts = {"timings.json": json.dumps(timings, indent=1), "workload.toml": workload,
             "config.json": json.dumps(config.to_dict(), indent=1, default=str)}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text + "\n" if name.endswith("json") else text)


def main():
    args = arguments()
    model, config = build(args)
    prompt = torch.randint(0, config.vocab_size, (args.batch, args.prompt), device="cuda")
    for _ in range(2):
        warm_up(model, prompt)
    times = []
    for _ in range(args.repeats):
        nvtx.range_push("generate")
        times.append(generate(model, prompt, args.new))
        nvtx.range_pop()
    for prefill, decode in times:
        print(f"prefill {prefill:.2f} ms, decode {decode / args.new:.3f} ms a token")
    describe(args, config, times, os.environ.get("ROOFLENS_OUT", "."))


if __name__ == "__main__":
    main()
