"""Findings about stages, derived from the artifact by itself: a pattern of each statement and what its words should say.

A pattern has a group for each number and name of the statement. A derivation gives the value of each group: shares as ratios,
times in nanoseconds. Definitions: docs/methodology.md, docs/findings.md.
"""

import collections
import re
import statistics

from links import LARGE, pinned_rate
from parts import (alone, bytes_of, chain, copies_of, host, kernels_of, largest_group, library_samples, no_tensor_cores,
                   os_calls, starting_in, sync_calls, sync_time, tf32_gemms, unattributed, uncovered, unknown_kernels)
from activities import UNNAMED
from idle import LABELS, kind, union, within
from kernel_names import class_of
from instances import covered, projection
from model import mbu, mfu
from line import HOST, Line
from named import (IDLE as NAMED_IDLE, MOST, OCCURS, SHAPES, around, host_of, host_place, idle_of_windows, long_windows, losses_of,
                   of_attention, others, pairs_of, place_of, preparation, shapes_of_others)
from ranks import waiting
from repeats import jump

WORDS = {"host code": "CPU code outside CUDA", "launching": "kernel launch", "blocking copy": "blocking memcpy",
         "operating system": "OS call", "off CPU": "CPU thread off CPU", "collective": "waiting for a collective",
         "queue, latency": "queue latency"}
CAUSE = {cause: WORDS.get(label, label) for cause, label in LABELS.items()}
ACTIVITY = {"garbage collection": "Python garbage collection", "data loader": "wait for the DataLoader",
            "graph capture": "capture of CUDA graphs", "checkpoint": "writing of checkpoints", "files": "file access",
            "new shape": "preparation of kernels for a new shape", "synchronization": "waits for results and what follows",
            "blocking copy": "blocking memcpy"}
# The host works as long as before without these.
WAITS = {"sync", "copy", "communication", "queue"}
# Where PyTorch looks for a compiled function, and that function.
ENTERED = ("TorchDynamo Cache Lookup", "Torch-Compiled Region")
PREPARATION = "preparation of kernels by cuDNN"
# Stages whose names say what they do.
KINDS = {"prefill", "decode", "decode_step", "forward", "backward", "optimizer", "train_step"}
APART = ", excluding what exceeds the median one"
IN_FIRST = ", nearly all of it in the first one, which may be a cold start"
PAUSES = "intermittent CPU stalls"
IDLE = r"(?:The GPU is idle for (?P<share>\S+ %) of .+?(?: \((?P<least>\S+ %) to (?P<most>\S+ %) by iteration\))?)"
FEW = (r"(?:In (?P<few>\S+) of (?P<all>\S+) iterations of .+? the GPU is idle for (?P<time>\S+ \S+) in all, up to "
       r"(?P<up_share>\S+ %) of an iteration,)")
IDLES = f"(?:{IDLE}|{FEW})"
# A loss of this share of all measured iterations is a finding.
NOTABLE = 0.05
SAMPLED = r"(?: The issuing thread was sampled (?P<samples>\S+) times while the GPU waits for it: (?P<libraries_text>.+)\.)?"


class Rest:
    """Idle time by cause of a stage without what something with a name explains."""

    def __init__(self, work, stage, process, found):
        self.line, self.found = Line(work, stage, process), found
        self.losses = losses_of(work, stage, process)
        self.named = self.losses.named()
        # A whole capture is one instance of ten windows.
        if len(found) == 1:
            self.named = [sum(self.named, collections.Counter())]
        elif len(found) != self.losses.windows:
            self.named = [collections.Counter() for _ in found]

    def of(self, index, *causes):
        times = self.found[index][3]
        return max(sum(times[cause] for cause in causes) - sum(self.named[index][cause] for cause in causes), 0)

    def pooled(self, *causes):
        """Over all instances."""
        own = sum(times[cause] for *_, times in self.found for cause in causes)
        return max(own - sum(named[cause] for named in self.named for cause in causes), 0)

    def each(self, *causes):
        return [self.of(index, *causes) for index in range(len(self.found))]

    def stage_time(self, cause):
        """Of a typical instance: what most have counts, without what one of many has more."""
        time, each = self.pooled(cause), sorted(self.each(cause))
        if len(each) >= 10 and each[-1] // 2 >= each[-2] and not self.is_rare(cause):
            time -= min(each[-1] - round(statistics.median(each)), time)
        return self.line.scaled(time)

    def is_rare(self, *causes):
        shares = [own / found[2] for own, found in zip(self.each(*causes), self.found)]
        return 2 * sum(share >= 0.01 for share in shares) < len(shares)


def pooled(found, *causes):
    return sum(times[cause] for _, _, _, times in found for cause in causes) / sum(whole for _, _, whole, _ in found)


def median_time(found):
    return statistics.median(whole for _, _, whole, _ in found)


