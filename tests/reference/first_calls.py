"""Operators of a PyTorch trace that are slow on first calls with new shapes, derived without Rooflens.

usage: first_calls.py TRACE.json OPERATOR

Self CPU time of a call is its duration without the operators and the CUDA calls that begin in it on its thread. Prints the
calls, the median, and of those of 1 ms and 10 medians or more the least, the most, their shapes and whether each is the first
call with its shapes. Uses the standard library alone.
"""

import bisect
import collections
import json
import statistics
import sys


def main(path, name):
    events = [one for one in json.load(open(path))["traceEvents"] if one.get("ph") == "X"]
    calls = [one for one in events if one.get("cat") == "cpu_op" and one["name"] == name]
    calls.sort(key=lambda one: one["ts"])
    inner = collections.defaultdict(list)
    for one in sorted(events, key=lambda one: one["ts"]):
        if one.get("cat") in ("cpu_op", "cuda_runtime", "cuda_driver"):
            inner[one["tid"]].append(one)
    starts = {tid: [one["ts"] for one in of] for tid, of in inner.items()}
    nanoseconds = lambda time: round(time * 1000)
    own = []
    for call in calls:
        begin, end = call["ts"], call["ts"] + call["dur"]
        tid = call["tid"]
        span = slice(bisect.bisect_left(starts[tid], begin), bisect.bisect_left(starts[tid], end))
        within = [(one["ts"], min(one["ts"] + one["dur"], end)) for one in inner[tid][span] if one is not call]
        taken, last = 0, begin
        for start, stop in within:
            taken += max(0, stop - max(start, last))
            last = max(last, stop)
        own.append(nanoseconds(call["dur"] - taken))
    median = statistics.median(own)
    seen, slow = set(), []
    for call, time in zip(calls, own):
        shapes = json.dumps(call["args"].get("Input Dims"))
        if time >= 1_000_000 and time >= 10 * median:
            slow.append((time, shapes not in seen, shapes))
        seen.add(shapes)
    print(len(calls), "calls, median", median)
    print(len(slow), "slow,", sum(first for _, first, _ in slow), "of them first calls,", min(slow)[0], "to", max(slow)[0])
    for one in slow:
        print(*one)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
