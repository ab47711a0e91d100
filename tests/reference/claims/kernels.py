"""Rules about kernels of a stage by their names alone, derived from the timeline.

Definitions: docs/findings/growing-cache.md and the pages of the other rules below.
"""

import collections
import itertools
import math
import re

from kernel_names import class_of
from line import Line
from operators import RATES, Roof, gpu_name
from parts import details

PATTERNS = {"growing-cache": r"CatArray", "gathered-cache": r"vectorized_gather_kernel|indexSelect", "sorted-sums": r"indexing_backward_kernel",
            "depthwise-filters": r"conv_depthwise.*generic", "prime-ffts": r"bluestein_fft",
            "permutations": r"randperm|RadixSort|random_from_to|arange", "row-sampling": r"renormRowsL1",
            "value-sorts": r"RadixSort.*?policy_hub<(float|double|__half|__nv_bfloat16|c10::)|fill_reverse_indices|fill_index_and_segment|sort_postprocess",
            "double-kernels": r"\bdouble\b|f64"}
# A copy of a flag of a tensor's own comparison: `x != x`, and one flag of all elements.
COMPARES, REDUCES = re.compile(r"BinaryFunctor<.*Compare(Eq|NE)Functor"), re.compile(r"or_kernel_cuda")


class Named:
    """The kernels of the counted instances of a stage that a name tells, as a share of the GPU time of the stage."""

    def __init__(self, work, stage, process, wanted):
        self.line = Line(work, stage, process)
        times, self.number, self.groups, self.products = collections.Counter(), 0, collections.Counter(), 0
        for one in self.line.counted:
            for op in one.ops:
                own = details(work, op)
                times[bool(wanted(op, own))] += op.end - op.start
                if wanted(op, own):
                    self.number += 1
                    self.groups[own["name"]] += op.end - op.start
                    self.products += (op.end - op.start) * (class_of(own) in ("gemm", "convolution"))
        self.share = times[True] / times.total()
        self.time = self.share * self.line.operation_time
        self.of_products = self.products / times.total() * self.line.operation_time
        self.per_iteration = round(self.number / len(self.line.counted))

    def derived(self, gain):
        return dict(kernels=self.per_iteration, time=self.time, share=self.share, kernel_text=self.groups.most_common(1)[0][0], gain=gain)


def by_name(rule):
    def derivation(work, stage, process, found):
        own = Named(work, stage, process, lambda op, one: not op.copy and re.search(PATTERNS[rule], one["name"] or ""))
        saved = own.time
        if rule == "double-kernels":
            # FP32 has half of the bytes; of products the rate decides.
            saved = (own.time - own.of_products) / 2 + own.of_products * (1 - RATES["fp64"] / RATES["fp32"])
        return own.derived(own.line.saving_kernels(saved))
    return derivation


def nan_checks(work, stage, process, found):
    """Comparisons of two tensors with a reduction to a flag next on their stream."""
    line, checks = Line(work, stage, process), set()
    for one in line.counted:
        streams = collections.defaultdict(list)
        for op in one.ops:
            if not op.copy:
                streams[op.gpu, details(work, op)["stream"]].append(op)
        for own in streams.values():
            for op, after in zip(own, own[1:]):
                if COMPARES.search(details(work, op)["name"] or "") and REDUCES.search(details(work, after)["name"] or ""):
                    checks |= {op.rank, after.rank}
    own, idle = Named(work, stage, process, lambda op, one: op.rank in checks), max(line.reference - line.busy, 0)
    return dict(checks=round(own.number / 2 / len(line.counted)), time=own.time, idle=idle, gain=line.saving(own.time + idle))


def streams_of(work, line):
    """Launches of each counted instance with their details, by stream."""
    for one in line.counted:
        streams = collections.defaultdict(list)
        for op in sorted(one.ops, key=lambda op: op.start):
            if not op.copy:
                streams[op.gpu, details(work, op)["stream"]].append((op, details(work, op)))
        for _, launches in sorted(streams.items()):
            yield launches


def threads(own):
    return math.prod(own["grid"]) * math.prod(own["block"])


def constant_masks(work, launches):
    for (fill, of_fill), (op, own) in zip(launches, launches[1:]):
        if "FillFunctor" in of_fill["name"] and "triu_tril_kernel" in own["name"] and threads(own) // 8 <= threads(of_fill) <= threads(own):
            yield from (fill.rank, op.rank)


