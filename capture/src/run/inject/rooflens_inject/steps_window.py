"""The steps that are profiled: profilers begin with one and end with another.

    ROOFLENS_WINDOW      SKIP:COUNT: steps that are passed over, and steps that are profiled
    ROOFLENS_WINDOW_DIR  folder: a process that counts steps keeps a file there, PID.counts, PID.open or PID.done
    ROOFLENS_READY       file that is there once the server is ready: steps before that are its own warm-up

torch.profiler is started here; nsys and ncu wait for cudaProfilerStart. Where ncu looks for ranges (window.py), these
are counted from the first of the steps on.
"""
import os
import sys
import threading

from . import loading

WINDOW, DIR, READY = (os.environ.get(f"ROOFLENS_{name}") for name in ("WINDOW", "WINDOW_DIR", "READY"))
BY_RANGES = "ROOFLENS_INSTANCES" in os.environ

# Steps of a window that has stacks in the first ones, and how many of them.
MANY, STACKED = 4, 2

_state = {}


def mark(state):
    """Says how far this process is."""
    old, _state[os.getpid()] = _state.get(os.getpid()), state
    path = os.path.join(DIR, f"{os.getpid()}.")
    if old is None:
        open(path + state, "w").close()
    else:
        os.replace(path + old, path + state)


def claims():
    """Whether this process is the first that asks: workers of engines have no ranks in their environment."""
    try:
        open(os.path.join(DIR, "first"), "x").close()
    except FileExistsError:
        return False
    return True


class StepsWindow:
    """Told of steps as they begin and end."""

    def __init__(self, torch):
        self.torch, self.lock = torch, threading.RLock()
        self.skip, self.count = (int(number) for number in WINDOW.split(":"))
        self.begun, self.is_ready, self.is_open, self.is_done = 0, READY is None, False, False

    @loading.quiet
    def begins(self):
        with self.lock:
            self.is_ready = self.is_ready or os.path.exists(READY)
            if self.is_done or not self.is_ready:
                return
            self.begun += 1
            if self.begun == 1:
                mark("counts")
            if self.begun == self.skip + 1:
                self.is_open = True
                mark("open")
                self.profile("start", "cudaProfilerStart")
                self.stacks("begin_stacks")

    @loading.quiet
    def ends(self):
        with self.lock:
            if self.begun == self.skip + STACKED:
                self.stacks("end_stacks")
            if self.is_open and self.begun >= self.skip + self.count:
                self.is_open, self.is_done = False, True
                if self.torch.cuda.is_initialized():
                    self.torch.cuda.synchronize()
                self.profile("stop", "cudaProfilerStop")
                mark("done")

    @loading.quiet
    def stacks(self, method):
        """The first steps have Python stacks, if there are others."""
        tracer = sys.modules.get("rooflens_inject.tracer")
        if tracer is not None and self.count >= MANY and "stacks" not in tracer.RECORD:
            getattr(tracer.current, method)()

    @loading.quiet
    def profile(self, method, function):
        tracer = sys.modules.get("rooflens_inject.tracer")
        if tracer is not None:
            getattr(tracer.current, method)()
        elif not BY_RANGES:
            getattr(self.torch.cuda.cudart(), function)()
