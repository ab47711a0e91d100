#!/usr/bin/env python3
"""Measures what the injected Python modules add to the time of a step: planted programs with and without them, in turns.

usage: injection.py notes|marks RUNS PROGRAM...        needs a GPU and PyTorch

`notes` is what an unprofiled baseline injects. `marks` is what a pass of nsys injects, for a script that runs under
`nsys profile --trace=cuda,nvtx,osrt --trace-fork-before-exec=true`. PyTorch is imported once and each run is a fork.
Prints one JSON line for each program: step times, and the median ratio of runs with the modules to their neighbors.
"""
import json
import os
import pathlib
import runpy
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "fixtures/planted/programs"
MODULES = ROOT / "capture/src/run/inject"


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


def run(program, kind):
    """The median time of a step in milliseconds. `kind` is what is injected, if anything is."""
    with tempfile.TemporaryFile("w+") as log:
        process = os.fork()
        if process == 0:
            os.dup2(log.fileno(), 1)
            status = 1
            try:
                if kind:
                    inject(kind)
                runpy.run_path(str(PROGRAMS / program), run_name="__main__")
                status = 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.waitpid(process, 0)
        log.seek(0)
        lines = [line for line in log.read().splitlines() if line.startswith('{"name"')]
    return json.loads(lines[-1])["step_ms_median"]


def main():
    kind, runs, programs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    os.chdir(PROGRAMS)
    sys.path.insert(0, str(PROGRAMS))
    import torch  # noqa: F401

    for program in programs:
        times = {None: [], kind: []}
        for number in range(runs):
            order = (None, kind) if number % 2 else (kind, None)
            for injected in order:
                times[injected].append(run(program, injected))
        ratios = sorted(injected / plain for plain, injected in zip(times[None], times[kind]))
        quartiles = [round(value, 4) for value in statistics.quantiles(ratios, n=4)]
        line = {"program": program, "injected": kind, "ratio_quartiles": quartiles, "plain_ms": times[None], "injected_ms": times[kind]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
