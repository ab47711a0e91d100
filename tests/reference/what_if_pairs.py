#!/usr/bin/env python3
"""Predictions checked against captures: for each pair of captures below a folder that differ in one thing, predicts the
second from the first with `rooflens predict --from` and compares with the unprofiled stage times of the second.

    what_if_pairs.py ROOFLENS FOLDER

FOLDER holds gpu/MODEL-bBATCH-MODE-DTYPE/ with baseline/timings.json (`prefill_ms`, `decode_ms`, `new`), as
`h100/8b-b8-eager-bf16`. Measured are the medians of the repeats, of decode per step. A prediction holds if the measured
time lies within its interval, and counts only if the interval is useful: upper bound at most twice the lower one.
"""
import csv, itertools, json, pathlib, re, statistics, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

USEFUL = 2.0
GPUS = {"h100": "H100 SXM", "h200": "H200 SXM"}


def measured(folder):
    timings = json.loads((folder / "baseline/timings.json").read_text())
    return {
        "prefill": statistics.median(timings["prefill_ms"]),
        "decode": statistics.median(timings["decode_ms"]) / timings["new"],
    }


def parse(folder):
    model, batch, mode, dtype = re.fullmatch(r"(\w+)-b(\d+)-(\w+)-(\w+)", folder.name).groups()
    return {"gpu": folder.parent.name, "model": model, "batch": int(batch), "mode": mode, "dtype": dtype}


def options(one, other):
    """Arguments that turn the first capture into the second, if one thing differs in a forward direction."""
    differs = [key for key in one if one[key] != other[key]]
    if len(differs) != 1:
        return None
    key = differs[0]
    old, new = one[key], other[key]
    forward = {
        "batch": lambda: new > old and ["--batch", str(new)],
        "mode": lambda: (old, new) == ("eager", "graph") and ["--graphs"],
        "dtype": lambda: (old, new) == ("bf16", "fp8") and ["--dtype", new],
        "gpu": lambda: ["--gpu", GPUS[new]],
        "model": lambda: None,
    }
    found = forward[key]()
    return (key, found) if found else None


def predict(binary, folder, arguments):
    with tempfile.TemporaryDirectory() as out:
        command = [binary, "-q", "predict", "--from", str(folder), *arguments, "--format", "csv", "-o", out]
        subprocess.run(command, check=True)
        rows = csv.DictReader(open(next(pathlib.Path(out).rglob("predicted_stages.csv"))))
        return {row["stage"]: [float(row[key]) / 1e6 for key in ("low_ns", "predicted_ns", "high_ns")] for row in rows}


def main():
    binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
    folders = sorted(path.parent.parent for path in root.glob("*/*/baseline/timings.json"))
    known = [(folder, parse(folder), measured(folder)) for folder in folders]
    pairs = [
        (one, other, found)
        for one, other in itertools.permutations(known, 2)
        if (found := options(one[1], other[1]))
    ]
    pairs.sort(key=lambda pair: (["batch", "mode", "gpu", "dtype"].index(pair[2][0]), str(pair[0][0]), str(pair[1][0])))
    with ThreadPoolExecutor(2) as pool:
        predictions = pool.map(lambda pair: predict(binary, pair[0][0], pair[2][1]), pairs)
        rows = [
            (key, one, other, stage, now[stage], then[stage], *prediction[stage])
            for ((one, _, now), (other, _, then), (key, _)), prediction in zip(pairs, predictions)
            for stage in ("prefill", "decode")
        ]
    print("| what | from | to | stage | now | measured | predicted | interval | width | error | within |")
    print("|---|---|---|---|--:|--:|--:|--:|--:|--:|---|")
    holds = {}
    for key, one, other, stage, now, then, low, mid, high in rows:
        within, useful = low <= then <= high, high / low <= USEFUL
        word = "yes" if within and useful else "yes, too wide" if within else "no"
        holds.setdefault((key, stage), []).append(within and useful)
        name = lambda path: f"{path.parent.name}/{path.name}"
        print(f"| {key} | {name(one)} | {name(other)} | {stage} | {now:.2f} | {then:.2f} | {mid:.2f} | {low:.2f}–{high:.2f} "
              f"| {high / low:.2f} | {mid / then - 1:+.0%} | {word} |")
    print()
    for (key, stage), values in holds.items():
        print(f"- {key}, {stage}: {sum(values)} of {len(values)}")
    every = [value for values in holds.values() for value in values]
    print(f"- all: {sum(every)} of {len(every)}")


main()
