#!/usr/bin/env python3
"""Captures the programs of benches/workloads with `rooflens-capture all` and prints one JSON line for each.

usage: captures.py CAPTURE FOLDER SECONDS [NAME...]       needs a GPU, PyTorch, nvcc, nsys, and ncu on the PATH

CAPTURE is the program rooflens-capture. Bundles go to FOLDER/NAME. No capture starts after SECONDS.
A line holds the seconds of the unprofiled run, of each pass, and of the whole capture, and its limit: 4 times the unprofiled run plus 60 s.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

WORKLOADS = pathlib.Path(__file__).resolve().parent / "workloads"
NAMES = {
    "vit": "vit_training.py",
    "unet": "unet_sampling.py",
    "generate": "generate_prompts.py",
    "compiled": "generate_compiled.py",
    "graphs": "generate_compiled.py",
    "gpt": "gpt_training.py",
    "triton": "triton_kernels.py",
    "cublas": "cublas_layers.cu",
    "naive": "naive_kernels.cu",
    "server": "server.py",
}


def command(name, folder):
    """The command of a workload; nvcc compiles programs in plain CUDA for this GPU."""
    program = WORKLOADS / NAMES[name]
    if program.suffix == ".py":
        return ["python3", str(program)]
    executable = folder / program.stem
    subprocess.run(["nvcc", "-O3", "-arch=native", "-o", executable, program, "-lcublas"], check=True)
    return [str(executable)]


def capture(program, name, folder):
    bundle = folder / name
    environment = dict(os.environ, MODE="reduce-overhead") if name == "graphs" else None
    arguments = [program, "all", "-o", str(bundle), "--", *command(name, folder)]
    start = time.time()
    with open(folder / f"{name}.log", "w") as log:
        status = subprocess.run(arguments, stdout=log, stderr=subprocess.STDOUT, env=environment).returncode
    seconds = time.time() - start
    passes = {}
    baseline = None
    for entry in json.loads((bundle / "manifest.json").read_text())["passes"]:
        passes[entry["id"]] = {key: entry[key] for key in ("exit_code", "cut", "skipped") if key in entry}
        if "wall_ns" in entry:
            passes[entry["id"]]["seconds"] = round(entry["wall_ns"] / 1e9, 1)
        if entry["kind"] == "baseline":
            baseline = entry["wall_ns"] / 1e9
    limit = 4 * baseline + 60
    line = {"name": name, "status": status, "unprofiled": round(baseline, 1), "total": round(seconds, 1), "limit": round(limit, 1)}
    return line | {"within": seconds <= limit, "passes": passes}


def main():
    program, folder, seconds, names = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.time()
    for name in names or NAMES:
        if time.time() - start < seconds:
            print(json.dumps(capture(program, name, folder)), flush=True)


if __name__ == "__main__":
    main()
