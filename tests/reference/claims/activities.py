"""What the host did while the GPU was idle, by marks, ranges, operators and calls that were open on the issuing thread.

Definitions: docs/findings.md, pages of the rules that name a cause. Of a moment of idle time for which the CPU is the cause
the outermost span decides that holds all within it, such as a compiler, else the innermost that says something.
"""

import bisect
import collections
import functools
import sqlite3

from idle import kind, process_of, rows
from instances import MARK, WHOLE, projection
from kernel_names import class_of, is_cudnn_attention
from line import HOST

# A product for all turns of a loop does the work of all.
PRODUCTS = ("gemm", "convolution", "attention")
LOADER = "enumerate(DataLoader)#"
MARKS = (("compile ", "compilation"), ("triton compile", "compilation"), ("cuda graph capture", "graph capture"),
         ("torch.save", "checkpoint"), (LOADER, "data loader"), ("gc generation", "garbage collection"),
         ("empty_cache", "empty_cache"), ("new shape", "new shape"),
         *((name, "synchronization") for name in ("item", "tolist", "nonzero", "index", "masked_select", "equal", "cpu", "bool", "int",
                                                  "float")))
CALLS = (("StreamBeginCapture", "graph capture"), ("StreamEndCapture", "graph capture"), ("GraphInstantiate", "graph capture"),
         ("GraphExecDestroy", "graph capture"), ("ModuleLoad", "code loading"), ("ModuleUnload", "code loading"),
         ("Library", "code loading"), ("Link", "code loading"), ("CtxCreate", "creation"), ("PrimaryCtx", "creation"),
         ("StreamCreate", "creation"), ("nvrtc", "compilation"))
SLEEPS = {"nanosleep", "clock_nanosleep", "usleep", "sleep", "select", "sched_yield"}
FILES = {"fsync", "fdatasync", "sync", "syncfs", "read", "pread", "pread64", "readv", "write", "pwrite", "pwrite64", "writev",
         "open", "open64", "openat", "openat64", "close", "fopen", "fopen64", "fclose", "fwrite", "fread", "fflush", "rename"}
WAITS = {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_mutex_lock", "sem_wait",
         "sem_timedwait", "sem_clockwait", "futex", "pthread_join", "pthread_rwlock_rdlock"}
WAITING = {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::is_nonzero", "aten::equal"}
HOLDS = {"compilation", "graph capture", "checkpoint", "data loader", "garbage collection", "empty_cache"}
SURROUNDED = ("compilation", "graph capture", "checkpoint", "code loading")
ISSUE = {"compilation", "graph capture", "checkpoint", "kernel plans"}
PREPARE = {"new shape", "kernel plans", "code loading"}
INPUT = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "accept", "accept4"}
# Operations before attention that clear or copy memory for it.
BEFORE = 8
CUDNN = ("cudnn_", "miopen_")
OF_SHAPES = {"code loading", "creation", "allocation", "synchronization", "files", "host code"}
UNNAMED = {"code loading", "creation", "kernel plans", "allocation", "system", "profiler", "host code", "launching", "not host"}
BY_CAUSE = {"launching": "launching", "host_code": "host code", "first_use": "code loading", "sync": "synchronization",
            "allocation": "allocation", "copy": "blocking copy", "os": "system", "off_cpu": "system", "profiler": "profiler"}
FEW_LAUNCHES, LONG, LOOP, SHORT, DATA = 100, 1_000_000, 4, 5_000, 4096

Span = collections.namedtuple("Span", "start end kind name")
Wait = collections.namedtuple("Wait", "start end launches path has_data counts")


def plain(call):
    """The name of a call without the version of its interface."""
    return call.split("_v")[0]


def says(span):
    """What a span says that the host does."""
    return says_by_name(span.kind, span.name)


