#!/usr/bin/env python3
"""The queries of templates/queries in three engines over one lake: DuckDB, polars and DataFusion.

    pip install duckdb polars datafusion
    tests/reference/lake.py LAKE

LAKE is a folder of `rooflens lake add`. Says for each query how many rows each engine gives and in what CPU time, and
exits with 1 if any two differ.
"""

import glob
import math
import os
import pathlib
import resource
import sys
import tempfile

import datafusion
import duckdb
import polars

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Engines:
    """Each engine with the tables of a lake."""

    def __init__(self, lake, aside):
        self.duckdb = duckdb.connect(config={"threads": 2})
        self.polars = polars.SQLContext()
        self.datafusion = datafusion.SessionContext()
        tables = {pathlib.Path(path).stem for path in glob.glob(f"{lake}/month=*/*/*.parquet")}
        for table in sorted(tables):
            files = sorted(glob.glob(f"{lake}/month=*/*/{table}.parquet"))
            self.duckdb.execute(f"create view {table} as select * from read_parquet({files}, union_by_name = true)")
            self.polars.register(table, polars.scan_parquet(files))
            # DataFusion for Python takes one folder a table.
            folder = pathlib.Path(aside, table)
            folder.mkdir()
            for number, path in enumerate(files):
                os.symlink(os.path.abspath(path), folder / f"{number}.parquet")
            self.datafusion.register_parquet(table, f"{folder}/")

    def answers(self, sql):
        """Name, rows and CPU seconds of each engine."""

        def of_datafusion():
            batches = self.datafusion.sql(sql).collect()
            return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

        asked = {
            "DuckDB": lambda: self.duckdb.execute(sql).fetchall(),
            "polars": lambda: self.polars.execute(sql).collect(engine="streaming").rows(),
            "DataFusion": of_datafusion,
        }
        for name, ask in asked.items():
            before = cpu()
            rows = ask()
            yield name, rows, cpu() - before


def cpu():
    """CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def same(one, other):
    """Numbers agree to nine digits: engines add in different orders."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def equal(one, other):
    """Whether two answers have the same rows in the same order."""
    if len(one) != len(other):
        return False
    return all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(one, other))


def main():
    differ = 0
    with tempfile.TemporaryDirectory() as aside:
        engines = Engines(sys.argv[1], aside)
        for path in sorted((ROOT / "templates/queries").glob("*.sql")):
            answers = list(engines.answers(path.read_text().strip().rstrip(";")))
            first = answers[0][1]
            agree = all(equal(first, rows) for _, rows, _ in answers)
            differ += not agree
            times = ", ".join(f"{name} {len(rows)} rows in {seconds:.2f} CPU s" for name, rows, seconds in answers)
            print(f"{path.stem}: {'equal' if agree else 'DIFFERENT'}: {times}")
    sys.exit(differ > 0)


main()