def typical_code(work, stage, process, rest):
    """Host code of a typical instance: the median; of fewer than three instances, of as many median steps."""
    if len(rest.found) >= 3:
        return statistics.median(rest.each("host_code"))
    steps = work.idle(f"{stage}_step", process)
    if not steps:
        return None
    own = Rest(work, f"{stage}_step", process, steps)
    return statistics.median(own.each("host_code")) * work.steps(rest.found[0][0])


def stalls_of(work, stage, process, rest):
    """Host code beyond that of typical instances, in all of them."""
    typical = typical_code(work, stage, process, rest)
    return 0 if typical is None else sum(max(own - typical, 0) for own in rest.each("host_code"))


def measured(work):
    """Time of all measured iterations of outermost stages."""
    return sum(projection(one)[1] - projection(one)[0] for _, _, one, counts in chain(work) if counts)


def host_code(work, stage, process, rest):
    """Host code of an instance without the pauses that typical ones do not have."""
    typical = typical_code(work, stage, process, rest) if work.pauses else None
    own = rest.stage_time("host_code")
    return own if typical is None else min(typical, own)


def of_idle(rest, causes, saved, within=float("inf")):
    """The words about idle time that rules share; without the profiler it is at most `within`."""
    times = rest.each(*causes)
    shares = [own / found[2] for own, found in zip(times, rest.found)]
    few = sum(share >= 0.01 for share in shares)
    is_wait, most = set(causes) <= WAITS, float("inf")
    if is_wait:
        most = rest.line.waits()
    gain = min(rest.pooled(*causes), most) if 2 * few < len(shares) else rest.line.saving_idle(min(saved, most, within))
    return dict(share=saved / rest.line.time, least=min(shares), most=max(shares), up_share=max(shares), gain=gain, few=few,
                all=len(shares), time=rest.pooled(*causes))


def by_cause(*causes):
    def derivation(work, stage, process, found):
        rest = Rest(work, stage, process, found)
        return of_idle(rest, causes, rest.stage_time(*causes))
    return derivation


def stage_busy(work, stage, process, found):
    rest = Rest(work, stage, process, found)
    line, losses = rest.line, rest.losses
    baseline = line.unprofiled or None
    time = baseline or line.time
    busy = line.busy_share
    causes = {cause: line.scaled(line.pool[cause]) for cause in LABELS if cause != "unknown" or line.pool[cause]}
    recurring = dict(causes)
    if baseline:
        recurring["host_code"] = host_code(work, stage, process, rest)
        # Stalls of few iterations are none of typical ones, whichever rule they belong to.
        if not work.pauses and stalls_of(work, stage, process, rest) >= NOTABLE * measured(work):
            recurring["host_code"] = min(typical_code(work, stage, process, rest), recurring["host_code"])
    occurs = {cause: sum(times[cause] >= 0.01 * whole for _, _, whole, times in found) for cause in causes}
    common = [cause for cause in causes if cause != "other_work" and 2 * occurs[cause] >= len(found)]
    main = max(common, key=lambda cause: recurring[cause], default=None)
    most = recurring[main] if main else -1
    rarer = any(causes[cause] > most and (recurring[cause] != causes[cause] or 2 * occurs[cause] < len(found)) for cause in causes)
    word = CAUSE.get(main)
    if main == "queue" and replays_graphs(work, line):
        word = "latency between operations replayed by a CUDA graph"
    if main == "host_code" and not baseline and work.pauses:
        typical = typical_code(work, stage, process, rest)
        beyond = sum(max(own - typical, 0) for own in rest.each("host_code"))
        word = PAUSES if beyond >= rest.pooled("host_code") / 2 else word
    named = max((one for one in losses.times if one not in UNNAMED), key=lambda one: losses.time(one), default=None)
    prepared = preparation(work, stage, process)
    if prepared and prepared[0] >= line.of_host() / 2:
        if line.scaled(prepared[0]) > most:
            for_others = of_attention(work, stage, process)[1]
            word = ACTIVITY["new shape"] if for_others and for_others[0] >= 0.01 * prepared[0] else PREPARATION
            most = line.scaled(prepared[0])
    elif named and 2 * losses.occurs(named) >= losses.windows and line.scaled(losses.time(named)) > most:
        word, most = ACTIVITY.get(named, named), line.scaled(losses.time(named))
    profiled = line.time
    if baseline:
        # Unprofiled times hold what the host does in the range before the first and after the last operation.
        profiled += around(work, stage) / len(line.counted)
        before, time_there = main_around(work, process, stage)
        if time_there > most:
            word, most, rarer = before, time_there, False
    others = line.pool["other_work"] / line.whole
    others = min(others, 1 - busy) if others >= 0.01 else 0
    group, share = largest_group(work, stage, process)
    exposed = statistics.median(alone(work, one, "communication") for one, *_ in found)
    return dict(time=time, share=1 - busy - others, other_share=others, busy_share=busy, cause_text=word,
                cause_share=most / profiled, apart_text=APART if rarer else "", count=len(line.counted), sole_text=word,
                group_text=group, group_share=share, exposed_share=exposed / line.time, operations=line.operations,
                mean=line.operation_time / line.operations,
                **(dict(waiting_share=waiting(work, stage, process)) if "it waiting for the last" in work.statement else {}), **of_model(work, stage, time, busy))


