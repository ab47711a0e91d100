"""Idle time by cause of one stage, derived from an nsys SQLite export without Rooflens.

usage: idle.py EXPORT STAGE [SKIP [TAKE]]

STAGE is the name of NVTX ranges, or - for the whole capture as one; SKIP the number of leading instances of each
process that do not count, TAKE the number of those after them that do (all).
Prints nanoseconds by process and cause, summed over the instances that count, in the words of
docs/methodology.md; then of each instance and GPU the mean depth of the queue and the time in which it is empty.
Written to be read: it looks at all calls of a thread by bisection, gap by gap, and
shares no code and no algorithm with the program. The numbers of tests/idle.rs come from here.
"""

import bisect
import collections
import sqlite3
import sys

SHORT_STRETCH = 100_000
ALLOCATOR = ("cudaMalloc", "cudaFree", "cudaHost", "cuMem", "cudaGraphInstantiate", "cuGraphInstantiate",
             "cuModuleLoad", "cuModuleUnload", "cuLibraryLoad", "cuLibraryUnload")
NO_ALLOCATION = ("cuMemcpy", "cuMemset", "cudaHostGet", "cuMemGet", "cuMemHostGet")

Op = collections.namedtuple("Op", "start end process correlation gpu collective copy pageable rank")


def rows(db, table, columns):
    """The columns of a table; a column or table that is not there gives nothing."""
    have = {row[1] for row in db.execute(f"pragma table_info({table})")}
    if not have:
        return []
    return db.execute(f"select {', '.join(c if c in have else 'null' for c in columns)} from {table}").fetchall()


def process_of(thread):
    return thread & ~0xFFFFFF


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def overlap(merged, start, end):
    at = max(bisect.bisect_right(merged, [start, float("inf")]) - 1, 0)
    total = 0
    while at < len(merged) and merged[at][0] < end:
        total += max(min(merged[at][1], end) - max(merged[at][0], start), 0)
        at += 1
    return total


def kind(name):
    if "Synchronize" in name:
        return "sync"
    if name.startswith(ALLOCATOR) and not name.startswith(NO_ALLOCATION):
        return "allocator"
    if "Memcpy" in name:
        return "copy" if "Async" not in name else "async copy"
    return "other"


def off_cpu(db):
    """Times in which no CPU ran a thread: from an event that takes it off to its next one, if that brings it back."""
    have = {row[1] for row in db.execute("pragma table_info(SCHED_EVENTS)")}
    if not have:
        return {}
    state = "threadState" if "threadState" in have else "null"
    last, off = {}, collections.defaultdict(list)
    for time, thread, running, state in db.execute(
            f"select start, globalTid, isSchedIn, {state} from SCHED_EVENTS order by start, rowid"):
        if running and last.get(thread) is not None:
            off[thread].append((last[thread], time))
        # State 5: the thread has ended.
        last[thread] = None if running or state == 5 else time
    return {thread: union(intervals) for thread, intervals in off.items()}