def packed_attention(work, launches):
    pairs = re.compile(r"(?<!ized_)(?<!rolled_)elementwise_kernel<.*BinaryFunctor<(long|int), \1, bool.*CompareEqFunctor")
    ids = [(op, own) for op, own in launches if pairs.search(own["name"])]
    sizes = {threads(own) for _, own in ids}
    masks = [place for place, (_, own) in enumerate(launches) if "where_kernel_impl" in own["name"] and threads(own) in sizes]
    attention = [place for place, (_, own) in enumerate(launches) if class_of(own) == "attention"]
    forward = [place for place in attention if re.search(r"fprop|fwd|fmha_cutlassF", launches[place][1]["name"])]
    if ids and all({place - 1, place - 2} & set(masks) for place in forward):
        yield from (op.rank for op, _ in ids)
        yield from (launches[place][0].rank for place in masks + attention)


def one_hot_selection(work, launches):
    names = [own["name"] for _, own in launches]
    for at, (op, own) in enumerate(launches):
        places = range(at + 1, min(at + 9, len(launches)))
        scatter = next((place for place in places if "scatter_fill" in names[place]), None)
        if "FillFunctor<long>" not in names[at] or scatter is None:
            continue
        product = next((place for place in places if place > scatter and "MulFunctor" in names[place]
                        and threads(own) // 2 <= threads(launches[place][1]) <= 8 * threads(own)), None)
        total = product and next((place for place in places if place > product and "sum_functor" in names[place]), None)
        if total:
            yield from (op.rank, launches[total][0].rank)
            yield from (other.rank for place, (other, same) in enumerate(launches[at:], at)
                        if names[place] == names[product] and threads(same) == threads(launches[product][1]))


def early_upsampling(work, launches):
    for (_, before), (first, own), (second, gemm), (third, after) in zip(launches, launches[1:], launches[2:], launches[3:]):
        size = 2 if re.search(r"BFloat16|Half", own["name"]) else 4
        if re.search(r"upsample_.*nhwc_out_frame", own["name"]) and class_of(gemm) == "gemm" \
                and class_of(before) == class_of(after) == "elementwise" and 8 * threads(before) <= threads(own) \
                and 32 * threads(after) <= threads(own) and second.end - second.start >= threads(own) * size / Roof(gpu_name(work)).bandwidth * 1e9:
            yield from (first.rank, second.rank, third.rank)


def pool_windows(work, launches):
    """Max poolings that take 32 times as long as memory needs for 16 bytes per result."""
    for op, own in launches:
        least = 16 * threads(own) / Roof(gpu_name(work)).bandwidth * 1e9
        if "max_pool_forward_nchw" in own["name"] and op.end - op.start >= 32 * least:
            yield op.rank


def copied_cache(work, launches):
    """Copies that are larger for each token, and attention up to four kernels after one."""
    sizes = [threads(own) if "direct_copy_kernel" in own["name"] else 0 for _, own in launches]
    large = [size and 2 * size >= max(sizes) for size in sizes]
    steps = [size for size, _ in itertools.groupby(size for size, is_large in zip(sizes, large) if is_large)]
    growing = sum(before < after for before, after in zip(steps, steps[1:]))
    if len(steps) >= 8 and growing >= 0.9 * (len(steps) - 1):
        for at, (op, own) in enumerate(launches):
            if large[at] or class_of(own) == "attention" and any(large[max(at - 4, 0):at]):
                yield op.rank


def by_growth(work, stage, process, found):
    line = Line(work, stage, process)
    ranks = set(copied_cache(work, [launch for launches in streams_of(work, line) for launch in launches]))
    own = Named(work, stage, process, lambda op, one: op.rank in ranks)
    return own.derived(own.line.saving_kernels(own.time))


def decode_rows(work, stage, process, found):
    """GEMMs of 50 µs and more on average."""
    line, times = Line(work, stage, process), collections.defaultdict(list)
    for one in line.counted:
        for op in one.ops:
            if not op.copy and class_of(details(work, op)) == "gemm":
                times[details(work, op)["name"]].append(op.end - op.start)
    long = {name for name, own in times.items() if sum(own) >= 50_000 * len(own)}
    own = Named(work, stage, process, lambda op, one: not op.copy and one["name"] in long)
    return own.derived(own.line.saving_kernels(own.time))


def by_order(marked):
    def derivation(work, stage, process, found):
        line = Line(work, stage, process)
        ranks = {rank for launches in streams_of(work, line) for rank in marked(work, launches)}
        own = Named(work, stage, process, lambda op, one: op.rank in ranks)
        return own.derived(own.line.saving_kernels(own.time))
    return derivation


HEAD = r".+? runs (?P<kernel_text>.+?)(?: \(torch\.cat\))? (?P<kernels>\S+) times? per iteration: (?P<time>\S+ \S+), (?P<share>\S+ %) of its GPU time\. "
KERNELS = {rule: (HEAD + rest, by_name(rule)) for rule, rest in {
    "growing-cache": r"A KV cache that grows .+", "gathered-cache": r"A beam search .+", "sorted-sums": r"The kernel adds .+", "depthwise-filters": r"PyTorch computes .+",
    "prime-ffts": r"cuFFT uses .+", "row-sampling": r"torch\.multinomial .+"}.items()} | {
    "permutations": (r".+? runs (?P<kernels>\S+) kernels of torch\.randperm per iteration, by their names: (?P<time>\S+ \S+), "
                     r"(?P<share>\S+ %) of its GPU time; the largest is (?P<kernel_text>.+?)\. torch\.randperm .+", by_name("permutations")),
    "value-sorts": (r".+? sorts floating-point values with (?P<kernels>\S+) kernels? per iteration, by their names: (?P<time>\S+ \S+), "
                    r"(?P<share>\S+ %) of its GPU time; the largest is (?P<kernel_text>.+?)\. torch\.sort.+", by_name("value-sorts")),
    "copied-cache": (r".+? copies a tensor that grows .+? reads them are (?P<kernels>\S+) kernels? per iteration: (?P<time>\S+ \S+), "
                     r"(?P<share>\S+ %) of its GPU time; the largest is (?P<kernel_text>.+?)\.", by_growth),
    "decode-rows": (r".+? runs (?P<kernels>\S+) long GEMMs? per iteration: (?P<time>\S+ \S+), (?P<share>\S+ %) of its GPU time; "
                    r"the largest is (?P<kernel_text>.+?)\. Per token .+", decode_rows),
    "pool-windows": (HEAD + r"It takes far longer .+", by_order(pool_windows)),
    "constant-masks": (r".+? runs (?P<kernels>\S+) kernels per iteration that fill .+? does: (?P<time>\S+ \S+), (?P<share>\S+ %) of its "
                       r"GPU time; the largest is (?P<kernel_text>.+?)\. The triangle .+", by_order(constant_masks)),
    "packed-attention": (r".+? compares ids .+?: (?P<kernels>\S+) kernels per iteration, (?P<time>\S+ \S+), (?P<share>\S+ %) of its "
                         r"GPU time; the largest is (?P<kernel_text>.+?)\. Attention .+", by_order(packed_attention)),
    "one-hot-selection": (r".+? fills one-hot .+?: (?P<kernels>\S+) kernels per iteration, (?P<time>\S+ \S+), (?P<share>\S+ %) of its "
                          r"GPU time; the largest is (?P<kernel_text>.+?)\. The selected .+", by_order(one_hot_selection)),
    "early-upsampling": (r".+? upsamples .+?: (?P<kernels>\S+) kernels per iteration, (?P<time>\S+ \S+), (?P<share>\S+ %) of its "
                         r"GPU time; the largest is (?P<kernel_text>.+?)\. A 1×1 .+", by_order(early_upsampling)),
    "double-kernels": (r".+? runs (?P<kernels>\S+) FP64 kernels per iteration, by their names: (?P<time>\S+ \S+), (?P<share>\S+ %) of "
                       r"its GPU time; the largest is (?P<kernel_text>.+)\.", by_name("double-kernels")),
    "nan-checks": (r".+? compares results with themselves and reduces them to a flag (?P<checks>\S+) times per iteration, as .+?\. The "
                   r"kernels take (?P<time>\S+ \S+); the GPU is idle for (?P<idle>\S+ \S+) of an iteration: .+", nan_checks)}
