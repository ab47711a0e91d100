"""Phases of the workload by what it does: prefill, decode, train_step, calls of generate, batches of engines, CUDA graphs.

In a run without a profiler they are timed, next to the ranges of the workload. Where it opens no ranges at all, profiled
runs open NVTX ranges of these names, so that the report has stages. With ROOFLENS_STEPS=only they take the place of the
workload's own.
"""
import threading

from . import loading, notes, ranges, steps_window
from .clock import Clock
from .stages import Stages

# The one of this process; None before torch is imported.
current = None

# Whether an engine says when it computes a batch: what happens outside of batches is its warm-up.
has_batches = False


def install(torch, folder, own):
    global current
    current = Steps(torch, bool(folder), own)
    if own == "only":
        ranges.hide(torch)
    if folder:
        notes.begin(folder)
        notes.part("ranges", lambda: current.read(current.user))
        notes.part("steps", lambda: current.read(current.own))
        notes.at_end(current.finish)
        ranges.listen(torch, current.user)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is not None:
        loading.replace(graph, "replay", _replay)


def _replay(replay):
    def called(*args, **kwargs):
        is_step = current.launches_graph()
        try:
            return replay(*args, **kwargs)
        finally:
            if is_step:
                current.pop()

    return called


class Steps:
    """Told of forward passes and updates; tells ranges of them."""

    def __init__(self, torch, is_timed, own):
        self.nvtx, self.clock = torch.cuda.nvtx, Clock(torch)
        self.user = Stages(self.clock) if is_timed else None
        self.own = Stages(self.clock) if is_timed else None
        self.opens_ranges, self.local = bool(own) and not is_timed, threading.local()
        self.window = steps_window.StepsWindow(torch) if steps_window.WINDOW else None

    def push(self, name):
        self.local.__dict__.setdefault("open", []).append(name)
        # The loop of decode steps is none.
        if self.window and name != "decode":
            self.window.begins()
        if self.own:
            self.own.enter(name)
        if self.opens_ranges:
            with ranges.ours():
                self.nvtx.range_push(name)

    def pop(self, end=None):
        name = self.local.open.pop()
        if self.opens_ranges:
            with ranges.ours():
                self.nvtx.range_pop()
        if self.own:
            self.own.leave(end=end)
        if self.window and name != "decode":
            self.window.ends()

    def seen(self, what, sizes={}):
        if self.user:
            self.user.seen(what, sizes)
            self.own.seen(what, sizes)

    @loading.quiet
    def begins(self, phase, sizes):
        """A forward pass of a whole model: train, prefill, decode or forward. Gives whether `ends` is to be called."""
        if has_batches:
            return False
        if phase == "train":
            self.local.has_model = True
            if not self.local.__dict__.get("trains"):
                self.push("train_step")
                self.local.trains = True
            self.seen(phase, sizes)
            return False
        # Where the workload has ranges of its own, these are timed; ours would only cost time.
        if self.user and self.user.stack():
            self.seen(phase, sizes)
            return False
        if phase != "decode":
            self.end_decode()
            self.push(phase)
        else:
            if not self.local.__dict__.get("decodes"):
                self.push("decode")
                self.local.decodes, self.local.last = True, None
            self.push("decode_step")
        self.seen(phase, sizes)
        return True

    @loading.quiet
    def ends(self, phase):
        self.pop()
        if phase == "decode" and self.own and self.own.stack()[-1] is not None:
            # The loop ends with its last step, which is known when something else begins.
            self.clock.release(self.local.last)
            self.local.last = self.clock.mark()

    def end_decode(self):
        if self.local.__dict__.get("decodes"):
            self.local.decodes = False
            self.pop(self.local.last)
            self.local.last = None

    @loading.quiet
    def updated(self):
        """The weights were updated."""
        self.seen("update")
        if self.local.__dict__.get("trains"):
            self.local.trains = False
            self.pop()
        # Where no model is seen a step is what happens from one update to the next.
        if not self.local.__dict__.get("has_model"):
            self.push("train_step")
            self.local.trains = True
        notes.tick()

    @loading.quiet
    def launches_graph(self):
        """A CUDA graph is launched. Gives whether that is a step: nothing that is known happens around it."""
        if has_batches or self.local.__dict__.get("open") or self.user and self.user.stack():
            return False
        self.push("graph_launch")
        self.seen("graph_launch")
        return True

    def batch(self):
        """Whether the batch that an engine computes on this thread is prefill or decode; None if it computes none."""
        return self.local.__dict__.get("batch")

    @loading.quiet
    def batch_begins(self, phase, sizes):
        """An engine computes a batch, prefill or decode. Gives whether `batch_ends` is to be called."""
        if self.user and self.user.stack():
            self.seen(phase, sizes)
            return False
        self.local.batch = phase
        self.push("decode_step" if phase == "decode" else phase)
        self.seen(phase, sizes)
        return True

    @loading.quiet
    def batch_ends(self):
        self.local.batch = None
        self.pop()
        notes.tick()

    @loading.quiet
    def generates(self):
        """A call of generate begins."""
        if self.own:
            self.own.enter("generate")

    @loading.quiet
    def generated(self):
        self.end_decode()
        if self.own:
            self.own.leave()
        notes.tick()

    def read(self, stages):
        """Times of what the GPU has passed until now."""
        self.clock.drain()
        return stages.as_json()

    def finish(self):
        """The workload is over: the GPU has a while to pass the last marks."""
        self.end_decode()
        self.clock.drain(patience=5.0)
