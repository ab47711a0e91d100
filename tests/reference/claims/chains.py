"""Rules about groups of kernels that another form of the same computation replaces, derived from operators and timelines.

Definitions: docs/findings/norm-unfused.md and the pages of the other rules below. A time
of the pass with operators counts in the primary pass by its share.
"""

import collections
import math
import statistics

from calls import CallFinder
from groups import Finder, Names
from instances import covered, lies_in, projection
from line import Line
from named import preparation
from operators import Launch, Roof, frame_of, gpu_name, operators_around
from parts import details
from stages import Rest

# What the program writes out itself runs code of its own between its launches.
OF_LOOPS = ("optimizer-loop", "expert-loop", "gemm-loop", "attention-math")
BY_NAMES = ("gemm-epilogue", "layout-conversions", "norm-unfused", "pointwise-unfused", "dtype-casts", "repeated-calls", "constant-calls",
            "recomputed-activations", "optimizer-loop", "attention-math")
OF_LAUNCHES = ("optimizer-loop", "expert-loop", "gemm-loop", "layout-conversions")


class Place:
    """The kernels of the counted instances of a stage, or those between stages in the measured loop."""

    def __init__(self, instances):
        self.instances, self.operations, self.time = instances, 0, 0
        self.groups = collections.defaultdict(lambda: dict(chains=0, kernels=0, removed=0, within=0, time=0, bound=0, examples={}))


def stages_of(work):
    """The outermost stages with work, each with its process."""
    found = [(stage, process) for stage in work.stages for process in work.instances(stage)
             if any(one.ops for one in work.counted(stage, process))]
    inner = {key for key in found for other in found if other != key
             and lies_in(work.counted(*key)[0], next((one for one in work.counted(*other)
                                                      if lies_in(work.counted(*key)[0], one)), work.counted(*key)[0]))}
    return [key for key in found if key not in inner]


def measured_loop(work):
    spans = [projection(one) for key in stages_of(work) for own in [work.counted(*key)] if len(own) > 1 for one in own]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def places(work, roof):
    """Of each stage, and of what lies between stages (None), its groups; by names alone without the rates of a GPU."""
    if work.places:
        return work.places
    found, place_of, window = {}, {}, measured_loop(work)
    for key in stages_of(work):
        counted = work.counted(*key)
        found[key] = Place(len(counted))
        for number, one in enumerate(work.instances(key[0])[key[1]]):
            for op in one.ops:
                place_of[op.rank] = (key, number) if one in counted else None
    found[None] = Place(1)
    launches = collections.defaultdict(list)
    for at, op in enumerate(work.capture.ops):
        inside = window and window[0] <= op.start and op.end <= window[1]
        place = place_of.get(op.rank, (None, 0) if inside else None)
        if place is None:
            continue
        found[place[0]].operations += 1
        found[place[0]].time += op.end - op.start
        if not op.copy:
            own = details(work, op)
            launches[op.gpu, own["stream"]].append(Launch(op, at, own, place, operators_around(work, op)))
    for own in launches.values():
        chains = (Finder if roof else Names)(own, roof, work).find()
        for chain in chains + CallFinder(own, work).find():
            place = found[own[chain.launches[0]].place[0]]
            time = sum(own[at].time for at in chain.launches) * chain.scale + chain.also
            group = place.groups[chain.kind]
            group["chains"] += 1
            kernels = len(chain.launches) * chain.scale
            group["kernels"] += kernels
            removed = max(kernels + chain.others * chain.scale - chain.left, 0)
            group["removed"] += removed
            group["within"] += removed * chain.within
            group["time"] += time
            group["bound"] += min(chain.bound, time)
            key = tuple(chain.example[name] or "" for name in ("operators", "sizes", "source", "target", "names"))
            example = group["examples"].setdefault(key, dict(chain.example, time=0))
            example["time"] += time
    work.places = found
    return found


