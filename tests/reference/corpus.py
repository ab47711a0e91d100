#!/usr/bin/env python3
"""Counts what reports of other people's files hold: corpus.py DIR [rooflens].

Each file below DIR goes through `report` alone, load tests through `serve-report`. A file counts as a report if
a data set about the workload has a row: lists of rules, artifacts and notices are about the report itself.
Printed are the files without a report and why, the GPUs without a specified peak, and models without FLOPs.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ABOUT_THE_REPORT = {"rules", "rule_outcomes", "quality", "passes", "environment", "artifacts", "findings", "peaks", "bandwidths"}
LIMIT_S = 60


def run(program, command, file, out):
    """Exit code (None after the time limit), the first error, and the report."""
    out.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [program, command, file, "-o", out], capture_output=True, text=True, timeout=LIMIT_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return None, f"longer than {LIMIT_S} s", None
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    report = json.loads(out.read_text()) if out.exists() else None
    return done.returncode, (errors or [""])[0], report


def tell(report):
    """Names of the data sets about the workload that have rows."""
    return [d["id"] for d in report["datasets"] if d.get("rows") and d["id"] not in ABOUT_THE_REPORT]


def main():
    corpus = pathlib.Path(sys.argv[1])
    program = sys.argv[2] if len(sys.argv) > 2 else "rooflens"
    files = sorted(path for path in corpus.rglob("*") if path.is_file())
    out = pathlib.Path(tempfile.mkdtemp()) / "report.json"
    outcomes = collections.Counter()
    gpus, unknown, models, uncounted, thin = 0, [], 0, [], []
    for file in files:
        name = file.relative_to(corpus)
        code, why, report = run(program, "report", file, out)
        kind = "report"
        if report is None and "is a load test" in why:
            code, why, report = run(program, "serve-report", file, out)
            kind = "serve-report"
        told = tell(report) if report else []
        if not told:
            kind = "none"
            print(f"none  {name}: exit {code}: {why or 'no data set about the workload'}")
        outcomes[kind] += 1
        if kind == "report":
            if os.environ.get("VERBOSE"):
                print(f"told  {name}: exit {code}: {' '.join(told)}")
            named = [value for key, value in report["meta"]["facts"] if key == "GPU"]
            named += [row[1] for d in report["datasets"] if d["id"] == "gpu_states" for row in d["rows"] if row[1]]
            gpus += bool(named)
            if named and not any(d["id"] == "peaks" and d["rows"] for d in report["datasets"]):
                unknown.append((name, named[0]))
        if "hf_config" in name.parts and "quant_config" not in file.name:
            models += 1
            counted = report and any(d["id"].startswith("model") and d["rows"] for d in report["datasets"])
            if not counted:
                uncounted.append(name)
    for name, gpu in unknown:
        print(f"peak  {name}: {gpu}")
    for name in uncounted:
        print(f"model {name}")
    print(f"{len(files)} files: {dict(outcomes)}")
    print(f"{len(unknown)} of {gpus} captures that name a GPU have no specified peak")
    print(f"{len(uncounted)} of {models} configs are not counted")


main()
