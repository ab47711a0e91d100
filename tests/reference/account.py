"""The account of the time: captured time of each GPU by phase, from an nsys export by itself.

usage: account.py [BUNDLE]

Derives the phases of FIXTURES from `nsys/timeline.sqlite` and `workload.toml`, for `tests/data/expected`. With a fixture:
prints its phases in nanoseconds.

Definitions: docs/methodology.md, *Time*. Captured time is the time from the first to the last GPU operation, API call or start of a
range, once for each GPU. An iteration is outermost if its range lies in no range of another stage. An iteration of it takes the time
from the first start to the last end of the operations that its range issued. If two overlap, the first to start has the time.
In an iteration, a GPU is busy with the operations of the iteration alone, and in other time with any.
Excluded are the declared leading iterations, decode loops of another length, and a cold first iteration.
Phases are sums of sets of disjoint times, so the reference shares no algorithm with the program, which walks along the time.
"""

import collections
import sqlite3
import statistics
import sys
import tomllib

import expected

FIXTURES = ["h100-train", "h100-vit-train", "h100x2-parallel", "h200-llama-1b", "h200-llama-8b", "h200-qwen-0.5b",
            "h200x2-ddp"]
OPERATIONS = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
MEASURED, SLOW, WARMUP = "measured iterations", "slow measured iterations", "declared warm-up"
COLD, OTHER_LENGTH = "cold start", "loops of other lengths"

Range = collections.namedtuple("Range", "thread start end name domain")
Op = collections.namedtuple("Op", "start end process gpu call")
Call = collections.namedtuple("Call", "thread start end")


class Iteration:
    def __init__(self, stage, steps, is_outermost):
        self.stage, self.name, self.steps, self.is_outermost = stage, stage.name, steps, is_outermost
        self.process = process_of(stage.thread)
        self.ops, self.phase = [], MEASURED

    def span(self):
        return min(op.start for op in self.ops), max(op.end for op in self.ops)

    def time(self):
        """The time of a step, or of the iteration if it has none."""
        start, end = self.span()
        return (end - start) / max(self.steps, 1)


def process_of(thread):
    return thread & ~0xFFFFFF


def union(times):
    """Disjoint times in order."""
    merged = []
    for start, end in sorted(times):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif start < end:
            merged.append((start, end))
    return merged


def length(times):
    return sum(end - start for start, end in times)


def common(left, right):
    """The times in both of two sets."""
    return length(left) + length(right) - length(union(left + right))


def without(time, taken):
    """What of a time lies in none of a set of times."""
    edges = [time[0]]
    for start, end in taken:
        edges += [min(max(start, time[0]), time[1]), min(max(end, time[0]), time[1])]
    edges.append(time[1])
    return [(start, end) for start, end in zip(edges[::2], edges[1::2]) if start < end]


