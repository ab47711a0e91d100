"""Idle time of the GPU that follows from synchronizing calls, and copies, derived without Rooflens.

usage: synchronization.py [EXPORT.sqlite]

Without an argument: derives waits and copies of FIXTURES from `timeline.sqlite` of their passes, for `tests/data/expected`.

Prints for the nsys export the gaps charged to synchronizing calls in all and by instance of the ranges of the
default domain, and the copies by direction and memory with the part that no kernel hides. Uses the standard
library alone.
"""

import bisect
import sqlite3
import statistics
import sys
from collections import defaultdict

import expected

# Fixture, pass, and stages.
FIXTURES = [
    ("h200x2-ddp", "nsys", ["train_step", "forward", "backward"]),
    ("h200-cuda-graph", "nsys-node", ["offload"]),
]
# Stages whose first instance has a cold start: their medians are not derived.
COLD = ["forward"]
DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
MASK = ~0xFFFFFF


class Waits:
    """Calls that wait with all idle time that follows from them, the same by range, and the copies."""

    def __init__(self, path):
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
        every = [wait for waits in syncs.values() for wait in waits]
        self.calls, self.time = len(every), sum(end - start for start, end in every)
        self.idle = sum(gap[1] - gap[0] for gap in charged.values())
        ranges = db.execute(
            "select n.start, n.end, coalesce(n.text, s.value), n.globalTid from NVTX_EVENTS n left join StringIds s "
            "on s.id = n.textId where n.eventType = 59 and n.domainId = 0 order by n.start"
        ).fetchall()
        self.ranges = []  # name, process, thread, calls, time, idle, start, end
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
                self.ranges.append((name, tid & MASK, tid, len(here), sum(e - s for s, e in here), idle, start, end))
        self.copies, self.kernels = copies, kernels

    def exposed(self, rows):
        """The part of copies that no kernel of their GPU hides."""
        gpus = {row[2] for row in rows}
        return sum(uncovered([row[:2] for row in rows if row[2] == gpu], self.kernels[gpu]) for gpu in gpus)


def main(path):
    waits = Waits(path)
    print("sync calls", waits.calls, "time", waits.time, "idle", waits.idle)
    for name, _, tid, calls, time, idle, *_ in waits.ranges:
        print(name, tid & 0xFFFFFF, "calls", calls, "time", time, "idle", idle)
    for kind, rows in sorted(waits.copies.items(), key=str):
        print(kind, "count", len(rows), "bytes", sum(row[3] for row in rows),
              "time", sum(row[1] - row[0] for row in rows), "exposed", waits.exposed(rows))


def figures(waits, pass_name, stages):
    scope = {"pass": pass_name}
    sums = {"count": waits.calls, "time_ns": waits.time, "idle_ns": waits.idle}
    for column, value in sums.items():
        yield expected.cell("synchronization", column, value, unit(column), **scope)
    for stage in stages:
        own = [row for row in waits.ranges if row[0] == stage]
        row = {**scope, "stage": stage}
        # A call counts in the outermost stage.
        outermost = [one for one in own if not any(lies_in(one, other) for other in waits.ranges)]
        yield expected.cell("synchronization", "count", sum(one[3] for one in outermost), "count", **row)
        yield expected.cell("synchronization", "time_ns", sum(one[4] for one in outermost), "nanoseconds", **row)
        # A rank is named where there are several; processes are in the order of their ranks.
        processes = sorted({one[1] for one in outermost}) if stage not in COLD else []
        for rank, process in enumerate(processes):
            scope_of_rank = {**row} | ({"rank": rank} if len(processes) > 1 else {})
            instances = [one for one in own if one[1] == process]
            for name, at in (("sync_calls", 3), ("sync_time", 4), ("sync_idle", 5)):
                middle = statistics.median(one[at] for one in instances)
                yield expected.metric(name, middle, "count" if at == 3 else "nanoseconds", **scope_of_rank)
    directions = {kind[0] for kind in waits.copies}
    for direction in sorted(directions):
        rows = [row for kind, rows in waits.copies.items() if kind[0] == direction for row in rows]
        size, time = sum(row[3] for row in rows), sum(row[1] - row[0] for row in rows)
        own = {**scope, "class": f"memcpy {direction}"}
        yield expected.metric("copy_bytes", size, "bytes", **own)
        yield expected.metric("copy_time", time, "nanoseconds", **own)
        yield expected.metric("copy_exposed", waits.exposed(rows), "nanoseconds", **own)
        yield expected.metric("copy_bandwidth", size / time * 1e9, "bytes_per_second", 1e-12, **own)
    # Kinds of memory: 0 is pageable, 1 pinned, 2 of a device.
    crossing = {kind: sum(row[3] for row in rows) for kind, rows in waits.copies.items() if kind[0] in ("HtoD", "DtoH")}
    pageable = sum(size for kind, size in crossing.items() if 0 in kind[1:])
    yield expected.metric("pageable_share", pageable / sum(crossing.values()), "ratio", 1e-15, **scope)


def lies_in(one, other):
    return one[2] == other[2] and other[6] <= one[6] and one[7] <= other[7] and one[6:] != other[6:]


def unit(column):
    return "count" if column == "count" else "nanoseconds"


def derive():
    for bundle, pass_name, stages in FIXTURES:
        with expected.unpacked(bundle, f"{pass_name}/timeline.sqlite") as path:
            waits = Waits(path)
        expected.write(__file__, bundle, list(figures(waits, pass_name, stages)))


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
    main(sys.argv[1]) if len(sys.argv) > 1 else derive()
