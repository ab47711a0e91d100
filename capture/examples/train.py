"""Training of a small Llama with a data loader that is too slow. A workload to try rooflens-capture on.

    rooflens-capture all -o run1 --gate train_step --window 1:2 --record shapes,stacks,memory,flops -- python3 train.py

NVTX ranges: `data` (waiting for the next batch), then `train_step`, in it `forward`, `backward` and `optimizer`. Warm-up
runs outside of any range. The texts are random numbers that `tokenize` makes slowly, so the GPU waits for them. Into the
folder ROOFLENS_OUT go timings.json (CUDA events), workload.toml and config.json.
"""
import argparse
import json
import os

import torch
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, LlamaConfig

VOCABULARY = 32000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data; 0: the training process")
    return parser.parse_args()


def tokenize(text, length):
    """As slow as a tokenizer in Python."""
    state, tokens = text, []
    for _ in range(length):
        state = (state * 1103515245 + 12345) % 2**31
        tokens.append(state % VOCABULARY)
    return torch.tensor(tokens)


class Texts(Dataset):
    def __init__(self, count, length):
        self.count, self.length = count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return tokenize(index, self.length)


def build(args):
    heads = args.hidden // 64
    config = LlamaConfig(
        hidden_size=args.hidden, intermediate_size=4 * args.hidden, num_hidden_layers=args.layers,
        num_attention_heads=heads, num_key_value_heads=heads, vocab_size=VOCABULARY,
        max_position_embeddings=args.length, tie_word_embeddings=False)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
    return model.train(), config


def train_step(model, optimizer, tokens):
    nvtx.range_push("train_step")
    nvtx.range_push("forward")
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    nvtx.range_pop()
    nvtx.range_push("backward")
    loss.backward()
    nvtx.range_pop()
    nvtx.range_push("optimizer")
    optimizer.step()
    optimizer.zero_grad()
    nvtx.range_pop()
    nvtx.range_pop()


def describe(args, config, times, folder):
    timings = {"version": 1, "batch": args.batch, "prompt_tokens": args.length, "torch": torch.__version__,
               "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(),
               "stages": {"train_step": {"ms": times}}}
    workload = f"""name = "Training of a Llama, {args.layers} layers of {args.hidden}, batch {args.batch} of {args.length}"
mode = "training"
dtype = "bf16"
config = "config.json"
batch = {args.batch}
prompt_tokens = {args.length}
warmup = 0

[[stages]]
name = "data"
"""
    for stage in ("train_step", "forward", "backward", "optimizer"):
        workload += f'\n[[stages]]\nname = "{stage}"\nkind = "{stage}"\n'
    texts = {"timings.json": json.dumps(timings, indent=1), "workload.toml": workload,
             "config.json": json.dumps(config.to_dict(), indent=1, default=str)}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text + "\n" if name.endswith("json") else text)


def main():
    args = arguments()
    model, config = build(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    warm = torch.zeros(args.batch, args.length, device="cuda", dtype=torch.long)
    for _ in range(3):
        model(input_ids=warm, labels=warm, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    loader = iter(DataLoader(Texts(args.batch * args.steps, args.length), args.batch, num_workers=args.workers))
    times = []
    for _ in range(args.steps):
        nvtx.range_push("data")
        tokens = next(loader).cuda()
        nvtx.range_pop()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        train_step(model, optimizer, tokens)
        events[1].record()
        times.append(events)
    torch.cuda.synchronize()
    times = [begin.elapsed_time(end) for begin, end in times]
    print("train_step", ", ".join(f"{time:.2f}" for time in times), "ms")
    describe(args, config, times, os.environ.get("ROOFLENS_OUT", "."))


if __name__ == "__main__":
    main()
