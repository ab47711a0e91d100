#!/usr/bin/env python3
"""Makes an SQLite export of Nsight Systems from its Parquet export: parquetdir.py FOLDER OUT.sqlite

`nsys export --type parquetdir` writes a file a table into a folder, with the columns of the SQLite export.
Where the report is at hand, `nsys export --type sqlite` is shorter. Needs pyarrow.
"""

import pathlib
import sqlite3
import sys

from pyarrow import parquet


def main(folder, out):
    database = sqlite3.connect(out)
    for path in sorted(pathlib.Path(folder).glob("*.parquet")):
        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        columns = ", ".join(f'"{name}"' for name in names)
        database.execute(f'CREATE TABLE "{path.stem}" ({columns})')
        insert = f'INSERT INTO "{path.stem}" VALUES ({", ".join("?" * len(names))})'
        for batch in file.iter_batches():
            database.executemany(insert, zip(*(column.to_pylist() for column in batch.columns)))
    database.commit()


main(*sys.argv[1:])
