"""The critical path of one step of a capture with one rank or two, derived without Rooflens.

usage: critical_path.py [EXPORT.sqlite RANGE [SKIP [INSTANCE]]]

Without arguments: derives the length of the path and the share of each category for FIXTURES from `timeline.sqlite` of their
passes, for `tests/data/expected`.

SKIP is how many instances at the begin do not count, INSTANCE one of all, from 0; without it, the one of median length
is taken. Walks back from the last GPU operation of the instance to what was waited for last, by the rules
of docs/methodology.md, with plain searches in lists instead of a graph. Prints the length and the time of each
category in nanoseconds. Collectives pair by order, which holds where both ranks have equally many of them.
Uses the standard library alone.
"""

import bisect
import sqlite3
import sys
from collections import defaultdict

import communication
import expected

MASK = ~0xFFFFFF
CATEGORIES = ("compute", "communication", "copy", "gap", "launch", "calls", "host", "unknown")
# Fixture, pass, stage, and the instance where it is not the one of median length: of the eager decoding the one that is
# nearest to the median shares of idle time, and of the steps in `step` the fourth.
FIXTURES = [
    ("h200x2-ddp", "nsys", "train_step", None),
    ("h200-cuda-graph", "nsys-node", "decode", None),
    ("h200-graph-ranges", "nsys-node", "decode", None),
    ("h200-llama-8b", "nsys", "decode", 4),
    ("h100x2-parallel", "nsys", "step", 3),
]