def of_pass(work, kind):
    """The places of the pass with operators whose sizes were recorded, else of the pass itself by names; and that pass."""
    for name in work.source.passes("operators"):
        other = work.source.work(name)
        other.stages = other.stages or work.stages
        if any(one[3].get("Input Dims") for own in other.capture.operators.values() for one in own):
            return places(other, Roof(gpu_name(work))), other
    if kind not in BY_NAMES:
        raise LookupError("no derivation by names alone")
    return places(work, None), work


def chain_rule(kind):
    def derivation(work, stage, process, found):
        found_places, other = of_pass(work, kind)
        of_loop, per_step, key = work.of_stage is None, 1, (stage, process)
        if other is not work:
            processes, own = sorted(other.instances(stage)), sorted(work.instances(stage))
            key = stage, processes[own.index(process) % len(processes)]
        if not any(kind in place.groups for place in (found_places.values() if of_loop else [found_places[key]])):
            return None
        line = Line(work, stage, process)
        if of_loop:
            own = [place for place in found_places.values()]
            groups = [place.groups[kind] for place in own if kind in place.groups]
            whole, instances = sum(place.time for place in own), 1
            start, end = measured_loop(work)
            scale = covered((max(op.start, start), min(op.end, end)) for op in work.capture.ops
                            if op.start < end and op.end > start)
            group = max(groups, key=lambda one: one["time"])
            time, saved = sum(one["time"] for one in groups), sum(max(one["time"] - one["bound"], 0) for one in groups)
            gain = min(scale * saved / whole, end - start)
        else:
            place = found_places[key]
            group, whole, instances, scale = place.groups[kind], place.time, place.instances, line.operation_time
            # The other pass may have decoded fewer steps.
            own, of_other = work.steps(line.counted[0]), other.steps(other.counted(*key)[0])
            per_step = of_other / own if own and of_other else 1
            time, saved = group["time"], max(group["time"] - group["bound"], 0)
            gain = gain_of(line, kind, min(scale * saved / whole, line.busy), line.operations * group["removed"] / place.operations,
                           line.operations * group["within"] / place.operations)
        examples = sorted(group["examples"].items())
        example = max((own for _, own in examples), key=lambda own: own["time"])
        derived = dict(chains=count(group["chains"], instances * per_step), kernels=count(group["kernels"], instances * per_step),
                       time=scale * time / whole, share=time / whole, part=example["time"] / group["time"],
                       sizes_text=example["sizes"], from_text=example["source"],
                    to_text=example["target"], operators_text=example["operators"] or example["names"], around_text=example["around"],
                    factor=round(example["factor"]) if example["factor"] else None, frame_text=frame_of(other, example["first"]),
                    gain=gain)
        return derived
    return derivation


def count(number, instances):
    return max(math.floor(number / instances + 0.5), 1)


def gain_of(line, kind, kernels, removed, within):
    """Kernels that go, and their part of the idle time of launches; of a stage that launches bound the kernels only. What the
    operator of another kernel launches takes no more than its call with it; where the CPU bounds the stage, the longer of
    call and kernel."""
    launching = line.pool["launching"] + line.pool["host_code"]
    is_of_launches = kind in OF_LAUNCHES and not (kind == "layout-conversions" and prepares_mostly(line))
    if line.is_host_bound() and launching >= line.idle / 2 and not is_of_launches:
        return line.saving_kernels(kernels)
    causes = ["launching", *(["sync", "copy", "allocation"] if kind == "expert-loop" else [])]
    known = sum(line.scaled(line.pool[cause]) for cause in causes) + line.scaled(line.ordinary_queue())
    if kind in OF_LOOPS:
        known += Rest(line.work, line.stage, line.process, line.found).stage_time("host_code")
    idle = min(known, max(line.reference - line.busy, 0))
    gap = idle / max(line.operations - 1, 1)
    per_call, call = gap, mean_call(line)
    if call is not None:
        call *= max(line.reference - line.busy, 0) / max(line.time - line.busy, line.reference - line.busy, 1)
        per_call = max(call - kernels / max(removed, 1), 0) if line.is_host_bound() else min(gap, call)
    launches = gap * (removed - within) + per_call * within
    return line.saving(kernels + min(launches, max(line.reference - line.busy, 0)))


