#!/usr/bin/env python3
"""Measures what the injected Python modules add to the time of a step: planted programs with and without them, in turns.

usage: injection.py notes|marks|nothing RUNS PROGRAM...        needs a GPU and PyTorch

`notes` is what an unprofiled baseline injects. `marks` is what a pass of nsys injects, for a script that runs under
`nsys profile --trace=cuda,nvtx,osrt --trace-fork-before-exec=true`. `nothing` is the control: it switches nothing, and its ratio is
the error of this measurement.

The speed of a host differs more between two processes than the modules cost. Each process therefore switches them on and off
every BLOCK steps, and the steps next to a switch do not count. Steps get faster during a run: blocks follow each other as on, off,
off, on, or the other way round, in turns. PyTorch is imported once and each run is a fork.
Prints one JSON line for each program: medians of the ratios of two neighboring blocks by run, and quartiles and median of these.
A block counts with the mean of its steps, because only some steps are timed and cost more than the others.
"""
import gc
import json
import os
import pathlib
import runpy
import statistics
import sys
import tempfile
import traceback
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "fixtures/planted/programs"
MODULES = ROOT / "capture/src/run/inject"
BLOCK = 8
# Steps of a run: programs that run fewer are called again.
STEPS = 400


def inject(kind):
    """Starts the injected modules as a capture does."""
    variables = {"notes": ["ROOFLENS_NOTES_DIR"], "marks": ["ROOFLENS_RANGES"]}[kind]
    for variable in variables:
        os.environ[variable] = tempfile.mkdtemp()
    if kind == "marks":
        os.environ["ROOFLENS_MARKS"] = "nvtx"
    sys.path.insert(0, str(MODULES))
    import rooflens_inject

    rooflens_inject.start(os.environ)


class Switch:
    """Puts the functions of PyTorch in the place of the injected ones, and back."""

    def __init__(self):
        self.hooks, self.is_on = [], True
        for owner in owners():
            for name, value in list(vars(owner).items()):
                function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
                if isinstance(function, types.FunctionType) and MODULES.as_posix() in function.__code__.co_filename:
                    self.hooks.append((owner, name, value, getattr(function, "__wrapped__", None)))
        self.marks = sys.modules.get("rooflens_inject.marks")

    def set(self, is_on):
        if is_on == self.is_on:
            return
        self.is_on = is_on
        for owner, name, injected, plain in self.hooks:
            # A class without a `__call__` of its own has that of its base.
            if not is_on and (plain is None or name == "__call__"):
                delattr(owner, name)
            else:
                setattr(owner, name, injected if is_on else plain)
        if self.marks and self.marks._open:
            self.switch_marks(is_on)

    def switch_marks(self, is_on):
        """The kernel of nonzero, and the callback of the collector."""
        if is_on:
            self.marks._counts(sys.modules["torch"])
            gc.callbacks.append(self.marks._collects)
        else:
            self.marks._library._destroy()
            gc.callbacks.remove(self.marks._collects)


def owners():
    """Modules of PyTorch, and their classes; classes of the workload that are modules."""
    import torch

    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "torch" and module is not None]
    classes = {id(value): value for module in modules for value in list(vars(module).values()) if isinstance(value, type)}
    pending = [torch.nn.Module]
    while pending:
        cls = pending.pop()
        classes[id(cls)] = cls
        pending.extend(cls.__subclasses__())
    return [*modules, *classes.values()]


def measure(program, kind):
    """Medians over blocks in milliseconds, without and with the modules, and the functions that were exchanged."""
    import clock
    import torch

    warnings.simplefilter("ignore")
    if kind != "nothing":
        inject(kind)
    state = {"switch": None, "steps": 0, "block": 0, "runs": 0}
    ratios, plain_times, injected_times = [], [], []
    pending = []

    def is_on():
        return (state["block"] % 4 in (0, 3)) == (state["runs"] % 2 == 0)

    def tick(self):
        self.steps += 1
        if self.steps < self.warm:
            return
        if state["switch"] is None:
            state["switch"] = Switch()
            state["switch"].set(is_on())
        state["steps"] += 1
        place = (self.steps - self.warm) % BLOCK
        if place == 0 and self.steps > self.warm:
            state["block"] += 1
            state["switch"].set(is_on())
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        pending.append((event, is_on(), 0 < place < BLOCK - 1))

    def report(self, *_):
        torch.cuda.synchronize()
        blocks, times = [], []
        for (start, _, _), (end, injected, counts) in zip(pending, pending[1:]):
            if counts:
                times.append(start.elapsed_time(end))
            elif times:
                blocks.append((injected, statistics.mean(times)))
                times = []
        pending.clear()
        for first, second in zip(blocks[::2], blocks[1::2]):
            injected, plain = sorted((first, second), reverse=True)
            plain_times.append(plain[1])
            injected_times.append(injected[1])
            ratios.append(injected[1] / plain[1])

    clock.Clock.tick, clock.Clock.report = tick, report
    while state["steps"] < STEPS:
        state["switch"], state["block"] = None, 0
        runpy.run_path(str(PROGRAMS / program), run_name="__main__")
        functions = [f"{owner.__name__}.{name}" for owner, name, *_ in state["switch"].hooks]
        state["switch"].set(True)
        state["runs"] += 1
    return {"plain": statistics.median(plain_times), "injected": statistics.median(injected_times),
            "ratio": statistics.median(ratios), "pairs": len(ratios), "functions": functions}


def run(program, kind):
    """What `measure` gives, in a fork."""
    with tempfile.TemporaryFile("w+") as result:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                json.dump(measure(program, kind), result)
                result.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.waitpid(process, 0)
        result.seek(0)
        return json.load(result)


def main():
    kind, runs, programs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    os.chdir(PROGRAMS)
    sys.path.insert(0, str(PROGRAMS))
    import torch  # noqa: F401

    for program in programs:
        results = [run(program, kind) for _ in range(runs)]
        ratios = [result["ratio"] for result in results]
        quartiles = [round(value, 4) for value in statistics.quantiles(ratios, n=4)]
        line = {"program": program, "injected": kind, "ratio_quartiles": quartiles,
                "plain_ms": [round(result["plain"], 4) for result in results],
                "injected_ms": [round(result["injected"], 4) for result in results],
                "pairs": results[0]["pairs"], "functions": results[0]["functions"]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