@functools.cache
def says_by_name(kind, name):
    if kind == "mark":
        own = next((activity for begin, activity in MARKS if name.startswith(begin)), None)
        return own or ("synchronization" if "synchronize" in name else None)
    if kind in ("range", "operator"):
        if name.startswith(LOADER):
            return "data loader"
        return "compilation" if name.endswith(" (dynamo_timed)") else None
    if kind == "call":
        return next((activity for part, activity in CALLS if part in name), None)
    return "sleep" if name in SLEEPS else "files" if name in FILES else "input" if name in INPUT else None


def plans(span):
    return span.kind == "operator" and any(part in span.name for part in CUDNN)


def changes(spans):
    """The moments at which what is open changes, and the spans that are open from then on, the outermost first."""
    events, stack = [(float("-inf"), ())], []

    def close(until):
        while stack and stack[-1].end <= until:
            events.append((stack.pop().end, tuple(stack)))

    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        close(span.start)
        # What outlives the span around it ends with that.
        stack.append(span._replace(end=stack[-1].end) if stack and stack[-1].end < span.end else span)
        events.append((span.start, tuple(stack)))
    close(float("inf"))
    last = dict(events)
    return list(last), list(last.values())


class Host:
    """The threads of a pass."""

    def __init__(self, work):
        self.work, self.capture = work, work.capture
        self.first_of = {(op.gpu, op.start): op for op in reversed(self.capture.ops)}
        self.open, self.wait_lists, self.memo, self.plans = {}, {}, {}, {}
        self.ranges, self.os_calls = collections.defaultdict(list), collections.defaultdict(list)
        for start, end, thread, name in work.ranges:
            mark = (name or "").startswith(MARK)
            self.ranges[thread].append(Span(start, -end, "mark" if mark else "range", (name or "")[len(MARK) * mark:]))
        if getattr(self.capture, "path", None):
            with sqlite3.connect(f"file:{self.capture.path}?mode=ro", uri=True) as db:
                for start, end, thread, name in rows(db, "OSRT_API", ["start", "end", "globalTid", "nameId"]):
                    self.os_calls[thread].append(Span(start, end, "os", self.capture.names[name]))
        self.stages = {name for stage in work.stages for _, _, _, name in work.ranges
                       if name and (name == stage or stage == name.split("#")[0])}
        self.issued = sorted((op.gpu, op.start, op.end, activity) for op in self.capture.ops
                             for activity in [self.issues(op)] if activity)
        self.short = [(op, *self.work.call(op)) for op in self.capture.ops
                      if op.end - op.start <= SHORT and self.work.call(op)
                      and class_of(self.capture.details[op.rank]) not in PRODUCTS]

    def spans(self, thread):
        every = [*self.ranges.get(thread, []),
                 *(Span(start, end, "operator", name) for start, end, name in getattr(self.capture, "cpu_ops", {}).get(thread, [])),
                 *(Span(call[0], call[1], "call", plain(call[3])) for call in self.every_call(thread)),
                 *self.os_calls.get(thread, []), *self.captures(thread)]
        return [span for span in every if span.start < span.end]

    def every_call(self, thread):
        return self.capture.calls.get(thread, [])

    def captures(self, thread):
        """From the call that begins the capture of a stream to that which ends it."""
        edges = [call for call in self.every_call(thread) if "StreamBeginCapture" in call[3] or "StreamEndCapture" in call[3]]
        for begin, end in zip(edges, edges[1:]):
            if "Begin" in begin[3] and "End" in end[3]:
                yield Span(begin[0], end[1], "call", plain(begin[3]))

    def changes(self, thread):
        if thread not in self.open:
            self.open[thread] = changes(self.spans(thread))
        return self.open[thread]

    def at(self, thread, time):
        times, paths = self.changes(thread)
        return paths[bisect.bisect_right(times, time) - 1]

    def within(self, thread, start, end):
        """The parts of a time by what is open in them."""
        times, paths = self.changes(thread)
        at = bisect.bisect_right(times, start) - 1
        while at < len(times) and times[at] < end:
            until = times[at + 1] if at + 1 < len(times) else float("inf")
            yield max(times[at], start), min(until, end), paths[at]
            at += 1

    def activity(self, cause, path):
        own = BY_CAUSE.get(cause, "not host")
        if own in ("not host", "profiler"):
            return own
        said = [says(span) for span in path]
        holding = next((one for one in said if one in HOLDS), None)
        inner = next((one for one in reversed(said) if one and one != "new shape"), None)
        own = holding or inner or own
        shape = next(("new shape" if says(span) == "new shape" else "kernel plans" for span in reversed(path)
                      if says(span) == "new shape" or plans(span)), None)
        return shape if shape and own in OF_SHAPES else own

    def issues(self, op):
        found = self.work.call(op)
        activity = found and self.activity("host_code", self.at(found[0], found[1][0]))
        if activity == "kernel plans" and not self.is_timed(found[0], found[1][0]):
            return None
        return activity if activity in ISSUE else None

    def is_timed(self, thread, start):
        """Whether the host waits after a launch and before the operator of cuDNN around it returns: to time its kernel."""
        if thread not in self.plans:
            every = getattr(self.capture, "cpu_ops", {}).get(thread, [])
            self.plans[thread] = [(begin, end) for begin, end, name in every if any(part in name for part in CUDNN)]
        ends = [end for begin, end in self.plans[thread] if begin <= start < end]
        return any(start < wait.start < max(ends) for wait in self.waits(thread)) if ends else False

    def waits(self, thread):
        """The calls of a thread that wait for results; after a copy to the GPU none is needed."""
        if thread in self.wait_lists:
            return self.wait_lists[thread]
        calls, found, launches, kernels = self.every_call(thread), [], 0, []
        copy_of = [self.copy(thread, call) for call in calls]
        for at, call in enumerate(calls):
            copy = copy_of[at] or (copy_of[at - 1] if at else None)
            if self.is_wait(thread, call) and not (copy and self.work.direction(copy) == "HtoD"):
                size = self.capture.details[copy.rank]["bytes"] or 0 if copy else 0
                back = [one for one in kernels[-8:] if one]
                found.append(Wait(call[0], call[1], launches, self.at(thread, call[0]), size >= DATA,
                                  bool(back) and "NonZeroOp" in back[-1]))
            launches += kind(call[3]) == "launch"
            op = self.capture.first.get((process_of(thread), call[2]))
            kernels.append(self.capture.details[op.rank]["name"] if op and not op.copy else None)
        self.wait_lists[thread] = found
        return found

    def copy(self, thread, call):
        op = self.capture.first.get((process_of(thread), call[2]))
        return op if op and op.copy and "MEMSET" not in self.capture.details[op.rank]["kind"].upper() else None

    def is_wait(self, thread, call):
        name = plain(call[3])
        if name.endswith("Synchronize") or "Memcpy" in name and "Async" not in name:
            return True
        first = self.capture.first.get((process_of(thread), call[2]))
        return first is not None and first.pageable and self.work.direction(first) == "DtoH"

    def loops(self, thread, start, end):
        """Rows of waits that follow one another after few launches: their time and number. A window with two or three waits is
        a layer: with those next to it they are a row in which no operation repeats."""
        waits, rows_, last = self.waits(thread), [], None
        inside = [at for at, wait in enumerate(waits) if start <= wait.start < end]
        is_layer = 2 <= len(inside) < LOOP
        if is_layer:
            inside = range(max(inside[0] - 1, 0), min(inside[-1] + 2, len(waits)))
        for wait in (waits[at] for at in inside):
            if last is not None and wait.launches - last.launches < FEW_LAUNCHES:
                rows_[-1].append(wait)
            else:
                rows_.append([wait])
            last = wait
        return [(row[0].start, row[-1].end, 1 if is_layer else len(row)) for row in rows_ if len(row) >= LOOP]

    def wait_before(self, thread, gap, op, time, activity, loops):
        waits = self.waits(thread)
        at = bisect.bisect_right(waits, time[0], key=lambda wait: wait.start) - 1
        if at < 0:
            return None
        last, launching = waits[at], activity == "launching"
        returns = last.has_data and op.copy and self.work.direction(op) == "HtoD"
        in_gap = last.end > gap and (launching or returns)
        in_loop = (launching or time[1] - time[0] < LONG) and any(
            since <= time[0] and time[1] <= until for since, until, _ in loops)
        return last if in_gap or in_loop else None

    def gap_parts(self, gap, gpu, window, driver, loops):
        """Activity, cause, what is open, and time of each part of a gap in a window."""
        op = self.first_of[gpu, gap[1]]
        found = self.work.call(op)
        for start, end, cause in gap[2]:
            start, end = max(start, window[0]), min(end, window[1])
            if start >= end:
                continue
            if not found or cause not in HOST and cause != "profiler":
                yield "not host", cause, (), end - start
                continue
            thread = found[0]
            for begin, finish, path in self.within(thread, start, end):
                own = [(begin, finish, path, thread, cause)]
                if driver not in (None, thread) and path and path[-1].kind == "os" and path[-1].name in WAITS:
                    changed = "host_code" if cause in ("os", "off_cpu") else cause
                    own = [(*part, driver, changed) for part in self.within(driver, begin, finish)]
                for begin, finish, path, of, cause_ in own:
                    activity = self.activity(cause_, path)
                    if activity in ("launching", "host code", "system"):
                        wait = self.wait_before(of, gap[0], op, (begin, finish), activity, loops(thread))
                        if wait:
                            activity, path = self.activity("sync", wait.path), wait.path
                    yield activity, cause_, path, finish - begin

    def is_before_attention(self, gap, gpu):
        """Whether attention of cuDNN ends the gap, or is what operations on memory that end it are for."""
        at = bisect.bisect_left(self.capture.ops, self.first_of[gpu, gap[1]])
        following = [op for op in self.capture.ops[at:at + BEFORE] if op.gpu == gpu and not op.copy]
        own = self.capture.details[following[0].rank] if following else None
        return own is not None and is_cudnn_attention(own)

    def of_gap(self, parts, gap, gpu):
        """The same with code around calls of files and sleeps, and around what serves a compiler, a capture, a checkpoint.
        What prepares attention of cuDNN is a plan."""
        around = {}
        if any(activity in PREPARE for activity, *_ in parts) and self.is_before_attention(gap, gpu):
            planned = PREPARE | OF_SHAPES - {"synchronization"}
            parts = [("kernel plans" if activity in planned else activity, *rest) for activity, *rest in parts]
        for activity, _, path, _ in parts:
            if activity in ("sleep", "files") and len(path) > 1 and path[-2].kind == "range" and path[-2].name not in self.stages:
                around.setdefault(names_of(path[:-1]), activity)
        parts = [(around.get(names_of(path), activity) if activity == "host code" else activity, cause, path, time)
                 for activity, cause, path, time in parts]
        times = collections.Counter()
        for activity, _, _, time in parts:
            times[activity] += time
        main = next((one for one in SURROUNDED if times[one] * 2 >= times.total() > 0 and times[one]), None)
        for activity, cause, path, time in parts:
            yield main if main and activity in UNNAMED - {"not host"} else activity, cause, path, time

    def losses(self, gpu, windows):
        """The idle time of windows, each with the thread that drives it, by activity."""
        key = gpu, tuple(windows)
        if key not in self.memo:
            self.memo[key] = Losses(self, gpu, windows)
        return self.memo[key]


