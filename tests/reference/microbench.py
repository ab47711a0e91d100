"""Figures of `rooflens bench-report` derived with NumPy, which its tests repeat.

    python3 tests/reference/microbench.py src/studies/microbench/testdata

Prints the ceilings and ridge point, the median, least and best efficiency of each operation and dtype, and the fits
of time against work: lstsq on rows (1, work) ÷ time, right side 1.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

PRODUCTS = {"linear", "batched_gemm", "attention_prefill", "attention_decode", "conv2d", "lstm"}

folder = Path(sys.argv[1])
cases = json.loads((folder / "bench.json").read_text())["cases"]
peaks = json.loads((folder / "peaks.json").read_text())
copy = peaks["copy"]["gb_per_s_read_plus_write"] * 1e9
rates = {dtype: entry["tflops"] * 1e12 for dtype, entry in peaks["matmul"].items()}
print(peaks["gpu"], len(cases), "cases, copy", copy, "ridge bf16", rates["bf16"] / copy)

shares, series = defaultdict(list), defaultdict(list)
for case in cases:
    name, dtype, time, by_rate = case["operation"], case["dtype"], case["median_s"], False
    if name not in ("copy_h2d", "copy_d2h"):
        roof = case["bytes"] / copy
        if name in PRODUCTS:
            compute = case["flops"] / rates[dtype]
            by_rate, roof = compute > roof, max(compute, roof)
        shares[name, dtype].append(roof / time)
    series[name, dtype, by_rate].append((case["flops"] if by_rate else case["bytes"], time))
for key, values in shares.items():
    print(*key, len(values), *(round(of(values), 4) for of in (statistics.median, min, max)))
for key, points in series.items():
    work, time = (np.array(column) for column in zip(*points))
    if len(set(work)) < 3:
        continue
    floor, slope = np.linalg.lstsq(np.stack([1 / time, work / time], 1), np.ones(len(time)), rcond=None)[0]
    if floor <= 0:
        floor, slope = 0, np.linalg.lstsq((work / time)[:, None], np.ones(len(time)), rcond=None)[0][0]
    fit, weight = floor + slope * work, time**-2
    mean = (weight * time).sum() / weight.sum()
    r2 = 1 - (weight * (time - fit) ** 2).sum() / (weight * (time - mean) ** 2).sum()
    residual = max(abs(time - fit) / time)
    print(*key, len(time), f"floor {floor * 1e6:.4f} us, rate {1 / slope:.6e}, r2 {r2:.6f}, residual {residual:.5f}")
