#!/usr/bin/env python3
"""The queries of templates/queries in four engines over one lake: DuckDB, polars, DataFusion and Spark.

    pip install duckdb polars datafusion pyspark      # Spark needs a Java runtime
    tests/reference/lake.py LAKE

LAKE is a folder of `rooflens lake add`. Spark has two workers, processes of their own. Says for each query how many rows
each engine gives and in what CPU time, and exits with 1 if any two differ.
"""

import glob
import math
import os
import pathlib
import sys
import tempfile

import datafusion
import duckdb
import polars
import pyspark.sql

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Engines:
    """Each engine with the tables of a lake."""

    def __init__(self, lake, aside):
        self.duckdb = duckdb.connect(config={"threads": 2})
        self.polars = polars.SQLContext()
        self.datafusion = datafusion.SessionContext()
        spark = pyspark.sql.SparkSession.builder.master("local-cluster[2,1,1024]")
        spark = spark.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 2)
        self.spark = spark.config("spark.sql.parquet.mergeSchema", "true").getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        tables = {pathlib.Path(path).stem for path in glob.glob(f"{lake}/month=*/*/*.parquet")}
        for table in sorted(tables):
            files = sorted(glob.glob(f"{lake}/month=*/*/{table}.parquet"))
            self.duckdb.execute(f"create view {table} as select * from read_parquet({files}, union_by_name = true)")
            self.polars.register(table, polars.scan_parquet(files))
            self.spark.read.parquet(*map(os.path.abspath, files)).createOrReplaceTempView(table)
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
            "Spark": lambda: [tuple(row) for row in self.spark.sql(sql).collect()],
        }
        for name, ask in asked.items():
            before = cpu()
            rows = ask()
            yield name, rows, cpu() - before


def cpu():
    """CPU seconds of this process and of those below it that run: Spark has a process of its own."""
    ticks, children = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            # The name of a program, in parentheses, may hold spaces.
            fields = pathlib.Path(path).read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.split("/")[2])
        ticks[number] = int(fields[11]) + int(fields[12])
        children.setdefault(int(fields[1]), []).append(number)
    numbers = [os.getpid()]
    for number in numbers:
        numbers.extend(children.get(number, []))
    return sum(ticks[number] for number in numbers) / os.sysconf("SC_CLK_TCK")


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
