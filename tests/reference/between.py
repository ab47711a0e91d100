"""Idle time between stages, from an nsys export by itself.

usage: between.py EXPORT.sqlite STAGE [STAGE …] [--skip N]      the outermost stages, by the names of their ranges; N instances of each are warm-up

A kernel, copy or memset belongs to the range of its API call's thread that is open at the call's start. A range on another thread
counts if the calling thread has none open and only one other has. Prints for each GPU the idle time and its share of the run.
"""
import sqlite3
import sys
from bisect import bisect_right
from collections import defaultdict

arguments = sys.argv[1:]
skip = int(arguments[arguments.index("--skip") + 1]) if "--skip" in arguments else 0
names = [one for index, one in enumerate(arguments[1:], 1) if one != "--skip" and arguments[index - 1] != "--skip"]
db = sqlite3.connect(f"file:{arguments[0]}?mode=ro", uri=True)
PROCESS = 0xFFFFFFFFFF000000

instances = []  # (process, thread, start, end, name, number)
number = defaultdict(int)
rows = db.execute("""select n.globalTid, n.start, n.end, coalesce(n.text, s.value) as name from NVTX_EVENTS n
    left join StringIds s on s.id = n.textId where n.eventType in (59, 60) and n.end is not null order by n.start""")
for thread, start, end, name in rows:
    if name in names:
        key = (thread & PROCESS, name)
        instances.append((thread & PROCESS, thread, start, end, name, number[key]))
        number[key] += 1
by_thread = defaultdict(list)
for index, one in enumerate(instances):
    by_thread[one[1]].append(index)
starts = {thread: [instances[index][2] for index in own] for thread, own in by_thread.items()}


def on(thread, time):
    """The instance that is open on a thread."""
    if thread not in by_thread:
        return None
    at = bisect_right(starts[thread], time) - 1
    if at >= 0 and instances[by_thread[thread][at]][3] > time:
        return by_thread[thread][at]
    return None


def instance(thread, time):
    own = on(thread, time)
    if own is not None:
        return own
    others = [on(other, time) for other in by_thread if other & PROCESS == thread & PROCESS and other != thread]
    others = [one for one in others if one is not None]
    return others[0] if len(others) == 1 else None


calls = {(thread & PROCESS, correlation): (thread, start) for thread, correlation, start in db.execute(
    "select globalTid, correlationId, start from CUPTI_ACTIVITY_KIND_RUNTIME")}
present = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
ops = defaultdict(list)  # by (process, GPU): start, end, instance
for table in ("KERNEL", "MEMCPY", "MEMSET"):
    if f"CUPTI_ACTIVITY_KIND_{table}" in present:
        for start, end, gpu, process, correlation in db.execute(
                f"select start, end, deviceId, globalPid, correlationId from CUPTI_ACTIVITY_KIND_{table}"):
            call = calls.get((process & PROCESS, correlation))
            ops[process & PROCESS, gpu].append((start, end, instance(*call) if call else None))

busy_of_gpu = defaultdict(list)
for (process, gpu), own in ops.items():
    busy_of_gpu[gpu] += [(start, end) for start, end, _ in own]


def busy(gpu, window):
    total, last = 0, window[0]
    for start, end in sorted(busy_of_gpu[gpu]):
        start, end = max(start, last), min(end, window[1])
        if end > start:
            total += end - start
            last = end
    return total


for (process, gpu), own in sorted(ops.items()):
    spans = {}
    for start, end, index in own:
        if index is not None:
            low, high = spans.get(index, (start, end))
            spans[index] = (min(low, start), max(high, end))
    chain = sorted((span, index) for index, span in spans.items())
    idle, windows, run, last, covered = 0, 0, 0, None, None
    for (start, end), index in chain:
        counts = instances[index][5] >= skip
        if last is not None and last[0] < start and counts and last[1]:
            idle += start - last[0] - busy(gpu, (last[0], start))
            run += start - last[0]
            windows += 1
        if counts:
            run += max(0, end - max(start, covered if covered is not None else start))
            covered = max(end, covered or end)
        if last is None or end > last[0]:
            last = (end, counts)
    print(f"GPU {gpu}: {windows} times between stages, idle {idle} ns of {run} ns, {idle / run:.6f}" if run else f"GPU {gpu}: no stage")