class Export:
    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        calls = {}
        for thread, start, end, correlation in self.rows(
                "CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid, start, end, correlationId"):
            calls[process_of(thread), correlation] = Call(thread, start, end)
        names = dict(self.rows("StringIds", "id, value"))
        # Push/pop and start/end ranges.
        columns = "globalTid, start, end, text, textId, domainId, eventType"
        self.ranges = [Range(thread, start, end, text or names.get(text_id), domain)
                       for thread, start, end, text, text_id, domain, kind in self.rows("NVTX_EVENTS", columns)
                       if kind in (59, 60) and end is not None]
        self.ops = []
        for table in OPERATIONS:
            columns = "start, end, globalPid, deviceId, correlationId"
            for start, end, process, gpu, correlation in self.rows(f"CUPTI_ACTIVITY_KIND_{table}", columns):
                call = calls.get((process_of(process), correlation))
                self.ops.append(Op(start, end, process_of(process), gpu, call))
        # Marks of the capture program are no events of the workload.
        starts = [mark.start for mark in self.ranges if not (mark.name or "").startswith("rooflens:")]
        events = [*calls.values(), *self.ops]
        self.captured = (min([event.start for event in events] + starts),
                         max([event.end for event in events] + starts))

    def rows(self, table, columns):
        has = self.db.execute("select 1 from sqlite_master where type = 'table' and name = ?", [table]).fetchone()
        return self.db.execute(f"select {columns} from {table}").fetchall() if has else []

    def iterations(self, stages):
        """Ranges of stages that issued operations, in the order of their starts."""
        # Libraries have a domain each; the ranges of NCCL by PyTorch have none.
        user = [mark for mark in self.ranges if mark.domain == 0 and mark.name and not mark.name.startswith(("nccl", "NCCL"))]
        open_of = outermost(user)
        of_stages = [mark for mark in user if mark.name in stages]
        roots = outermost(of_stages)
        iterations = collections.defaultdict(list)
        for mark in of_stages:
            iterations[mark.thread].append(Iteration(mark, steps_in(mark, user), mark in roots[mark.thread]))
        threads = collections.defaultdict(set)
        for thread in open_of:
            threads[process_of(thread)].add(thread)
        opened = {}
        for op in self.ops:
            if op.call and op.call not in opened:
                opened[op.call] = thread_of(op.call, open_of, threads[op.process])
            thread = op.call and opened[op.call]
            for iteration in iterations.get(thread, ()):
                if iteration.stage.start <= op.call.start < iteration.stage.end:
                    iteration.ops.append(op)
        with_ops = [iteration for of_thread in iterations.values() for iteration in of_thread if iteration.ops]
        return sorted(with_ops, key=lambda iteration: iteration.stage.start)


def outermost(ranges):
    """By thread, the ranges in no other range, in the order of their starts."""
    by_thread = collections.defaultdict(list)
    for mark in sorted(ranges, key=lambda mark: (mark.start, -mark.end)):
        last = by_thread[mark.thread][-1:]
        if not last or mark.start >= last[0].end:
            by_thread[mark.thread].append(mark)
    return by_thread


def contains(outer, inner):
    return outer.thread == inner.thread and outer.start <= inner.start and inner.end <= outer.end


def steps_in(loop, ranges):
    return sum(mark.name == f"{loop.name}_step" and contains(loop, mark) for mark in ranges)


def thread_of(call, open_of, threads):
    """The thread whose range a call belongs to: its thread, or the only other thread with a range over the call."""
    if any(mark.start <= call.start < mark.end for mark in open_of.get(call.thread, ())):
        return call.thread
    others = [thread for thread in threads - {call.thread}
              if any(mark.start <= call.start and call.end <= mark.end for mark in open_of[thread])]
    return others[0] if len(others) == 1 else None


def classify(iterations, warmup, is_loop, declared):
    """Sets the phases of the iterations of a stage in a process."""
    for iteration in iterations[:warmup]:
        iteration.phase = WARMUP
    rest = iterations[warmup:]
    steps = [iteration.steps for iteration in rest if iteration.steps]
    if is_loop and steps:
        usual = declared or statistics.mode(steps)
        if 2 * steps.count(usual) >= len(rest):
            for iteration in rest:
                if iteration.steps != usual:
                    iteration.phase = OTHER_LENGTH
            rest = [iteration for iteration in rest if iteration.steps == usual]
    if len(rest) >= 4 and is_outlier(rest[0].time(), [iteration.time() for iteration in rest[1:]]):
        rest.pop(0).phase = COLD
    times = [iteration.time() for iteration in rest]
    for iteration in rest if len(rest) >= 5 else ():
        if iteration.time() >= 1.5 * statistics.median(times) and is_outlier(iteration.time(), times):
            iteration.phase = SLOW


def is_outlier(time, times):
    median = statistics.median(times)
    return 0.6745 * (time - median) > 3.5 * statistics.median(abs(other - median) for other in times)


