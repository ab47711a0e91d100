"""Pauses of the host in some instances of a stage, derived from an nsys SQLite export without Rooflens.

usage: pauses.py EXPORT STAGE SKIP [OTHER …]

STAGE is the name of NVTX ranges of one process on one GPU, SKIP the number of leading instances that do not count, OTHER
the names of the other stages. Prints idle time in host code by instance, what of it lies beyond the median
(docs/findings.md, `host-pauses`), the time of all instances that count, and what the longest gaps are ended by, by their
host code and as many as lie, the last one for the most part, within what is beyond the median.
Causes are those of idle.py. The numbers of tests/fixtures/idle.rs come from here.
"""

import collections
import statistics
import sys

from idle import Capture, within

LISTED = 20


def windows(capture, stage, skip):
    """First start and last end of the operations of each instance that counts."""
    for process, ranges in capture.instances(stage, skip, None).items():
        for start, end, thread in ranges:
            (gpu, ops), = capture.own(process, start, end, thread).items()
            yield gpu, min(op[0] for op in ops), max(op[1] for op in ops)


def main(path, stage, skip, *others):
    capture, skip = Capture(path), int(skip)
    ended_by = {op.start: op for op in reversed(capture.ops)}
    times, gaps = [], []
    for gpu, first, last in windows(capture, stage, skip):
        own = [(gap, within(gap, first, last)) for gap in capture.gaps(gpu) if gap[0] < last and gap[1] > first]
        times.append(sum(parts["host_code"] for _, parts in own))
        gaps += own
        print(f"instance of {last - first}: host code {times[-1]}")
    beyond = sum(max(0, time - statistics.median(times)) for time in times)
    run = sum(last - first for name in (stage, *others) for _, first, last in windows(capture, name, skip))
    print(f"in all {sum(times)}, beyond the median {beyond} of {run}: {beyond / run}")
    print(f"the longest {max(parts['host_code'] for _, parts in gaps)}")
    longest = sorted(gaps, key=lambda gap: (gap[0][0] - gap[0][1], gap[0][0]))[:LISTED]
    names, lengths = collections.Counter(), collections.Counter()
    stalls = [(parts["host_code"], end) for (_, end, _), parts in longest if parts.most_common(1)[0][0] == "host_code"]
    for time, end in sorted(stalls, key=lambda stall: -stall[0]):
        if sum(lengths.values()) + time / 2 > beyond:
            break
        names[capture.kernels[ended_by[end]]] += 1
        lengths[capture.kernels[ended_by[end]]] += time
    print(f"of the {LISTED} longest gaps, those of mostly host code up to that: {sum(names.values())}, host code {sum(lengths.values())} ns")
    for name, time in lengths.most_common():
        print(f"  {time} ns in {names[name]} that end with {name}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
