"""How long ranges take, and what happens in them: forward passes, backward passes, updates of the weights."""
import re
import sys
import threading
import time

from .clock import FIRST, FIRST_INNER, skips

# Instances of a name that are timed, and names that are kept: ranges around single layers are many.
MAX_INSTANCES, MAX_NAMES, MAX_SPELLINGS = 2000, 200, 10000

_DIGITS = re.compile(r"\d+")

# In the place of the stage of a name that was never seen: None is that of a name that is not kept.
_UNKNOWN = object()


def add_sizes(total, phase, sizes):
    """Sizes of an iteration by those of its passes: the sequences that train together, else the largest."""
    for name, size in sizes.items():
        if size is not None and name in total:
            total[name] = total[name] + size if name == "batch" and phase == "train" else max(total[name], size)
        elif size is not None:
            total[name] = size


class Stage:
    """The instances of a name: [milliseconds, whether events measured them, {what happened: how often}, sizes]."""

    def __init__(self, key):
        self.times, self.opened = [], 0
        # Instances that are only counted until one is timed again.
        self.skips = 0
        # Steps of a loop of which no model is known are counted by their ranges.
        self.is_step = re.sub(r"[ _-]", "", key).lower() == "decodestep"

    def as_json(self):
        """Instances that are over and read."""
        done = [instance for instance in self.times if instance[0] is not None]
        return {
            "opened": self.opened,
            "ms": [round(instance[0], 6) for instance in done],
            "events": [instance[1] for instance in done],
            "seen": [instance[2] for instance in done],
            "sizes": [instance[3] for instance in done],
        }


class Open(threading.local):
    """Ranges that are open on a thread: a `Frame`, or None for one that is not timed."""

    def __init__(self):
        self.stack = []


class Frame:
    """A range that is open and timed."""

    __slots__ = ("stage", "first", "begun", "cost", "mark", "happened", "sizes")

    def __init__(self, stage, first, begun, mark):
        self.stage, self.begun, self.mark = stage, begun, mark
        # How many instances are timed whatever it takes.
        self.first = first
        self.happened, self.sizes = {}, {}
        self.cost = time.perf_counter_ns() - begun


class Stages:
    """Times ranges by name. Digits are one name, as in the report: `iteration 3` is an instance of `iteration N`."""

    def __init__(self, clock):
        self.clock, self.all, self.spellings, self.open = clock, {}, {}, Open()

    def stack(self):
        return self.open.stack

    def stage(self, name):
        key = name.strip()[:80]
        key = key if key.isdigit() else _DIGITS.sub("N", key)
        stage = self.all.get(key)
        if stage is None and len(self.all) < MAX_NAMES:
            stage = self.all[key] = Stage(key)
        if len(self.spellings) < MAX_SPELLINGS:
            self.spellings[name] = stage
        return stage

    def enter(self, name):
        # Workloads open thousands of ranges a second: one that is not timed is counted, and no more.
        stack, stage = self.open.stack, self.spellings.get(name, _UNKNOWN)
        if stage is _UNKNOWN:
            stage = self.stage(name)
        if stage is None:
            stack.append(None)
            return
        stage.opened += 1
        if stage.is_step and stack and stack[-1] is not None:
            happened = stack[-1].happened
            happened["step"] = happened.get("step", 0) + 1
        if stage.skips:
            stage.skips -= 1
            stack.append(None)
        else:
            stack.append(self.frame(stage, stack))

    def frame(self, stage, stack):
        """Begins to time a range, unless it is inside of another of its name, which is the same phase."""
        begun = time.perf_counter_ns()
        if len(stage.times) >= MAX_INSTANCES:
            stage.skips = sys.maxsize
            return None
        if any(outer is not None and outer.stage is stage for outer in stack):
            return None
        return Frame(stage, FIRST_INNER if stack else FIRST, begun, self.clock.mark())

    def leave(self, end=None):
        """Closes the innermost range, at the mark `end` if it is over since then."""
        stack = self.open.stack
        frame = stack.pop() if stack else None
        if frame is not None:
            self.close(frame, end)

    def close(self, frame, end):
        now, stage = time.perf_counter_ns(), frame.stage
        instance = [None, False, frame.happened, frame.sizes]
        stage.times.append(instance)

        def read(milliseconds, is_of_gpu):
            instance[0], instance[1] = milliseconds, is_of_gpu

        self.clock.interval(frame.mark, end or self.clock.mark(), read)
        if stage.opened > frame.first:
            cost = frame.cost + time.perf_counter_ns() - now
            stage.skips = max(stage.skips, skips(cost, now - frame.begun))

    def seen(self, what, sizes):
        """Something of these sizes happened in all ranges that are open on this thread."""
        for frame in self.stack():
            if frame is not None:
                frame.happened[what] = frame.happened.get(what, 0) + 1
                trained = frame.happened.get("train", 0)
                # An iteration does not train what it calls without gradients, such as a reference model.
                if what == "train" and trained == 1:
                    frame.sizes.clear()
                if what == "train" or not trained:
                    add_sizes(frame.sizes, what, sizes)

    def as_json(self):
        return {name: stage.as_json() for name, stage in list(self.all.items())}
