"""Idle time by cause of one stage, derived from an nsys SQLite export without Rooflens.

usage: idle.py [EXPORT STAGE [SKIP [TAKE]]]

Without arguments: derives idle time by cause, its spread over instances, and the time with an empty queue of the stages in
FIXTURES from `timeline.sqlite` of their passes, for `tests/data/expected`.

STAGE is the name of NVTX ranges, or - for the whole capture as one; SKIP the number of leading instances of each
process that do not count, TAKE the number of those after them that do (all).
Prints nanoseconds by process, GPU and cause, summed over the instances that count, in the words of
docs/methodology.md: in brackets the median, the least and greatest share of an instance, and in how many it takes at least
1 %; then of each instance and GPU the mean depth of the queue and
the time in which it is empty, and which instance is shown.
Written to be read: it colours the moments of a gap from the weakest reason to the strongest, moment by moment between all
points at which something begins or ends, and shares no code and no algorithm with the program.
"""

import bisect
import collections
import functools
import re
import sqlite3
import statistics
import sys

import expected

# Fixture, pass, stage, and the leading instances that are warm-up by workload.toml; of `forward` the first has a cold start.
FIXTURES = [
    ("h100-vit-train", "nsys", "train_step", 1),
    ("h200-llama-8b", "nsys", "prefill", 2),
    ("h200-llama-8b", "nsys", "decode", 2),
    ("h200-llama-8b", "nsys", "decode_step", 4),
    ("h200-qwen-0.5b", "nsys", "prefill", 2),
    ("h200-qwen-0.5b", "nsys", "decode", 2),
    ("h200-cuda-graph", "nsys-node", "eager", 0),
    ("h200-cuda-graph", "nsys-node", "decode", 0),
    ("h200-cuda-graph", "nsys-node", "offload", 0),
    ("h200-cuda-graph", "nsys-graph", "decode", 0),
    ("h200-llama-1b", "nsys", "decode", 2),
    ("h200-llama-1b", "nsys-gated-decode", "decode", 0),
    ("h200x2-ddp", "nsys", "forward", 1),
]
SHORT_STRETCH = 100_000
# Names without cuda, cu or hip.
FIRST_USE = ("Module", "Library", "Link", "FuncLoad", "KernelGetFunction", "GraphInstantiate")
ALLOCATION = ("Malloc", "Free", "Host", "Mem")
NO_ALLOCATION = ("Memcpy", "Memset", "HostGet", "MemGet", "MemHostGet", "MemPrefetch", "MemAdvise", "MemRange")
# NVTX domains of libraries, whose ranges are no stages.
LIBRARIES = {"NCCL", "cuBLAS", "cuBLASLt", "cuDNN", "cuSPARSE", "CCCL", "TensorRT", "libcudf"}
LABELS = {"launching": "launching", "host_code": "host code", "first_use": "first use", "sync": "synchronizing call",
          "allocation": "allocation", "copy": "blocking copy", "os": "operating system", "off_cpu": "off CPU",
          "profiler": "profiler", "communication": "collective", "queue": "queue, latency", "other_work": "other work",
          "unknown": "unknown"}

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


def around(merged, start, end):
    """Of disjoint times those that reach into a window."""
    at = max(bisect.bisect_right(merged, [start, float("inf")]) - 1, 0)
    while at < len(merged) and merged[at][0] < end:
        if merged[at][1] > start:
            yield merged[at]
        at += 1


def within(gap, first, last):
    """Time by cause of the part of a gap in a window."""
    times = collections.Counter()
    for start, end, cause in gap[2]:
        times[cause] += max(min(end, last) - max(start, first), 0)
    return times


