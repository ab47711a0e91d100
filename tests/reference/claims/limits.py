"""Rules about the limits of kernels, derived from timelines and the counters of Nsight Compute.

Definitions: docs/findings/small-grids.md and the pages of the other rules below. A limit is the time of a kernel in the
timeline × the largest utilization that remains without the fault.
"""

import collections
import csv
import functools
import re
import sqlite3
import statistics

from idle import rows
from kernel_names import class_of
from line import Line
from ncu_rep import launches
from parts import details

THREADS, BLOCKS, SHORTEST, LONG, SOUND, NOTABLE = 2048, 32, 2_000, 10_000, 0.7, 0.02
BUSY, USED, WAITS = 0.6, 0.3, 0.5
FIGURES = ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
           "lts__throughput.avg.pct_of_peak_sustained_elapsed", "l1tex__throughput.avg.pct_of_peak_sustained_active")
STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
LIBRARIES = re.compile(r"at::native|at_cuda_detail|cudnn|cublas|nccl|nvjet|xmma|^sm\d\d_|fmha|flash|cutlass_\d|nchw|convolve")
OPERATIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
# The same order as the table of rules decides between equal limits.
FAULTS = ("local-memory", "bank-conflicts", "uncoalesced-access", "contended-atomics", "divergent-branches", "cache-traffic",
          "double-precision", "small-grids", "low-occupancy", "wave-tail")


def blocks(extents):
    return extents[0] * extents[1] * extents[2]


@functools.cache
def signature(name):
    """A name without what tools spell differently, and without its parameters."""
    name = re.sub(r"\(anonymous namespace\)|<unnamed>|\((int|bool|long|unsigned \w+|[\w:]+_MODE)\)|\bvoid\b|\bconst\b|\s", "", name)
    name = re.sub(r"\b(\d+)(ul?)\b", r"\1", name.replace("true", "1").replace("false", "0"))
    name, depth = re.sub(r"(\w*::)+", "", name), 0
    for at in range(len(name) - 1, 0, -1) if name.endswith(")") else ():
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at]
    return name


class Profile:
    """A profiled launch."""

    def __init__(self, launch):
        self.metrics, self.grid, self.block = launch["metrics"], launch["grid"], launch["block"]
        names = [launch[name] for name in ("demangled", "function", "mangled") if launch.get(name)]
        # The function is a name without types.
        self.names = {signature(name) for name in (names if len(names) < 3 else names[::2])}
        self.duration = self.metrics.get("gpu__time_duration.sum", 0)
        # L1 is counted over the time in which SMs are active: of a grid of one block that is a part of them.
        active, elapsed = (self.metrics.get(name) for name in ("sm__cycles_active.avg", "gpc__cycles_elapsed.max"))
        units = [self.metrics.get(name) for name in FIGURES]
        units[3] = units[3] * active / elapsed if units[3] is not None and active is not None and elapsed else None
        self.is_known = units[0] is not None and any(one is not None for one in units[1:])
        self.compute, self.dram, self.l2, self.l1 = (min(max((one or 0) / 100, 0), 1) for one in units)
        self.memory = max(self.dram, self.l2, self.l1)
        self.busiest = max(self.memory, self.compute)
        states = {match[1]: value for name, value in self.metrics.items() if (match := STALLED.fullmatch(name))}
        self.states = {name: value / sum(states.values()) for name, value in states.items()} if any(states.values()) else {}

    def count(self, *names):
        return sum(self.metrics.get(name, 0) for name in names)

    def waits(self, *names):
        return sum(self.states.get(name, 0) for name in names) >= WAITS

    def waits_for_memory(self):
        return self.memory >= BUSY or self.waits("long_scoreboard", "lg_throttle") and self.memory >= USED

    def accesses(self):
        """Requests and sectors of global memory, and the sectors that the used bytes need."""
        requests = sectors = needed = 0
        for kind in ("ld", "st"):
            own = self.count(f"l1tex__t_requests_pipe_lsu_mem_global_op_{kind}.sum")
            moved = self.count(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum")
            used = self.metrics.get(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}.ratio") or 32
            requests, sectors = requests + own, sectors + moved
            needed += min(max(moved * used / 32, own), moved)
        return requests, sectors, needed

    def dram_for(self, sectors):
        """Use of DRAM if no more than these sectors moved; what fits the L2 cache need not."""
        moved = self.metrics.get("dram__bytes.sum") or self.metrics.get("dram__bytes.sum.per_second", 0) * self.duration / 1e9
        if not moved:
            return 0
        needed = min(sectors * 32, moved)
        return 0 if needed <= self.metrics.get("device__attribute_l2_cache_size", 0) else self.dram * needed / moved


    def l2_for(self, sectors, needed):
        """Use of L2 by sectors if no more than those that are needed passed it."""
        used, hits = (self.metrics.get(name, 0) / 100 for name in
                      ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "l1tex__t_sector_hit_rate.pct"))
        return used * min(needed / max(sectors * (1 - hits), 1), 1)


