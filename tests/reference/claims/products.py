"""Rules about GEMMs of known sizes at specified rates, derived from operators and timelines.

Definitions: docs/findings/gemm-bandwidth.md and the pages of the other rules below. A kernel on a grid has the size of the
operator that launches it in a PyTorch trace; if it has several sizes there, nothing is derived.
"""

import collections

from kernel_names import class_of
from limits import signature
from line import Line
from operators import BANDWIDTH, RATES, Launch, bytes_of, gpu_name, operators_around
from parts import details

FLOOR = 2_000
# Adds up what a GEMM with split K has computed: part of that GEMM.
REDUCES = "splitKreduce"
Size = collections.namedtuple("Size", "text flops bytes dtype rows width")


def size_of(launch):
    product = launch.product()
    if product is None:
        return None
    left, right, depth, number = product
    columns = right.dims[-1]
    batch = left.dims[0] if len(left.dims) > 2 else 1
    rows = number // columns // batch
    text = " × ".join(map(str, (*([batch] if batch > 1 else []), rows, columns, depth)))
    return Size(text, 2 * number * depth, bytes_of(left) + bytes_of(right) + number * left.size, left.dtype, rows, left.size)


def sizes_of(source):
    """The sizes of each GEMM kernel and grid in the passes with operators."""
    found = collections.defaultdict(set)
    for name in source.passes("operators"):
        other = source.work(name)
        for op in other.capture.ops:
            own = details(other, op)
            if not op.copy and class_of(own) == "gemm" and REDUCES not in own["name"]:
                size = size_of(Launch(op, 0, own, None, operators_around(other, op)))
                if size:
                    found[signature(own["name"]), own["grid"]].add(size)
    return found


def gemms(work, stage, process):
    """Of a stage the GEMMs with one size each: their time by size and kernel; the time of all operations, and instances."""
    known, times, whole = sizes_of(work.source), collections.Counter(), 0
    counted = work.counted(stage, process)
    split = ()
    for op in (op for one in counted for op in one.ops):
        own = details(work, op)
        whole += op.end - op.start
        if REDUCES in (own["name"] or ""):
            times[split] += op.end - op.start
        elif not op.copy and class_of(own) == "gemm":
            found = known.get((signature(own["name"]), own["grid"]), ())
            if len(found) > 1:
                raise LookupError("a GEMM kernel of several sizes")
            for size in found:
                split = size, own["name"]
                times[split] += op.end - op.start
                times[size, own["name"], "launches"] += 1
    return times, whole, len(counted)


def floor_of(work):
    kernels = (op.end - op.start for op in work.capture.ops if not op.copy and class_of(details(work, op)) in ("gemm", "attention"))
    return min(min(kernels), FLOOR)


def rated(work, stage, process, is_memory_bound):
    """The GEMMs that memory or computing bounds: size, kernel, time, roofline time without and with the launch floor."""
    bandwidth = next(rate for gpu, rate in BANDWIDTH.items() if gpu in gpu_name(work))
    times, whole, instances = gemms(work, stage, process)
    floor, found = floor_of(work), []
    for key, time in times.items():
        if len(key) == 2:
            size, number = key[0], times[*key, "launches"]
            moving, computing = size.bytes / bandwidth * 1e9, size.flops / RATES[size.dtype] * 1e9
            if (moving > computing) == is_memory_bound:
                found.append((size, key[1], time, max(moving, computing) * number, max(moving, computing, floor) * number))
    return found, whole, instances, floor


def gemm_bandwidth(work, stage, process, found):
    own, whole, instances, floor = rated(work, stage, process, True)
    line = Line(work, stage, process)
    time, moving, roof = (sum(one[at] for one in own) for at in (2, 3, 4))
    worst = max(own, key=lambda one: one[2] - one[4])
    return dict(share=time / instances / line.operation_time, reached_share=moving / time, roofline_share=roof / time, floor=floor, worst_text=worst[0].text,
                kernel_text=worst[1], now=worst[2] / instances, roof=worst[4] / instances,
                gain=line.saving_kernels(sum(max(one[2] - one[4], 0) for one in own) / instances))


PRODUCTS = {"gemm-bandwidth": (
    r"GEMMs of low arithmetic intensity in .+? \((?P<share>\S+ %) of its GPU time\) reach (?P<reached_share>\S+ %) of the specified memory "
    r"bandwidth(?:, and (?P<roofline_share>\S+ %) of their roofline time, which counts no launch below the launch floor of "
    r"(?P<floor>\S+ \S+))?\. The largest loss is (?P<worst_text>.+?) \((?P<kernel_text>.+?)\): (?P<now>\S+ \S+) per iteration "
    r"against (?P<roof>\S+ \S+) roofline time(?:; its grid fills (?P<waves>\S+) waves)?\.", gemm_bandwidth)}