def critical_path(path, name, skip=0, chosen=None):
    """The length of the step, and the time by category."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    texts = dict(db.execute("select id, value from StringIds"))
    runtime = sorted(
        (start, -end, tid, correlation, texts[text])
        for start, end, tid, correlation, text in db.execute(
            "select start, end, globalTid, correlationId, nameId from CUPTI_ACTIVITY_KIND_RUNTIME")
    )
    call_of, calls, last_end = {}, [], defaultdict(lambda: -1)
    for start, end, tid, correlation, text in runtime:
        if -end > last_end[tid]:
            calls.append((start, -end, tid, correlation, text.split("_v")[0]))
            call_of.setdefault((tid & MASK, correlation), calls[-1])
        last_end[tid] = max(last_end[tid], -end)
    # start, end, gpu, stream, process, correlation, kind
    ops = []
    for start, end, gpu, stream, pid, correlation, text in db.execute(
        "select start, end, deviceId, streamId, globalPid, correlationId, demangledName from CUPTI_ACTIVITY_KIND_KERNEL"
    ):
        kind = "communication" if "nccl" in texts[text] else "compute"
        ops.append((start, end, gpu, stream, pid, correlation, kind))
    to_pageable = set()
    for table, extra in (("MEMCPY", "copyKind, dstKind"), ("MEMSET", "0, 0")):
        for start, end, gpu, stream, pid, correlation, kind, dst in db.execute(
            f"select start, end, deviceId, streamId, globalPid, correlationId, {extra} from CUPTI_ACTIVITY_KIND_{table}"
        ):
            ops.append((start, end, gpu, stream, pid, correlation, "copy"))
            if table == "MEMCPY" and kind == 2 and dst == 0:
                to_pageable.add((pid, correlation))
    ops.sort()
    gpus = sorted({op[2] for op in ops})
    nccl = {gpu: [op for op in ops if op[2] == gpu and op[6] == "communication"] for gpu in gpus}
    last_rank = {}
    waits = {}  # of messages, by begin and end
    if len(gpus) == 2:
        pairs, _ = communication.match(communication.nsys(path))
        for at, found in enumerate(communication.waiting(pairs)):
            messages = (pair[at] for pair in pairs if communication.is_message(pair[0]))
            waits.update({row[:2]: found[row][0] for row in messages})
    for pair in zip(*nccl.values()):
        short = min(pair, key=lambda op: waits.get(op[:2], op[1] - op[0]))
        for op in pair:
            if op is not short and waits.get(op[:2], 1) > 0:
                last_rank[op] = short

    ranges = defaultdict(list)
    for start, end, tid in db.execute(
        "select n.start, n.end, n.globalTid from NVTX_EVENTS n left join StringIds s on s.id = n.textId "
        "where coalesce(n.text, s.value) = ? and n.domainId = 0 order by n.start", (name,)
    ):
        ranges[tid & MASK].append((start, end))
    steps = []
    for instance in zip(*ranges.values()):
        inside = [op for op in ops for pid, (start, end) in zip(ranges, instance)
                  if op[4] == pid and (op[4], op[5]) in call_of and start <= call_of[op[4], op[5]][0] < end]
        steps.append((max(op[1] for op in inside) - min(op[0] for op in inside), min(op[0] for op in inside),
                      max(op[1] for op in inside)))
    counted = sorted(steps[skip:]) if chosen is None else [steps[chosen]]
    length, begin, finish = counted[(len(counted) - 1) // 2]

    # The shortest launch of the pass onto a stream that had nothing left to do.
    latencies, busy_until = [], defaultdict(lambda: -1 << 62)
    for op in ops:
        lane = op[2], op[3]
        call = call_of.get((op[4], op[5]))
        if call and busy_until[lane] <= call[0] <= op[0]:
            latencies.append(op[0] - call[0])
        busy_until[lane] = max(busy_until[lane], op[1])
    floor = min(latencies, default=0)
    issues = {call_of[op[4], op[5]] for op in ops if (op[4], op[5]) in call_of}

    ops = [op for op in ops if op[1] > begin and op[0] < finish]
    streams = defaultdict(list)
    before = {}
    for op in ops:
        lane = streams[op[2], op[3]]
        before[op] = lane[-1] if lane else None
        lane.append(op)
    issuing = {call_of[op[4], op[5]][2] for op in ops if (op[4], op[5]) in call_of}
    calls = [call for call in calls if call[1] > begin and call[0] < finish and call[2] in issuing]
    known = set(calls)
    call_for, launched = {}, {}
    for op in ops:
        call = call_of.get((op[4], op[5]))
        call_for[op] = call if call in known else None
        if call in known:
            launched[op] = min(call[0] + floor, op[0])
        elif call and call[1] <= begin:  # issued before the step: it could begin with it
            launched[op] = min(begin, op[0])
        else:
            launched[op] = None
    by_end = {pid: sorted((call for call in calls if call[2] & MASK == pid), key=lambda c: c[1]) for pid in ranges}
    ends = {pid: [call[1] for call in list_] for pid, list_ in by_end.items()}
    op_ends = {gpu: sorted((op for op in ops if op[2] == gpu), key=lambda op: op[1]) for gpu in gpus}

    def blocks(call):
        text = call[4]
        return text.endswith("Synchronize") or text.startswith("cudaMemcpy") and "Async" not in text \
            or (call[2] & MASK, call[3]) in to_pageable

    times = defaultdict(int)
    at, node = finish, max(ops, key=lambda op: (op[1], op[0]))

    def until(moment, category):
        nonlocal at
        moment = max(moment, begin)
        if moment < at:
            times[category] += at - moment
            at = moment

    while at > begin and node is not None:
        if len(node) == 7:
            op = node
            if op in last_rank and last_rank[op] in before and last_rank[op][0] < at:
                node = last_rank[op]
                continue
            until(op[0], op[6])
            stream = min(before[op][1], op[0]) if before[op] else None
            launch = launched[op]
            ready = max((x for x in (stream, launch) if x is not None), default=None)
            other = None
            if ready is not None and op[0] - ready > 5000:
                for candidate in reversed([c for c in op_ends[op[2]] if c[1] <= op[0]][-64:]):
                    if candidate[1] <= ready:
                        break
                    if candidate[3] != op[3]:
                        other = candidate
                        break
                if other is None or op[0] - other[1] > 5000:  # a kernel of another stream leaves it no room
                    place = bisect.bisect_left(ops, op)
                    running = [c for c in ops[max(0, place - 64):place] if c[2] == op[2] and c[3] != op[3]
                               and c[6] == "compute" and c[0] < op[0] < c[1] and 4 * (c[1] - op[0]) < c[1] - c[0]]
                    other = running[-1] if running else other
            if other:
                until(other[1], "gap")
                node = other
            elif stream is not None and (launch is None or stream >= launch):
                until(before[op][1], "gap")
                node = before[op]
            elif call_for[op]:
                until(call_for[op][1], "launch")
                node = call_for[op]
            else:
                node = None
        else:
            call = node
            pid = call[2] & MASK
            waited = [op for op in ops if op[4] == pid and call[0] < op[1] <= call[1]] if blocks(call) else []
            awaited = max(waited, key=lambda op: op[1], default=None)
            if awaited and awaited[1] < at:
                until(awaited[1], "calls")
                node = awaited
                continue
            until(call[0], "launch" if call in issues else "calls")
            index = bisect.bisect_right(ends[pid], call[0]) - 1
            if index < 0 or by_end[pid][index] is call:
                until(begin, "host")
                node = None
            else:
                until(by_end[pid][index][1], "host")
                node = by_end[pid][index]
    until(begin, "unknown")
    return length, times


def derive():
    for bundle, pass_name, stage, instance in FIXTURES:
        with expected.unpacked(bundle, f"{pass_name}/timeline.sqlite") as path:
            length, times = critical_path(path, stage, 0, instance)
        assert length == sum(times.values())
        scope = {"pass": pass_name, "stage": stage}
        figures = [expected.metric("critical_path", length, "nanoseconds", **scope)]
        for category in CATEGORIES:
            share = times[category] / length
            figures.append(expected.metric(f"critical_path_share_{category}", share, "ratio", 1e-12, **scope))
        # The data set is of this one step.
        figures.append(expected.cell("critical_path", "time_ns", length, "nanoseconds"))
        expected.write(__file__, bundle, figures)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        derive()
    elif len(sys.argv) in (3, 4, 5):
        print(*critical_path(*sys.argv[1:3], *map(int, sys.argv[3:])))
    else:
        sys.exit(__doc__)
