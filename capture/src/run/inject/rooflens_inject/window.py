"""Limits ncu or nsys to chosen instances of NVTX ranges, and ends the workload after the last. Written by rooflens-capture.

    ROOFLENS_RANGES     folder: the names of the ranges that a process pushes are noted there
    ROOFLENS_INSTANCES  JSON, [["decode", 2], …]: names, and which of that name, from 0
    ROOFLENS_NCU_STOP   file whose name with .0, .1, … says that enough is profiled of the first, second, … of these;
                        without it all from the first to the last is recorded
    ROOFLENS_DONE       file that says to other ranks that the first one has profiled all

ncu runs with --profile-from-start off. It saves and restores all memory that a GPU reaches, so that batches in pinned
memory double the time of a launch: loaders leave theirs pageable. Of several ranks the first is profiled; the others
meet it in collectives, and end when it has ended. Processes that load data push no ranges. Failures are said and forgotten.
"""
import json
import os
import threading
import time

from . import deadline, loading, ranges, steps, steps_window

RANGES = os.environ.get("ROOFLENS_RANGES")
WINDOW = [(name, ordinal) for name, ordinal in json.loads(os.environ.get("ROOFLENS_INSTANCES", "[]"))]
STOP = os.environ.get("ROOFLENS_NCU_STOP")
DONE = os.environ.get("ROOFLENS_DONE")

# Names that are noted at most, and seconds for which other ranks wait for the first.
MOST, PATIENCE = 200, 900

# Seconds in which nsys takes what it recorded: an end without Python's own would cut it off.
SETTLE = 2


class Window:
    """Told of ranges as they are pushed and popped."""

    def __init__(self, torch):
        self.torch, self.pid, self.counts, self.left = torch, os.getpid(), {}, set(WINDOW)
        # Ranges of the window that are open, and whether ncu profiles.
        self.open, self.is_on, self.device = [], False, 0
        self.is_first = None if steps_window.DIR else os.environ.get("RANK", "0") == "0"
        self.lock, self.local = threading.RLock(), threading.local()

    def enter(self, name):
        self.local.__dict__.setdefault("stack", []).append(self.begin(name))

    def leave(self):
        stack = self.local.__dict__.get("stack")
        if stack:
            self.end(stack.pop())

    def begin(self, name):
        """The name and its number, if that is of the window."""
        if os.getpid() != self.pid or steps_window.WINDOW and not steps.current.window.is_open:
            return None
        with self.lock:
            ordinal = self.counts.get(name, 0)
            self.counts[name] = ordinal + 1
            if RANGES and ordinal == 0 and len(self.counts) <= MOST:
                self.note()
            if (name, ordinal) not in self.left:
                return None
            self.open.append((name, ordinal))
            self.profile()
            return name, ordinal

    def end(self, key):
        if key is None:
            return
        with self.lock:
            self.left.discard(key)
            if key in self.open:
                self.open.remove(key)
                self.profile()
            if not self.left and not self.open:
                self.finish()

    def profile(self):
        """Starts or stops ncu: it makes every launch slow, so that it is stopped as soon as it has enough."""
        if self.open and self.is_first is None:
            self.is_first = steps_window.claims()
        is_between = STOP is None and self.is_on and bool(self.left)
        wanted = (bool(self.open) or is_between) and self.is_first
        if wanted == self.is_on:
            return
        self.is_on, runtime = wanted, self.torch.cuda.cudart()
        if not wanted:
            runtime.cudaProfilerStop()
            return
        runtime.cudaProfilerStart()
        self.device = self.torch.cuda.current_device()
        if STOP:
            threading.Thread(target=loading.quiet(self.wait), daemon=True).start()

    def close(self):
        """Closes all ranges for ncu: the time is up. A rank that waits for the first one holds the lock."""
        if not self.lock.acquire(timeout=1):
            return
        self.left.clear()
        self.open.clear()
        if self.is_on:
            self.torch.cuda.set_device(self.device)
            self.profile()
        self.lock.release()

    def wait(self):
        """Closes a range for ncu once enough of it is profiled."""
        self.torch.cuda.set_device(self.device)
        while self.is_on:
            with self.lock:
                for key in list(self.open):
                    if os.path.exists(f"{STOP}.{WINDOW.index(key)}"):
                        self.open.remove(key)
                self.profile()
            time.sleep(0.02)

    def note(self):
        path = os.path.join(RANGES, f"{self.pid}.json")
        with open(path + ".part", "w") as file:
            json.dump(list(self.counts), file)
        os.replace(path + ".part", path)

    def finish(self):
        """Ends the process, unless another Python process waits for what it does: a server is ended by the capture."""
        if steps_window.DIR:
            steps_window.mark("done")
            return
        # Not before torch: compiled code is cached under a hash that depends on what was imported before it.
        import multiprocessing

        if multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread():
            return
        self.torch.cuda.synchronize()
        if self.is_first and DONE:
            open(DONE, "w").close()
        until = time.monotonic() + PATIENCE
        while DONE and not os.path.exists(DONE) and time.monotonic() < until:
            time.sleep(0.05)
        if STOP is None:
            time.sleep(SETTLE)
        deadline.end()


def leave_pageable(data):
    """Loaders pin no memory, whatever they were told."""
    loading.after(data.DataLoader, "__init__", lambda _, loader, *args, **kwargs: setattr(loader, "pin_memory", False))


def install(torch):
    window = Window(torch)
    ranges.listen(torch, window)
    if deadline.DEADLINE:
        deadline.install(torch, window.close)
    if STOP:
        loading.on_import("torch.utils.data", leave_pageable)