class Capture:
    def __init__(self, path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.names = dict(db.execute("select id, value from StringIds"))
        self.ops, self.kernels, rank = [], {}, 0
        for table, name in [("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "null"),
                            ("CUPTI_ACTIVITY_KIND_MEMSET", "null"), ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "null")]:
            wanted = ["start", "end", "globalPid", "correlationId", "deviceId", name, "srcKind", "dstKind"]
            for start, end, process, correlation, gpu, short, source, target in rows(db, table, wanted):
                collective = (self.names.get(short) or "").startswith("nccl")
                copy = "MEM" in table
                pageable = table.endswith("MEMCPY") and 0 in (source, target)
                self.ops.append(Op(start, end, process, correlation, gpu, collective, copy, pageable, rank))
                self.kernels[self.ops[-1]] = self.names.get(short, table)
                rank += 1
        self.ops.sort(key=lambda op: (op.start, op.end, op.rank))
        self.calls, self.call_of = collections.defaultdict(list), {}
        for start, end, thread, correlation, name in rows(
                db, "CUPTI_ACTIVITY_KIND_RUNTIME", ["start", "end", "globalTid", "correlationId", "nameId"]):
            self.calls[thread].append((start, end, correlation, self.names[name]))
        for thread, calls in self.calls.items():
            outermost, last = [], None
            for call in sorted(calls, key=lambda call: (call[0], -call[1])):
                if last is not None and call[1] <= last:
                    continue
                last = call[1]
                outermost.append(call)
                self.call_of[process_of(thread), call[2]] = (thread, call)
            self.calls[thread] = outermost
        self.first = {}
        for op in self.ops:
            self.first.setdefault((op.process, op.correlation), op)
        self.os = self.by_thread(db, "OSRT_API")
        self.profiler = self.by_thread(db, "PROFILER_OVERHEAD")
        self.off_cpu = off_cpu(db)
        self.ranges = rows(db, "NVTX_EVENTS", ["start", "end", "globalTid", "text", "textId", "eventType"])

    def by_thread(self, db, table):
        lists = collections.defaultdict(list)
        for start, end, thread in rows(db, table, ["start", "end", "globalTid"]):
            lists[thread].append((start, end))
        return {thread: union(intervals) for thread, intervals in lists.items()}

    def instances(self, stage, skip, take):
        """The ranges of the stage, by process, without those that the skipped ones are."""
        if stage == "-":
            return {self.ops[0].process: [(None, None, None)]}
        found = collections.defaultdict(list)
        for start, end, thread, text, text_id, event in self.ranges:
            if event == 59 and (text or self.names.get(text_id)) == stage and end is not None:
                found[process_of(thread)].append((start, end, thread))
        return {process: sorted(ranges)[skip:][:take] for process, ranges in found.items()}

    def is_copy(self, process, call):
        name = kind(call[3])
        first = self.first.get((process, call[2]))
        return name == "copy" or name == "async copy" and first is not None and first.pageable

    def cause(self, start, end, op, before):
        """The cause of the gap [start, end) that `op` ends; `before` are the operations that end at its start."""
        found = self.call_of.get((op.process, op.correlation))
        if found is None:
            return "unknown"
        thread, call = found
        if call[0] > end:
            return "unknown"
        if call[1] <= start or self.first[op.process, op.correlation] is not op:
            return "communication" if op.collective or before else "queue"
        most = lambda time: 2 * time >= end - start
        if most(overlap(self.profiler.get(thread, []), start, end)):
            return "profiler"
        calls = self.calls[thread]
        own = bisect.bisect_left(calls, (call[0], call[1], -1, ""))
        first = own
        while first > 0 and calls[first - 1][1] > start:
            first -= 1
        inside = calls[first:own + 1]
        time = collections.Counter()
        for other in inside:
            its = "copy" if self.is_copy(op.process, other) else kind(other[3])
            time[its] += max(min(other[1], end) - max(other[0], start), 0)
        for its in ("sync", "allocator", "copy"):
            if most(time[its]):
                return its
        os_calls = self.os.get(thread, [])
        os_time = overlap(os_calls, start, end)
        for other in inside:
            os_time -= overlap(os_calls, max(other[0], start), max(min(other[1], end), max(other[0], start)))
        if most(os_time):
            return "os"
        # Off the CPU until the issuing call returned, and in no call of CUDA or of the system.
        until = min(call[1], end)
        explained = union([(begun, ended) for begun, ended in os_calls] + [other[:2] for other in inside])
        alone = sum(max(min(off[1], until) - max(off[0], start), 0)
                    - overlap(explained, max(off[0], start), min(off[1], until))
                    for off in self.off_cpu.get(thread, []) if off[0] < until and off[1] > start)
        if most(alone):
            return "off_cpu"
        for at in range(first, own + 1):
            begun = calls[at - 1][1] if at > 0 else float("-inf")
            if calls[at][0] > start and calls[at][0] - begun >= SHORT_STRETCH:
                return "host_code"
        return "launching"

    def gaps(self, gpu):
        """All gaps of a GPU with their cause."""
        gaps, last, collective_ends = [], None, set()
        for op in (op for op in self.ops if op.gpu == gpu):
            if last is not None and op.start > last:
                gaps.append((last, op.start, self.cause(last, op.start, op, last in collective_ends)))
            last = op.end if last is None else max(last, op.end)
            if op.collective:
                collective_ends.add(op.end)
        return gaps

    def waiting(self, process, gpu):
        """From the return of each launch call to the start of its first operation, where that is later."""
        for op in self.ops:
            found = self.call_of.get((process, op.correlation))
            if op.process == process and op.gpu == gpu and found and self.first[process, op.correlation] is op \
                    and (not op.copy or "Launch" in found[1][3]) and found[1][1] < op.start:
                yield found[1][1], op.start

    def queue(self, process, gpu, start, end):
        """Mean depth of the queue in a window, and the time in which nothing waits."""
        inside = [(max(issued, start), min(begun, end)) for issued, begun in self.waiting(process, gpu)]
        inside = [wait for wait in inside if wait[0] < wait[1]]
        covered = sum(end - start for start, end in union(inside))
        return sum(end - start for start, end in inside) / (end - start), end - start - covered

    def own(self, process, start, end, thread):
        """The operations of an instance, by GPU."""
        own = collections.defaultdict(list)
        for op in self.ops:
            found = self.call_of.get((op.process, op.correlation))
            if thread is None or found and found[0] == thread and start <= found[1][0] < end:
                own[op.gpu].append((op.start, op.end))
        return own

    def idle(self, stage, skip, take):
        instances = self.instances(stage, skip, take)
        gaps = {gpu: self.gaps(gpu) for gpu in {op.gpu for op in self.ops}}
        for process, ranges in sorted(instances.items()):
            totals, projections = collections.Counter(), 0
            windows = []
            for start, end, thread in ranges:
                own = self.own(process, start, end, thread)
                if not own:
                    continue
                first = min(start for ops in own.values() for start, _ in ops)
                last = max(end for ops in own.values() for _, end in ops)
                for gpu, ops in own.items():
                    windows.append((gpu, first, last))
                    busy = sum(end - start for start, end in union(ops))
                    projections += last - first
                    totals["busy"] += busy
                    idle = last - first - busy
                    for start, end, cause in gaps[gpu]:
                        time = max(min(end, last) - max(start, first), 0)
                        totals[cause] += time
                        idle -= time
                    totals["other_work"] += idle
            assert sum(totals.values()) == projections
            yield process, projections, totals, windows


def main(path, stage, skip=0, take=None):
    capture = Capture(path)
    for process, projections, totals, windows in capture.idle(stage, int(skip), take and int(take)):
        print(f"process {process:#x}: stage {projections}")
        for cause, time in sorted(totals.items()):
            if time:
                print(f"  {cause} {time}")
        for gpu, first, last in windows:
            depth, empty = capture.queue(process, gpu, first, last)
            print(f"  instance of {last - first} on GPU {gpu}: queue depth {depth!r}, empty for {empty}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
