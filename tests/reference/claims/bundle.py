"""An input of a report: a file, or a bundle with the raw artifact of each of its passes."""

import json
import math
import pathlib
import statistics
import subprocess
import tomllib

from instances import Pass, projection
from profiles import Profile

ARTIFACTS = {"timeline": ("*.sqlite",), "operators": ("*.pt.trace.json",), "counters": ("*.ncu-rep", "*.raw.csv")}


class Input:
    def __init__(self, path, folder):
        self.path, self.folder = pathlib.Path(path), pathlib.Path(folder)
        self.is_bundle, self.works, self.files = self.path.is_dir(), {}, {}
        self.workload, self.kinds, self.baseline = {}, {}, {}
        if not self.is_bundle:
            return
        manifest = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        self.kinds = {one["id"]: one["kind"] for one in manifest["passes"]}
        workload = self.path / "workload.toml"
        if workload.exists():
            self.workload = tomllib.loads(workload.read_text(encoding="utf-8"))
        timings = self.path / "baseline/timings.json"
        if timings.exists():
            told = json.loads(timings.read_text(encoding="utf-8"))
            # Older files name the stages in their keys, with the number of new tokens.
            self.baseline = told.get("stages") or {"prefill": {"ms": told["prefill_ms"]},
                                                   "decode": {"ms": told["decode_ms"], "steps": told["new"]}}

    def raw(self, name):
        """The raw files of a pass, without their compression."""
        if not self.is_bundle:
            return [self.path]
        if name not in self.files:
            patterns = ARTIFACTS.get(self.kinds.get(name), ())
            found = [file for pattern in patterns for suffix in ("", ".zst")
                     for file in sorted((self.path / name).glob(pattern + suffix))]
            self.files[name] = [self.unpacked(file) for file in found]
        return self.files[name]

    def unpacked(self, file):
        if file.suffix != ".zst":
            return file
        target = self.folder / "-".join(file.relative_to(self.path).with_suffix("").parts)
        if not target.exists():
            subprocess.run(["zstd", "-dqf", file, "-o", target], check=True)
        return target

    def work(self, name):
        """What a pass holds."""
        if name not in self.works:
            files = self.raw(name)
            is_profile = files[0].suffix in (".csv", ".ncu-rep")
            self.works[name] = work = Profile(files) if is_profile else Pass(str(files[0]))
            if not is_profile:
                of_pass = self.workload.get("passes", {}).get(name, {})
                work.warmup = of_pass.get("warmup", self.workload.get("warmup", 0))
                work.source = self
        return self.works[name]

    def passes(self, kind):
        return [name for name, own in self.kinds.items() if own == kind and self.raw(name)]

    def unprofiled(self, stage):
        """Typical time of the unprofiled repeats of a stage, and their steps."""
        if stage not in self.baseline:
            return None, None
        return typical(self.repeats(stage)), self.baseline[stage].get("steps")

    def settle(self, work):
        """Leaves of each stage the settled repeats, if its iterations settle, too, and keeps the slow ones before."""
        for stage, own in self.baseline.items():
            processes, at = sorted(work.instances(stage)), settling(own["ms"])
            spans = [projection(one) for one in work.counted(stage, processes[0])] if at and len(processes) == 1 else []
            if settling([end - start for start, end in spans]):
                own["before"], own["ms"] = own["ms"][:at], own["ms"][at:]

    def repeats(self, stage):
        """Nanoseconds of the unprofiled repeats of a stage."""
        return [ms * 1e6 for ms in self.baseline[stage]["ms"]]


def settling(times):
    """The number of slow times before lower ones, by least squared deviations of two sides of three or more; else none."""
    def deviations(own):
        mean = statistics.fmean(own)
        return sum((one - mean) ** 2 for one in own)

    at = min(range(3, len(times) - 2), key=lambda at: deviations(times[:at]) + deviations(times[at:]), default=None)
    if at is None:
        return None
    before, after = ([own[0], *statistics.quantiles(own, n=10, method="inclusive"), own[-1]]
                     for own in (sorted(times[:at]), sorted(times[at:])))
    gap, scatter = before[1] - after[9], before[9] - before[1] + after[9] - after[1]
    return at if gap > max(0.15 * statistics.median(times), scatter) else None


def levels(times):
    """The two levels of ten or more times, sorted: none if they lie at one."""
    times = sorted(times)
    fifth = math.ceil(len(times) / 5)
    gaps = [(times[at] - times[at - 1], at) for at in range(fifth, len(times) - fifth + 1)] if len(times) >= 10 else [(0, 0)]
    gap, at = max(gaps)
    return (times[:at], times[at:]) if gap > 0.15 * statistics.median(times) else None


def typical(times):
    """The median of times; of those at two levels the mean of their medians, each by its number."""
    two = levels(times)
    return sum(statistics.median(level) * len(level) for level in two) / len(times) if two else statistics.median(times)
