"""The rate that copies from and to pinned memory reach, or that the link between host and GPU has at most: of the machine, else of its GPU."""

import gzip
import json
import re
import sqlite3

from idle import rows

LARGE = 1 << 20
# Bytes per second and lane by PCIe generation, from transfers per second and the line code.
LANE = [2.5e9 * 0.8 / 8, 5e9 * 0.8 / 8, 8e9 * 128 / 130 / 8, 16e9 * 128 / 130 / 8, 32e9 * 128 / 130 / 8, 64e9 * 242 / 256 / 8]
KINDS = {"HtoD": (1, "srcKind"), "DtoH": (2, "dstKind")}
PINNED = 1
# By major compute capability: Pascal, Volta and Turing, Ampere and Ada, Hopper, Blackwell.
GENERATIONS = {6: 3, 7: 3, 8: 4, 9: 5, 10: 5, 12: 5}


def pinned_rate(source, direction):
    """Bytes per second of the fastest large copy in this direction with pinned memory, in any pass; else of the link."""
    rates = [rate for name in source.passes("timeline") + source.passes("operators")
             for rate in rates_of(source.raw(name)[0], direction)]
    return max(rates, default=None) or link(source.path) or lanes_of(source)


def lanes_of(source):
    """16 lanes of the PCIe generation that GPUs of this compute capability have."""
    for name in source.passes("timeline") + source.passes("operators") if source.is_bundle else [None]:
        generation = GENERATIONS.get(compute_major(source.raw(name)[0]))
        if generation:
            return LANE[generation - 1] * 16
    return None


def compute_major(path):
    path = str(path)
    if ".json" in path:
        opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")
        with opened as file:
            devices = json.load(file).get("deviceProperties") or [{}]
        return devices[0].get("computeMajor")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        found = next(iter(rows(db, "TARGET_INFO_GPU", ["computeMajor"])), None)
    return found and found[0]


def rates_of(path, direction):
    if ".json" in str(path):
        opened = gzip.open(path, "rt", encoding="utf-8") if str(path).endswith(".gz") else open(path, encoding="utf-8")
        with opened as file:
            events = json.load(file)["traceEvents"]
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
    if not bundle.is_dir():
        return None
    snapshot = bundle / "snapshot/env.json"
    text = snapshot.read_text(encoding="utf-8") if snapshot.exists() else ""
    stated = [set(re.findall(rf'"key": "{key}",\s*"value": "(\d+)x?"', text))
              for key in ("pcie_generation_max", "pcie_lanes_max")]
    if any(len(values) != 1 for values in stated):
        return None
    generation, lanes = (int(values.pop()) for values in stated)
    return LANE[generation - 1] * lanes
