"""How long ranges take, and what happens in them: forward passes, backward passes, updates of the weights."""
import re
import threading
import time

from .clock import EVERY, FIRST, SHARE

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
        # Nanoseconds of the host: in outermost ranges of this name, and what of it the notes took.
        self.inside = self.spent = 0
        # Steps of a loop that no model tells of are counted by their ranges.
        self.is_step = re.sub(r"[ _-]", "", key).lower() == "decodestep"

    def is_affordable(self):
        """Whether outermost ranges of this name are few, or have cost little so far."""
        return self.opened <= FIRST or self.spent < SHARE * self.inside or self.opened % EVERY == 0

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
    """Ranges that are open on a thread: (stage, mark, what happened, sizes), or None for one that is not timed."""

    def __init__(self):
        self.stack = []
        # The stage of the outermost one, and when the host entered it.
        self.outermost, self.begun = None, 0


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
        begun, open, frame = time.perf_counter_ns(), self.open, None
        stack, stage = open.stack, self.spellings.get(name, _UNKNOWN)
        if stage is _UNKNOWN:
            stage = self.stage(name)
        if not stack:
            open.outermost, open.begun = stage, begun
        if stage is not None:
            stage.opened += 1
            if stack and stage.is_step and stack[-1] is not None:
                happened = stack[-1][2]
                happened["step"] = happened.get("step", 0) + 1
            is_affordable = self.clock.is_affordable(begun) if stack else stage.is_affordable()
            if is_affordable and len(stage.times) < MAX_INSTANCES:
                # A range inside another of its name is the same phase.
                if all(outer is None or outer[0] is not stage for outer in stack):
                    frame = (stage, self.clock.mark(), {}, {})
            self.spend(begun)
        stack.append(frame)

    def leave(self, name=None, end=None):
        """Closes the innermost range, at the mark `end` if it is over since then."""
        begun, open = time.perf_counter_ns(), self.open
        stack = open.stack
        frame = stack.pop() if stack else None
        if frame is not None:
            instance = [None, False, *frame[2:]]
            frame[0].times.append(instance)

            def read(milliseconds, is_of_gpu):
                instance[0], instance[1] = milliseconds, is_of_gpu

            self.clock.interval(frame[1], end or self.clock.mark(), read)
        if not stack and open.outermost is not None:
            open.outermost.inside += begun - open.begun
        self.spend(begun)

    def spend(self, begun):
        """Counts the time since then for the outermost range that is open or was closed last, or for all inner ones."""
        counter = self.clock if self.open.stack else self.open.outermost
        if counter is not None:
            counter.spent += time.perf_counter_ns() - begun

    def spend_call(self, begun):
        """Counts the time since then for the outermost range that is open: a model was called."""
        if self.open.stack and self.open.outermost is not None:
            self.open.outermost.spent += time.perf_counter_ns() - begun

    def seen(self, what, sizes):
        """Something of these sizes happened in all ranges that are open on this thread."""
        for frame in self.stack():
            if frame is not None:
                frame[2][what] = frame[2].get(what, 0) + 1
                add_sizes(frame[3], what, sizes)

    def as_json(self):
        return {name: stage.as_json() for name, stage in list(self.all.items())}