@functools.cache
def kind(name):
    plain = re.sub("^(cuda|cu|hip)", "", name)
    if "Synchronize" in plain:
        return "sync"
    if plain.startswith(FIRST_USE):
        return "first_use"
    if plain.startswith(ALLOCATION) and not plain.startswith(NO_ALLOCATION):
        return "allocation"
    if "Memcpy" in plain:
        return "copy" if "Async" not in plain else "async copy"
    return "launch" if "Launch" in plain else "other"


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
        self.ops, self.kernels, self.full, rank = [], {}, {}, 0
        for table, name in [("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "null"),
                            ("CUPTI_ACTIVITY_KIND_MEMSET", "null"), ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "null")]:
            full = "demangledName" if table.endswith("KERNEL") else "null"
            wanted = ["start", "end", "globalPid", "correlationId", "deviceId", name, "srcKind", "dstKind", full]
            for start, end, process, correlation, gpu, short, source, target, full in rows(db, table, wanted):
                collective = (self.names.get(short) or "").startswith("nccl")
                copy = "MEM" in table
                pageable = table.endswith("MEMCPY") and 0 in (source, target)
                self.ops.append(Op(start, end, process, correlation, gpu, collective, copy, pageable, rank))
                self.kernels[self.ops[-1]] = self.names.get(short, table)
                self.full[rank] = full
                rank += 1
        self.ops.sort(key=lambda op: (op.start, op.end, op.rank))
        self.calls, self.call_of, within = collections.defaultdict(list), {}, {}
        for start, end, thread, correlation, name in rows(
                db, "CUPTI_ACTIVITY_KIND_RUNTIME", ["start", "end", "globalTid", "correlationId", "nameId"]):
            self.calls[thread].append((start, end, correlation, self.names[name]))
        for thread, calls in self.calls.items():
            outermost, last = [], None
            for call in sorted(calls, key=lambda call: (call[0], -call[1])):
                if last is not None and call[1] <= last:
                    # A launch that a call with a wrong start seems to hold still issues its operations.
                    within.setdefault((process_of(thread), call[2]), (thread, call))
                    continue
                last = call[1]
                outermost.append(call)
                self.call_of[process_of(thread), call[2]] = (thread, call)
            self.calls[thread] = outermost
        self.call_of = within | self.call_of
        self.first = {}
        for op in self.ops:
            self.first.setdefault((op.process, op.correlation), op)
        self.loading = self.loads()
        self.os = self.by_thread(db, "OSRT_API")
        self.profiler = self.by_thread(db, "PROFILER_OVERHEAD")
        self.off_cpu = off_cpu(db)
        domains = {(thread & ~0xFFFFFF, domain): text for text, domain, thread, event in
                   rows(db, "NVTX_EVENTS", ["text", "domainId", "globalTid", "eventType"]) if event == 75}
        self.ranges = [own[:6] for own in rows(db, "NVTX_EVENTS", ["start", "end", "globalTid", "text", "textId", "eventType",
                                                                   "domainId"])
                       if own[2] is None or domains.get((process_of(own[2]), own[6])) not in LIBRARIES]

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

    def loads(self):
        """Launch calls that are the first of their kernel in the process, and calls of the allocator between such a launch and
        the launch before it on the thread: those much longer than others of their kind on the thread."""
        limits = {}
        for thread, calls in self.calls.items():
            for wanted in ("launch", "allocation"):
                times = [end - start for start, end, _, name in calls if kind(name) == wanted]
                limits[thread, wanted] = max(100_000, 10 * statistics.median(times or [0]))
        first = {}
        for op in self.ops:
            thread, call = self.call_of.get((op.process, op.correlation), (None, None))
            if call and self.full[op.rank] is not None and self.first[op.process, op.correlation] is op:
                key = (op.process, self.full[op.rank])
                first[key] = min(first.get(key, (call, thread)), (call, thread))
        candidates = []
        for call, thread in first.values():
            candidates.append((thread, call))
            at = bisect.bisect_left(self.calls[thread], call)
            while at > 0 and kind(self.calls[thread][at - 1][3]) != "launch":
                at -= 1
                candidates.append((thread, self.calls[thread][at]))
        return {(thread, call) for thread, call in candidates
                if call[1] - call[0] > limits.get((thread, kind(call[3])), float("inf"))}

    def does(self, thread, process, call):
        """What a thread does in a call."""
        name = kind(call[3])
        first = self.first.get((process, call[2]))
        if name == "async copy" and first is not None and first.pageable:
            return "copy"
        if (thread, call) in self.loading:
            return "first_use"
        return name if name in ("sync", "first_use", "allocation", "copy") else "launching"

    def causes(self, start, end, op, before):
        """The parts of the gap [start, end) that `op` ends; `before` are the operations that end at its start."""
        found = self.call_of.get((op.process, op.correlation))
        if found is None or found[1][0] > end:
            return [(start, end, "unknown")]
        thread, call = found
        if call[1] <= start or self.first[op.process, op.correlation] is not op:
            return [(start, end, "communication" if op.collective or before else "queue")]
        until = min(call[1], end)
        parts = self.does_until(thread, op.process, call, start, until)
        return parts + ([(until, end, "queue")] if until < end else [])

    def does_until(self, thread, process, call, start, until):
        """The parts of a time that ends in a call, or with it, by what its thread does."""
        calls = self.calls[thread]
        own = bisect.bisect_left(calls, (call[0], call[1], -1, ""))
        first = own
        while first > 0 and calls[first - 1][1] > start:
            first -= 1
        # From the weakest to the strongest.
        layers = []
        for at in range(first, own + 1):
            begun = calls[at - 1][1] if at > 0 else float("-inf")
            long = calls[at][0] - begun >= SHORT_STRETCH
            layers.append((begun, calls[at][0], "host_code" if long else "launching"))
        layers += [(*off, "off_cpu") for off in around(self.off_cpu.get(thread, []), start, until)]
        layers += [(*os, "os") for os in around(self.os.get(thread, []), start, until)]
        layers += [(*calls[at][:2], self.does(thread, process, calls[at])) for at in range(first, own + 1)]
        layers += [(*held, "profiler") for held in around(self.profiler.get(thread, []), start, until)]
        points = {start, until} | {point for layer in layers for point in layer[:2] if start < point < until}
        points = sorted(points)
        parts = []
        for begin, finish in zip(points, points[1:]):
            cause = next(cause for since, to, cause in reversed(layers) if since <= begin and finish <= to)
            parts.append((begin, finish, cause))
        return parts

    def gaps(self, gpu):
        """All gaps of a GPU with the parts that they are cut into."""
        gaps, last, collective_ends = [], None, set()
        for op in (op for op in self.ops if op.gpu == gpu):
            if last is not None and op.start > last:
                gaps.append((last, op.start, self.causes(last, op.start, op, last in collective_ends)))
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
        """The operations of an instance, by GPU. Threads without ranges, as of autograd, work for the only one with some."""
        with_ranges = {other for _, _, other, *_ in self.ranges if other and process_of(other) == process}
        own = collections.defaultdict(list)
        for op in self.ops:
            issuer, call = self.call_of.get((op.process, op.correlation), (None, None))
            if issuer not in with_ranges and with_ranges == {thread} and op.process == process:
                issuer = thread
            if thread is None or call and issuer == thread and start <= call[0] < end:
                own[op.gpu].append((op.start, op.end))
        return own

    def idle(self, stage, skip, take):
        """Of each process and GPU the time of each instance: whole, by cause, and its window."""
        gaps = {gpu: self.gaps(gpu) for gpu in {op.gpu for op in self.ops}}
        starts = {gpu: [gap[1] for gap in own] for gpu, own in gaps.items()}
        for process, ranges in sorted(self.instances(stage, skip, take).items()):
            found = collections.defaultdict(list)
            for start, end, thread in ranges:
                own = self.own(process, start, end, thread)
                if not own:
                    continue
                first = min(start for ops in own.values() for start, _ in ops)
                last = max(end for ops in own.values() for _, end in ops)
                for gpu, ops in own.items():
                    times = collections.Counter(busy=sum(end - start for start, end in union(ops)))
                    for gap in gaps[gpu][bisect.bisect_right(starts[gpu], first):]:
                        if gap[0] >= last:
                            break
                        times.update(within(gap, first, last))
                    times["other_work"] += last - first - sum(times.values())
                    found[gpu].append((last - first, times, first, last))
            for gpu, instances in sorted(found.items()):
                yield process, gpu, instances


