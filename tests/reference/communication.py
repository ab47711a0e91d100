"""Communication figures of a capture of several ranks, derived without Rooflens.

usage: communication.py EXPORT.sqlite | communication.py RANK0.json[.gz] RANK1.json[.gz] ...

One nsys export with all ranks in it, or one PyTorch trace a rank. Prints, for each rank, the whole pass and
(nsys) each range that the default domain names: communication, exposed communication, waiting and transfer
time, as nanoseconds; and what the ends of collectives say of the clocks. Uses the standard library alone.
"""

import bisect
import gzip
import json
import sqlite3
import statistics
import sys
from collections import defaultdict
from decimal import Decimal


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def covered(a, b):
    """Length of the intersection of two disjoint sorted lists, by a merge."""
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


class Rank:
    def __init__(self):
        self.nccl, self.compute, self.copies = [], [], []  # (start, end, name, api start, api thread, bytes)
        self.ranges = []  # (start, end, name, thread)


def nsys(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    ranks = defaultdict(Rank)
    calls = {}
    mask = ~0xFFFFFF
    for start, tid, correlation in db.execute(
        "select start, globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME order by start desc"
    ):
        calls[tid & mask, correlation] = (start, tid)
    query = (
        "select k.start, k.end, s.value, k.globalPid, k.deviceId, k.correlationId "
        "from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName"
    )
    device = {}
    for start, end, name, pid, gpu, correlation in db.execute(query):
        device[pid] = gpu
        row = (start, end, name, *calls.get((pid, correlation), (None, None)), None)
        (ranks[gpu].nccl if "nccl" in name.lower() else ranks[gpu].compute).append(row)
    for table in ("MEMCPY", "MEMSET"):
        for start, end, pid, gpu, correlation in db.execute(
            f"select start, end, globalPid, deviceId, correlationId from CUPTI_ACTIVITY_KIND_{table}"
        ):
            ranks[gpu].copies.append((start, end, table, *calls.get((pid, correlation), (None, None)), None))
    for start, end, name, tid in db.execute(
        "select n.start, n.end, coalesce(n.text, s.value), n.globalTid from NVTX_EVENTS n "
        "left join StringIds s on s.id = n.textId where n.domainId = 0 and n.eventType = 59"
    ):
        ranks[device[tid & mask]].ranges.append((start, end, name, tid))
    return [ranks[gpu] for gpu in sorted(ranks)]


def kineto(path):
    opener = gzip.open if path.endswith(".gz") else open
    events = json.load(opener(path), parse_float=Decimal)["traceEvents"]
    rank = Rank()
    for event in events:
        if event.get("ph") != "X" or event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = int(Decimal(event["ts"]) * 1000)
        end = start + int(Decimal(event["dur"]) * 1000)
        name, args = event["name"], event["args"]
        size = {"BFloat16": 2, "Float": 4}.get(args.get("dtype"))
        nbytes = args["In msg nelems"] * size if size else None
        row = (start, end, name, None, None, nbytes)
        if event["cat"] != "kernel":
            rank.copies.append(row)
        elif "nccl" in name.lower():
            rank.nccl.append(row)
        else:
            rank.compute.append(row)
    return rank


def match(ranks):
    """Pairs of indices into the sorted collectives of two ranks, by the shift with the steadiest ends."""
    a, b = (sorted(rank.nccl) for rank in ranks)
    best = None
    for shift in range(-3, 4):
        ends = [b[i + shift][1] - a[i][1] for i in range(len(a)) if 0 <= i + shift < len(b)]
        middle = statistics.median(ends)
        spread = statistics.median(abs(end - middle) for end in ends)
        best = min(best or (spread, shift), (spread, shift))
    shift = best[1]
    return [(a[i], b[i + shift]) for i in range(len(a)) if 0 <= i + shift < len(b)], shift


def attributed(rank, window):
    """Operations whose call starts in the range, on its thread, or on a thread without ranges of its own."""
    start, end, _, thread = window
    own = {tid for *_, tid in rank.ranges}

    def inside(row):
        at, tid = row[3], row[4]
        if at is None or not start <= at < end:
            return False
        return tid == thread or tid not in own

    return [[row for row in rows if inside(row)] for rows in (rank.nccl, rank.compute, rank.copies)]


def figures(rank, nccl, ops, waits):
    comm = union(row[:2] for row in nccl)
    compute = union(row[:2] for row in rank.compute)
    window = max(row[1] for row in ops) - min(row[0] for row in ops)
    return {
        "time": window,
        "compute": length(union(row[:2] for row in ops if row in set(rank.compute))),
        "comm": length(comm),
        "exposed": length(comm) - covered(comm, compute),
        "wait": sum(waits[row][0] for row in nccl if row in waits),
        "transfer": sum(waits[row][1] for row in nccl if row in waits),
        "matched": sum(row in waits for row in nccl),
        "calls": len(nccl),
    }


def main(paths):
    ranks = nsys(paths[0]) if len(paths) == 1 else [kineto(path) for path in paths]
    pairs, shift = match(ranks)
    waits = [{}, {}]
    last = [0, 0]
    for pair in pairs:
        transfer = min(row[1] - row[0] for row in pair)
        for at, row in enumerate(pair):
            waits[at][row] = (row[1] - row[0] - transfer, transfer)
        durations = [row[1] - row[0] for row in pair]
        if durations[0] != durations[1]:
            last[durations.index(min(durations))] += 1
    joined = [p for p in pairs if "Broadcast" not in p[0][2]]
    half = [(p[1][1] - p[0][1]) / 2 for p in joined]  # of two ranks: the distance of each from their mean
    offset = statistics.median(half)
    print("shift", shift, "pairs", len(pairs), "last", last, "offsets", -offset, offset,
          "residual", statistics.median(abs(x - offset) for x in half), max(abs(x - offset) for x in half))
    for at, rank in enumerate(ranks):
        everything = rank.nccl + rank.compute + rank.copies
        print("rank", at, "whole", figures(rank, rank.nccl, everything, waits[at]))
        by_name = defaultdict(list)
        for window in sorted(rank.ranges):
            nccl, compute, copies = attributed(rank, window)
            ops = nccl + compute + copies
            if ops:
                by_name[window[2]].append(figures(rank, nccl, ops, waits[at]))
        for name, rows in by_name.items():
            print("rank", at, name, len(rows), {key: statistics.median(row[key] for row in rows) for key in rows[0]})
        sized = [row for row in rank.nccl if row[5] is not None]
        if sized:
            time = sum(waits[at][row][1] if row in waits[at] else row[1] - row[0] for row in sized)
            print("rank", at, "bus", sum(row[5] for row in sized), "B", time, "ns",
                  sum(row[5] for row in sized) / time * 1e9, "B/s (all-reduce of 2 ranks: factor 1)")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
