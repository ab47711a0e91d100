"""Matrix-product and copy rates by PyTorch, to be held against `rooflens-capture peaks` on the same machine.

    python3 peaks_torch.py torch.json [--size 8192] [--warmup-ms 2000]
    python3 peaks_torch.py torch.json --compare peaks.json      measures, then prints ratios; exit code 1 beyond 5 %

The procedure is that of `peaks`: values uniform in [-1, 1], samples of at least 2 ms between two CUDA events, each
waited for, the median of 20.
"""

import argparse
import json
import math
import statistics
import sys

import torch


def sample(work, launches):
    """Seconds of that many launches, by events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(launches):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


def measure(work, warmup_s, samples=20):
    """Statistics of seconds per launch."""
    sample(work, 1)
    launches = max(1, math.ceil(2e-3 / sample(work, 1)))
    spent = 0.0
    while spent < warmup_s:
        spent += sample(work, launches)
    times = [sample(work, launches) / launches for _ in range(samples)]
    return {"median_s": statistics.median(times), "min_s": min(times), "max_s": max(times), "n": samples}


def uniform(size, dtype):
    """Random to the last bit in fp64, too: numbers with zeros at their ends take less power, and so more clock."""
    made = torch.float64 if dtype == torch.float64 else torch.float32
    return (torch.rand(size, size, device="cuda", dtype=made) * 2 - 1).to(dtype)


def products(size):
    """Name and a product to time, for each format; building one may fail where the GPU lacks the format."""

    def plain(dtype, tf32=False):
        def build():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a, b = uniform(size, dtype), uniform(size, dtype)
            out = torch.empty_like(a)
            return lambda: torch.mm(a, b, out=out)

        return build

    def fp8():
        a = uniform(size, torch.float8_e4m3fn)
        b = uniform(size, torch.float8_e4m3fn).t()
        one = torch.tensor(1.0, device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    def int8():
        a, b = (torch.randint(-127, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())

    return {
        "fp64": plain(torch.float64),
        "fp32": plain(torch.float32),
        "tf32": plain(torch.float32, tf32=True),
        "fp16": plain(torch.float16),
        "bf16": plain(torch.bfloat16),
        "fp8_e4m3": fp8,
        "int8": int8,
    }


def measure_all(size, warmup_s):
    out = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "size": size, "matmul": {}}
    for name, build in products(size).items():
        try:
            entry = measure(build(), warmup_s)
            entry["tflops"] = 2 * size**3 / entry["median_s"] / 1e12
        except (RuntimeError, AttributeError) as error:
            entry = str(error).splitlines()[0]
        out["matmul"][name] = entry
    source = torch.randint(0, 256, (4 << 30,), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    copy = measure(lambda: target.copy_(source), warmup_s)
    copy["gb_per_s_read_plus_write"] = 2 * source.numel() / copy["median_s"] / 1e9
    out["copy"] = copy
    return out


def compare(ours, theirs, limit=0.05):
    """Prints ratios; true if all lie within the limit. Better than PyTorch is no failure."""
    rows = [(name, entry, theirs["matmul"].get(name), "tflops") for name, entry in ours["matmul"].items()]
    rows.append(("copy", ours["copy"], theirs["copy"], "gb_per_s_read_plus_write"))
    good = True
    for name, mine, other, key in rows:
        if not (isinstance(mine, dict) and isinstance(other, dict)):
            print(f"{name:10} peaks: {mine if isinstance(mine, str) else 'measured'}; PyTorch: {other if isinstance(other, str) else 'measured'}")
            continue
        ratio = mine[key] / other[key]
        fine = abs(ratio - 1) <= limit
        good &= ratio >= 1 - limit
        note = "" if fine else ("  faster than PyTorch" if ratio > 1 else "  SLOWER than PyTorch")
        print(f"{name:10} peaks {mine[key]:9.1f}  PyTorch {other[key]:9.1f}  ratio {ratio:.3f}{note}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--warmup-ms", type=float, default=2000)
    parser.add_argument("--compare", metavar="PEAKS_JSON")
    arguments = parser.parse_args()
    measured = measure_all(arguments.size, arguments.warmup_ms / 1e3)
    with open(arguments.output, "w", encoding="utf-8") as file:
        json.dump(measured, file, indent=1)
    if arguments.compare:
        with open(arguments.compare, encoding="utf-8") as file:
            sys.exit(0 if compare(json.load(file), measured) else 1)
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