def spread(instances, cause):
    """Sum, median, least and greatest share, and the number of instances that have at least 1 % of it."""
    times = [(one[1][cause], one[0]) for one in instances]
    shares = [time / whole for time, whole in times]
    return (sum(time for time, _ in times), statistics.median(time for time, _ in times), min(shares), max(shares),
            sum(share >= 0.01 for share in shares))


def apart(instances, one):
    """How far the shares of an instance are from the medians, and its time from the median time."""
    medians = {cause: statistics.median(other[1][cause] / other[0] for other in instances) for cause in LABELS}
    time = statistics.median(other[0] for other in instances)
    distance = sum(abs(one[1][cause] / one[0] - medians[cause]) for cause in LABELS)
    return round(distance, 9), abs(one[0] - time), one[0]


def main(path, stage, skip=0, take=None):
    capture = Capture(path)
    for process, gpu, instances in capture.idle(stage, int(skip), take and int(take)):
        print(f"process {process:#x}, GPU {gpu}: {len(instances)} instances, {sum(one[0] for one in instances)}")
        for cause, label in LABELS.items():
            time, median, least, most, occurs = spread(instances, cause)
            if time:
                print(f"  {label} {time} (median {median}, {least!r} to {most!r}, in {occurs})")
        nearest = min(instances, key=lambda one: apart(instances, one))
        for one in instances:
            depth, empty = capture.queue(process, gpu, *one[2:])
            mark = ", nearest to the medians" if one is nearest else ""
            print(f"  instance of {one[0]} on GPU {gpu}: queue depth {depth!r}, empty for {empty}{mark}")