def of_model(work, stage, time, busy):
    """Utilization by the dimensions of the model, where it is known."""
    own, moved = mfu(work, stage, time), mbu(work, stage)
    told = {} if own is None else dict(mfu_share=own, busy_mfu_share=own / busy)
    return told if moved is None else told | dict(mbu_share=moved)


def main_around(work, process, stage):
    """What the host does for most of the longest idle time around the operations of a stage, while it is in its range."""
    if process != work.capture.ops[0].process:
        return None, -1
    gpu, (pairs, _) = work.capture.ops[0].gpu, pairs_of(work)
    idle = {pair: sum(idle_of_windows(work, gpu, own)) for pair, own in pairs.items()}
    places = {pair: own for pair, own in idle.items() if host_place(work, pair, own)[1] == stage}
    if not places:
        return None, -1
    pair = max(places, key=places.get)
    losses, causes = host_of(work).losses(gpu, pairs[pair]), collections.Counter()
    for window in pairs[pair]:
        for gap in work.gaps_within(gpu, *window[:2]):
            causes.update(within(gap, *window[:2]))
    named = max((one for one in losses.times if one not in UNNAMED), key=losses.time, default=None)
    if named and 2 * losses.time(named) > idle[pair]:
        word, own = ACTIVITY.get(named, named), losses.time(named)
    else:
        cause, own = causes.most_common(1)[0]
        word = CAUSE.get(cause)
    return word, own / len(pairs[pair])


def replays_graphs(work, line):
    """Whether graphs issue at least half of the operations."""
    ops = [op for one in line.counted for op in one.ops]
    return 2 * sum("GraphLaunch" in work.call(op)[1][3] for op in ops if work.call(op)) >= len(ops)


def first_use(work, stage, process, found):
    rest = Rest(work, stage, process, found)
    return of_idle(rest, ["first_use"], rest.stage_time("first_use"))


def allocation(work, stage, process, found):
    calls, share = host(work, stage, process, lambda name: kind(name) == "allocation")
    told = by_cause("allocation")(work, stage, process, found)
    line = Line(work, stage, process)
    late, saved = line.scaled(line.of_host() + line.late_latency()), told["share"] * line.time
    if saved >= late * 2 / 3 and 2 * told["few"] >= len(found):
        told["gain"] = line.saving_idle(late)
    if "measured iteration" in work.statement:
        calls = sum(kind(call[3]) == "allocation" for one in line.counted for _, call in starting_in(work, one))
    return dict(told, calls=calls, calls_share=share, instances=len(line.counted))


def host_bound(work, stage, process, found):
    causes = ["host_code", "os", "off_cpu"]
    rest = Rest(work, stage, process, found)
    system, off = rest.stage_time("os"), rest.stage_time("off_cpu")
    code = host_code(work, stage, process, rest)
    saved = code + system + off
    if rest.line.unprofiled is not None:
        saved = min(saved, max(rest.line.reference - rest.line.busy - rest.line.least_idle(), 0))
    samples, libraries = library_samples(work, found, causes)
    place, covers = code_place(work, stage, process)
    told = of_idle(rest, causes, saved, rest.line.unprofiled_idle(saved))
    # The code that the action names is that part of it.
    told["gain"] *= covers if place and covers < MOST and work.action and place in work.action else 1
    if work.action and "where compiled functions are entered" in work.action:
        told["gain"] *= entered_share(work, stage)
    return dict(told, besides_share=saved / rest.line.time, os_share=system / saved, samples=samples,
                does_text="works" if code >= system + off else "waits", calls_text=os_calls(work, found),
                off_share=off / saved, libraries_text=libraries, place_text=place, place_share=covers)


def entered_share(work, stage):
    """The share of the code of the host in the lookup of compiled functions and in these, by the pass that names them; from 90 % on, all of it."""
    for own in [work, *others(work, stage)]:
        places = losses_of(own, stage, sorted(own.instances(stage))[0]).places
        code = {path: time for (activity, path), time in places.items() if activity == "host code"}
        inside = sum(time for path, time in code.items() if any(name.startswith(ENTERED) for _, name in path))
        if inside:
            share = inside / sum(code.values())
            return share if share < MOST else 1
    return 1


