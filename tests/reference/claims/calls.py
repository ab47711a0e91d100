"""Calls of the outermost model, which marks show: repeated ones, constant ones, growing ones; and forward within backward.

Definitions: docs/findings/repeated-calls.md, constant-calls.md, no-kv-cache.md and recomputed-activations.md.
"""

import collections
import re

from groups import Chain
from instances import MARK
from line import Line

PRODUCTS, NETWORK, ITERATIONS = ("gemm", "convolution", "attention"), 16, 3
Call = collections.namedtuple("Call", "thread start end phase sizes")


def model_calls(work):
    """The calls with sizes (batch, tokens, keys), by thread and start."""
    found = []
    for start, end, thread, name in work.ranges:
        match = re.fullmatch(MARK + r"(?:call|new shape) (\w+) (.*)", name or "")
        if match:
            sizes = dict(re.findall(r"(\w+)=(\d+)", match[2]))
            sizes = tuple(int(sizes[key]) if key in sizes else None for key in ("batch", "tokens", "keys"))
            if any(size is not None for size in sizes):
                found.append(Call(thread, start, -end, match[1], sizes))
    return sorted(found)


def shown(call):
    return " × ".join(str(size) for size in call.sizes[:2] if size is not None)


class CallFinder:
    """Groups of the kernels of one stream."""

    def __init__(self, launches, work):
        self.launches, self.work, self.chains = launches, work, []
        self.instances = collections.defaultdict(list)
        for at, launch in enumerate(launches):
            self.instances[launch.place].append(at)

    def find(self):
        self.recomputed()
        calls = model_calls(self.work)
        self.repeated([call for call in calls if call.phase == "train"])
        self.constant([call for call in calls if call.phase != "train" and (call.sizes[1] or 0) > 1])
        return self.chains

    def add(self, kind, positions, scale=1, sizes="", factor=None):
        example = dict(operators=None, names=(), sizes=sizes, source="", target="", factor=factor, around=None, first=None)
        self.chains.append(Chain(kind, positions, 0, example, scale=scale, left=0))

    def issued(self, at):
        """Thread and start of the call that launches."""
        found = self.work.call(self.launches[at].op)
        return (found[0], found[1][0]) if found else None

    def within(self, calls, positions):
        """The positions of the kernels that each call launches, by its start."""
        found = collections.defaultdict(list)
        for at in positions:
            thread, start = self.issued(at) or (None, None)
            call = max((call for call in calls if call.thread == thread and call.start <= start), default=None)
            if call and start < call.end:
                found[call].append(at)
        return sorted(found.items(), key=lambda own: own[0].start)

    def products(self, positions):
        own = (self.launches[at] for at in positions)
        return [(launch.kernel, launch.blocks) for launch in own if launch.kind in PRODUCTS]

    def repeated(self, calls):
        for positions in self.instances.values() if calls else ():
            called = self.within(calls, positions)
            if len(called) < 2:
                continue
            (first, kernels), (last, _) = called[0], called[-1]
            expected = self.products(kernels)
            others = [at for at in positions if self.issued(at) and self.issued(at)[0] != first.thread]
            is_between = any(first.end < self.issued(at)[1] < last.start for at in others)
            if (len(expected) >= NETWORK and not is_between
                    and all(call.sizes == first.sizes and self.products(own) == expected for call, own in called)):
                sizes, number = shown(first), len(called)
                self.add("repeated-calls", [at for _, own in called[1:] for at in own], sizes=sizes, factor=number)
                if others:
                    self.add("repeated-calls", others, (number - 1) / number, sizes, number)

    def constant(self, calls):
        by_stage = collections.defaultdict(list)
        for (stage, _), positions in self.instances.items() if calls else ():
            called = self.within(calls, positions)
            own = sum(len(self.products(kernels)) for _, kernels in called)
            is_next_to_network = own >= NETWORK <= len(self.products(positions)) - own
            by_stage[stage].append(called if is_next_to_network else [])
        for instances in by_stage.values():
            sizes = [[call.sizes for call, _ in called] for called in instances]
            if len(instances) >= ITERATIONS and sizes[0] and all(own == sizes[0] for own in sizes):
                for called in instances:
                    self.add("constant-calls", [at for _, kernels in called for at in kernels], sizes=shown(called[0][0]))

    def recomputed(self):
        """Kernels of forward that another thread, which is autograd's, launches again."""
        for positions in self.instances.values():
            issued = [(self.issued(at)[1], self.issued(at)[0]) for at in positions if self.issued(at)]
            launches, forward_thread = collections.defaultdict(lambda: ([], [])), min(issued, default=(None, None))[1]
            for at in positions:
                if self.issued(at):
                    launch = self.launches[at]
                    launches[launch.kernel, launch.blocks][self.issued(at)[0] != forward_thread].append(at)
            trains = any(not forward and re.search("backward|bwd|bprop|grad", name.lower()) for (name, _), (forward, _) in launches.items())
            times = max((len(backward) / len(forward) for forward, backward in launches.values()
                         if forward and self.launches[forward[0]].kind in ("attention", "norm")), default=0)
            if trains and times >= 0.25:
                again = [at for forward, backward in launches.values() for at in backward[:int(len(forward) * times + 0.5)]]
                self.add("recomputed-activations", again, factor=times if times >= 1 else None)


def growing(work, stage, process, found):
    """Calls of one token more than the call before, which read no keys of earlier tokens."""
    line, calls = Line(work, stage, process), model_calls(work)
    inside = [call for one in line.counted for call in calls if call.thread == one.thread and one.start <= call.start < one.end]
    lengths = [0 if (keys or 0) > tokens else tokens for call in inside for _, tokens, keys in [call.sizes] if tokens is not None]
    runs, before = [], 0
    for length in lengths:
        if before > 0 and length == before + 1:
            runs[-1].append(length)
        else:
            runs.append([length])
        before = length
    runs = [run for run in runs if len(run) > 1]
    grown, first = [length for run in runs for length in run], 0 if stage in ("decode", "decode_step") else 1
    again = len(grown) / len(lengths) * sum(length - 1 for run in runs for length in run[first:]) / sum(grown)
    return dict(calls=len(grown), first=min(grown), last=max(grown), busy_share=min(line.busy / line.reference, 1),
                gain=line.saving(line.busy * again))


CALLS = {"no-kv-cache": (r".+? calls the model (?P<calls>\S+) times with one token more each time \((?P<first>\S+) to (?P<last>\S+) tokens "
                         r"per sequence\) and no cached keys\. Each call computes all earlier tokens again; the GPU is busy for "
                         r"(?P<busy_share>\S+ %) of the stage\.", growing)}