def prepares_mostly(line):
    """Whether preparation of kernels is most of what the host does while the GPU is idle."""
    prepared = preparation(line.work, line.stage, line.process)
    return prepared is not None and prepared[0] >= line.of_host() / 2


def mean_call(line):
    """Mean duration of the calls that launch."""
    ops = (op for one in line.counted for op in one.ops)
    calls = {(thread, call) for op in ops for thread, call in [line.work.call(op) or (None, None)] if call and "aunch" in call[3]}
    return statistics.mean(call[1] - call[0] for _, call in calls) if calls else None


PER = r"(?: per iteration)?"
FRAME = r"(?:, in (?P<frame_text>.+?))?\.(?: Names(?: and order|, order and stream) of the kernels say so; .+)?"
TIME = r"(?P<time>\S+ \S+), (?P<share>\S+ %) of (?:its|the) GPU time"
CHAINS = {kind: (pattern, chain_rule(kind)) for kind, pattern in {
    "repeated-calls": r".+? calls the model (?P<factor>\S+) times before backward, with inputs of the same sizes"
                      r"(?: \((?P<sizes_text>[^)]+)\))? and the same GEMMs\. All calls but one, with their part of backward, take " + TIME
                      + r"\.",
    "constant-calls": r".+? runs more than one network\. Its calls of the model with inputs of the same sizes"
                      r"(?: \((?P<sizes_text>[^)]+)\))? in each iteration take " + TIME + r"; other networks take the rest\.",
    "recomputed-activations": r".+? launches (?P<kernels>\S+) kernels? of forward again" + PER + r" on the thread of backward"
                              r"(?:, those of attention or normalization up to (?P<factor>\S+) times for each launch in forward)?: "
                              + TIME + r"\.",
    "unused-gradients": r".+? runs (?P<kernels>\S+) kernels?" + PER + r" of backward after the last gradient of a parameter that the "
                        r"optimizer updates: " + TIME + r"\. They serve other parameters, the largest with (?P<sizes_text>.+?) elements\.",
    "dense-embeddings": r".+? works on all rows of embedding tables, of which a batch uses few: .+? This takes " + TIME
                        + r"\. A batch uses at most (?P<factor>\S+) rows of the largest table, (?P<sizes_text>.+?) elements\.",
    "optimizer-loop": r"The optimizer in .+?(?: \((?P<around_text>Optimizer\.step#\S+)\))? launches (?P<kernels>\S+) kernels" + PER
                      + r"(?:, several for each parameter \((?P<operators_text>.+?)\)|, one for each operation on several tensors \(foreach\), "
                      r"each of which moves the tensors through memory): " + TIME + FRAME,
    "attention-math": r".+? computes attention with (?P<kernels>\S+) separate kernels" + PER + r", (?P<chains>\S+) times a softmax "
                      r"between GEMMs: " + TIME + r"\. The scores of (?P<sizes_text>.+?) elements go through memory between the "
                      r"kernels \((?P<operators_text>[^,)]+)(?:, in (?P<around_text>aten::\S+?))?(?:, in (?P<frame_text>[^)]+))?\)\.",
    "expert-loop": r".+? loops over (?P<factor>\S+) experts, each with its own index operations and GEMMs \(weights of "
                   r"(?P<sizes_text>.+?) elements\): (?P<kernels>\S+) kernels in (?P<chains>\S+) loops?" + PER + ", " + TIME + FRAME,
    "gemm-loop": r".+? launches up to (?P<factor>\S+) GEMMs in a row with weights of the same size \((?P<sizes_text>.+?)\): "
                 r"(?P<kernels>\S+) kernels in (?P<chains>\S+) runs?" + PER + ", " + TIME + r"(?:, in (?P<frame_text>.+?))?\. No other "
                 r"kernel runs between them, so they probably do not depend on each other\.",
    "row-additions": r".+? adds rows with (?P<operators_text>.+?) by atomic operations in (?P<kernels>\S+) kernels?" + PER + ": "
                     + TIME + r"\. On average, (?P<factor>\S+) rows \((?P<sizes_text>.+?)\) meet at the same address" + FRAME,
    "repeated-tensors": r".+? writes repeated tensors to memory (?P<chains>\S+) times" + PER + r": (?P<time>\S+ \S+) with the time "
                        r"that their readers lose, (?P<share>\S+ %) of its GPU time\. Most time takes a tensor of "
                        r"(?P<sizes_text>.+?) elements with (?P<factor>\S+) copies of each element(?: for "
                        r"(?P<around_text>aten::\S+?))?" + FRAME,
    "fp64-operators": r".+? computes with FP64 tensors in (?P<kernels>\S+) kernels?" + PER + ": " + TIME + r"\. Most time takes "
                      r"(?P<operators_text>.+?) on (?P<sizes_text>.+?) elements(?:; it also gets (?P<from_text>\S+) tensors, which "
                      r"one FP64 input widens)?" + FRAME,
    "layout-conversions": r".+? copies tensors between NCHW and channels-last (?P<chains>\S+) times" + PER + r": (?P<time>\S+ \S+) "
                          r"with the time that their elementwise readers lose, (?P<share>\S+ %) of its GPU time"
                          r"(?:; \S+ \S+ of it is batch normalization in NCHW, with few blocks)?"
                          + r"(?:; (?:most of it|the largest part, (?P<part>\S+ %),) for a tensor of (?P<sizes_text>.+?) elements)?"
                          r"(?:, for (?P<around_text>\S+?))?" + FRAME,
    "transposed-copies": r".+? copies tensors to change the order of axes (?P<chains>\S+) times" + PER + "(?: outside of elementwise chains)?: " + TIME
                         + r"(?:; (?:most of it|the largest part, (?P<part>\S+ %),) for a tensor of (?P<sizes_text>.+?) elements)?"
                         r"(?:, for (?P<around_text>\S+?))?" + FRAME,
    "norm-unfused": r".+? normalizes with (?P<kernels>\S+) separate kernels" + PER + r", (?P<chains>\S+) chains? of elementwise "
                    r"kernels and reductions: " + TIME + r"\. The largest: (?P<operators_text>.+?)(?: on (?P<sizes_text>.+?) "
                    r"elements)?" + FRAME,
    "pointwise-unfused": r".+? runs (?P<kernels>\S+) elementwise kernels" + PER + r" in (?P<chains>\S+) chains? on the same "
                         r"elements: " + TIME + r"\. The largest: (?P<operators_text>.+?)(?: on (?P<sizes_text>.+?) elements)?" + FRAME,
    "gemm-epilogue": r".+? runs (?P<kernels>\S+) kernels?" + PER + r" right after a GEMM, on the same stream, for a bias or an "
                     r"activation: " + TIME + r"\. The largest: (?P<operators_text>.+?)(?: on (?P<sizes_text>.+?) elements)?" + FRAME,
    "dtype-casts": r".+? converts tensors to another data type (?P<chains>\S+) times" + PER + " outside of elementwise chains: "
                   r"(?P<time>\S+ \S+) with the time that memory-bound readers lose, (?P<share>\S+ %) of its GPU time"
                   + r"(?:; (?:most of it|the largest part, (?P<part>\S+ %),) to "
                   r"(?P<to_text>\S+?)(?: from (?P<from_text>\S+?))?, (?P<sizes_text>.+?) elements)?"
                   r"(?:, for (?P<around_text>\S+?))?" + FRAME}.items()}
