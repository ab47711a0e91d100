#!/usr/bin/env python3
"""The queries of docs/cookbook.md in three engines: `rooflens query`, and DuckDB and polars over the Parquet files.

    pip install duckdb polars
    tests/reference/cookbook.py ROOFLENS [BUNDLE]

ROOFLENS is the program, built with its default features; BUNDLE is fixtures/h200-llama-8b unless another is given.
Says for each query how many rows all three agree on, and exits with 1 if any two differ.
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import duckdb
import polars

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERIES = 20


def cookbook():
    """Question and SQL of each query."""
    text = (ROOT / "docs/cookbook.md").read_text()
    return re.findall(r"^## (\d+\. .*?)\n(?:.*?\n)??```sql\n(.*?)```", text, re.M | re.S)


def plain(value):
    """A cell as all engines give it: no decimals, no integers of their own."""
    if value is None or isinstance(value, (bool, str)):
        return value
    value = float(value)
    return None if math.isnan(value) else value


def equal(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return left == right


def differences(left, right):
    if len(left) != len(right):
        yield f"{len(left)} rows and {len(right)}"
        return
    for row, (one, other) in enumerate(zip(left, right)):
        for column, (a, b) in enumerate(zip(one, other, strict=True)):
            if not equal(a, b):
                yield f"row {row}, column {column}: {a!r} and {b!r}"


def engines(rooflens, bundle, folder):
    """Each engine as a function from SQL to rows."""
    files = sorted(pathlib.Path(folder, "tables").glob("*.parquet"))
    duck = duckdb.connect()
    for file in files:
        duck.sql(f"create view {file.stem} as select * from '{file}'")
    polar = polars.SQLContext({file.stem: polars.scan_parquet(file) for file in files})

    def ours(sql):
        output = subprocess.run([rooflens, "query", bundle, sql, "--json"], stdout=subprocess.PIPE, check=True)
        return [list(row.values()) for row in json.loads(output.stdout)]

    return {
        "rooflens": ours,
        "DuckDB": lambda sql: duck.sql(sql).fetchall(),
        "polars": lambda sql: polar.execute(sql).collect().rows(),
    }


def main():
    rooflens, bundle, *_ = [*sys.argv[1:], str(ROOT / "fixtures/h200-llama-8b")]
    queries = cookbook()
    assert len(queries) == QUERIES, f"{len(queries)} queries in the cookbook"
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([rooflens, "-q", "report", bundle, "--format", "parquet", "-o", folder], check=True)
        ask = engines(rooflens, bundle, folder)
        for question, sql in queries:
            rows = {name: [[plain(cell) for cell in row] for row in run(sql)] for name, run in ask.items()}
            faults = [f"{name}: {fault}" for name in ("DuckDB", "polars") for fault in differences(rows["rooflens"], rows[name])]
            print(f"{question}  " + (f"{len(rows['rooflens'])} rows, the same in all three" if not faults else "DIFFERS"))
            print("".join(f"    rooflens and {fault}\n" for fault in faults[:3]), end="")
            wrong += bool(faults) or not rows["rooflens"]
    print(f"{len(queries) - wrong} of {len(queries)} agree")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
