"""The rule about low compute utilization, derived from the timeline: shares of kernels, and what a fusion of them leaves.

Definition: docs/findings/low-mfu.md.
"""

import collections
import math
import re

from kernel_names import class_of
from line import Line
from model import mfu
from parts import details, insert, uncovered
from products import recoverable

FUSIBLE = ("norm", "elementwise", "gather")
# Fusing moves no fewer bytes of these, and another layout alone removes the last ones; none is part of a run.
APART = re.compile(r"FillFunctor|ReduceAdd|indexing_backward_kernel|chunk_cat|split_with_sizes|nchwToNhwc|nhwcToNchw")
SCAN = "kernel_scan_"
OPTIMIZERS = re.compile(r"multi_tensor_apply|[Aa]dam|fused_optimizer")
COMPILED = re.compile(r"^triton_")


def is_fusible(op, own):
    name = own["name"] or ""
    return not op.copy and class_of(own) in FUSIBLE and not is_apart(own) and not OPTIMIZERS.search(name)


def is_apart(own):
    """A scan of one block takes as long in a fused kernel."""
    name = own["name"] or ""
    return APART.search(name) is not None or SCAN in name and math.prod(own["grid"]) == 1


def kept_by_fusion(ops, work):
    """Of each run of such kernels on a stream the shortest on all elements, which a sixteenth of the threads of the largest may show."""
    streams, kept = collections.defaultdict(list), 0
    for op in ops:
        if not op.copy:
            streams[op.gpu, details(work, op)["stream"]].append(op)
    for own in streams.values():
        run = []
        for op in [*own, None]:
            one = details(work, op) if op else None
            if op and is_apart(one):
                continue
            if op and is_fusible(op, one) and not COMPILED.search(one["name"] or ""):
                run.append((math.prod(one["grid"]) * math.prod(one["block"]), op.end - op.start))
            elif run:
                most = max(threads for threads, _ in run)
                kept += min(time for threads, time in run if 16 * threads >= most)
                run = []
    return kept


def low_mfu(work, stage, process, found):
    line = Line(work, stage, process)
    counted, updates = line.counted, work.instances("optimizer").get(process, [])
    in_updates = {op.rank for one in updates for op in one.ops} if stage != "optimizer" else set()
    busy, fused, durations, kept, products = collections.Counter(), collections.Counter(), collections.Counter(), 0, 0
    for one in counted:
        for gpu in {op.gpu for op in one.ops}:
            own = [op for op in one.ops if op.gpu == gpu]
            cover = []
            for wanted in (lambda c: c not in ("communication", "copy"), lambda c: c == "communication", lambda c: c == "copy"):
                for op in own:
                    name = class_of(details(work, op))
                    if not wanted(name):
                        continue
                    free = uncovered([(op.start, op.end)], cover)
                    busy[name] += free
                    durations[name] += op.end - op.start
                    # Where kernels overlap, the earlier one has the time.
                    if op.rank not in in_updates and is_fusible(op, details(work, op)):
                        fused[name] += free
                    cover = insert(cover, op.start, op.end) if free else cover
        ops = [op for op in one.ops if op.rank not in in_updates]
        products += sum(op.end - op.start for op in ops if class_of(details(work, op)) == "gemm")
        kept += kept_by_fusion(ops, work)
    share, number = line.busy_share, len(counted)
    most = (fused.total() - kept) / number
    # Of a moment with several kernels, charts know the group: GEMMs and convolutions have it by their durations.
    of_group, part = busy["gemm"] + busy["convolution"], durations["gemm"] / max(durations["gemm"] + durations["convolution"], 1)
    whole = mfu(work, stage, line.reference)
    told = {} if whole is None else dict(mfu_share=whole / share)
    told |= dict(beside_share=fused.total() / number / line.busy, busy_share=share, busy2_share=share, gemm_share=of_group * part / busy.total(),
                gemms=products / number, **{one: fused[one] / number for one in FUSIBLE})
    if "above their roofline time" in work.statement:
        told["above"] = recoverable(work, stage, process)
    reached = re.search(r"an MFU of (\S+) %", work.statement)
    # What a fusion saves, unless the whole distance to the peak is less.
    if reached is None or most < 0.9 * line.busy * (1 - float(reached[1]) / 100):
        told["gain"] = line.saving_kernels(most)
    return told


SHARES = (r".+?(?: reaches an MFU of (?P<mfu_share>\S+ %) while the GPU is busy \((?P<busy_share>\S+ %) of stage time\)|: elementwise, reduction, "
          r"normalization, copy and layout kernels take (?P<beside_share>\S+ %) of the busy time \((?P<busy2_share>\S+ %) of stage time\))"
          r"(?:; tensor pipes are active (?P<tensor_share>\S+ %) of the time)?; GEMMs take (?P<gemm_share>\S+ %) of busy time\."
          r"(?: Per iteration GEMMs take (?P<gemms>\S+ \S+), (?P<above>\S+ \S+) of it above their roofline time at the .+? rate"
          r"(?:\. The other kernels: [^:]+)?\.)? Fusion candidates: (?:(?=.*elementwise, reduction (?P<elementwise>\S+ \w+))|)"
          r"(?:(?=.*gather (?P<gather>\S+ \w+))|)(?:(?=.*norm, softmax (?P<norm>\S+ \w+))|).+")
UTILIZATION = {"low-mfu": (SHARES, low_mfu)}
