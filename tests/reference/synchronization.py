"""Idle time of the GPU that follows from synchronizing calls, and copies, derived without Rooflens.

usage: synchronization.py EXPORT.sqlite

Prints for the nsys export the gaps charged to synchronizing calls in all and by instance of the ranges of the
default domain, and the copies by direction and memory with the part that no kernel hides. Uses the standard
library alone.
"""

import bisect
import sqlite3
import sys
from collections import defaultdict

DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
MASK = ~0xFFFFFF


def main(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    names = dict(db.execute("select id, value from StringIds"))
    runtime = []
    for start, end, tid, correlation, name in db.execute(
        "select start, end, globalTid, correlationId, nameId from CUPTI_ACTIVITY_KIND_RUNTIME"
    ):
        runtime.append((start, -end, tid, correlation, names[name]))
    runtime.sort()
    calls, outer = {}, defaultdict(list)
    last_end = defaultdict(lambda: -1 << 62)
    for start, end, tid, correlation, name in runtime:
        nested = -end <= last_end[tid]
        last_end[tid] = max(last_end[tid], -end)
        key = (tid & MASK, correlation)
        if key not in calls:
            calls[key] = (start, tid)
        if not nested:
            outer[tid].append((start, -end, correlation, name))
    ops = []
    kernels = defaultdict(list)
    for start, end, pid, gpu, correlation in db.execute(
        "select start, end, globalPid, deviceId, correlationId from CUPTI_ACTIVITY_KIND_KERNEL"
    ):
        ops.append((start, end, gpu, pid, correlation))
        kernels[gpu].append((start, end))
    copies = defaultdict(list)
    pageable = set()
    for start, end, pid, gpu, correlation, kind, src, dst, size in db.execute(
        "select start, end, globalPid, deviceId, correlationId, copyKind, srcKind, dstKind, bytes "
        "from CUPTI_ACTIVITY_KIND_MEMCPY"
    ):
        ops.append((start, end, gpu, pid, correlation))
        copies[DIRECTIONS.get(kind, kind), src, dst].append((start, end, gpu, size))
        if kind == 2 and dst == 0:
            pageable.add((pid, correlation))
    if db.execute("select 1 from sqlite_master where name = 'CUPTI_ACTIVITY_KIND_MEMSET'").fetchone():
        ops += db.execute(
            "select start, end, deviceId, globalPid, correlationId from CUPTI_ACTIVITY_KIND_MEMSET"
        ).fetchall()
    syncs = defaultdict(list)
    for tid, list_ in outer.items():
        for start, end, correlation, name in list_:
            base = name.split("_v")[0]
            blocking = base.endswith("Synchronize") or base.startswith("cudaMemcpy") and "Async" not in base
            if blocking or (tid & MASK, correlation) in pageable:
                syncs[tid].append((start, end))
    charged = {}
    covered = {}
    for start, end, gpu, pid, correlation in sorted(ops):
        until = covered.get(gpu, start)
        if start > until and (pid, correlation) in calls:
            issued, tid = calls[pid, correlation]
            if issued > until:
                # The first wait that had not returned when the gap began, if it began before the issue.
                waiting = [s for s in syncs[tid] if s[1] > until and s[0] < issued] if len(syncs[tid]) < 4000 else None
                if waiting is None:
                    at = bisect.bisect_right([s[1] for s in syncs[tid]], until)
                    waiting = [s for s in syncs[tid][at : at + 1] if s[0] < issued]
                if waiting:
                    charged[start, gpu, correlation] = (until, start, issued, tid)
        covered[gpu] = max(until, end)
    print("sync calls", sum(map(len, syncs.values())), "time", sum(e - s for l in syncs.values() for s, e in l),
          "idle", sum(gap[1] - gap[0] for gap in charged.values()))
    ranges = db.execute(
        "select n.start, n.end, coalesce(n.text, s.value), n.globalTid from NVTX_EVENTS n left join StringIds s "
        "on s.id = n.textId where n.eventType = 59 and n.domainId = 0 order by n.start"
    ).fetchall()
    wanted = {"prefill", "decode", "forward", "backward", "optimizer", "train_step", "offload"}
    for start, end, name, tid in ranges:
        if name in wanted:
            # An operation whose call starts in the range; the first of the range begins the projection.
            inside = [op for op in ops if (op[3], op[4]) in calls
                      and start <= calls[op[3], op[4]][0] < end and calls[op[3], op[4]][1] == tid]
            if not inside:
                continue
            begin = min(op[0] for op in inside)
            own = {(op[0], op[2], op[4]) for op in inside}
            idle = sum(gap[1] - gap[0] for key, gap in charged.items() if key in own and gap[0] >= begin)
            here = [s for t, l in syncs.items() if t & MASK == tid & MASK for s in l if start <= s[0] < end]
            print(name, tid & 0xFFFFFF, "calls", len(here), "time", sum(e - s for s, e in here), "idle", idle)
    for kind, rows in sorted(copies.items(), key=str):
        exposed = 0
        for gpu in {row[2] for row in rows}:
            exposed += uncovered([row[:2] for row in rows if row[2] == gpu], kernels[gpu])
        print(kind, "count", len(rows), "bytes", sum(row[3] for row in rows),
              "time", sum(row[1] - row[0] for row in rows), "exposed", exposed)


def uncovered(intervals, cover):
    """Length of the union of intervals that no cover touches, by counting open intervals at sorted edges."""
    edges = sorted([(t, k, d) for s, e in intervals for t, k, d in ((s, 0, 1), (e, 0, -1))]
                   + [(t, k, d) for s, e in cover for t, k, d in ((s, 1, 1), (e, 1, -1))])
    open_, last, total = [0, 0], 0, 0
    for time, kind, delta in edges:
        if open_[0] and not open_[1]:
            total += time - last
        open_[kind] += delta
        last = time
    return total


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