def figures(capture, pass_name, stage, skip):
    """Figures of a stage; on several GPUs each rank is a process with one of them."""
    found = list(capture.idle(stage, skip, None))
    for process, gpu, instances in found:
        scope = {"pass": pass_name, "stage": stage if len(found) == 1 else f"{stage} · rank {gpu}"}
        spreads = {label: spread(instances, cause) for cause, label in LABELS.items()}
        idle = sum(times[0] for times in spreads.values())
        yield expected.cell("idle", "total_ns", idle, "nanoseconds", **scope)
        for label, (time, median, least, most, occurs) in spreads.items():
            if time:
                row = {**scope, "cause": label}
                yield expected.cell("idle", "total_ns", time, "nanoseconds", **row)
                yield expected.cell("idle", "median_ns", median, "nanoseconds", **row)
                yield expected.cell("idle", "least_share", least, "ratio", 1e-12, **row)
                yield expected.cell("idle", "most_share", most, "ratio", 1e-12, **row)
                yield expected.cell("idle", "occurs_in", occurs, "count", **row)
                yield expected.cell("idle", "instances", len(instances), "count", **row)
        empty = sum(capture.queue(process, gpu, *one[2:])[1] for one in instances)
        share = empty / sum(one[0] for one in instances)
        yield expected.cell("launch_figures", "queue_empty_share", share, "ratio", 1e-12, **scope)


def derive():
    parts, captures = collections.defaultdict(list), {}
    for bundle, pass_name, stage, skip in FIXTURES:
        if (bundle, pass_name) not in captures:
            with expected.unpacked(bundle, f"{pass_name}/timeline.sqlite") as path:
                captures[bundle, pass_name] = Capture(path)
        parts[bundle] += figures(captures[bundle, pass_name], pass_name, stage, skip)
    for bundle, part in parts.items():
        expected.write(__file__, bundle, part)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        derive()
    elif len(sys.argv) in (3, 4, 5):
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)
