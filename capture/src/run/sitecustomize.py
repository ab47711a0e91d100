"""Starts torch.profiler in a program that does not know of it. Written by rooflens-capture; loaded by Python at its start.

Nothing happens until torch is imported. NVTX ranges become ranges of the trace, too. Failures are said and forgotten:
the program must not notice.
"""
import atexit
import importlib.machinery
import importlib.util
import os
import sys
import threading

DIR = os.environ.get("ROOFLENS_TORCH_DIR")
RECORD = os.environ.get("ROOFLENS_TORCH_RECORD", "").split(",")
RANGE = os.environ.get("ROOFLENS_TORCH_RANGE")
SKIP = int(os.environ.get("ROOFLENS_TORCH_SKIP", "0"))
COUNT = int(os.environ.get("ROOFLENS_TORCH_COUNT", "0"))


class Tracer:
    """Counts instances of the range, or optimizer steps, and profiles those of the window."""

    def __init__(self, torch):
        self.torch, self.profiler, self.seen, self.depth, self.done = torch, None, 0, 0, False
        self.lock = threading.RLock()
        if RANGE is None and SKIP == 0:
            self.start()
        atexit.register(self.stop)

    def start(self):
        with self.lock:
            if self.profiler is not None or self.done:
                return
            try:
                p = self.torch.profiler
                activities = [p.ProfilerActivity.CPU]
                if self.torch.cuda.is_available():
                    activities.append(p.ProfilerActivity.CUDA)
                self.profiler = p.profile(
                    activities=activities, record_shapes="shapes" in RECORD, with_stack="stacks" in RECORD,
                    profile_memory="memory" in RECORD, with_flops="flops" in RECORD)
                self.profiler.start()
            except Exception as error:
                self.fail("start", error)

    def stop(self):
        with self.lock:
            profiler, self.profiler = self.profiler, None
            if profiler is None:
                return
            self.done = True
            try:
                profiler.stop()
                rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK")
                name = f"rank{rank}" if rank else "trace"
                path = os.path.join(DIR, f"{name}.pt.trace.json")
                if os.path.exists(path):
                    path = os.path.join(DIR, f"{name}.{os.getpid()}.pt.trace.json")
                profiler.export_chrome_trace(path)
            except Exception as error:
                self.fail("stop", error)

    def fail(self, what, error):
        self.done = True
        print(f"rooflens-capture: torch.profiler did not {what}: {error}", file=sys.stderr)

    def enter(self, name):
        if name == RANGE:
            self.depth += 1
            if self.depth == 1:
                self.seen += 1
                if self.seen > SKIP:
                    self.start()

    def leave(self, name):
        if name == RANGE:
            self.depth -= 1
            if self.depth == 0 and COUNT and self.seen >= SKIP + COUNT:
                self.stop()

    def step(self, *_):
        self.seen += 1
        if COUNT and self.seen >= SKIP + COUNT:
            self.stop()
        elif self.seen >= SKIP:
            self.start()


def hook(torch):
    tracer = Tracer(torch)
    nvtx, local = torch.cuda.nvtx, threading.local()
    push, pop = nvtx.range_push, nvtx.range_pop

    def range_push(message):
        stack = local.__dict__.setdefault("stack", [])
        # The profiler starts before the range is opened in it, and stops after it is closed.
        tracer.enter(message)
        record = torch.profiler.record_function(str(message)) if tracer.profiler is not None else None
        if record is not None:
            record.__enter__()
        stack.append((message, record))
        return push(message)

    def range_pop():
        depth = pop()
        stack = local.__dict__.setdefault("stack", [])
        if stack:
            message, record = stack.pop()
            if record is not None:
                record.__exit__(None, None, None)
            tracer.leave(message)
        return depth

    nvtx.range_push, nvtx.range_pop = range_push, range_pop
    if RANGE is None and (SKIP or COUNT):
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(tracer.step)


class Finder:
    """Finds torch as Python would, and calls the hook once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            try:
                hook(module)
            except Exception as error:
                print(f"rooflens-capture: torch cannot be profiled: {error}", file=sys.stderr)

        spec.loader.exec_module = exec_module
        return spec


def run_hidden_sitecustomize():
    """This module hides another of the same name: that one runs, too."""
    own = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if DIR:
    sys.meta_path.insert(0, Finder())
if os.environ.get("ROOFLENS_RANGES") or os.environ.get("ROOFLENS_NCU_WINDOW"):
    import ncu_window  # noqa: F401: what it does it does when it is loaded.
run_hidden_sitecustomize()
