"""A stage with the times that bounds of gains refer to, derived from the artifact and the unprofiled repeats.

Definitions: docs/methodology.md, *Upper bounds of gains*; docs/findings.md, *Gain*.
"""

import bisect
import collections
import functools
import statistics

from idle import LABELS, within
from instances import is_outlier, projection

# A gap up to this long is one between any two operations of a stream; a launch call that takes longer waits for a queue.
ORDINARY, FULL = 10_000, 100_000
# From this profiled ÷ unprofiled time on the profiler slows a stage.
SLOWED = 1.1
OWN_WORK = ("launching", "host_code", "first_use")
HOST = ("launching", "host_code", "first_use", "sync", "allocation", "copy", "os", "off_cpu")


@functools.cache
class Line:
    def __init__(self, work, stage, process):
        self.work, self.stage, self.process = work, stage, process
        self.found = work.idle(stage, process)
        self.counted = work.counted(stage, process)
        self.unprofiled = self.of_repeats()
        # Of repeats at two levels the unprofiled time is a mean, and so are the figures of iterations.
        self.levels = work.source.levels(stage) if self.unprofiled is not None else None
        typical_of = statistics.mean if self.levels else statistics.median
        spans = [projection(one) for one in self.counted]
        self.time = typical_of([end - start for start, end in spans])
        busy = collections.Counter()
        for one, _, _, times in self.found:
            busy[id(one)] += times["busy"]
        gpus = len({op.gpu for one in self.counted for op in one.ops})
        self.busy = typical_of(list(busy.values())) / gpus
        self.operations = typical_of([len(one.ops) for one in self.counted])
        self.operation_time = typical_of([sum(op.end - op.start for op in one.ops) for one in self.counted])
        self.whole = sum(whole for _, _, whole, _ in self.found)
        self.pool = collections.Counter()
        for _, _, _, times in self.found:
            self.pool.update(times)
        self.idle = sum(self.pool[cause] for cause in LABELS)
        self.gaps = [within(gap, *projection(one)) for one, gpu, _, _ in self.found
                     for gap in work.gaps_within(gpu, *projection(one))]

    def of_repeats(self):
        """Unprofiled time of as many steps; decode loops compare by the step only. Repeats are those of no rank."""
        source = getattr(self.work, "source", None)
        if source is None or len(self.work.instances(self.stage)) > 1:
            return None
        time, steps = source.unprofiled(self.stage)
        if self.stage not in ("decode", "decode_step") or time is None:
            return time
        steps = statistics.median(steps) if isinstance(steps, list) else steps
        own = self.work.steps(self.counted[0]) or source.workload.get("output_tokens")
        if not steps and not own:
            return time
        return time * own / steps if steps and own else None

    def stalls_of_profiler(self):
        """What slow iterations take beyond typical ones, less what as many or ten unprofiled repeats do; all of a cold start."""
        times = self.work.source.all_repeats(self.stage)
        spans = [projection(one) for one in self.counted]
        own, usual = [end - start for start, end in spans], max(self.time, self.unprofiled)
        # An outlier against two others: of three iterations none is excluded.
        if len(own) == 3 and is_outlier(own[0], own[1:]):
            return max(own[0] - usual, 0)
        if len(times) < min(len(spans), 10):
            return 0
        beyond = sum(own) - usual * len(spans)
        warm = times[1:] if len(times) > 1 and is_outlier(times[0], times) else times
        of_repeats = self.unprofiled * (statistics.mean(warm) / self.work.source.typical(self.stage) - 1) * len(spans)
        return max(beyond - max(of_repeats, 0), 0)

    @property
    def reference(self):
        return self.time if self.unprofiled is None else self.unprofiled

    @property
    def busy_share(self):
        """Of the unprofiled time; of kernels that take longer than that, unless the profiler slows the stage, of their own run."""
        return self.busy / (self.time if self.reference < self.busy and self.time <= SLOWED * self.reference else max(self.reference, self.busy))

    def late_latency(self):
        """Latency of what the host issues late: gone if that comes in time."""
        return sum(gap["queue"] for gap in self.gaps if any(gap[cause] for cause in HOST))

    def ordinary_queue(self):
        """Queue time of all instances up to that of ordinary gaps."""
        return min(self.pool["queue"], ORDINARY * sum(gap["queue"] > 0 for gap in self.gaps))

    def least_idle(self):
        """What streams need between the operations of an instance that are issued in time."""
        ordinary = [gap["queue"] for gap in self.gaps if 0 < gap["queue"] == gap.total() <= ORDINARY]
        return statistics.mean(ordinary or [0]) * len(self.gaps) / len(self.found)

    def waits(self):
        """What an instance takes beyond the host's own work and the GPU's: the most that goes without waits."""
        beyond = sum(max(whole - max(times["busy"], self.own_work(one)), 0) for one, _, whole, times in self.found)
        return min(self.scaled(beyond), max(self.reference - self.busy, 0))

    def own_work(self, one):
        """The host's own work from the first to the last call that issues an instance; of several threads at most that of one."""
        calls = sorted({(call[:2], thread, call) for op in one.ops for thread, call in [self.work.call(op) or (None, None)] if call})
        threads = {thread for _, thread, _ in calls}
        each = [self.worked([own for own in calls if own[1] == thread], one.process) for thread in threads]
        return min(self.worked(calls, one.process), max(each, default=0))

    def worked(self, calls, process):
        time, until = 0, None
        for (start, end), thread, call in calls:
            start = start if until is None else until
            if end > start:
                parts = self.work.capture.does_until(thread, process, call, start, end)
                time += sum(finish - begin for begin, finish, cause in parts
                            if cause in OWN_WORK and not (cause == "launching" and self.is_full(thread, begin, (start, end))))
                until = end
        return time

    def is_full(self, thread, begin, window):
        """Whether the call that is open at a time takes so long in a window that it waits for a queue."""
        calls = self.work.capture.calls[thread]
        at = bisect.bisect_right(calls, (begin, float("inf"))) - 1
        return at >= 0 and begin < calls[at][1] and min(calls[at][1], window[1]) - max(calls[at][0], window[0]) > FULL

    def of_host(self):
        return sum(self.pool[cause] for cause in HOST)

    def is_host_bound(self):
        return self.busy < self.reference / 2 and self.of_host() >= self.idle / 2

    def scaled(self, time):
        """A time of all instances, by its share of theirs, of the stage time."""
        return self.time * time / self.whole

    def saving(self, saved):
        """Work counts as profiled."""
        return min(max(saved, 0), self.time, self.reference)

    def saving_kernels(self, saved):
        """Kernels of a stage that the CPU bounds shorten its busy time at most."""
        return min(max(saved, 0), self.busy, self.time, self.reference if not self.is_host_bound() else self.busy)

    def unprofiled_idle(self, time):
        """Profiled idle time without the profiler: all causes shrink alike."""
        idle, profiled = max(self.reference - self.busy, 0), self.time - self.busy
        return time * idle / profiled if self.unprofiled is not None and profiled > idle else time

    def saving_idle(self, saved):
        """Idle time counts up to what kernels leave of the unprofiled stage."""
        return min(max(saved, 0), self.time, max(self.reference - self.busy, 0))

    def saving_share(self, share, removed):
        """A share of the stage; of a stage that takes longer without the profiler, of that time."""
        most = max(self.reference - self.busy, 0) + min(removed, self.busy)
        return min(max(self.reference, self.time) * min(share, 1), most)
