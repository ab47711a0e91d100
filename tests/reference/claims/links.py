"""The rate that copies from and to pinned memory reach, or that the link between host and GPU has at most."""

import json
import re
import sqlite3

LARGE = 1 << 20
# Bytes per second and lane by PCIe generation, from transfers per second and the line code.
LANE = [2.5e9 * 0.8 / 8, 5e9 * 0.8 / 8, 8e9 * 128 / 130 / 8, 16e9 * 128 / 130 / 8, 32e9 * 128 / 130 / 8, 64e9 * 242 / 256 / 8]
KINDS = {"HtoD": (1, "srcKind"), "DtoH": (2, "dstKind")}
PINNED = 1


def pinned_rate(source, direction):
    """Bytes per second of the fastest large copy in this direction with pinned memory, in any pass; else of the link."""
    rates = [rate for name in source.passes("timeline") + source.passes("operators")
             for rate in rates_of(source.raw(name)[0], direction)]
    return max(rates, default=link(source.path))


def rates_of(path, direction):
    if str(path).endswith(".json"):
        events = json.loads(open(path, encoding="utf-8").read())["traceEvents"]
        copies = [event for event in events if event.get("cat") == "gpu_memcpy" and direction in event["name"]
                  and "Pinned" in event["name"]]
        return [one["args"]["bytes"] / one["dur"] * 1e6 for one in copies if one["args"]["bytes"] >= LARGE and one["dur"]]
    kind, memory = KINDS[direction]
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        if not db.execute("select 1 from sqlite_master where name = 'CUPTI_ACTIVITY_KIND_MEMCPY'").fetchone():
            return []
        query = f"select bytes * 1e9 / (end - start) from CUPTI_ACTIVITY_KIND_MEMCPY where copyKind = ? and {memory} = ? " \
                "and bytes >= ? and end > start"
        return [rate for rate, in db.execute(query, (kind, PINNED, LARGE))]


def link(bundle):
    """The one PCIe link that the snapshot states."""
    snapshot = bundle / "snapshot/env.json"
    text = snapshot.read_text(encoding="utf-8") if snapshot.exists() else ""
    stated = [set(re.findall(rf'"key": "{key}",\s*"value": "(\d+)x?"', text))
              for key in ("pcie_generation_max", "pcie_lanes_max")]
    if any(len(values) != 1 for values in stated):
        return None
    generation, lanes = (int(values.pop()) for values in stated)
    return LANE[generation - 1] * lanes
