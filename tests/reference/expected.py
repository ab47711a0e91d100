"""Figures of the fixtures that a reference derived: `tests/data/expected/BUNDLE.json`, by reference.

`tests/fixtures/expected.rs` compares each of them with that of Rooflens. A reference without arguments derives its part from
the raw files of the fixtures and writes it. No reference reads what Rooflens wrote. Unpacks with `zstd`.
"""

import contextlib
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def metric(name, value, unit, tolerance=None, **scope):
    """A metric of exactly this scope; a relative tolerance is given where another order of sums is allowed."""
    return {"metric": name, "scope": scope, **entry(value, unit, tolerance)}


def cell(dataset, column, value, unit, tolerance=None, **row):
    """The sum of a column over the rows in which other columns have these values."""
    return {"dataset": dataset, "column": column, "row": row, **entry(value, unit, tolerance)}


def entry(value, unit, tolerance):
    return {"value": value, "unit": unit} | ({"tolerance": tolerance} if tolerance else {})


@contextlib.contextmanager
def unpacked(bundle, path):
    """The path of a raw file of a fixture without its compression."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / pathlib.Path(path).name
        source = ROOT / "fixtures" / bundle / f"{path}.zst"
        subprocess.run(["zstd", "-dq", source, "-o", target], check=True)
        yield str(target)


def write(reference, bundle, figures):
    """Replaces the part of a reference, one line for each figure."""
    path = ROOT / "tests/data/expected" / f"{bundle}.json"
    parts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    parts[pathlib.Path(reference).name] = figures
    texts = []
    for name, part in sorted(parts.items()):
        lines = ",\n".join("    " + json.dumps(figure, ensure_ascii=False) for figure in part)
        texts.append(f"  {json.dumps(name)}: [\n{lines}\n  ]")
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(figures)} figures")
