"""Limits ncu to chosen instances of NVTX ranges, and ends the workload after the last. Written by rooflens-capture.

    ROOFLENS_RANGES      folder: the names of the ranges that a process pushes are noted there
    ROOFLENS_NCU_WINDOW  JSON, [["decode", 2], …]: names, and which of that name, from 0
    ROOFLENS_NCU_STOP    file whose name with .0, .1, … says that enough is profiled of the first, second, … of these
    ROOFLENS_NCU_DONE    file that says to other ranks that the first one has profiled all

ncu runs with --profile-from-start off. Of several ranks the first is profiled; the others meet it in collectives, and
end when it has ended. Processes that load data push no ranges. Failures are said and forgotten.
"""
import json
import multiprocessing
import os
import sys
import threading
import time

RANGES = os.environ.get("ROOFLENS_RANGES")
WINDOW = [(name, ordinal) for name, ordinal in json.loads(os.environ.get("ROOFLENS_NCU_WINDOW", "[]"))]
STOP = os.environ.get("ROOFLENS_NCU_STOP")
DONE = os.environ.get("ROOFLENS_NCU_DONE")

# Names that are noted at most, and seconds for which other ranks wait for the first.
MOST, PATIENCE = 200, 900


class Window:
    """Told of ranges as they are pushed and popped."""

    def __init__(self, torch):
        self.torch, self.pid, self.counts, self.left = torch, os.getpid(), {}, set(WINDOW)
        # Ranges of the window that are open, and whether ncu profiles.
        self.open, self.is_on = [], False
        self.is_first = os.environ.get("RANK", "0") == "0"
        self.lock = threading.RLock()

    def enter(self, name):
        """Gives what `leave` is to be told."""
        if os.getpid() != self.pid:
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

    def leave(self, key):
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
        wanted = bool(self.open) and self.is_first
        if wanted == self.is_on:
            return
        self.is_on, runtime = wanted, self.torch.cuda.cudart()
        if not wanted:
            runtime.cudaProfilerStop()
            return
        runtime.cudaProfilerStart()
        if STOP:
            device = self.torch.cuda.current_device()
            threading.Thread(target=quiet, args=(self.wait, device), daemon=True).start()

    def wait(self, device):
        """Closes a range for ncu once enough of it is profiled."""
        self.torch.cuda.set_device(device)
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
        """Ends the process, unless another Python process waits for what it does."""
        if multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread():
            return
        self.torch.cuda.synchronize()
        if self.is_first and DONE:
            open(DONE, "w").close()
        until = time.monotonic() + PATIENCE
        while DONE and not os.path.exists(DONE) and time.monotonic() < until:
            time.sleep(0.05)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def quiet(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        print(f"rooflens-capture: ncu cannot be limited: {error}", file=sys.stderr)
        return None


def hook(torch):
    window, nvtx, local = Window(torch), torch.cuda.nvtx, threading.local()
    push, pop = nvtx.range_push, nvtx.range_pop

    def range_push(message, *rest):
        local.__dict__.setdefault("stack", []).append(quiet(window.enter, str(message)))
        return push(message, *rest)

    def range_pop():
        depth, stack = pop(), local.__dict__.get("stack")
        if stack:
            quiet(window.leave, stack.pop())
        return depth

    nvtx.range_push, nvtx.range_pop = range_push, range_pop


class Finder:
    """Finds torch as Python would, and calls the hook once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            quiet(hook, module)

        spec.loader.exec_module = exec_module
        return spec


if RANGES or WINDOW:
    sys.meta_path.insert(0, Finder())
