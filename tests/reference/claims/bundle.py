"""An input of a report: a file, or a bundle with the raw artifact of each of its passes."""

import collections
import json
import math
import pathlib
import statistics
import subprocess
import tomllib

from instances import Pass, length
from profiles import Profile

SIZES, CLOSE = ("batch", "tokens", "keys", "steps"), 1.05
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
        return self.typical(stage), self.baseline[stage].get("steps")

    def settle(self, work):
        """Leaves of each stage the settled repeats, if its iterations settle, too, and keeps the slow ones before. Iterations at two
        levels weigh those of fewer repeats."""
        for stage, own in self.baseline.items():
            processes = sorted(work.instances(stage))
            counted, every = ((work.counted(stage, processes[0]), work.instances(stage)[processes[0]]) if len(processes) == 1 else ([], []))
            times, at = [length(one) for one in counted], settling(own["ms"])
            if at and settling([length(one) for one in every if one.ops]):
                own["before"], own["ms"] = own["ms"][:at], own["ms"][at:]
                own |= {name: sizes[at:] for name, sizes in own.items() if name in SIZES and isinstance(sizes, list)}
            if len(times) > len(own["ms"]) and levels(times):
                own["mix"] = [len(level) for level in levels(times)]

    def sizes(self, stage):
        """Of each repeat the sizes that are known; the keys of one token do not matter."""
        own = self.baseline[stage]
        lists = {name: own[name] if isinstance(own[name], list) else [own[name]] * len(own["ms"]) for name in SIZES if name in own}
        found = [{name: sizes[at] for name, sizes in lists.items()} for at in range(len(own["ms"]))]
        return [tuple(size for name, size in one.items() if name != "keys" or one.get("tokens") != 1) for one in found]

    def outliers(self, stage):
        """Repeats far from the median of those of their sizes: number, time, median, number of these, modified z-score."""
        times, groups = [round(time) for time in self.repeats(stage)], collections.defaultdict(list)
        for at, sizes in enumerate(self.sizes(stage)):
            groups[sizes].append(at)
        for group in groups.values():
            median = statistics.median(times[at] for at in group)
            spread = statistics.median(abs(times[at] - median) for at in group)
            for at in group if spread and len(group) >= 3 else []:
                score = 0.6745 * (times[at] - median) / spread
                if abs(score) > 3.5 and abs(times[at] - median) >= 0.05 * median:
                    yield at, times[at], median, len(group), score

    def beyond_levels(self, stage):
        """What outliers take beyond the level of their size, where the two levels are those of two sizes."""
        if self.levels(stage) is None or len(set(self.sizes(stage))) == 1:
            return 0
        return sum(abs(time - median) for _, time, median, *_ in self.outliers(stage))

    def levels(self, stage):
        """The two levels of repeats of at most two sizes, or of sizes so close that they explain none."""
        sizes = [math.prod(one) for one in self.sizes(stage)]
        is_alike = len(set(self.sizes(stage))) <= 2 or max(sizes) <= CLOSE * min(sizes)
        return levels(self.repeats(stage)) if is_alike and "before" not in self.baseline[stage] else None

    def typical(self, stage):
        """The median of repeats; of those at two levels the mean of their medians, each by its number."""
        two = self.levels(stage)
        if two is None:
            return statistics.median(self.repeats(stage))
        numbers = self.baseline[stage].get("mix") or [len(level) for level in two]
        return sum(statistics.median(level) * number for level, number in zip(two, numbers)) / sum(numbers)

    def repeats(self, stage):
        """Nanoseconds of the unprofiled repeats of a stage."""
        return [ms * 1e6 for ms in self.baseline[stage]["ms"]]

    def all_repeats(self, stage):
        """The same with those before they settle."""
        return [ms * 1e6 for ms in self.baseline[stage].get("before", [])] + self.repeats(stage)


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
