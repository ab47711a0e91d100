"""Pauses of the host in some instances of a stage, derived from an nsys SQLite export without Rooflens.

usage: pauses.py EXPORT STAGE [SKIP [TIMINGS STEP]]

STAGE is the name of NVTX ranges of one process on one GPU, SKIP the number of leading instances that do not count.
Prints idle time in host code by instance, what of it lies beyond that of the instance of median time (docs/findings.md,
`host-pauses`), and what the longest gaps are ended by. With TIMINGS, the timings.json of un-profiled repeats, and STEP,
the name of the ranges of decode steps, also the time of all stages: of prefill the shorter of both medians, of decode the
un-profiled median per step times the steps of the profiled instances, each times the instances that count.
Causes are those of idle.py. The numbers of tests/idle.rs come from here.
"""

import collections
import json
import statistics
import sys

from idle import Capture

LISTED = 20


def windows(capture, stage, skip):
    """First start and last end of the operations of each instance that counts."""
    for process, ranges in capture.instances(stage, skip, None).items():
        for start, end, thread in ranges:
            (gpu, ops), = capture.own(process, start, end, thread).items()
            yield gpu, min(op[0] for op in ops), max(op[1] for op in ops)


def middle(values):
    """Mean over the middle one, or both of an even number."""
    return statistics.mean(values[(len(values) - 1) // 2:len(values) // 2 + 1])


def all_stages(capture, stage, skip, timings, step):
    """Time of the counted instances of prefill and of the stage."""
    measured = json.load(open(timings))
    prefill = [last - first for _, first, last in windows(capture, "prefill", skip)]
    total = min(statistics.median(prefill), statistics.median(measured["prefill_ms"]) * 1e6) * len(prefill)
    (ranges,), (steps,) = (capture.instances(name, 0, None).values() for name in (stage, step))
    counted = ranges[skip:]
    inside = statistics.median(sum(start <= one[0] < end for one in steps) for start, end, _ in counted)
    return total + statistics.median(measured["decode_ms"]) * 1e6 / measured["new"] * inside * len(counted)


def main(path, stage, skip=0, timings=None, step=None):
    capture, skip = Capture(path), int(skip)
    ended_by = {op.start: op for op in reversed(capture.ops)}
    instances, gaps = [], []
    for gpu, first, last in windows(capture, stage, skip):
        own = [gap for gap in capture.gaps(gpu) if gap[0] < last and gap[1] > first]
        host_code = sum(min(end, last) - max(start, first) for start, end, cause in own if cause == "host_code")
        instances.append((last - first, host_code))
        gaps += own
        print(f"instance of {last - first}: host code {host_code}")
    total, typical = sum(one[1] for one in instances), middle([one[1] for one in sorted(instances)])
    beyond = total - typical * len(instances)
    print(f"in all {total}, median instance {typical}, beyond {beyond}")
    pauses = [(end - start, end) for start, end, cause in gaps if cause == "host_code"]
    print(f"{len(pauses)} pauses, the longest {max(pauses)[0]}")
    longest = sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:LISTED]
    names, times = collections.Counter(), collections.Counter()
    for start, end, cause in longest:
        if cause == "host_code":
            names[capture.kernels[ended_by[end]]] += 1
            times[capture.kernels[ended_by[end]]] += end - start
    print(f"of the {LISTED} longest gaps {sum(names.values())}, {sum(times.values())} ns, are in host code:")
    for name, time in times.most_common():
        print(f"  {time} ns in {names[name]} that end with {name}")
    if timings:
        run = all_stages(capture, stage, skip, timings, step)
        print(f"all stages {run}, with the pauses {run + beyond}, share {beyond / (run + beyond)}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