def names_of(path):
    return tuple((span.kind, span.name) for span in path)


class Losses:
    def __init__(self, host, gpu, windows):
        self.windows = len(windows)
        self.times = collections.defaultdict(lambda: [0] * len(windows))
        self.subjects = collections.defaultdict(collections.Counter)
        self.calls = collections.defaultdict(set)
        self.causes = collections.defaultdict(lambda: [collections.Counter() for _ in windows])
        self.places, self.issued = collections.Counter(), collections.Counter()
        self.waits = [self.waits_of(host, window) for window in windows]
        for number, (first, last, driver) in enumerate(windows):
            loops = {}

            def loops_of(thread):
                if thread not in loops:
                    loops[thread] = host.loops(thread, first, last)
                return loops[thread]

            for gap in host.work.gaps_within(gpu, first, last):
                parts = list(host.gap_parts(gap, gpu, (first, last), driver, loops_of))
                for activity, cause, path, time in host.of_gap(parts, gap, gpu):
                    self.times[activity][number] += time
                    self.causes[activity][number][cause] += time
                    subject = subject_of(path, activity)
                    self.subjects[activity][subject] += time
                    self.calls[activity, subject].add(number)
                    self.places[activity, names_of(path)] += time
            begin = bisect.bisect_left(host.issued, (gpu, first))
            for _, start, end, activity in host.issued[begin:bisect.bisect_left(host.issued, (gpu, last))]:
                self.issued[activity] += min(end, last) - start
            begin, finish = (bisect.bisect_left(host.short, time, key=lambda own: own[0].start) for time in (first, last))
            for op, thread, call in host.short[begin:finish]:
                turns = next((turns for since, until, turns in loops.get(thread, []) if since <= call[0] < until), None)
                if turns and op.gpu == gpu and first <= op.start < last:
                    time = op.end - op.start
                    self.issued["synchronization"] += time - time // turns

    def waits_of(self, host, window):
        first, last, driver = window
        threads = [driver] if driver is not None else host.capture.calls
        return [wait for thread in threads for wait in host.waits(thread) if first < wait.end < last]

    def time(self, *activities):
        return sum(sum(self.times[one]) for one in activities if one in self.times)

    def occurs(self, *activities):
        return sum(any(self.times[one][number] > 0 for one in activities if one in self.times) for number in range(self.windows))

    def named(self):
        """Idle time by cause of each window that something with a name explains, if that recurs."""
        named = [collections.Counter() for _ in range(self.windows)]
        for activity, by_window in self.causes.items():
            if activity not in UNNAMED and (activity == "synchronization" or self.windows >= 3):
                for sums, own in zip(named, by_window):
                    sums.update(own)
        return named


