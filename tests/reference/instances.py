"""Instances of stages of an nsys export or a PyTorch trace, with their GPU operations, derived without Rooflens.

Definitions: docs/methodology.md, *Time* (attribution, stage, projection, excluded). An operation is that of the ranges that
are open on the thread of its call when that starts; if the thread has none open and exactly one other of the process has one
over the whole call, of that one.
"""

import bisect
import collections
import functools
import re
import statistics

from idle import Capture, process_of, rows, union, within
from kineto import Trace
import sqlite3


class Instance(collections.namedtuple("Instance", "stage process thread start end ops")):
    @functools.cached_property
    def projection(self):
        """Begin of the first and end of the last operation, once all of them are known."""
        return min(op.start for op in self.ops), max(op.end for op in self.ops)


WHOLE = "whole capture"
REPEATING = "kernel sequence"
# A gap up to this long is one between any two operations.
ANY_GAP = 10_000
# How the marks of rooflens-capture begin: its domain.
MARK = "rooflens:"


class Export(Capture):
    """The capture of idle.py with names and bytes of its operations."""

    def __init__(self, path):
        super().__init__(path)
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.details, self.cpu_ops, rank = {}, {}, 0
        for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
            wanted = ["demangledName", "bytes", "copyKind", "srcKind", "dstKind", "gridX", "gridY", "gridZ", "blockX", "blockY",
                      "blockZ", "streamId"]
            for name, size, kind, source, target, *sizes, stream in rows(db, f"CUPTI_ACTIVITY_KIND_{table}", wanted):
                self.details[rank] = dict(name=self.names.get(name, table), kind=table, bytes=size, copy=kind, stream=stream,
                                          memory=(source, target), grid=tuple(sizes[:3]), block=tuple(sizes[3:]))
                rank += 1
        self.path = path


def load(path):
    with open(path, "rb") as file:
        return Export(path) if file.read(6) == b"SQLite" else Trace(path)


def is_of(stage, name):
    """Whether a range of this name is an instance of the stage: numbers in names may be written N."""
    return name is not None and (name == stage or re.sub(r"\d+", "N", name) == stage
                                 or stage == "ProfilerStep" and re.fullmatch(r"ProfilerStep#\d+", name) is not None)


