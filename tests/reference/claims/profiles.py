"""Findings about passes of Nsight Compute, derived from its tables (raw page or details page) by itself.

Of a report (`.ncu-rep`) the table is the one that ncu itself wrote of it, looked for in `ncu_csv_exported` next to `ncu_rep`.
Definitions: docs/methodology.md, *Profiled kernels and rooflines*.
"""

import collections
import csv
import pathlib
import re

SECONDS = {"second": 1e9, "s": 1e9, "msecond": 1e6, "ms": 1e6, "usecond": 1e3, "us": 1e3, "nsecond": 1, "ns": 1, "": 1}
FIGURES = {"compute": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput"),
           "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"),
           "l2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 Cache Throughput"),
           "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1/TEX Cache Throughput")}
DURATION = ("gpu__time_duration.sum", "Duration")
INSTRUCTION = re.compile(r"smsp__sass_thread_inst_executed_op_([fdh])(add|mul|fma)_pred_on\.sum")
THREAD_INSTRUCTIONS = "smsp__thread_inst_executed.sum"


def number(text):
    text = (text or "").replace(",", "")
    return float(text) if re.fullmatch(r"-?\d+(\.\d*)?(e[+-]?\d+)?", text) else None


class Profile:
    """Launches as dictionaries of figures."""

    def __init__(self, files):
        self.launches = collections.defaultdict(dict)
        for table in (table for file in files for table in self.tables(pathlib.Path(file))):
            with open(table, encoding="utf-8", errors="replace", newline="") as file:
                rows = list(csv.reader(line for line in file if not line.startswith("==")))
            (self.details if "Metric Name" in rows[0] else self.raw)(rows[0], rows[1:])

    def tables(self, path):
        if path.suffix == ".csv":
            return [path]
        found = [path.parents[2] / "ncu_csv_exported" / path.parent.name / f"{path.stem}.{page}.csv"
                 for page in ("details", "raw")]
        return [one for one in found if one.exists()]

    def raw(self, names, rows):
        units = rows[0]
        for row in rows[1:] if not units[0] else rows:
            launch = self.launches[row[0]]
            for name, unit, text in zip(names, units, row):
                value = number(text)
                if value is not None:
                    launch[name] = value * (SECONDS.get(unit, 1) if name == DURATION[0] else 1)

    def details(self, names, rows):
        for row in (dict(zip(names, row)) for row in rows):
            launch, value = self.launches[row["ID"]], number(row["Metric Value"])
            if value is not None and row["Metric Name"] not in launch:
                launch[row["Metric Name"]] = value * (SECONDS.get(row["Metric Unit"], 1)
                                                      if row["Metric Name"] == DURATION[1] else 1)

    def figure(self, launch, names):
        return next((launch[name] for name in names if name in launch), None)

    def duration(self, launch):
        return self.figure(launch, DURATION)


def bound(work, launch):
    """The bound class of a launch."""
    figures = {one: work.figure(launch, names) for one, names in FIGURES.items()}
    if any(value is None for value in figures.values()):
        return "unknown"
    compute = figures.pop("compute")
    if max(compute, *figures.values()) < 60:
        return "latency-bound"
    if compute - max(figures.values()) >= 10:
        flops = [value * (2 if match[2] == "fma" else 1) for name, value in launch.items()
                 if (match := INSTRUCTION.fullmatch(name))]
        instructions = launch.get(THREAD_INSTRUCTIONS)
        few = instructions and flops and sum(flops) / instructions < 0.25
        return "instruction-bound" if few else "compute-bound"
    if max(figures.values()) - compute >= 10:
        return next(level for level in ("dram", "l2", "l1") if figures[level] >= max(figures.values()) - 5).upper() + "-bound"
    return "balanced"


def profiled_bound(work):
    times = collections.Counter()
    for launch in work.launches.values():
        times[bound(work, launch)] += work.duration(launch) or 0
    name, most = times.most_common(1)[0]
    return dict(share=most / times.total(), class_text=name)


PROFILED = {
    "profiled-bound": (
        r"(?P<share>\S+ %) of profiled time in pass .+? is (?P<class_text>\S+); without a timeline, its share of the run is "
        r"unknown\.", profiled_bound),
}