def subject_of(path, activity):
    """The name of the innermost span that says what the host did; of an allocation that of the call."""
    for span in reversed(path):
        said = says(span) or ("kernel plans" if plans(span) else None)
        if said == activity or activity == "synchronization" and span.kind == "operator" and span.name in WAITING:
            masked = (one.name for one in reversed(path) if one.name in ("aten::index", "aten::index_put_"))
            return next(masked, span.name) if span.name == "aten::nonzero" else span.name
    if activity == "kernel plans":
        return next((span.name for span in reversed(path) if says(span) in PREPARE), None)
    return next((span.name for span in reversed(path) if span.kind == "call"), None) if activity == "allocation" else None


def names(losses, activities):
    """The names with most time, of equal ones the first by alphabet."""
    times = collections.Counter()
    for of in losses:
        for activity in activities:
            times.update({name: time for name, time in of.subjects.get(activity, {}).items() if name is not None})
    return [name for name, time in sorted(times.items(), key=lambda item: (-item[1], item[0]))]


def windows_of(work, stage, process, gpu):
    """Of each counted instance; a whole capture is ten parts."""
    found = [(*projection(one), one.thread) for one in work.counted(stage, process) if any(op.gpu == gpu for op in one.ops)]
    if stage != WHOLE:
        return found
    (start, end, thread), = found
    cuts = [start + (end - start) * part // 10 for part in range(11)]
    return [(*cut, thread) for cut in zip(cuts, cuts[1:])]