class Group:
    """The launches of a kernel, grid and block in a stage."""

    def __init__(self, name, grid, block, ops):
        self.name, self.grid, self.block, self.number = name, grid, block, len(ops)
        self.times = [op.end - op.start for op in ops]
        self.time = sum(self.times)

    def faults(self, profile, gpu, has_roof):
        """By rule the figure that shows it, and the least time without it ÷ time."""
        own, kind = {}, class_of({"name": self.name, "kind": "KERNEL"})
        tuned = kind in ("gemm", "convolution", "attention")
        mean = self.time / self.number
        filled = blocks(self.grid) / (gpu.sms * min(max(THREADS // max(blocks(self.block), 1), 1), BLOCKS))
        shortest = gpu.shortest / mean
        if profile is None:
            if blocks(self.grid) / gpu.sms < 0.5:
                own["small-grids"] = blocks(self.grid) / gpu.sms, max(filled, shortest)
        elif profile.is_known:
            own = self.by_counters(profile, gpu, tuned, filled, shortest)
        if kind == "communication" or tuned and profile is None or kind == "gemm" and has_roof:
            own.pop("small-grids", None)
        if mean < LONG:
            own.pop("small-grids", None)
            own.pop("wave-tail", None)
        limits = {rule: (figure, max(rest, shortest)) for rule, (figure, rest) in own.items()}
        return sorted(((rest, FAULTS.index(rule), rule, figure) for rule, (figure, rest) in limits.items() if rest < SOUND))

    def by_counters(self, profile, gpu, tuned, filled, shortest):
        own, is_own = {}, not LIBRARIES.search(self.name)
        requests, sectors, needed = profile.accesses()
        waves = profile.metrics.get("launch__waves_per_multiprocessor", 0) * blocks(self.grid) / blocks(profile.grid)
        latency_bound = profile.busiest < BUSY
        if not tuned and is_own:
            local = profile.count("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
            if local and local / (local + sectors) >= 0.2 and profile.waits_for_memory():
                own["local-memory"] = local / (local + sectors), profile.dram_for(sectors)
            conflicts, waved = (profile.count(*(f"{name}_mem_shared_op_{kind}.sum" for kind in ("ld", "st"))) for name in
                                ("l1tex__data_bank_conflicts_pipe_lsu", "l1tex__data_pipe_lsu_wavefronts"))
            if waved and conflicts / waved >= 0.3 and (profile.l1 >= BUSY or profile.waits("short_scoreboard", "mio_throttle")):
                own["bank-conflicts"] = conflicts / waved, max(profile.l1 * (1 - conflicts / waved), profile.l2, profile.dram,
                                                               profile.compute)
            active = profile.count("smsp__thread_inst_executed_per_inst_executed.ratio") / 32
            if 0 < active <= 0.5 and profile.compute >= BUSY:
                own["divergent-branches"] = active, max(profile.compute * active, profile.dram, profile.l2)
        if not tuned and (is_own or not re.search("nchwToNhwc|nhwcToNchw|copy|transpose|Cat", self.name)) and sectors:
            useful = needed / sectors
            if useful <= 0.5 and profile.memory >= BUSY or useful <= 0.25 and profile.waits_for_memory():
                own["uncoalesced-access"] = useful, max(profile.l2_for(sectors, needed), profile.dram_for(needed), profile.compute)
        hits = profile.metrics.get("lts__t_sector_hit_rate.pct", 0) / 100
        tensor = any(value for name, value in profile.metrics.items() if name.startswith("sm__ops_path_tensor_"))
        if is_own and tensor and profile.l2 >= BUSY and max(profile.compute, profile.dram) <= profile.l2 / 2 and hits >= 0.75:
            own["cache-traffic"] = hits, max(profile.compute, profile.dram)
        atomics = profile.count("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
                                "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum")
        slice_ = profile.metrics.get("lts__throughput.max.pct_of_peak_sustained_elapsed")
        are_few = waves >= 0.5 if slice_ is None else slice_ / 100 >= 4 * profile.l2
        if (not tuned and atomics and atomics / (atomics + requests) >= 0.1 and latency_bound and are_few
                and profile.waits("long_scoreboard", "lg_throttle", "drain", "membar")):
            own["contended-atomics"] = atomics / (atomics + requests), profile.dram_for(needed)
        limits = {name: profile.metrics.get(f"launch__occupancy_limit_{name}", 99) for name in
                  ("registers", "shared_mem", "warps", "blocks", "barriers")}
        theoretical = profile.metrics.get("sm__maximum_warps_per_active_cycle_pct", 100) / 100
        limiters = [name for name, limit in limits.items() if limit == min(limits.values())]
        if (not tuned and latency_bound and theoretical <= 0.5 and waves >= 0.5
                and {"registers", "shared_mem"} & set(limiters)):
            own["low-occupancy"] = theoretical, profile.busiest
            self.limiter = ", ".join(limiters).replace("shared_mem", "shared memory")
        if 0 < waves < 0.5 and latency_bound:
            own["small-grids"] = waves, max(profile.compute, profile.dram_for(sectors), min(filled, waves), shortest)
        flops = {kind: sum(profile.metrics.get(OPERATIONS.format(kind + one), 0) * (2 if one == "fma" else 1)
                           for one in ("add", "mul", "fma")) for kind in "dfh"}
        tensor = {name: value for name, value in profile.metrics.items() if "ops_path_tensor_src" in name and value > 0
                  and name.endswith(".sum")}
        doubles = max(flops, key=flops.get) == "d" if any(flops.values()) and not tensor else "double" in self.name
        if doubles or any("fp64" in name for name in tensor):
            by_rate = profile.compute >= profile.memory and flops["d"] > 0 and not tensor
            own["double-precision"] = 1, min(0.5, gpu.fp64) if by_rate else 0.5
        if waves > 1 and (profile.memory < BUSY or profile.compute >= profile.memory):
            own["wave-tail"] = waves, waves / -(-waves // 1)
        return own


class Gpu:
    def __init__(self, work):
        kernels = [op.end - op.start for op in work.capture.ops if not op.copy]
        self.shortest = min(min(kernels), SHORTEST)
        with sqlite3.connect(f"file:{work.capture.path}?mode=ro", uri=True) as db:
            self.sms = min(count for (count,) in rows(db, "TARGET_INFO_GPU", ["smCount"]))
        # Hopper: fp64 at half of the rate of fp32.
        self.fp64 = 0.5


def profiles(work):
    """The profiled launches of all passes with counters."""
    if not hasattr(work, "profiles"):
        work.profiles = [own for name in work.source.passes("counters") for own in profiles_of(work.source, name)]
    return work.profiles


def profiles_of(source, name):
    """The profiled launches of a pass."""
    found = [launch for file in source.raw(name) for launch in (launches(file) if file.suffix == ".ncu-rep" else table(file))]
    return [Profile(launch) for launch in found]


def table(path):
    """The launches of the raw page that ncu wrote."""
    scale = {"second": 1e9, "s": 1e9, "msecond": 1e6, "ms": 1e6, "usecond": 1e3, "us": 1e3}
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        names, units, *rows_ = csv.reader(line for line in file if not line.startswith("=="))
    for row in rows_:
        metrics = {}
        for name, unit, text in zip(names, units, row):
            try:
                factor = {"Ghz": 1e9, "Mhz": 1e6}.get(unit, scale.get(unit, 1) if name == "gpu__time_duration.sum" else 1)
                metrics[name] = float(text.replace(",", "")) * factor
            except ValueError:
                pass
        own = dict(zip(names, row))
        grid, block = (tuple(int(part) for part in re.findall(r"\d+", own[name])) for name in ("Grid Size", "Block Size"))
        yield dict(metrics=metrics, function=own["Kernel Name"], grid=grid, block=block)


def nearest(work, group):
    """The profiled launch of the kernel, grid and block whose duration is nearest to the timeline's; else of the kernel and
    block on another grid of at most four times as many blocks or a quarter."""
    kind = class_of({"name": group.name, "kind": "KERNEL"})
    tuned = kind in ("gemm", "convolution", "attention")
    median = statistics.median(group.times)
    own = [one for one in profiles(work) if signature(group.name) in one.names and one.block == group.block
           and not (tuned and not 2 / 3 <= one.duration / median <= 1.5)]
    same = [one for one in own if one.grid == group.grid]
    scaled = [one for one in own if not tuned and 0.25 <= blocks(one.grid) / blocks(group.grid) <= 4]
    return min(same or scaled, key=lambda one: abs(one.duration - median), default=None)


def faulty(work, stage, process):
    """Of each notable group of launches its faults, and the time of all operations of the stage."""
    ops = collections.defaultdict(list)
    whole = 0
    for one in work.counted(stage, process):
        for op in one.ops:
            own = details(work, op)
            whole += op.end - op.start
            if not op.copy:
                ops[own["name"], own["grid"], own["block"]].append(op)
    gpu = Gpu(work)
    groups = [Group(*key, own) for key, own in ops.items()]
    has_roof = bool(work.source.passes("operators"))
    return [(group, group.faults(nearest(work, group), gpu, has_roof)) for group in groups if group.time >= whole * NOTABLE], whole


def useful_share(profile):
    """Sectors that coalesced accesses need ÷ sectors moved."""
    _, sectors, needed = profile.accesses() if profile else (0, 0, 0)
    return needed / sectors if sectors else None


def limit(rule):
    def derivation(work, stage, process, found):
        groups, whole = faulty(work, stage, process)
        own = [(group, faults[0]) for group, faults in groups if faults and faults[0][2] == rule]
        own.sort(key=lambda one: -one[0].time * (1 - one[1][0]))
        largest, (rest, _, _, figure) = own[0]
        line, now = Line(work, stage, process), largest.time / largest.number
        lost = sum(group.time * (1 - fault[0]) for group, fault in own) / whole
        return dict(share=sum(group.time for group, _ in own) / whole, kernel_text=largest.name, others=len(own) - 1,
                    figure_share=figure, blocks=blocks(largest.grid), threads=blocks(largest.block), now=now, least=now * rest,
                    limiter_text=getattr(largest, "limiter", None), useful_share=useful_share(nearest(work, largest)), gain=line.saving_kernels(line.operation_time * lost))
    return derivation


HEAD = r" (?P<share>\S+ %) of GPU time in .+?: (?P<kernel_text>.+?)(?: and (?P<others>\S+) other kernels?)?\. "
TIMES = r"a launch(?: then)? takes at least (?P<least>\S+ \S+) instead of (?P<now>\S+ \S+)\."
LIMITS = {rule: (pattern, limit(rule)) for rule, pattern in {
    "uncoalesced-access": "Uncoalesced accesses limit" + HEAD + r"Of the sectors that .+? moves, coalesced accesses need "
                          r"(?P<figure_share>\S+ %); " + TIMES,
    "bank-conflicts": "Bank conflicts limit" + HEAD + r"Conflicts cause (?P<figure_share>\S+ %) of the shared-memory wavefronts "
                      r"of .+?; without them " + TIMES,
    "local-memory": "Local memory limits" + HEAD + r"Local memory takes (?P<figure_share>\S+ %) of the sectors that .+? moves"
                    r"(?:; the compiler spilled registers)?\. Without it " + TIMES,
    "contended-atomics": "Atomics limit" + HEAD + r"Atomics are (?P<figure_share>\S+ %) of the global memory requests of .+?, and "
                         r"no unit is busy on average, which is consistent with contention for few addresses; without them " + TIMES
                         + r"(?: Its accesses are also uncoalesced: coalesced ones need (?P<useful_share>\S+ %) of the sectors\.)?",
    "divergent-branches": "Divergent branches limit" + HEAD + r"On average, (?P<figure_share>\S+ %) of the threads of a warp are "
                          r"active in .+?; with whole warps " + TIMES,
    "cache-traffic": "L2 traffic limits" + HEAD + r".+? waits for L2, of which (?P<figure_share>\S+ %) of the sectors are hits; "
                     "with enough reuse in registers and shared memory " + TIMES,
    "double-precision": "Kernels in fp64 take" + HEAD + r"In fp32, a launch of .+? takes at least (?P<least>\S+ \S+) instead of "
                        r"(?P<now>\S+ \S+)\.",
    "small-grids": "Small grids limit" + HEAD + r".+? launches (?P<blocks>\S+) blocks? of (?P<threads>\S+) threads for "
                   r"(?P<now>\S+ \S+); a full grid takes at least (?P<least>\S+ \S+)\.",
    "low-occupancy": "Low occupancy limits" + HEAD + r"The theoretical occupancy of .+? is (?P<figure_share>\S+ %), limited by "
                     r"(?P<limiter_text>.+?); with more warps " + TIMES,
    "wave-tail": "The tail effect limits" + HEAD + r".+? launches (?P<blocks>\S+) blocks; with full waves " + TIMES}.items()}