def code_place(work, stage, process):
    """The range or operator in which the host computes for most of its code without a name: of this pass, or of another."""
    for own in [work, *others(work, stage)]:
        process = process if own is work else sorted(own.instances(stage))[0]
        name, share = place_of([losses_of(own, stage, process)], {stage})
        if name:
            return name, share
    return None, None


def launch_bound(work, stage, process, found):
    samples, libraries = library_samples(work, found, ["launching"])
    kernels = kernels_of(work, found)
    rest = Rest(work, stage, process, found)
    line, launching = rest.line, rest.stage_time("launching")
    prepared = preparation(work, stage, process)
    if prepared and prepared[0] >= line.of_host() / 2:
        # A host that is slow by itself still launches once kernels are prepared.
        added = max(line.time - line.reference, 0)
        launching -= (sync_time(work, stage, process) if line.unprofiled is not None else float("inf")) + added
    others = [rest.stage_time(cause) for cause in LABELS
              if cause not in ("launching", "host_code", "sync") and not rest.is_rare(cause)]
    largest = max(*others, host_code(work, stage, process, rest), line.scaled(rest.losses.time("synchronization")),
                  0 if rest.is_rare("launching") else launching)
    saved, kept, samples_ = launching, 0, samples_of(work, line)
    if largest <= launching:
        saved = graph_time(work, rest, found)
        # A graph of each step leaves what the host computes between steps.
        if decode_steps(work, line) and not is_between_launches(work, line, found):
            kept = line.unprofiled_idle(code_of_iteration(work, rest))
    told = of_idle(rest, ["launching"], launching)
    replay = replay_time(work, found)
    if replay is not None:
        told["gain"] = line.saving_idle(line.time - replay)
    elif samples_:
        # A kernel for all samples may take as long as that of one.
        idle = min(max(graph_time(work, rest, found), launching), max(line.reference - line.busy, 0))
        told["gain"] = line.saving(idle + line.busy * (1 - 1 / samples_))
    elif not rest.is_rare("launching"):
        told["gain"] = min(line.saving_idle(max(saved, launching)), max(line.reference - line.busy, 0) - kept)
    calls = {(thread, call) for one, *_ in found for op in one.ops for thread, call in [work.call(op) or (None, None)]
             if call and "aunch" in call[3]}
    steps = sum(work.steps(one) for one, *_ in found) or len(found)
    times = [call[1] - call[0] for _, call in calls]
    return dict(told, samples=samples, libraries_text=libraries, launches=len(calls) / steps,
                operations=line.operations, kernel=statistics.mean(op.end - op.start for op in kernels),
                call=statistics.median(times) if times else None)


def graph_time(work, rest, found):
    """Idle time of a typical iteration that is gone when one launch issues all its operations."""
    causes = [cause for cause in (*HOST, "queue") if cause not in ("sync", "copy", "host_code")]
    code = code_of_iteration(work, rest) if is_between_launches(work, rest.line, found) else 0
    return sum(statistics.median(rest.each(cause)) for cause in causes) + code


def code_of_iteration(work, rest):
    typical = typical_code(work, rest.line.stage, rest.line.process, rest)
    return statistics.median(rest.each("host_code")) if typical is None else typical


def is_between_launches(work, line, found):
    """Whether host code lies in many gaps of an iteration, or of a decode step."""
    return gaps_with(work, found, "host_code") >= 5 * len(found) * (decode_steps(work, line) or 1)


def samples_of(work, line):
    """Samples of a batch that a stage without products computes one by one."""
    batch, launches = work.source.workload.get("batch"), collections.Counter()
    for op in (op for one in line.counted for op in one.ops if not op.copy):
        own = work.capture.details[op.rank]
        if class_of(own) in ("gemm", "convolution", "attention"):
            return None
        launches[own["name"]] += 1
    if not batch or batch < 8 or line.stage in KINDS or not launches:
        return None
    of_samples = sum(number for number in launches.values() if number % (batch * len(line.counted)) == 0)
    return batch if 2 * of_samples >= launches.total() else None


def decode_steps(work, line):
    """Steps of an iteration of decode, in the timeline or as the unprofiled run counts them."""
    if line.stage != "decode":
        return None
    steps = work.source.unprofiled(line.stage)[1]
    return work.steps(line.counted[0]) or (statistics.median(steps) if isinstance(steps, list) else steps)


