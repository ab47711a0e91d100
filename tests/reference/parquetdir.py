#!/usr/bin/env python3
"""Writes the Parquet export that nsys would make of the report of an SQLite export: parquetdir.py EXPORT.sqlite FOLDER [ROWS TABLE…]

With Arrow, which nsys uses; codec, version of pages and dictionaries differ from table to table. `tests/data/report_pqtdir`
has the first 300 rows of tables of `h200-graph-ranges`. Needs pyarrow.
"""

import pathlib
import sqlite3
import sys

import pyarrow
from pyarrow import parquet

CODECS = ["snappy", "zstd", "gzip", "none"]


def column(name, values):
    kinds = {type(value) for value in values if value is not None}
    if kinds != {int}:
        kind = {str: pyarrow.string(), bytes: pyarrow.binary(), float: pyarrow.float64()}
        return pyarrow.array(values, kind[kinds.pop()] if kinds else pyarrow.int64())
    least = min(value for value in values if value is not None)
    most = max(value for value in values if value is not None)
    kind = pyarrow.int32() if -1 << 31 <= least and most < 1 << 31 else pyarrow.int64()
    if 0 <= least and most < 1 << 32 and name.endswith("Id"):
        kind = pyarrow.uint32()
    return pyarrow.array(values, kind)


def main(source, folder, rows=None, *only):
    database = sqlite3.connect(source)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    for number, table in enumerate(only or tables):
        cursor = database.execute(f'SELECT * FROM "{table}"' + (f" LIMIT {rows}" if rows else ""))
        names = [name for name, *_ in cursor.description]
        columns = list(zip(*cursor)) or [[]] * len(names)
        made = pyarrow.table({name: column(name, values) for name, values in zip(names, columns)})
        parquet.write_table(made, folder / f"{table}.parquet", compression=CODECS[number % 4],
                            data_page_version=["1.0", "2.0"][number % 2], use_dictionary=number % 3 != 2,
                            row_group_size=200 if rows else None, data_page_size=512 if rows else None)


main(*sys.argv[1:])
