"""What the issuing thread ran while the GPU waited for it, derived from an nsys SQLite export without Rooflens.

usage: cpu_samples.py EXPORT STAGE [SKIP [TAKE]]

Arguments as of idle.py, which derives the gaps. Prints by GPU the number of CPU samples in idle time with a cause of the
host, then samples by library and by function, the most first; `-` is a library without symbols.
"""

import bisect
import collections
import sqlite3
import sys

from idle import Capture, rows

HOST = {"launching", "host_code", "first_use", "sync", "allocation", "copy", "os", "off_cpu"}


def samples(path):
    """Of each thread its samples by time: (time, library, function)."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    names = dict(db.execute("select id, value from StringIds"))
    taken = {number: (start, thread) for number, start, thread in rows(db, "COMPOSITE_EVENTS", ["id", "start", "globalTid"])}
    found = collections.defaultdict(list)
    for number, symbol, module, unresolved, depth in rows(
            db, "SAMPLING_CALLCHAINS", ["id", "symbol", "module", "unresolved", "stackDepth"]):
        if depth == 0 and number in taken:
            start, thread = taken[number]
            function = "-" if unresolved or names[symbol].startswith("0x") else names[symbol]
            found[thread].append((start, names[module].rsplit("/", 1)[-1], function))
    return {thread: sorted(own) for thread, own in found.items()}


def main(path, stage, skip=0, take=None):
    capture, taken = Capture(path), samples(path)
    for process, gpu, instances in capture.idle(stage, int(skip), take and int(take)):
        libraries, functions = collections.Counter(), collections.Counter()
        last = None
        for op in (op for op in capture.ops if op.gpu == gpu):
            if last is not None and op.start > last:
                found = capture.call_of.get((op.process, op.correlation))
                own = taken.get(found[0], []) if found else []
                for start, end, cause in capture.causes(last, op.start, op, False):
                    for _, _, first, until in instances if cause in HOST else []:
                        low = bisect.bisect_left(own, (max(start, first),))
                        for _, library, function in own[low:bisect.bisect_left(own, (min(end, until),))]:
                            libraries[library] += 1
                            functions[library, function] += 1
            last = op.end if last is None else max(last, op.end)
        print(f"process {process:#x}, GPU {gpu}: {sum(libraries.values())} samples")
        for counts in (libraries, functions):
            for name, count in counts.most_common(12):
                print(f"  {count} {name}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