def replay_time(work, found):
    """Median time of the replays of a graph in this pass that runs as many of the same kernels as an instance."""
    def kernels(ops):
        return collections.Counter(work.capture.details[op.rank]["name"] for op in ops if not op.copy)

    replays, own = collections.defaultdict(list), [kernels(one.ops) for one, *_ in found]
    if any("GraphLaunch" in work.call(op)[1][3] for one, *_ in found for op in one.ops if work.call(op)):
        return None
    for stage in work.stages:
        for process in work.instances(stage):
            replays.clear()
            for one in work.counted(stage, process):
                for op in one.ops:
                    call = work.call(op)
                    if call and "GraphLaunch" in call[1][3]:
                        replays[op.process, op.correlation].append(op)
            times = [max(op.end for op in ops) - min(op.start for op in ops) for ops in replays.values() if kernels(ops) in own]
            if times:
                return statistics.median(times)
    return None


def gaps_with(work, found, cause):
    """Number of gaps with time of a cause."""
    number = 0
    for one, gpu, _, _ in found:
        first, last = min(op.start for op in one.ops), max(op.end for op in one.ops)
        for gap in work.gaps_within(gpu, first, last):
            number += any(max(start, first) < min(end, last) for start, end, own in gap[2] if own == cause)
    return number


def queue_gaps(work, stage, process, found):
    number = gaps_with(work, found, "queue")
    inside = between = count = 0
    for one, gpu, _, _ in found:
        replays = collections.defaultdict(list)
        for op in one.ops:
            call = work.call(op)
            if op.gpu == gpu and call and "GraphLaunch" in call[1][3]:
                replays[op.process, op.correlation].append((op.start, op.end))
        spans = sorted((min(own)[0], max(end for _, end in own), own) for own in replays.values())
        inside += sum(end - start - covered(own) for start, end, own in spans)
        for (_, end, _), (start, _, _) in zip(spans, spans[1:]):
            first, last = min(end, start), max(end, start)
            between += sum(min(gap[1], last) - max(gap[0], first) for gap in work.gaps_within(gpu, end, start)) if end < start else 0
            count += 1
    return dict(by_cause("queue")(work, stage, process, found), gaps=number, inside=inside, between=between, betweens=count,
                mean=sum(times["queue"] for *_, times in found) / number)


def short_kernels(work, stage, process, found):
    line, kernels = Line(work, stage, process), kernels_of(work, found)
    return dict(mean=line.operation_time / line.operations, operations=line.operations,
                kernel=statistics.mean(op.end - op.start for op in kernels) if kernels else None)


def exposed_copies(work, stage, process, found):
    line = Line(work, stage, process)
    own = [one for one, *_ in found]
    # The link still carries them, both directions at once at best.
    only = sum(alone(work, one, "copies and memsets") for one in own) / sum(whole for _, _, whole, _ in found) * line.time
    return dict(share=statistics.median(alone(work, one, "copy") for one in own) / line.time,
                gain=line.saving(min(only, line.time - only / 2)),
                bytes=statistics.median(bytes_of(work, one) for one in own),
                kernels_share=statistics.median(alone(work, one, "kernels") for one in own) / line.time)


def pageable_copies(work, stage, process, found):
    pageable, crossing, times, line = 0, 0, [], Line(work, stage, process)
    from_host = collections.defaultdict(list)
    for one in line.counted:
        copies = copies_of(work, one)
        times.append(sum(op.end - op.start for op, _ in copies))
        pageable += sum(size for op, size in copies if op.pageable)
        crossing += sum(size for op, size in copies if work.crosses(op))
        for op, size in copies:
            if op.pageable:
                from_host[work.direction(op)].append((op, size))
    beyond = pinned = 0
    for direction, copies in from_host.items():
        exposed, rate = exposed_copies_of(work, [op for op, _ in copies]), pinned_rate(work.source, direction)
        # A copy of few bytes takes its latency from any memory.
        latency = min(2000, min(op.end - op.start for op, _ in copies)) * len(copies)
        least = max(sum(size for _, size in copies) / rate * 1e9 if rate else 0, latency)
        beyond += max(exposed - least, 0) / len(line.counted)
        pinned += min(exposed, least) / len(line.counted)
    if is_round_trip(from_host):
        # Both sides hold the data: without the copies, nothing is left of them.
        beyond = statistics.median(alone(work, one, "copy") for one in line.counted)
        pinned = 0
    waits = line.scaled(line.pool["copy"]) if set(from_host) == {"HtoD"} else 0
    return dict(pageable_share=pageable / crossing if crossing else None, share=statistics.median(times) / line.time,
                gain=line.saving(min(beyond + waits, line.reference - pinned)))


def is_round_trip(from_host):
    """Whether as many large copies go to the GPU as back, of as many bytes."""
    there, back = ((len(own), sum(size for _, size in own)) for own in (from_host.get("HtoD", []), from_host.get("DtoH", [])))
    return there == back and there[0] > 0 and there[1] >= there[0] * LARGE


def exposed_copies_of(work, ops):
    """Time of copies in which no kernel of their GPU runs."""
    left = 0
    for gpu in {op.gpu for op in ops}:
        kernels = union((op.start, op.end) for op in work.capture.ops if op.gpu == gpu and not op.copy)
        left += uncovered([(op.start, op.end) for op in ops if op.gpu == gpu], kernels)
    return left


