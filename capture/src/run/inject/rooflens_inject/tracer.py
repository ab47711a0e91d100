"""torch.profiler in a program that does not know of it: around all of it, instances of a range, or steps (steps_window).

Stacks of Python slow down all operators. They are recorded in two early instances or steps only, in a trace of their own,
which is written at once: a pass whose time is up has it. The trace whose times count begins anew after it.
"""
import atexit
import contextlib
import json
import os
import signal
import sys
import threading

from . import ranges

DIR = os.environ.get("ROOFLENS_TORCH_DIR")
RECORD = os.environ.get("ROOFLENS_TORCH_RECORD", "").split(",")
RANGE = os.environ.get("ROOFLENS_TORCH_RANGE")
SKIP = int(os.environ.get("ROOFLENS_TORCH_SKIP", "0"))
COUNT = int(os.environ.get("ROOFLENS_TORCH_COUNT", "0"))
# Name of a range, the number of its first instance with stacks from 0, and how many of them have stacks.
STACKS = json.loads(os.environ.get("ROOFLENS_TORCH_STACKS", "[null, 0, 0]"))

# The one of this process; None before torch is imported.
current = None


@contextlib.contextmanager
def undisturbed():
    """Holds back the signals that end a pass whose time is up: a trace that is half written is lost. SIGKILL follows later."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class Tracer:
    """Counts instances of the range, and profiles those of the window."""

    def __init__(self, torch):
        self.torch, self.profiler, self.seen, self.depth, self.done = torch, None, 0, 0, False
        self.has_stacks, self.had_stacks, self.stacked, self.stack_depth = False, False, 0, 0
        self.thread = None
        self.lock, self.local = threading.RLock(), threading.local()
        if RANGE is None and "ROOFLENS_WINDOW" not in os.environ:
            self.start()
        atexit.register(self.stop)

    def start(self):
        with self.lock:
            if self.profiler is not None or self.done:
                return
            try:
                self.profiler = self.with_stacks() if self.has_stacks else self.recorder()
                self.profiler.start()
                self.thread = threading.get_ident()
                # From now on the trace grows that the capture leaves time to write.
                open(os.path.join(DIR, "begun"), "w").close()
            except Exception as error:
                self.fail("start", error)

    def recorder(self):
        p = self.torch.profiler
        activities = [p.ProfilerActivity.CPU]
        if self.torch.cuda.is_available():
            activities.append(p.ProfilerActivity.CUDA)
        return p.profile(
            activities=activities, record_shapes="shapes" in RECORD, with_stack="stacks" in RECORD,
            profile_memory="memory" in RECORD, with_flops="flops" in RECORD)

    def with_stacks(self):
        """Work of the GPU is not recorded: its times would be wrong."""
        return self.torch.profiler.profile(activities=[self.torch.profiler.ProfilerActivity.CPU], with_stack=True)

    def begin_stacks(self):
        """Drops what was recorded until now, and records stacks. Only the thread that started a profiler can stop it."""
        with self.lock:
            if self.profiler is None or self.had_stacks or self.thread != threading.get_ident():
                return
            profiler, self.profiler = self.profiler, None
            with undisturbed():
                profiler.stop()
            self.has_stacks = self.had_stacks = True
            self.start()

    def end_stacks(self):
        """Writes the stacks. From here on the trace is recorded whose times count."""
        with self.lock:
            if self.has_stacks:
                self.stop()
                self.has_stacks = self.done = False
                self.start()

    def stop(self):
        with self.lock:
            profiler, self.profiler = self.profiler, None
            if profiler is None:
                return
            self.done = True
            try:
                rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK")
                name = (f"rank{rank}" if rank else "trace") + (".stacks" if self.has_stacks else "")
                path = os.path.join(DIR, f"{name}.pt.trace.json")
                if os.path.exists(path):
                    path = os.path.join(DIR, f"{name}.{os.getpid()}.pt.trace.json")
                with undisturbed():
                    profiler.stop()
                    profiler.export_chrome_trace(path)
            except Exception as error:
                self.fail("stop", error)

    def fail(self, what, error):
        self.done = True
        print(f"rooflens-capture: torch.profiler did not {what}: {error}", file=sys.stderr)

    def enter(self, name):
        """The profiler starts before the range is opened in it."""
        if name == RANGE:
            self.depth += 1
            if self.depth == 1:
                self.seen += 1
                if self.seen > SKIP:
                    self.start()
        if name == STACKS[0]:
            self.stack_depth += 1
            if self.stack_depth == 1:
                self.stacked += 1
                if self.stacked == STACKS[1] + 1:
                    self.begin_stacks()
        record = self.torch.profiler.record_function(name) if self.profiler is not None else None
        if record is not None:
            record.__enter__()
        self.local.__dict__.setdefault("open", []).append((name, record))

    def leave(self):
        """The profiler stops after the range is closed in it."""
        ranges_open = self.local.__dict__.get("open")
        if not ranges_open:
            return
        name, record = ranges_open.pop()
        if record is not None:
            record.__exit__(None, None, None)
        if name == STACKS[0]:
            self.stack_depth -= 1
            if self.stack_depth == 0 and self.stacked == STACKS[1] + STACKS[2]:
                self.end_stacks()
        if name == RANGE:
            self.depth -= 1
            if self.depth == 0 and COUNT and self.seen >= SKIP + COUNT:
                self.stop()


def install(torch):
    global current
    current = Tracer(torch)
    ranges.listen(torch, current)
