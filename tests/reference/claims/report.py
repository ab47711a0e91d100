"""What a report says: its data sets, and the statements of its findings with all digits of their numbers."""

import json
import pathlib
import subprocess

NARROW_SPACE = "\u202f"
UNITS = {"nanoseconds": "ns", "bytes": "B", "one": "", "hertz": "Hz", "watts": "W"}


def read(rooflens, path, folder):
    out = pathlib.Path(folder) / "report.json"
    out.unlink(missing_ok=True)
    subprocess.run([rooflens, "report", str(path), "-o", str(out)], capture_output=True)
    return json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


def dataset(report, name):
    for one in report["datasets"]:
        if one["id"] == name:
            columns = [column["id"] for column in one["columns"]]
            return [dict(zip(columns, row)) for row in one["rows"]]
    return []


def findings(report):
    """The rows of the data set `findings`, each with all digits of its statement where a section has it, else with three, and its
    action."""
    exact = {}
    for finding in [*blocks(report["sections"]), *blocks(report["appendix"])]:
        scope = finding["scope"]
        action = (finding["root"] or {}).get("action")
        exact.setdefault((finding["id"], scope.get("stage"), scope.get("rank")), []).append((finding["statement"], action))
    for row in dataset(report, "findings"):
        found = exact.get((row["rule"], row["stage"], row["rank"] and int(row["rank"])), [])
        row["is_exact"], row["named"] = bool(found), None
        if found:
            statement, row["named"] = found.pop(0)
            row["statement"] = text(statement)
        row["statement"] = row["statement"].replace(NARROW_SPACE, "")
        yield row


def blocks(value):
    if isinstance(value, dict):
        if isinstance(value.get("finding"), dict) and value["finding"].get("statement"):
            yield value["finding"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from blocks(one)


def text(parts):
    out = ""
    for part in parts:
        if "quantity" in part:
            value, unit = part["quantity"]["value"], part["quantity"]["unit"]
            if unit == "ratio":
                out += f"{value * 100!r} %"
            elif unit == "count":
                out += f"{value:g}" if value == int(value) else repr(value)
            else:
                out += f"{value!r} {UNITS.get(unit, unit)}".rstrip()
        else:
            out += next(iter(part.values()))
    return out