def exposed_communication(work, stage, process, found):
    time = median_time(found)
    exposed = statistics.median(alone(work, one, "communication") for one, *_ in found)
    told = dict(share=exposed / time)
    return told | (dict(waiting_share=waiting(work, stage, process)) if "waiting for the last" in work.statement else {})


def host_pauses(work, stage, process, found):
    rest = Rest(work, stage, process, found)
    typical = typical_code(work, stage, process, rest)
    beyond = sum(max(own - typical, 0) for own in rest.each("host_code"))
    stalls = longest_stalls(work, found, beyond)
    repeats = work.source.baseline.get(stage, {}).get("ms", [])
    cold = dict(cold=repeats[0] * 1e6, cold_median=statistics.median(repeats) * 1e6) if repeats else {}
    profiled = min(rest.line.stalls_of_profiler(), beyond) if rest.line.unprofiled is not None else 0
    in_first = len(found) > 1 and rest.of(0, "host_code") - typical >= 0.9 * beyond
    more = first_calls(work) | jumping(work, stage, process) | settled_of(work, stage) | plans_of(work, stage, process)
    return dict(stalls, **more, time=beyond, gain=beyond - profiled, profiled=profiled, first_text=IN_FIRST if in_first else None,
                all=len(found), ended_code_share=stalls["ended_share"], **cold)


def first_calls(work):
    """Of an operator of a pass the first calls with their sizes that take far longer than others, without operators and calls within."""
    match = re.search(r"calls of (\S+) are the first with their input shapes", work.statement)
    for name in work.source.passes("operators") if match else []:
        other, times, firsts, known = work.source.work(name), [], [], set()
        for thread, every in other.capture.operators.items():
            for one in sorted((one for one in every if one[2] == match[1]), key=lambda one: one[0]):
                inner = [own[:2] for own in every if own is not one and one[0] <= own[0] and own[1] <= one[1]]
                inner += [call[:2] for call in other.capture.calls.get(thread, []) if one[0] <= call[0] and call[1] <= one[1]]
                times.append(one[1] - one[0] - covered(inner))
                dims = str(one[3].get("Input Dims"))
                firsts += [] if dims in known else [(times[-1], one[3]["Input Dims"])]
                known.add(dims)
        slow = [(time, dims) for time, dims in firsts if time >= 10 * statistics.median(times)]
        if slow:
            sizes = [[dim for tensor in dims for dim in tensor] for _, dims in slow]
            varying = [own for own in zip(*sizes) if len(set(own)) == len(slow)]
            return dict(first_calls=len(slow), operator_text=match[1], low=min(varying[0]), high=max(varying[0]), least=min(slow)[0],
                        most=max(slow)[0], calls=len(times), median=statistics.median(times))
    return {}


def jumping(work, stage, process):
    """The jump of the steps of a stage, or of the stage itself, to lower times."""
    match = re.search(r"Consistent with this, (\S+) drops from", work.statement)
    own = match and jump(work, match[1], process, None)
    return dict(jumping_text=match[1], jump_before=own["before"], jump_after=own["after"], jump_number=own["number"]) if match else {}


def settled_of(work, stage):
    own = work.source.baseline.get(stage, {})
    if "before" not in own:
        return {}
    return dict(settling=len(own["before"]), unsettled=statistics.median(own["before"]) * 1e6, settled=statistics.median(own["ms"]) * 1e6)


def plans_of(work, stage, process):
    """Iterations in which the host plans and loads kernels for longer than a launch, and that time of all."""
    own = losses_of(work, stage, process)
    return dict(planned=long_windows(own, SHAPES), plans=own.time(*SHAPES))


def longest_stalls(work, found, loss):
    """Of the longest gaps those in which host code takes most, as many of the longest as lie in the loss for the most part; what they end with."""
    gaps = []
    for one, gpu, _, _ in found:
        first, last = min(op.start for op in one.ops), max(op.end for op in one.ops)
        for gap in work.gaps_within(gpu, first, last):
            time = collections.Counter()
            for start, end, cause in gap[2]:
                time[cause] += max(min(end, last) - max(start, first), 0)
            gaps.append((gap, time))
    listed = sorted(gaps, key=lambda one: one[0][0] - one[0][1])[:20]
    stalls = [(time["host_code"], gap) for gap, time in listed if time and time.most_common(1)[0][0] == "host_code"]
    stalls.sort(key=lambda one: -one[0])
    ended, count, whole = collections.Counter(), collections.Counter(), 0
    for time, gap in stalls:
        if loss - whole < time / 2:
            break
        whole += time
        ended[work.ended_by(gap[1])] += time
        count[work.ended_by(gap[1])] += 1
    name, most = ended.most_common(1)[0] if ended else (None, 0)
    return dict(longest=max(time["host_code"] for _, time in gaps), listed=count.total(), whole=whole, kinds=len(count),
                ended_share=most / whole if whole else None, ended_count=count[name])


