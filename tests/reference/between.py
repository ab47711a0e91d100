"""Idle time between stages, from an nsys export by itself.

usage: between.py [EXPORT.sqlite STAGE [STAGE …] [--skip N]]

STAGE are the outermost stages, by the names of their ranges; N instances of each are warm-up. Without arguments: derives idle
time and its share of the run for FIXTURES from `nsys/timeline.sqlite`, for `tests/data/expected`.

A kernel, copy or memset belongs to the range of its API call's thread that is open at the call's start. A range on another thread
counts if the calling thread has none open and only one other has. Prints for each GPU the idle time and its share of the run.
"""
import sqlite3
import sys
from bisect import bisect_right
from collections import defaultdict

import expected

# Outermost stages and warm-up by workload.toml; steps of `h100x2-parallel` hold its other stages.
FIXTURES = {
    "h100-train": (["data", "train_step"], 0),
    "h100x2-parallel": (["step"], 0),
    "h200-llama-8b": (["prefill", "decode"], 2),
}
PROCESS = 0xFFFFFFFFFF000000


class Export:
    def __init__(self, path, names):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.instances = []  # (process, thread, start, end, name, number)
        number = defaultdict(int)
        rows = db.execute("""select n.globalTid, n.start, n.end, coalesce(n.text, s.value) as name from NVTX_EVENTS n
            left join StringIds s on s.id = n.textId where n.eventType in (59, 60) and n.end is not null order by n.start""")
        for thread, start, end, name in rows:
            if name in names:
                key = (thread & PROCESS, name)
                self.instances.append((thread & PROCESS, thread, start, end, name, number[key]))
                number[key] += 1
        self.by_thread = defaultdict(list)
        for index, one in enumerate(self.instances):
            self.by_thread[one[1]].append(index)
        self.starts = {thread: [self.instances[index][2] for index in own] for thread, own in self.by_thread.items()}
        calls = {(thread & PROCESS, correlation): (thread, start) for thread, correlation, start in db.execute(
            "select globalTid, correlationId, start from CUPTI_ACTIVITY_KIND_RUNTIME")}
        present = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        self.ops = defaultdict(list)  # by (process, GPU): start, end, instance
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            if f"CUPTI_ACTIVITY_KIND_{table}" in present:
                for start, end, gpu, process, correlation in db.execute(
                        f"select start, end, deviceId, globalPid, correlationId from CUPTI_ACTIVITY_KIND_{table}"):
                    call = calls.get((process & PROCESS, correlation))
                    self.ops[process & PROCESS, gpu].append((start, end, self.instance(*call) if call else None))
        self.busy_of_gpu = defaultdict(list)
        for (process, gpu), own in self.ops.items():
            self.busy_of_gpu[gpu] += [(start, end) for start, end, _ in own]

    def on(self, thread, time):
        """The instance that is open on a thread."""
        if thread not in self.by_thread:
            return None
        at = bisect_right(self.starts[thread], time) - 1
        if at >= 0 and self.instances[self.by_thread[thread][at]][3] > time:
            return self.by_thread[thread][at]
        return None

    def instance(self, thread, time):
        own = self.on(thread, time)
        if own is not None:
            return own
        others = [self.on(other, time) for other in self.by_thread
                  if other & PROCESS == thread & PROCESS and other != thread]
        others = [one for one in others if one is not None]
        return others[0] if len(others) == 1 else None

    def busy(self, gpu, window):
        total, last = 0, window[0]
        for start, end in sorted(self.busy_of_gpu[gpu]):
            start, end = max(start, last), min(end, window[1])
            if end > start:
                total += end - start
                last = end
        return total

    def between(self, skip):
        """Of each GPU the number of times between stages, their idle time, and the run."""
        for (process, gpu), own in sorted(self.ops.items()):
            spans = {}
            for start, end, index in own:
                if index is not None:
                    low, high = spans.get(index, (start, end))
                    spans[index] = (min(low, start), max(high, end))
            chain = sorted((span, index) for index, span in spans.items())
            idle, windows, run, last, covered = 0, 0, 0, None, None
            for (start, end), index in chain:
                counts = self.instances[index][5] >= skip
                if last is not None and last[0] < start and counts and last[1]:
                    idle += start - last[0] - self.busy(gpu, (last[0], start))
                    run += start - last[0]
                    windows += 1
                if counts:
                    run += max(0, end - max(start, covered if covered is not None else start))
                    covered = max(end, covered or end)
                if last is None or end > last[0]:
                    last = (end, counts)
            yield gpu, windows, idle, run


def derive():
    for bundle, (names, skip) in FIXTURES.items():
        figures = []
        with expected.unpacked(bundle, "nsys/timeline.sqlite") as path:
            gpus = list(Export(path, names).between(skip))
        for gpu, _, idle, run in gpus:
            # A rank is named where there are several.
            scope = {"pass": "nsys"} | ({"rank": gpu} if len(gpus) > 1 else {})
            figures.append(expected.metric("between_idle", idle, "nanoseconds", **scope))
            figures.append(expected.metric("between_idle_share", idle / run, "ratio", **scope))
        expected.write(__file__, bundle, figures)


def main(arguments):
    skip = int(arguments[arguments.index("--skip") + 1]) if "--skip" in arguments else 0
    names = [one for index, one in enumerate(arguments[1:], 1) if one != "--skip" and arguments[index - 1] != "--skip"]
    for gpu, windows, idle, run in Export(arguments[0], names).between(skip):
        print(f"GPU {gpu}: {windows} times between stages, idle {idle} ns of {run} ns, {idle / run:.6f}" if run
              else f"GPU {gpu}: no stage")


if __name__ == "__main__":
    main(sys.argv[1:]) if len(sys.argv) > 1 else derive()
