#!/usr/bin/env python3
"""Tries the installed package: frames equal the CSV files, objects the JSON, the tutorial runs, the stubs hold.

Needs polars, pandas, pyarrow, duckdb, nbclient, ipykernel and mypy next to the package; `.packaging/wheel` installs all.
"""

import csv
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import nbclient
import nbformat
import pyarrow
import rooflens

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).with_name("rooflens")
FIXTURES = ["h200-llama-8b", "h200x2-ddp", "h200-vit-train"]
TUTORIAL = ROOT / "docs/examples/python.ipynb"

# What a user of the stubs may write, and must not.
TYPED = """
import rooflens
capture = rooflens.open("run")
seconds: float = sum(finding.saved_ns or 0 for finding in capture.findings) / 1e9
rows: int = len(capture.tables["kernels"])
"""
UNTYPED = 'import rooflens\nrooflens.open("run").findings[0].no_such_field\n'


def run(*words):
    subprocess.run([PROGRAM, *words, "--quiet"], check=True)


def is_equal(cell, text):
    """Whether a cell is what a CSV file says, which has 15 digits of a number."""
    match cell:
        case None:
            return text == ""
        case bool():
            return text == ("yes" if cell else "no")
        case float() if text != "":
            return math.isclose(cell, float(text), rel_tol=1e-14)
        case _:
            return str(cell) == text


def compare_frames(capture, folder):
    names = {path.stem for path in folder.glob("*.csv")}
    assert names and names == {name for name in capture.tables if len(capture.tables[name])}, names
    cells = 0
    for name in sorted(names):
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            head, *lines = csv.reader(file)
        table = capture.tables[name]
        frame = table.to_polars()
        assert frame.columns == head, name
        assert table.to_arrow().num_rows == len(lines) == len(table), name
        for row, line in zip(frame.iter_rows(), lines, strict=True):
            for column, cell, text in zip(head, row, line, strict=True):
                assert is_equal(cell, text), (name, column, cell, text)
                cells += 1
    return cells


def compare_rows(capture, folder):
    """Rows of tables against the Parquet files, in another engine."""
    files = {path.stem: path for path in (folder / "tables").glob("*.parquet")}
    assert files.keys() == set(capture.rows), files
    for name, path in files.items():
        frame = capture.rows[name].to_arrow()
        sides = "select * from frame", f"select * from '{path}'"
        for side, other in [sides, sides[::-1]]:
            assert not duckdb.sql(f"{side} except all {other}"), name


def compare_objects(capture, folder):
    metrics = json.loads((folder / "metrics.json").read_text())["metrics"]
    assert [metric["value"].get("value") for metric in metrics] == [one.value for one in capture.metrics]
    assert [metric["id"] for metric in metrics] == [one.id for one in capture.metrics]
    with (folder / "findings.csv").open(newline="", encoding="utf-8") as file:
        expected = [(row["rule"], row["statement"], row["stage"]) for row in csv.DictReader(file)]
    assert expected == [(one.rule, one.statement, one.stage or "") for one in capture.findings]
    for root in capture.account:
        for part in root.walk():
            if part.children:
                assert sum(child.ns for child in part.children) == part.ns, part
    assert capture.to_html() == (folder / "report.html").read_text()


def share_memory(capture):
    """A stream has the columns themselves: two streams of a table have one address."""
    table = capture.rows["launches"]
    first, second = (pyarrow.table(table)["start"].chunk(0).buffers()[1].address for _ in range(2))
    assert first == second


def refuse():
    for words, message in [(["/no/such/run"], "/no/such/run"), ([ROOT / "README.md"], "README.md")]:
        try:
            rooflens.open(words)
        except rooflens.Error as error:
            assert message in str(error), error
        else:
            raise AssertionError(words)


def export_reports(folder):
    """A report of Nsight Systems is read through the `nsys` on the PATH; a copy of an export takes its place here."""
    export = folder / "export"
    packed = ROOT / "fixtures/h200-vit-train/nsys/timeline.sqlite.zst"
    export.write_bytes(pyarrow.input_stream(packed, compression="zstd").read())
    report = folder / "run.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report rest")
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    try:
        rooflens.open(report)
    except rooflens.Error as error:
        assert "nsys export" in str(error), error
    else:
        raise AssertionError(report)
    nsys = folder / "bin" / "nsys"
    nsys.parent.mkdir()
    # Arguments: export --type sqlite --force-overwrite true --output TARGET REPORT.
    nsys.write_text(f'#!/bin/sh\ncp {export} "$7"\n')
    nsys.chmod(0o755)
    os.environ["PATH"] = f"{nsys.parent}:{path}"
    kernels = sqlite3.connect(export).execute("select count(*) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    assert (len(rooflens.open(report).rows["launches"]),) == kernels
    os.environ["PATH"] = path


def check_types(folder):
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache"]
    # PyArrow and pandas have no types of their own.
    package = [*mypy, "--disable-error-code", "import-untyped", "rooflens"]
    subprocess.run(package, check=True, cwd=ROOT / "src/python")
    for name, text, code in [("typed.py", TYPED, 0), ("untyped.py", UNTYPED, 1)]:
        path = folder / name
        path.write_text(text)
        done = subprocess.run([*mypy, path], capture_output=True, text=True)
        assert done.returncode == code, done.stdout


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in FIXTURES:
            bundle = ROOT / "fixtures" / name
            run("report", bundle, "-o", folder / name)
            run("report", bundle, "--format", "parquet", "-o", folder / name / "rows")
            capture = rooflens.open(bundle)
            cells = compare_frames(capture, folder / name)
            compare_rows(capture, folder / name / "rows")
            compare_objects(capture, folder / name)
            share_memory(capture)
            print(f"{name}: {len(capture.tables)} frames equal the CSV files, {cells} cells")
        bundles = [ROOT / "fixtures" / name for name in FIXTURES[:2]]
        run("report", "--jobs", "2", *bundles, "--format", "metrics", "-o", folder / "jobs")
        assert len(list((folder / "jobs").iterdir())) == len(bundles)
        refuse()
        export_reports(folder)
        check_types(folder)
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(TUTORIAL.parent)}}).execute()
    print(f"{TUTORIAL.name}: {len(notebook.cells)} cells run")


if __name__ == "__main__":
    main()