# Of each rule the pattern of its statement and its derivation.
RULES = {
    "stage-busy": (
        r".+? takes (?P<time>\S+ \S+)(?: for \S+ steps)?(?: in the baseline)?; the GPU is (?:busy for (?P<busy_share>\S+ %) of it(?: at profiled kernel durations)?"
        r"(?:\. Shares of busy time: (?P<group_text>.+?) (?P<group_share>\S+ %)(?:; [^.]+(?:\.\d+ %[^.]*)*)?)?"
        r"|idle for (?P<share>\S+ %) of it(?: and runs operations of other stages or iterations for (?P<other_share>\S+ %))?(?: at profiled kernel durations)?"
        r"(?:\. Main cause over (?P<count>\S+) profiled iterations?(?P<apart_text>" + APART + r"|): (?P<cause_text>.+), "
        r"(?P<cause_share>\S+ %) of (?:its|their) time)?(?:\. Cause: (?P<sole_text>[^.]+?))?"
        r"(?:, between (?P<operations>\S+) operations of (?P<mean>\S+ \S+) on average)?)\."
        r"(?: Exposed communication takes (?P<exposed_share>\S+ %) of stage time"
        r"(?:, up to (?P<waiting_share>\S+ %) of it waiting for the last rank to arrive|; all of that may be waiting for the last "
        r"rank to arrive)?\.)?(?: Memory bandwidth utilization \(MBU\)(?: in the baseline)? is (?P<mbu_share>\S+ %)\.)?"
        r"(?: MFU(?: in the baseline)? is (?P<mfu_share>\S+ %), and (?P<busy_mfu_share>\S+ %) while the GPU is busy\.)?", stage_busy),
    "allocator-stalls": (
        f"(?:{IDLES} inside calls that allocate or free memory|.+? makes (?P<calls>\\S+) CUDA calls? that allocate or free "
        r"memory(?: in its (?P<instances>\S+) measured iterations?)?; they take (?P<calls_share>\S+ %) of its time on the CPU)\.", allocation),
    "host-bound": (
        r"(?:Excluding intermittent stalls, the GPU is idle for (?P<besides_share>\S+ %) of .+?|" + IDLES
        + r") while the CPU thread (?P<does_text>works|waits) outside CUDA calls"
        r"(?:, (?P<os_share>\S+ %) of this idle time in operating-system calls(?: \((?P<calls_text>[^)]+)\))?)?(?:, (?P<off_share>\S+ %) of this idle time off CPU \(preempted or blocked\))?\."
        r"(?: (?P<place_share>\S+ %) of this CPU time is in (?P<place_text>[^,]+?)(?:, called in .+?)?\.)?"
        r"(?: In \S+ % of the CPU code of its longest gaps the loop waits for the DataLoader's next batch\.)?"
        + SAMPLED, host_bound),
    "first-use": (f"{IDLES} inside calls that load code, launch a kernel for the first time, or instantiate a graph\\.",
                  first_use),
    "first-use shapes": (NAMED_IDLE + OCCURS + r"\.", shapes_of_others),
    "queue-gaps": (
        f"{IDLES} between operations (?:already launched|replayed by a CUDA graph)"
        r"(?: \((?P<gaps>\S+) gaps? over all measured iterations, mean (?P<mean>\S+ \S+)\))?, after the CPU issued them\."
        r"(?: Of the GPU idle time of these graphs, (?P<inside>\S+ \S+) lies inside replays and (?P<between>\S+ \S+) in the "
        r"(?P<betweens>\S+) gaps? between replays \(sums over all measured iterations\)\.)?",
        queue_gaps),
    "launch-bound": (
        f"(?:.+? is launch-bound\\. )?{IDLES} while the CPU issues the next operation"
        r"(?:; (?P<launches>\S+) launches per step)?(?:; (?P<operations>\S+) GPU operations per iteration)?"
        r"(?:; mean kernel duration (?P<kernel>\S+ \S+?))?(?:; median launch call (?P<call>\S+ \S+?))?\." + SAMPLED,
        launch_bound),
    "short-kernels": (
        r"(?:Kernels in .+? last (?P<kernel>\S+ \S+)|GPU operations in .+? last (?P<mean>\S+ \S+)) on average, with "
        r"(?P<operations>\S+) operations per iteration"
        r"(?:, comparable to the cost of a kernel launch\.|\. CUDA graphs replay at least half of them.+)", short_kernels),
    "exposed-copies": (
        r".+? spends (?P<share>\S+ %) of its time in transfers not overlapped with kernels; it transfers (?P<bytes>\S+ \S+) "
        r"per iteration, and kernels without concurrent transfers take (?P<kernels_share>\S+ %) of its time\.", exposed_copies),
    "pageable-copies": (
        r"(?P<pageable_share>\S+ %) of the bytes that .+? transfers between host and GPU use pageable memory; memory "
        r"transfers take (?P<share>\S+ %) of stage time\. Pageable transfers are staged and can block the CPU thread\.",
        pageable_copies),
    "exposed-communication": (r"Exposed communication takes (?P<share>\S+ %) of .+?"
                              r"(?:; up to (?P<waiting_share>\S+ %) of it is waiting for the last rank to arrive)?\.",
                              exposed_communication),
    "host-pauses": (
        r".+? loses (?P<time>\S+ \S+) over (?P<all>\S+) measured iterations? to intermittent CPU stalls absent from (?:the median "
        r"iteration|median steps)(?P<first_text>, nearly all of it in the first one, which may be a cold start)?; the longest lasts (?P<longest>\S+ \S+?)"
        r"(?:\. The (?P<listed>\S+) longest stalls take (?P<whole>\S+ \S+)(?:; (?P<ended_share>\S+ %) of it"
        r"| of CPU work outside CUDA(?:; (?P<ended_code_share>\S+ %) of it| and end with (?P<kinds>\S+) different kernels))"
        r"(?: is in (?P<ended_count>\S+) stalls? that directly precedes? [^.]+(?: in range \S+)?)?)?\."
        r"(?: In (?P<planned>\S+) iterations the CPU plans and loads kernels for input shapes, (?P<plans>\S+ \S+) in all\.)?"
        r"(?: The gain excludes (?P<profiled>\S+ \S+): a cold start, or absent from unprofiled repeats\.)?"
        r"(?: In pass \S+, (?P<first_calls>\S+) calls of (?P<operator_text>\S+) are the first with their input shapes "
        r"\(a size of (?P<low>\S+) to (?P<high>\S+)\) and take (?P<least>\S+ \S+) to (?P<most>\S+ \S+) of Self CPU time each; "
        r"the median of all (?P<calls>\S+) calls is (?P<median>\S+ \S+)\.| cuDNN attention builds a plan for each new key "
        r"length; a PyTorch trace would show whether these stalls are such plans\.)?(?: Consistent with this, the time of "
        r"(?P<faster_text>\S+) drops by (?P<drop_share>\S+ %) over the run\.)?(?: Consistent with this, (?P<jumping_text>\S+) drops from "
        r"(?P<jump_before>\S+ \S+) to (?P<jump_after>\S+ \S+) \(medians\) at iteration (?P<jump_number>\S+)\.)?(?: The first baseline "
        r"repeat is also slow: (?P<cold>\S+ \S+), against a median of (?P<cold_median>\S+ \S+)\.)?(?: Of the baseline repeats, the first "
        r"(?P<settling>\S+) take (?P<unsettled>\S+ \S+), and later ones (?P<settled>\S+ \S+) \(medians\)\.)?", host_pauses),
    "attribution-coverage": (
        r"(?:(?P<inferred_share>\S+ %) of operations in .+? were issued by a thread without NVTX ranges, such as the autograd thread\. "
        r"They are assigned to the range of the only other thread that had one open\.(?: If the issuing thread also .+)?|(?P<share>\S+ %) of GPU time in pass .+?, from the first "
        r"stage on, belongs to no stage; stage figures exclude it\.)", unattributed),
    "no-tensor-cores": (
        r"(?:fp32 (?:GEMMs|convolutions|GEMMs and convolutions) run without tensor cores for (?P<time>\S+ \S+), (?P<share>\S+ %) of "
        r"kernel time(?:, (?P<transforms>\S+ \S+) of it in transforms for convolutions by Winograd)?; the largest is "
        r"(?P<kernel_text>.+)|(?:fp16|bf16) convolutions run without tensor cores for (?P<convolutions>\S+ \S+), "
        r"(?P<convolutions_share>\S+ %) of kernel time; the largest is (?P<convolution_kernel_text>.+))\.", no_tensor_cores),
    "tf32-gemms": (
        r"TF32 (?:GEMMs|convolutions|GEMMs and convolutions) take (?P<time>\S+ \S+), (?P<share>\S+ %) of kernel time; "
        r"the largest is (?P<kernel_text>.+?)\.(?: Kernels that read and write fp32 tensors between them take (?P<others>\S+ \S+)\.)?",
        tf32_gemms),
    "unknown-kernels": (
        r"(?P<share>\S+ %) of kernel time in pass .+? is in kernels that are neither classified by name nor known to be "
        r"application kernels(?:; the largest is (?P<kernel_text>.+))?\.", unknown_kernels),
}
