"""Rules about GEMMs of known sizes at measured or specified rates, derived from operators and timelines.

Definitions: docs/methodology.md, *GEMMs, attention, FLOPs by source*, and the pages of the rules below. A GEMM of the timeline has the
size of the operator that launches the GEMM at the same place of an iteration with the same GEMMs in a PyTorch trace; else that of all
operators that launch its kernel on its grid, if these agree; else that of the model's dimensions.
"""

import collections
import itertools
import json
import math
import re
import sqlite3

from kernel_names import class_of, is_fp32_without_tensor_cores, is_tf32_product
from limits import signature
from line import Line
from model import model_of
from operators import BANDWIDTH, RATES, Launch, bytes_of, gpu_name, operators_around
from parts import details

FLOOR = 2_000
# Adds up what a GEMM with split K has computed: part of that GEMM.
REDUCES = "splitKreduce"
Size = collections.namedtuple("Size", "text flops bytes dtype rows columns depth batch width")
# A further kernel of an operator.
PART = Size("part", 0, 0, "", 0, 0, 0, 0, 0)
Kind = collections.namedtuple("Kind", "size kernel grid block")
# An SM of Hopper: registers, their unit, bytes of shared memory, those of the system for each block, threads, blocks.
REGISTERS, REGISTER_UNIT, SHARED, RESERVED, THREADS, BLOCKS, SMS = 65_536, 256, 233_472, 1_024, 2_048, 32, 132
ALIGNED, FAR, EXCEEDS, LONGEST = 16, 1.5, 1.02, 100_000


def size(rows, columns, depth, batch, dtype, width, moved):
    text = " × ".join(map(str, (*([batch] if batch > 1 else []), rows, columns, depth)))
    return Size(text, 2 * batch * rows * columns * depth, moved, dtype, rows, columns, depth, batch, width)


