"""Findings about ranks that wait for each other, by the collectives of two ranks in one export.

Definitions: docs/methodology.md, *Communication*; docs/findings/straggler.md.
"""

import csv

from communication import Run, middle, samples, speeds
from power import power_limit


def run_of(work):
    if not hasattr(work, "ranks"):
        work.ranks = Run([work.capture.path])
    return work.ranks


def figures_of(work, stage, process):
    """The times of a rank in a stage: medians of its iterations."""
    rank, number = sorted(work.instances(stage)).index(process), len(work.counted(stage, process))
    return middle(run_of(work).stages(rank)[stage][-number:])


def waiting(work, stage, process):
    """The part of exposed communication in which a rank may wait for the last one to arrive."""
    own = figures_of(work, stage, process)
    return min(own["wait"] / own["exposed"], 1)


def straggler(work, stage, process, found):
    processes = sorted(work.instances(stage))
    own, fastest = (figures_of(work, stage, one)["compute"] for one in (process, *(one for one in processes if one != process)))
    told = dict(time=own, least=fastest, longer_share=own / fastest - 1, gain=own - fastest)
    if "take" not in work.statement.split("collectives wait for it.")[1]:
        return told
    path = next(path for path in (work.source.path / "nsys/nvml.csv", work.source.path / "nsys/nvml.csv.zst") if path.exists())
    path = work.source.unpacked(path)
    ratios, clocks = next((ratio, clocks) for name, ratio, clocks in speeds(run_of(work).ranks, samples(path, work.capture.path))
                          if name == stage)
    at = processes.index(process)
    (clock, capped, count), (other, other_capped, other_count) = clocks[at], clocks[1 - at]
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    watts = [max(float(row["power_mw"]) for row in rows if int(row["gpu"]) == gpu) / 1e3 for gpu in (at, 1 - at)]
    return told | dict(slowdown=ratios[at], clock=clock * 1e6, other_clock=other * 1e6, clock_share=(other / clock - 1) / (ratios[at] - 1),
                       watts=watts[0], other_watts=watts[1], limit=power_limit(work.source.path / "snapshot", at),
                       capped_share=capped / count, other_capped_share=other_capped / other_count)


RANKS = {"straggler": (
    r"In .+?, rank \S+ computes for (?P<time>\S+ \S+) per iteration against (?P<least>\S+ \S+) on rank \S+ \(\+(?P<longer_share>\S+ %)\)"
    r"(?:, the fastest of \S+ ranks)?; collectives wait for it\.(?: Its kernels are the same but take (?P<slowdown>\S+)× as long, at a mean "
    r"SM clock of (?P<clock>\S+ \S+) \((?P<other_clock>\S+ \S+) on the fastest rank\); the clock accounts for (?P<clock_share>\S+ %) of the "
    r"slowdown\.(?: Its sampled power reaches (?P<watts>\S+ \S+) against (?P<other_watts>\S+ \S+) there \(limit (?P<limit>\S+ \S+)\)\.)?"
    r"(?: \S+ was set in (?P<capped_share>\S+ %) of its samples, and in (?P<other_capped_share>\S+ %) of those of the fastest rank.+)?)?"
    r"(?: Its GEMMs have (?P<more_share>\S+ %) more FLOPs: .+)?", straggler)}
