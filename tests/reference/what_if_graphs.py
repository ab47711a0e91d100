#!/usr/bin/env python3
"""GPU time of a decode step in a CUDA graph, from an nsys export of its eager run: what `rooflens predict --from FOLDER
--graphs` says as gpu_low_ns and gpu_high_ns.

    what_if_graphs.py timeline.sqlite

Kernels, memcpys and memsets belong to the `decode` range in which their CUDA call began; a range has as many steps as it
has `decode_step` ranges. Busy time is the union of their intervals. A graph has gaps of 250, 500, 1500 ns per launch;
clocks and the spread of the ranges (quartiles) scale the sum, 3 % either way. Sums of kernels are exact, so that the
gaps are the only other error.
"""
import sqlite3, sys
from statistics import quantiles, median

db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
tables = {row[0] for row in db.execute("select name from sqlite_master where type = 'table'")}
work = []
for table in ("KERNEL", "MEMCPY", "MEMSET"):
    if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
        work += db.execute(f"""select r.start, w.start, w.end from CUPTI_ACTIVITY_KIND_{table} w
                               join CUPTI_ACTIVITY_KIND_RUNTIME r using (correlationId)""").fetchall()
ranges = db.execute("""select coalesce(text, value), start, end from NVTX_EVENTS left join StringIds on textId = id
                       where end is not null""").fetchall()
busy, launches = [], []
for name, start, end in ranges:
    if name != "decode":
        continue
    steps = sum(1 for other, at, _ in ranges if other == "decode_step" and start <= at <= end)
    own = sorted((a, b) for call, a, b in work if start <= call <= end)
    union, until = 0, 0
    for a, b in own:
        union += max(0, b - max(a, until))
        until = max(until, b)
    busy.append(union / steps)
    launches.append(len(own) / steps)
low, mid, high = quantiles(busy, n=4, method="inclusive")
number = sum(launches) / len(launches)
print(f"ranges {len(busy)}, launches per step {number}, busy {low:.1f} {mid:.1f} {high:.1f} ns")
print(f"gpu_low_ns  {(mid + 250 * number) * 0.97 * low / mid:.1f}")
print(f"gpu_high_ns {(mid + 1500 * number) * 1.03 * high / mid:.1f}")