class Pass:
    def __init__(self, path):
        self.capture = load(path)
        names = self.capture.names
        self.ranges = sorted((start, -end, thread, text or names.get(text_id))
                             for start, end, thread, text, text_id, event in self.capture.ranges
                             if event in (59, 60) and end is not None)
        self.open, self.found = collections.defaultdict(list), {}
        for start, end, thread, name in self.ranges:
            if name and not name.startswith(("nccl", "NCCL", MARK)):
                self.open[thread].append((start, -end))
        self.open = {thread: union(own) for thread, own in self.open.items()}
        self.gaps_of, self.memo, self.samples, self.stages, self.pauses, self.places = {}, {}, None, [], False, {}
        self.warmup = 0

    def gaps(self, gpu):
        if gpu not in self.gaps_of:
            self.gaps_of[gpu] = self.capture.gaps(gpu)
        return self.gaps_of[gpu]

    def call(self, op):
        return self.capture.call_of.get((op.process, op.correlation))

    def direction(self, op):
        """Of a copy between host and GPU, HtoD or DtoH."""
        own = self.capture.details[op.rank]
        if "copy" in own:
            return {1: "HtoD", 2: "DtoH"}.get(own["copy"])
        return next((one for one in ("HtoD", "DtoH") if one in own["name"]), None)

    def crosses(self, op):
        return self.direction(op) is not None

    def ended_by(self, time):
        """The name of the operation that begins at a time."""
        return next(self.capture.details[op.rank]["name"] for op in self.capture.ops if op.start == time)

    def threads_of(self, thread, call):
        """The threads whose open ranges a call belongs to."""
        if any(begin <= call[0] < end for begin, end in around(self.open.get(thread, []), call[0])):
            return [thread]
        others = [one for one, own in self.open.items() if one != thread and process_of(one) == process_of(thread)
                  and any(begin <= call[0] and call[1] <= end for begin, end in around(own, call[0]))]
        return others if len(others) == 1 else []

    def instances(self, stage):
        """All instances of a stage, by process, in order of their ranges."""
        if stage in self.found:
            return self.found[stage]
        if stage == WHOLE:
            found = {process: [Instance(stage, process, None, None, None, [op for op in self.capture.ops
                                                                          if op.process == process])]
                     for process in {op.process for op in self.capture.ops}}
            self.found[stage] = found
            return found
        if stage == REPEATING:
            self.found[stage] = self.repeats(stage)
            return self.found[stage]
        if stage == "train_step" and not any(is_of(stage, one[3]) for one in self.ranges):
            self.found[stage] = self.between_updates(stage)
            return self.found[stage]
        own, last = collections.defaultdict(list), {}
        for start, end, thread, name in self.ranges:
            if is_of(stage, name) and start >= last.get(thread, start):
                last[thread] = -end
                own[thread].append(Instance(stage, process_of(thread), thread, start, -end, []))
        starts = {thread: [one.start for one in list_] for thread, list_ in own.items()}
        for op in self.capture.ops:
            found = self.call(op)
            for thread in self.threads_of(*found) if found else []:
                at = bisect.bisect_right(starts.get(thread, []), found[1][0]) - 1
                if at >= 0 and found[1][0] < own[thread][at].end:
                    own[thread][at].ops.append(op)
        found = collections.defaultdict(list)
        for list_ in own.values():
            for one in list_:
                found[one.process].append(one)
        self.found[stage] = {process: sorted(list_, key=lambda one: one.start) for process, list_ in found.items()}
        return self.found[stage]

    def between_updates(self, stage):
        """From the end of an `Optimizer.step` to that of the next, with what all threads of the process issue."""
        updates, found = collections.defaultdict(list), collections.defaultdict(list)
        for start, end, thread, name in self.ranges:
            if (name or "").startswith("Optimizer.step#"):
                updates[thread].append((-end, name))
        issued = [(call[1][0], op) for op in self.capture.ops for call in [self.call(op)] if call]
        for thread, own in updates.items():
            ends = [end for end, name in own if name == own[0][1]]
            for start, end in zip(ends, ends[1:]) if len(ends) > 2 else []:
                ops = [op for at, op in issued if start <= at < end and op.process == process_of(thread)]
                found[process_of(thread)].append(Instance(stage, process_of(thread), thread, start, end, ops))
        return found

    def repeats(self, stage):
        """Of the sequence of calls that repeats exactly its repeats, from the first call to that of the next: of graphs alone
        if they take half of the GPU time, else of kernels and copies, else of kernels."""
        ops_of = collections.defaultdict(list)
        for op in self.capture.ops:
            found = self.call(op)
            if found:
                ops_of[found[1], found[0]].append(op)
        every = sorted(ops_of)
        kernels = [call for call in every if any(not op.copy for op in ops_of[call])]
        graphs = [call for call in kernels if "GraphLaunch" in call[0][3]]
        time = {name: sum(op.end - op.start for call in own for op in ops_of[call])
                for name, own in (("kernels", kernels), ("graphs", graphs))}
        for calls in [graphs] if graphs and 2 * time["graphs"] >= time["kernels"] else [every, kernels]:
            keys = [tuple(sorted(self.work_of(op) for op in ops_of[call])) for call in calls]
            period, (first, length) = shortest_period(keys)
            if period:
                break
        else:
            return {}
        offset = self.begin(calls, ops_of, first, period, length)
        cuts = [first + offset + index * period for index in range((length - offset) // period + 1)]
        found = collections.defaultdict(list)
        for start, end in zip(cuts, cuts[1:]):
            call, thread = calls[start]
            until = calls[end][0][0] if end < len(calls) else max(calls[end - 1], kernels[-1])[0][1]
            found[process_of(thread)].append(Instance(stage, process_of(thread), thread, call[0], until, []))
        for own in found.values():
            starts = [one.start for one in own]
            for op in self.capture.ops:
                issuer, call = self.call(op) or (None, None)
                at = bisect.bisect_right(starts, call[0]) - 1 if call else -1
                if at >= 0 and issuer == own[at].thread and call[0] < own[at].end:
                    own[at].ops.append(op)
        return found

    def work_of(self, op):
        own = self.capture.details[op.rank]
        return (own["name"] or "", own["kind"], self.direction(op) or "", own["bytes"] if op.copy else 0)

    def begin(self, calls, ops_of, first, period, length):
        """Where in a repeat the GPU waits least before a call: not at its first one, then at the last such call."""
        waits, until = [0] * period, max(op.end for op in ops_of[calls[first]])
        for at in range(first + 1, first + length - length % period):
            ops = ops_of[calls[at]]
            waits[(at - first) % period] += max(min(op.start for op in ops) - until - ANY_GAP, 0)
            until = max(until, *(op.end for op in ops))
        least = min(own for offset, own in enumerate(waits) if length - offset >= 3 * period)
        return 0 if waits[0] == least else max(offset for offset, own in enumerate(waits) if own == least
                                               and length - offset >= 3 * period)

    def counted(self, stage, process):
        """The counted instances of a stage, derived once."""
        if ("counted", stage, process) not in self.memo:
            self.memo["counted", stage, process] = self.counted_of(stage, process)
        return self.memo["counted", stage, process]

    def counted_of(self, stage, process):
        """Those with operations and as many steps as most have, without a cold first one; steps follow their loop."""
        instances = self.instances(stage).get(process, [])
        instances = [one for one in instances[self.warmup if self.warmup < len(instances) else 0:] if one.ops]
        if stage == "decode" and not any(map(self.steps, instances)):
            # Steps without a range around them are warm-up until the first prefill that is not.
            every, warm = self.instances("prefill").get(process, []), self.counted("prefill", process)
            first = warm[0].start if warm and warm[0] is not every[0] else None
            instances = [one for one in instances if first is None or one.start is None or one.start >= first]
        loop = stage.removesuffix("_step")
        if loop != stage and self.instances(loop).get(process):
            loops = self.counted(loop, process)
            instances = [one for one in self.instances(stage).get(process, []) if one.ops]
            return [one for one in instances if any(lies_in(one, other) for other in loops)]
        around = self.stage_around(stage, process)
        if around:
            return [one for one in self.instances(stage).get(process, []) if one.ops
                    and any(lies_in(one, other) for other in self.counted(around, process))]
        steps = [self.steps(one) for one in instances]
        if any(steps):
            most = max(set(steps), key=steps.count)
            instances = [one for one, own in zip(instances, steps) if own == most]
        return instances[1:] if is_cold([length(one) for one in instances]) else instances

    def stage_around(self, stage, process):
        """The stage that contains all instances of a part, the outermost one."""
        own = self.instances(stage).get(process, [])
        for other in self.stages:
            parts = self.instances(other).get(process, []) if other not in (stage, WHOLE) else []
            if own and parts and all(any(lies_in(one, part) for part in parts) for one in own) and not self.stage_around(other, process):
                return other
        return None

    def steps(self, one):
        """The steps within an instance, by ranges that are named so."""
        own = self.instances(f"{one.stage}_step").get(one.process, [])
        return sum(lies_in(step, one) for step in own)

    def idle(self, stage, process):
        """Of each counted instance and GPU its projection and the time by cause."""
        key = stage, process
        if key not in self.memo:
            self.memo[key] = [(one, gpu, *self.of_instance(one, gpu)) for one in self.counted(stage, process)
                              for gpu in sorted({op.gpu for op in one.ops})]
        return self.memo[key]

    def of_instance(self, one, gpu):
        first, last = projection(one)
        times = collections.Counter(busy=covered((op.start, op.end) for op in one.ops if op.gpu == gpu))
        for gap in self.gaps_within(gpu, first, last):
            times.update(within(gap, first, last))
        times["other_work"] += last - first - sum(times.values())
        return last - first, times

    def gaps_within(self, gpu, first, last):
        gaps = self.gaps(gpu)
        for gap in gaps[bisect.bisect_right(gaps, first, key=lambda gap: gap[1]):]:
            if gap[0] >= last:
                break
            yield gap


def around(merged, time):
    """Of disjoint times the last that begins no later."""
    at = bisect.bisect_right(merged, [time, float("inf")]) - 1
    return merged[at:at + 1] if at >= 0 else []


def shortest_period(keys):
    """The shortest period with which keys repeat around their middle, three times and in half of them: it, its start and
    the number of keys."""
    middle = len(keys) // 2
    for period in range(1, len(keys) // 3 + 1):
        last = first = middle
        while first > 0 and keys[first - 1] == keys[first - 1 + period]:
            first -= 1
        while last + period < len(keys) and keys[last] == keys[last + period]:
            last += 1
        length = last + period - first
        if last >= middle + period and length >= 3 * period and 2 * length >= len(keys):
            return period, (first, length)
    return None, (0, 0)


def projection(one):
    return one.projection


def lies_in(one, other):
    """Whether a range lies in a longer one of its thread."""
    return (one.thread == other.thread and None not in (one.start, other.start) and other.start <= one.start
            and one.end <= other.end and (one.start, one.end) != (other.start, other.end))


def outermost(instances):
    """Those that lie in no other one."""
    found, last = [], {}
    for one in sorted((one for one in instances if one.start is not None), key=lambda one: (one.start, -one.end)):
        around = last.get(one.thread)
        if around is None or around.end < one.end or (around.start, around.end) == (one.start, one.end):
            last[one.thread] = one
            found.append(one)
    return found + [one for one in instances if one.start is None]


def length(one):
    first, last = projection(one)
    return last - first


def covered(intervals):
    return sum(end - start for start, end in union(intervals))


def is_cold(times):
    """Whether the first is an outlier against three or more others."""
    return len(times) >= 4 and is_outlier(times[0], times[1:])


def is_outlier(time, others):
    median = statistics.median(others)
    deviation = statistics.median(abs(other - median) for other in others)
    return 0.6745 * (time - median) > 3.5 * deviation
