"""How long ranges take, and what happens in them: forward passes, backward passes, updates of the weights."""
import re
import threading

# Instances of a name that are timed, and names that are kept: ranges around single layers are many.
MAX_INSTANCES, MAX_NAMES = 2000, 200

_DIGITS = re.compile(r"\d+")


class Stage:
    """All instances of a name."""

    def __init__(self):
        # One an instance: [milliseconds, was measured by events, {what happened: how often}].
        self.times, self.opened, self.parents = [], 0, {}

    def as_json(self):
        """Times of instances that are over and read."""
        done = [time for time in self.times if time[0] is not None]
        return {
            "opened": self.opened,
            "parents": self.parents,
            "ms": [round(time[0], 6) for time in done],
            "events": [time[1] for time in done],
            "seen": [time[2] for time in done],
        }


class Stages:
    """Times ranges by name. Digits are one name, as in the report: `iteration 3` is an instance of `iteration N`."""

    def __init__(self, clock):
        self.clock, self.all, self.keys, self.local = clock, {}, {}, threading.local()

    def stack(self):
        return self.local.__dict__.setdefault("stack", [])

    def key(self, name):
        key = self.keys.get(name)
        if key is None:
            key = name.strip()[:80]
            key = key if key.isdigit() else _DIGITS.sub("N", key)
            if len(self.keys) < 10000:
                self.keys[name] = key
        return key

    def enter(self, name):
        stack, key = self.stack(), self.key(name)
        stage = self.all.get(key)
        if stage is None and len(self.all) < MAX_NAMES:
            stage = self.all[key] = Stage()
        # A range inside another of its name is the same phase.
        is_timed = stage is not None and stage.opened < MAX_INSTANCES and all(frame[0] != key for frame in stack)
        if is_timed:
            stage.opened += 1
            parent = stack[-1][0] if stack else ""
            if parent in stage.parents or len(stage.parents) < 8:
                stage.parents[parent] = stage.parents.get(parent, 0) + 1
        stack.append((key, stage if is_timed else None, self.clock.mark() if is_timed else None, {}))

    def leave(self, name=None, end=None):
        """Closes the innermost range, at the mark `end` if it is over since then."""
        stack = self.stack()
        if not stack:
            return
        _, stage, start, seen = stack.pop()
        if stage is None:
            return
        time = [None, False, seen]
        stage.times.append(time)

        def read(milliseconds, is_of_gpu):
            time[0], time[1] = milliseconds, is_of_gpu

        self.clock.interval(start, end or self.clock.mark(), read)

    def seen(self, what):
        """Something happened in all ranges that are open on this thread."""
        for _, stage, _, seen in self.stack():
            if stage is not None:
                seen[what] = seen.get(what, 0) + 1

    def as_json(self):
        return {name: stage.as_json() for name, stage in self.all.items()}
