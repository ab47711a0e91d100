"""PyTorch's times of the cases in a bench.json, to be held against those of `rooflens-capture bench`.

    python3 bench_torch.py bench.json torch.json [--only TEXT]

Reads cases from bench.json, times the same shapes in PyTorch by CUDA events with as many copies of the operands as
`bench` used, and prints the ratio of the medians (bench / PyTorch). Launches go through a CUDA graph where PyTorch can
capture them, so that Python's own time does not count. Attention is timed by cuDNN and by FlashAttention, and the faster
one counts; `torch_by` has both. Exit code 1 if any ratio is beyond 10 %.
"""

import argparse
import json
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}


def uniform(*shape, dtype):
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def linear(s, d):
    tokens = s["batch"] * s["sequence"]
    x, w = uniform(tokens, s["in"], dtype=d), uniform(s["out"], s["in"], dtype=d)
    b = uniform(s["out"], dtype=d) if s["bias"] else None
    return lambda: F.linear(x, w, b)


def batched_gemm(s, d):
    x, w = uniform(s["batch"], s["m"], s["k"], dtype=d), uniform(s["batch"], s["n"], s["k"], dtype=d)
    return lambda: torch.bmm(x, w.transpose(1, 2))


def attention(s, d, queries, keys, causal):
    q = uniform(s["batch"], s["heads"], queries, s["head_dim"], dtype=d)
    k, v = (uniform(s["batch"], s["kv_heads"], keys, s["head_dim"], dtype=d) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def softmax(s, d):
    x = uniform(s["batch"], s["heads"], s["sequence"], s["keys"], dtype=d)
    return lambda: F.softmax(x, dim=-1)


def rows(s, d):
    return uniform(s["batch"] * s["sequence"], s["hidden"], dtype=d)


def layer_norm(s, d):
    x, w, b = rows(s, d), uniform(s["hidden"], dtype=d), uniform(s["hidden"], dtype=d)
    return lambda: F.layer_norm(x, (s["hidden"],), w, b, 1e-5)


def rms_norm(s, d):
    x, w = rows(s, d), uniform(s["hidden"], dtype=d)
    return lambda: F.rms_norm(x, (s["hidden"],), w, 1e-5)


def gelu(s, d):
    x = rows(s, d)
    return lambda: F.gelu(x)


def silu(s, d):
    x = rows(s, d)
    return lambda: F.silu(x)


def silu_mul(s, d):
    gate, up = rows(s, d), rows(s, d)
    return lambda: F.silu(gate) * up  # two kernels: bench has one


def rotary(s, d):
    x = uniform(s["batch"], s["sequence"], s["heads"], s["head_dim"], dtype=d)
    cos, sin = (uniform(s["sequence"], 1, s["head_dim"], dtype=d) for _ in range(2))
    half = s["head_dim"] // 2
    return lambda: x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin  # four kernels: bench has one


def embedding(s, d):
    table = uniform(s["vocabulary"], s["hidden"], dtype=d)
    index = torch.randint(s["vocabulary"], (s["batch"] * s["sequence"],), device="cuda")
    return lambda: F.embedding(index, table)


def conv2d(s, d):
    last = torch.channels_last
    x = uniform(s["batch"], s["channels_in"], s["height"], s["width"], dtype=d).to(memory_format=last)
    w = uniform(s["channels_out"], s["channels_in"], s["kernel"], s["kernel"], dtype=d).to(memory_format=last)
    return lambda: F.conv2d(x, w, stride=s["stride"], padding=s["padding"])


def lstm(s, d):
    layer = torch.nn.LSTM(s["in"], s["hidden"], bias=False, device="cuda", dtype=d)
    x = uniform(s["sequence"], s["batch"], s["in"], dtype=d)
    return lambda: layer(x)


def copy(s, kind):
    def make(device, **more):
        return torch.empty(s["bytes"], dtype=torch.uint8, device=device, **more)

    source = make("cpu", pin_memory=True) if kind == "h2d" else make("cuda")
    target = make("cpu", pin_memory=True) if kind == "d2h" else make("cuda")
    return lambda: target.copy_(source, non_blocking=True)


def build(case):
    """A function that runs the case once on operands of its own."""
    name, s, d = case["operation"], case["sizes"], DTYPES.get(case["dtype"])
    if name.startswith("copy_"):
        return copy(s, name.removeprefix("copy_"))
    torch.backends.cuda.matmul.allow_tf32 = case["dtype"] == "tf32"
    torch.backends.cudnn.allow_tf32 = case["dtype"] == "tf32"
    if name == "attention_prefill":
        return attention(s, d, s["sequence"], s["sequence"], True)
    if name == "attention_decode":
        return attention(s, d, 1, s["context"], False)
    return globals()[name](s, d)


def elapsed(work, launches):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for number in range(launches):
        work(number)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


def captured(works):
    """One CUDA graph that runs each of the works, or None where PyTorch cannot capture them."""
    try:
        for work in works:
            work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for work in works:
                work()
        return graph
    except RuntimeError:
        return None


def measure(case, samples):
    """Median seconds of one launch, how it was launched, and the medians by backend."""
    if not case["operation"].startswith("attention_"):
        return *timed(case, samples), {}
    by = {}
    for name, backend in {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}.items():
        try:
            with sdpa_kernel(backend):
                by[name] = timed(case, samples)
        except Exception as error:  # noqa: BLE001: the other one may do
            by[name] = (math.inf, str(error).splitlines()[0])
    best, launch = min(by.values())
    if best == math.inf:
        raise RuntimeError(launch)
    return best, launch, {name: seconds if seconds < math.inf else why for name, (seconds, why) in by.items()}


def timed(case, samples):
    # Enough copies to be out of the L2 cache; more than 32 would cost Python minutes.
    copies = 1 if case["operation"].startswith("copy_h") else min(case.get("input_copies", 1), 32)
    works = [build(case) for _ in range(copies)]
    graph = None if case["operation"].startswith("copy_") else captured(works)
    unit = copies if graph else 1
    run = (lambda number: graph.replay()) if graph else (lambda number: works[number % copies]())
    elapsed(run, 1)
    launches = max(1, math.ceil(2e-3 / max(elapsed(run, 1), 1e-6)))
    elapsed(run, launches * 10)
    times = [elapsed(run, launches) / launches / unit for _ in range(samples)]
    return statistics.median(times), "graph" if graph else "eager"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("output")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=30)
    arguments = parser.parse_args()
    with open(arguments.bench, encoding="utf-8") as file:
        cases = [case for case in json.load(file)["cases"] if arguments.only in case["name"]]
    results, beyond = [], 0
    for case in cases:
        result = {"name": case["name"], "bench_s": case.get("median_s")}
        try:
            with torch.inference_mode():
                result["torch_s"], result["launch"], result["torch_by"] = measure(case, arguments.samples)
        except Exception as error:  # noqa: BLE001: one case must not cost the others
            result["error"] = str(error).splitlines()[0]
        torch.cuda.empty_cache()
        if result.get("torch_s") and result["bench_s"]:
            result["ratio"] = result["bench_s"] / result["torch_s"]
            beyond += abs(result["ratio"] - 1) > 0.10
        results.append(result)
        note = f"{result['ratio']:.3f}" if "ratio" in result else result.get("error") or case.get("error", "")
        print(f"{note:>8}  {case['name']}", flush=True)
    with open(arguments.output, "w", encoding="utf-8") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": results}, file, indent=1)
    print(f"{beyond} of {len(results)} beyond 10 %")
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
