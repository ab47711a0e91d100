"""How a workload writes timings.json: repeats of each stage in milliseconds, by CUDA events."""
import json
import os

import torch

a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
repeats, steps, ms = 5, 16, []
for repeat in range(1 + repeats):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(steps):
        a @ a
    end.record()
    torch.cuda.synchronize()
    if repeat > 0:  # the first is warm-up
        ms.append(start.elapsed_time(end))
timings = {"version": 1, "batch": 1, "stages": {"matmul": {"ms": ms, "steps": steps}}}
with open(os.path.join(os.environ.get("ROOFLENS_OUT", "."), "timings.json"), "w") as file:
    json.dump(timings, file)