def size_of(launch):
    product = launch.product()
    if product is None:
        return None
    left, right, depth, number = product
    columns = right.dims[-1]
    batch = left.dims[0] if len(left.dims) > 2 else 1
    moved = bytes_of(left) + bytes_of(right) + number * left.size
    return size(number // columns // batch, columns, depth, batch, left.dtype, left.size, moved)


def gemms_in(work, ops):
    """The GEMMs among operations: those that reduce what others split belong to the one before."""
    return [op for op in ops if not op.copy and class_of(details(work, op)) == "gemm" and REDUCES not in details(work, op)["name"]]


def key_of(work, op):
    own = details(work, op)
    return signature(own["name"]), own["grid"]


class Sizes:
    """Sizes of the GEMMs of a bundle."""

    def __init__(self, work):
        self.work, self.by_key, self.by_row, self.recorded = work, collections.defaultdict(set), {}, []
        for name in work.source.passes("operators"):
            other = work.source.work(name)
            other.stages = other.stages or work.stages
            sizes, calls = {}, set()
            for op in gemms_in(other, other.capture.ops):
                own = details(other, op)
                launch = Launch(op, 0, own, None, operators_around(other, op))
                call = launch.call and (launch.call.thread, launch.call.start)
                sizes[op.rank] = PART if call in calls else size_of(launch)
                calls |= {call} if call else set()
                if sizes[op.rank] is PART:
                    continue
                self.by_key[key_of(other, op)].add(sizes[op.rank])
                self.recorded.append(((own["name"], (op.rank, op.end - op.start)), sizes[op.rank]))
            for stage in work.stages:
                for instances in other.instances(stage).values():
                    for one in instances:
                        ops = gemms_in(other, one.ops)
                        row = stage, tuple(key_of(other, op) for op in ops)
                        found = tuple(sizes[op.rank] for op in ops)
                        # Rows that do not agree say nothing.
                        self.by_row[row] = found if self.by_row.get(row, found) == found else None

    def of(self, stage, one):
        """Each GEMM of an instance with its size or none."""
        ops = gemms_in(self.work, one.ops)
        keys = tuple(key_of(self.work, op) for op in ops)
        if (stage, keys) in self.by_row and self.by_row[stage, keys] is None:
            raise LookupError("a row of GEMMs of several sizes")
        found = self.by_row.get((stage, keys)) or [next(iter(own)) if len(own := self.by_key.get(key, ())) == 1 else None for key in keys]
        if not any(found):
            found = self.of_model(stage, ops)
        elif any(len(self.by_key.get(key, ())) != 1 and size is None for key, size in zip(keys, found)) and len(self.by_key) > 1:
            raise LookupError("a GEMM kernel of several sizes")
        return zip(ops, found)

    def of_model(self, stage, ops):
        """Seven GEMMs of each layer and one of the head, in each pass through the model."""
        model, workload = model_of(self.work.source), self.work.source.workload
        each = 7 * model.layers + 1 if model else 0
        # Positions are multiplied in FP32.
        own = [not is_fp32_without_tensor_cores(details(self.work, op)) for op in ops]
        if not each or sum(own) % each or model.patches or stage not in ("prefill", "forward", "decode", "decode_step"):
            return [None] * len(ops)
        rows, inner = workload["batch"] * (1 if "decode" in stage else workload["prompt_tokens"]), model.inner
        wide, narrow, hidden = model.heads * model.size, model.keys // 2, model.hidden
        layer = [(wide, hidden), (narrow, hidden), (narrow, hidden), (hidden, wide), (inner, hidden), (inner, hidden), (hidden, inner)]
        found = [(rows, *own) for own in layer * model.layers] + [(rows if stage == "forward" else workload["batch"], model.head // hidden, hidden)]
        sizes = [size(m, n, k, 1, workload["dtype"], 2, 2 * (m * n + m * k + n * k)) for m, n, k in found]
        following = itertools.cycle(sizes)
        return [next(following) if is_own else None for is_own in own]


class Group:
    """Launches of a GEMM of a size by a kernel on a grid, over all counted instances of a stage."""

    def __init__(self):
        self.time = self.launches = 0


def sizes_of(work):
    if not hasattr(work, "sizes"):
        work.sizes = Sizes(work)
    return work.sizes


def groups_of(work, stage, process):
    """The GEMMs of a stage: those of known sizes by kind, the time of all operations, and the number of instances."""
    groups, whole, counted = collections.defaultdict(Group), 0, work.counted(stage, process)
    for one in counted:
        known = {op.rank: size for op, size in sizes_of(work).of(stage, one)}
        last = None
        for op in one.ops:
            own = details(work, op)
            whole += op.end - op.start
            if op.rank in known and known[op.rank] is PART:
                if last:
                    last.time += op.end - op.start
            elif op.rank in known and known[op.rank]:
                last = groups[Kind(known[op.rank], own["name"], own["grid"], own["block"])]
                last.launches += 1
                last.time += op.end - op.start
            elif op.rank in known:
                last = None
            elif REDUCES in (own["name"] or "") and last:
                last.time += op.end - op.start
    return groups, whole, len(counted)


def rate_of(kind):
    """The name of the rate at which a kernel multiplies: of FP32 without tensor cores, unless it is one of TF32."""
    if kind.size.dtype != "fp32":
        return kind.size.dtype
    return "fp32" if is_tf32_product({"name": kind.kernel, "kind": "KERNEL"}) else "simt fp32"


def measured_of(work):
    """FLOP a second by type, and bytes a second of a copy, as measured on this GPU."""
    file = work.source.path / "snapshot/peaks.json" if work.source.is_bundle else None
    told = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    rates = {{"tf32": "fp32", "fp32": "simt fp32"}.get(name, name): own["tflops"] * 1e12 for name, own in told.get("matmul", {}).items()}
    return rates | ({"copy": told["copy"]["gb_per_s_read_plus_write"] * 1e9} if "copy" in told else {})


def launches_of(work):
    """Times of the launches of each size by each kernel in each pass."""
    times = collections.defaultdict(list)
    for op, size in sizes_of(work).recorded:
        times["operators", op[0], size].append(op[1])
    for stage in work.stages:
        for instances in work.instances(stage).values():
            for one in instances:
                for op, size in sizes_of(work).of(stage, one) if one.ops else ():
                    # Nested stages have the same operations.
                    times["timeline", details(work, op)["name"], size].append((op.rank, op.end - op.start))
    return {key: [time for _, time in set(own)] for key, own in times.items() if key[2] not in (None, PART)}


def reached_of(work):
    """What GEMMs reach by type and in bytes: the highest mean of a kernel and size, and the most of a launch. Caches hold what
    short launches move."""
    reached, most = collections.Counter(), collections.Counter()
    for (_, kernel, size), times in launches_of(work).items():
        works = [(rate_of(Kind(size, kernel, (), ())), size.flops)] if sum(times) >= LONGEST else []
        works += [("copy", size.bytes)] if min(times) >= LONGEST else []
        for name, amount in works:
            reached[name] = max(reached[name], amount / (sum(times) / len(times)) * 1e9)
            most[name] = max(most[name], amount / min(times) * 1e9)
    return reached, most


def rates_of(work):
    """The specified rates, or those measured that no GEMM exceeds by more than noise."""
    if not hasattr(work, "rates"):
        bandwidth = next(rate for gpu, rate in BANDWIDTH.items() if gpu in gpu_name(work))
        measured, (reached, most) = measured_of(work), reached_of(work)
        kept = {name: max(rate, most[name]) for name, rate in measured.items() if reached[name] < rate * EXCEEDS}
        work.rates = RATES | {"copy": bandwidth} | kept
    return work.rates


def floor_of(work):
    kernels = (op.end - op.start for op in work.capture.ops if not op.copy and class_of(details(work, op)) in ("gemm", "attention"))
    return min(min(kernels), FLOOR)


def bounds(work, kind):
    """Times of computing and of moving."""
    rates = rates_of(work)
    return kind.size.flops / rates[rate_of(kind)] * 1e9, kind.size.bytes / rates["copy"] * 1e9


def rooflines(work, kinds):
    floor = floor_of(work)
    return {kind: max(*bounds(work, kind), floor) for kind in kinds}


def recoverable(work, stage, process):
    """Time of GEMMs of known sizes above their roofline time, of an iteration."""
    groups, _, instances = groups_of(work, stage, process)
    roofs = rooflines(work, groups)
    by_size = [group.time - roofs[kind] * group.launches for kind, group in groups.items()]
    return sum(max(own, 0) for own in by_size) / instances


def alignment(kind):
    """Length and bytes of the rows that are aligned least: of operands by the layout in the name, else those of N and K."""
    own, layout = kind.size, re.search(r"_([nt])([nt])(?:_|$)", kind.kernel)
    lengths = [own.columns, own.depth]
    if layout:
        # Column-major operands: the first one has rows of N, the second one of K, unless transposed.
        lengths = [own.columns if layout[1] == "n" else own.depth, own.depth if layout[2] == "n" else own.rows, own.columns]
    return min(((next(size for size in (16, 8, 4, 2, 1) if length * own.width % size == 0), length) for length in lengths), key=lambda one: one[0])


def is_unaligned(kind):
    return alignment(kind)[0] < ALIGNED


def blocks_per_sm(work, kind):
    if not hasattr(work, "resources"):
        work.resources = {}
        with sqlite3.connect(f"file:{work.capture.path}?mode=ro", uri=True) as db:
            rows = db.execute("select s.value, gridX, gridY, gridZ, max(registersPerThread), max(staticSharedMemory + dynamicSharedMemory) "
                              "from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName group by 1, 2, 3, 4")
            for name, *grid, registers, shared in rows:
                work.resources[name, tuple(grid)] = registers, shared
    registers, shared = work.resources[kind.kernel, kind.grid]
    threads = math.prod(kind.block)
    of_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    return max(min(REGISTERS // (of_warp * -(-threads // 32)) if registers else BLOCKS, SHARED // (shared + RESERVED), THREADS // threads, BLOCKS), 1)


def tiles_of(work, kind):
    """Tile and wave efficiency, and waves, of the orientation that fits the grid."""
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"(?<!\d)(\d+)x(\d+)", re.sub(r"^\D*sm\d+", "", kind.kernel))]
    own, at_once, tile = kind.size, SMS * blocks_per_sm(work, kind), pairs[0]
    cluster = pairs[2] if "nvjet" in kind.kernel and len(pairs) > 2 else (1, 1)
    grid, found = math.prod(kind.grid), []
    for rows, columns in (tile, tile[::-1]):
        down, across = -(-own.rows // rows), -(-own.columns // columns)
        # Clusters round grids up.
        rounded = {-(-down // one) * one * -(-across // other) * other * own.batch for one, other in (cluster, cluster[::-1])}
        found.append((grid in rounded, own.rows * own.columns / (down * rows * across * columns), down * across * own.batch))
    _, efficiency, tiles = max(found)
    # Another number of blocks is a split of unknown kind.
    if "splitK" not in kind.kernel and "nvjet" not in kind.kernel and grid != tiles:
        return None
    parts = max(grid // tiles, 1) if "splitK" in kind.kernel else 1
    waves = tiles * parts / at_once
    return efficiency, waves / math.ceil(waves), waves


def gemm_bandwidth(work, stage, process, found):
    groups, _, instances = groups_of(work, stage, process)
    roofs, floor, line = rooflines(work, groups), floor_of(work), Line(work, stage, process)
    own = [kind for kind in groups if bounds(work, kind)[1] > bounds(work, kind)[0]]
    time, moving = sum(groups[kind].time for kind in own), sum(bounds(work, kind)[1] * groups[kind].launches for kind in own)
    roof = sum(roofs[kind] * groups[kind].launches for kind in own)
    lost, worst = worst_of(groups, roofs, own, instances)
    return dict(share=time / instances / line.operation_time, reached_share=moving / time, roofline_share=roof / time, floor=floor, **worst,
                waves=tiles_of(work, worst["kind"])[2] if "nvjet" in worst["kind"].kernel else None, gain=line.saving_kernels(lost))


def worst_of(groups, roofs, own, instances):
    """What GEMMs lose of an iteration, and the size with the largest loss."""
    lost, times, limits, kinds = collections.Counter(), collections.Counter(), collections.Counter(), {}
    for kind in own:
        beyond = max(groups[kind].time - roofs[kind] * groups[kind].launches, 0)
        lost[kind.size, kind.kernel] += beyond
        times[kind.size, kind.kernel] += groups[kind].time
        limits[kind.size, kind.kernel] += roofs[kind] * groups[kind].launches
        kinds[kind.size, kind.kernel] = kind
    key = max(lost, key=lost.get)
    return lost.total() / instances, dict(worst_text=key[0].text, kernel_text=key[1], now=times[key] / instances,
                                          roof=limits[key] / instances, kind=kinds[key])


def of_whole(work, line):
    """What shares of a stage are of: its time, or that of its operations."""
    return line.time if re.search("of (its )?stage time", work.statement) else line.operation_time


def gemm_roofline(work, stage, process, found):
    """Compute-bound GEMMs with aligned rows that take far longer than their roofline time."""
    groups, _, instances = groups_of(work, stage, process)
    roofs, line = rooflines(work, groups), Line(work, stage, process)
    own = [kind for kind, group in groups.items() if bounds(work, kind)[0] >= bounds(work, kind)[1] and not is_unaligned(kind)
           and group.time >= FAR * roofs[kind] * group.launches]
    time, roof = sum(groups[kind].time for kind in own), sum(roofs[kind] * groups[kind].launches for kind in own)
    lost, worst = worst_of(groups, roofs, own, instances)
    return dict(time=time / instances, share=time / instances / of_whole(work, line), roof_of_all=roof / instances, **worst,
                waves=(tiles_of(work, worst["kind"]) or (None,) * 3)[2], gain=line.saving_kernels(lost))


def gemm_quantization(work, stage, process, found):
    groups, _, instances = groups_of(work, stage, process)
    roofs, line, lost, tiles = rooflines(work, groups), Line(work, stage, process), {}, {}
    for kind, group in groups.items():
        tiles[kind] = tiles_of(work, kind) if bounds(work, kind)[0] >= bounds(work, kind)[1] else None
        if tiles[kind]:
            roof = roofs[kind] * group.launches
            lost[kind] = min(roof * (1 / (tiles[kind][0] * tiles[kind][1]) - 1), max(group.time - roof, 0)) / instances
    worst, time = max(lost, key=lost.get), sum(lost.values())
    return dict(lost=time, share=time / of_whole(work, line), worst_text=worst.size.text, kernel_text=worst.kernel, tile_share=tiles[worst][0],
                wave_share=tiles[worst][1], gain=line.saving_kernels(time))


def gemm_alignment(work, stage, process, found):
    groups, _, instances = groups_of(work, stage, process)
    roofs, line = rooflines(work, groups), Line(work, stage, process)
    own = [kind for kind in groups if is_unaligned(kind)]
    worst = max(own, key=lambda kind: groups[kind].time)
    lost = sum(max(groups[kind].time - roofs[kind] * groups[kind].launches, 0) for kind in own)
    aligned, length = alignment(worst)
    time = sum(groups[kind].time for kind in own) / instances
    return dict(share=time / of_whole(work, line), worst_text=worst.size.text, kernel_text=worst.kernel, length=length,
                aligned=aligned, gain=line.saving_kernels(lost / instances))


def utilization_basis(work, stage, process, found):
    """A measured rate that GEMMs exceed."""
    match = re.search(r"(?:flop_per_second in (\S+), more|bytes_per_second, more)", work.statement)
    name = {"tf32": "fp32", "fp32": "simt fp32"}.get(match[1], match[1]) if match[1] else "copy"
    return dict(reached=reached_of(work)[0][name], measured=measured_of(work)[name])


WORST = r"(?P<worst_text>.+?) \((?P<kernel_text>.+?)\)"
PRODUCTS = {
    "gemm-bandwidth": (
        r"GEMMs of low arithmetic intensity in .+? \((?P<share>\S+ %) of its GPU time\) reach (?P<reached_share>\S+ %) of the (?:specified|measured) memory "
        r"bandwidth(?:, and (?P<roofline_share>\S+ %) of their roofline time, which counts no launch below the launch floor of "
        r"(?P<floor>\S+ \S+))?\. The largest loss is " + WORST + r": (?P<now>\S+ \S+) per iteration "
        r"against (?P<roof>\S+ \S+) roofline time(?:; its grid fills (?P<waves>\S+) waves)?\.", gemm_bandwidth),
    "gemm-roofline": (
        r"Compute-bound GEMMs far slower than the roofline take (?P<time>\S+ \S+) per iteration of .+? \((?P<share>\S+ %) of its (?:GPU|stage) "
        r"time\); their roofline time at the \S+ rate is (?P<roof_of_all>\S+ \S+)\. The largest loss is " + WORST
        + r": (?P<now>\S+ \S+) against (?P<roof>\S+ \S+?)(?:, (?P<waves>\S+) waves)?\..*", gemm_roofline),
    "gemm-quantization": (
        r"Partial tiles and waves account for an estimated (?P<lost>\S+ \S+) per iteration of .+?, (?P<share>\S+ %) of its (?:GPU|stage) time\. "
        r"The largest part is " + WORST + r": tile efficiency (?P<tile_share>\S+ %), wave efficiency (?P<wave_share>\S+ %)\.",
        gemm_quantization),
    "gemm-alignment": (
        r"GEMMs with rows not aligned to 16 bytes take (?P<share>\S+ %) of (?:its )?(?:GPU|stage) time in .+?; the longest-running is " + WORST
        + r", whose rows of (?P<length>\S+) elements are aligned to (?P<aligned>\S+ \S+)\.", gemm_alignment),
    "utilization-basis": (
        r"GEMMs of this run reach (?P<reached>\S+ \S+)(?: in \S+)?, more than the measured peak of (?P<measured>\S+ \S+)\. .+",
        utilization_basis)}