def phases_of(gpu, ops, iterations, captured):
    """Phase, name, times and busy time of each part of the captured time of a GPU."""
    on_gpu = [iteration for iteration in iterations if any(op.gpu == gpu for op in iteration.ops)]
    on_gpu.sort(key=Iteration.span)
    busy_of_gpu = union((op.start, op.end) for op in ops if op.gpu == gpu)
    taken = []
    for iteration in on_gpu:
        times = without(iteration.span(), taken)
        taken = union([*taken, iteration.span()])
        busy = union((op.start, op.end) for op in iteration.ops if op.gpu == gpu)
        yield iteration.phase, iteration.label, length(times), common(times, busy)
    for start, end in without(captured, taken):
        # The iterations on both sides.
        before = [iteration for iteration in on_gpu if iteration.span()[1] == start]
        after = [iteration for iteration in on_gpu if iteration.span()[0] == end]
        phase, name = "between stages", ""
        if not before:
            phase = "before stages"
        elif not after:
            phase = "after stages"
        else:
            name = f"{before[0].name} → {after[0].name}"
            if not {before[0].phase, after[0].phase} <= {MEASURED, SLOW}:
                phase = "next to excluded iterations"
        yield phase, name, end - start, common([(start, end)], busy_of_gpu)


def account(bundle):
    """The captured time of all GPUs; by phase and name its parts, time and busy time."""
    workload = tomllib.loads((expected.ROOT / "fixtures" / bundle / "workload.toml").read_text(encoding="utf-8"))
    kinds = {stage["name"]: stage.get("kind") for stage in workload["stages"]}
    setting = workload | workload.get("passes", {}).get("nsys", {})
    with expected.unpacked(bundle, "nsys/timeline.sqlite") as path:
        export = Export(path)
    iterations = export.iterations(kinds)
    by_stage = collections.defaultdict(list)
    for iteration in iterations:
        by_stage[iteration.process, iteration.name].append(iteration)
    gpus = sorted({op.gpu for op in export.ops})
    processes = {iteration.process for iteration in iterations}
    for (_, name), of_stage in by_stage.items():
        classify(of_stage, setting.get("warmup", 0), kinds[name] == "decode", setting.get("output_tokens"))
        for iteration in of_stage:
            # Of several processes, each is a rank with one GPU.
            rank = f" · rank {iteration.ops[0].gpu}" if len(processes) > 1 else ""
            iteration.label = f"{name}{rank}"
    roots = [iteration for iteration in iterations if iteration.is_outermost]
    sums = {}
    for gpu in gpus:
        for phase, name, time, busy in phases_of(gpu, export.ops, roots, export.captured):
            before = sums.get((phase, name), (0, 0, 0))
            sums[phase, name] = before[0] + 1, before[1] + time, before[2] + busy
    captured = (export.captured[1] - export.captured[0]) * len(gpus)
    assert sum(time for _, time, _ in sums.values()) == captured
    return captured, sums


def derive():
    for bundle in FIXTURES:
        captured, sums = account(bundle)
        figures = [expected.metric("captured_time", captured, "nanoseconds", **{"pass": "nsys"})]
        busy_of_all = sum(busy for _, _, busy in sums.values())
        figures.append(expected.cell("account", "ns", captured, "nanoseconds", kind="GPU"))
        figures.append(expected.cell("account", "ns", busy_of_all, "nanoseconds", kind="busy"))
        figures.append(expected.cell("account", "ns", captured - busy_of_all, "nanoseconds", kind="idle"))
        measured = sum(time for (phase, _), (_, time, _) in sums.items() if phase in (MEASURED, SLOW))
        figures.append(expected.metric("measured_share", measured / captured, "ratio"))
        for (phase, name), (parts, time, busy) in sorted(sums.items()):
            row = {"phase": phase, "name": name}
            figures.append(expected.cell("account_phases", "parts", parts, "count", **row))
            figures.append(expected.cell("account_phases", "time_ns", time, "nanoseconds", **row))
            # One nanosecond more of busy time differs by more than this.
            figures.append(expected.cell("account_phases", "busy_share", busy / time, "ratio", 1e-14, **row))
        expected.write(__file__, bundle, figures)


def main(bundle):
    captured, sums = account(bundle)
    print(f"captured {captured}")
    for (phase, name), (parts, time, busy) in sorted(sums.items()):
        print(f"{phase}, {name}: {parts} parts, {time}, busy {busy}, idle {time - busy}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        derive()
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
