"""Rules that name what the host did while the GPU was idle: of a stage, or of the measured loop.

Definitions: docs/findings/garbage-collection.md and the pages of the other rules below.
"""

import collections
import re
import statistics

from activities import UNNAMED, Host, names, subject_of, windows_of
from idle import within
from instances import REPEATING, covered, lies_in
from kernel_names import is_cudnn_attention, is_of_cudnn
from line import HOST, Line
from parts import chain, next_range, sync_calls, sync_time

MARKED = {"garbage-collection": ["garbage collection"], "data-loader": ["data loader"], "compilation": ["compilation"],
          "checkpoint": ["checkpoint"], "empty-cache": ["empty_cache", "allocation"], "os-waits": ["sleep"]}
CAPTURES = ["graph capture", "empty_cache", "garbage collection"]
PLANS = ["kernel plans", "new shape"]
SHAPES = [*PLANS, "code loading"]
LOADED = ["new shape", "code loading"]
# A launch of a prepared kernel takes less.
PREPARES = 1e6
# From this share on, the code that an action names is all of it.
MOST = 0.9
# Waits of less are no loss of a stage.
WAITS = 0.02
LOADS = ["code loading", "kernel plans", "host code", "allocation", "synchronization", "files"]
IDLE = (r"The GPU is idle for (?P<share>\S+ %) of (?:the (?P<run>\S+ \S+) of the measured loop|.+?)"
        r" (?:while .+?|in and after waits for the GPU)(?: \((?!median)(?P<names_text>(?:[^()]|\(\S+ %\))+)\))?")
OCCURS = (r", in (?:(?P<windows>\S+) of (?P<all>\S+) iterations \((?P<each>\S+ \S+) each(?: under the profiler)?\)"
          r"|(?P<with_loss>\S+) of (?P<parts>\S+) parts of the capture)")
PATTERN = IDLE + OCCURS + r"\.(?: A loop with fixed shapes does so once\.| A length that was planned before needs no plan\.)?"
SYNC = (IDLE + r"(?: \(median (?P<calls>\S+) calls per iteration\))?" + OCCURS
        + r"; (?P<within_share>\S+ %) of it before these calls return, the rest while the CPU launches into the empty queue\."
          r"(?: Longest in (?P<call_text>\S+?)(?: in (?P<around_text>.+))?\.)?")


def host_of(work):
    if not hasattr(work, "host"):
        work.host = Host(work)
    return work.host


def bound(lost, issued, of_host, latency=0, sooner=float("inf")):
    """Its time; with all idle time of the host where most of that has this cause, and the latency of its launches. The host
    issues other work sooner by at most the given time."""
    return (max(min(of_host + latency, lost + sooner), lost) if lost >= of_host * 2 / 3 else lost) + issued


def sooner(work, stage, process, line):
    """What the host waits in synchronizing calls, in all counted instances."""
    return float("inf") if line.unprofiled is None else sync_time(work, stage, process) * len(line.found)


def pairs_of(work):
    """The times between outermost instances that count: of each pair of stages its windows; the run."""
    pairs, run, last = collections.defaultdict(list), [], None
    for start, end, one, counts in chain(work):
        run += [(start, end)] if counts else []
        if last is not None and last[1] < start and counts and last[3]:
            pairs[last[2].stage, one.stage].append((last[1], start, one.thread))
            run.append((last[1], start))
        last = (start, end, one, counts) if last is None or end > last[1] else last
    return pairs, covered(run)


def loop_time(work, run):
    """Time of the measured loop of the first process: typical iterations without the profiler, or all of it as captured
    without what the profiler adds to typical iterations and to stalls."""
    typical, captured, added = 0, run, 0
    for line in lines_of(work):
        typical += line.reference * len(line.counted)
        captured = max(captured, line.whole)
        if line.unprofiled is not None:
            added += line.stalls_of_profiler()
            # It holds what the host does in the range before the first and after the last operation.
            pauses = pauses_of(work, line) if len(line.counted) < 3 else 0
            pauses += work.source.beyond_levels(line.stage)
            added += max((line.time - line.reference) * len(line.counted) + around(work, line.stage) - pauses, 0)
    return max(typical, captured - added)


def pauses_of(work, line):
    """Code of the host beyond that of typical steps: the median of few iterations holds it, and the loop without the profiler, too."""
    from stages import Rest, typical_code

    rest = Rest(work, line.stage, line.process, line.found)
    typical = typical_code(work, line.stage, line.process, rest)
    return 0 if typical is None else sum(max(own - typical, 0) for own in rest.each("host_code"))


def host_times(work):
    """Of each pair of stages, the idle time while the host is still in the first one, and while it is in the second one."""
    gpu, times, last = work.capture.ops[0].gpu, {}, None
    for start, end, one, counts in chain(work):
        if last is not None and last[1] < start and counts and last[3]:
            behind, inside = times.get((last[2].stage, one.stage), (0, 0))
            behind += sum(idle_of_windows(work, gpu, [(last[1], max(min(start, last[2].end), last[1]))]))
            inside += sum(idle_of_windows(work, gpu, [(min(max(last[1], one.start), start), start)]))
            times[last[2].stage, one.stage] = behind, inside
        last = (start, end, one, counts) if last is None or end > last[1] else last
    return times


def around(work, stage):
    """Idle time while the host is in the range of a stage before its first or after its last operation."""
    return sum(time for pair, times in host_times(work).items() for own, time in zip(pair, times) if own == stage)


def host_place(work, pair, idle):
    """The stage in whose range the host is for the largest part of the idle time, and that part; none outside of both."""
    behind, inside = (0 if stage == REPEATING else time for stage, time in zip(pair, host_times(work)[pair]))
    if idle - sum(host_times(work)[pair]) >= max(behind, inside):
        return None, None, 0
    return ("next", pair[1], inside) if inside >= behind else ("last", pair[0], behind)


def is_notable(line, whole):
    """A stage of less than a hundredth of the loop has no findings."""
    return line.reference * len(line.counted) >= 0.01 * whole


def lines_of(work):
    """The outermost stages of the first process."""
    process = work.capture.ops[0].process
    outermost = {one.stage for _, _, one, _ in chain(work) if one.process == process}
    return [Line(work, stage, process) for stage in work.stages if stage in outermost and work.counted(stage, process)]


def of_stage(work, stage, process, activities):
    line, own = Line(work, stage, process), losses_of(work, stage, process)
    lost, windows = own.time(*activities), own.occurs(*activities)
    issued = sum(own.issued[one] for one in activities)
    saved = min(bound(lost, issued, line.of_host(), line.late_latency()), line.whole)
    listed = names([own], activities)
    gain = gain_of_stage(line, own.windows, windows, lost + issued, saved, issued)
    return dict(share=lost / line.whole, windows=windows, all=own.windows, each=lost / max(windows, 1), gain=gain, with_loss=windows,
                parts=own.windows, names_text=", ".join(listed[:3])), own, line, lost


def gain_of_stage(line, all_windows, windows, loss, saved, issued, around=0):
    """Of each iteration; of all of them where few have the loss, or where a share of all is none of the median one. The share is
    of the iterations and of the time around their operations."""
    if 2 * windows < all_windows:
        return loss
    mean = line.whole / len(line.found)
    if mean > 1.5 * line.time or line.time > 1.5 * mean:
        return saved
    return line.saving_share(saved / (line.whole + around), issued / all_windows)


def of_loop(work, activities):
    host = host_of(work)
    pairs, run = pairs_of(work)
    gpu = work.capture.ops[0].gpu
    stages = [(stage, process) for stage in work.stages for process in work.instances(stage) if work.counted(stage, process)
              and work.counted(stage, process)[0].ops]
    whole = loop_time(work, run)
    stages = [one for one in stages if is_notable(Line(work, *one), whole)]
    of_stages = [host.losses(gpu, windows_of(work, *one, gpu)) for one in stages]
    of_pairs = [host.losses(gpu, own) for own in pairs.values() if len(own) >= 3]
    main = max(of_pairs, key=lambda own: own.occurs(*activities))
    lost = sum(own.time(*activities) for own in [*of_pairs, *of_stages])
    issued = sum(own.issued[one] for own in [*of_pairs, *of_stages] for one in activities)
    between = sum(within(gap, *window[:2]).total() for own in pairs.values() for window in own
                  for gap in work.gaps_within(gpu, *window[:2]))
    in_stages = sum(Line(work, *one).idle for one in stages)
    windows = main.occurs(*activities)
    # Where the loop takes longer without the profiler, so does the cause.
    longer = max(whole / run, 1)
    saved = bound(lost, issued, between + in_stages)
    gain = min(saved * longer, whole)
    if work.of_stage:
        # Unprofiled times hold what the host does in the range: of an iteration, if that is idle for longer, too, and at most its idle time.
        line = Line(work, work.of_stage, work.capture.ops[0].process)
        count, most = len(line.counted), max(line.reference - line.busy, 0)
        profiled = around(work, work.of_stage) / count + max(line.time - line.busy, 0)
        gain = min(saved / count * max(most / profiled, 1), most)
    return dict(share=(lost + issued) / run, run=run, windows=windows, all=main.windows, each=(lost + issued) / max(windows, 1), gain=gain,
                names_text=", ".join(names([*of_pairs, *of_stages], activities)[:3]))


def marked(rule):
    def derivation(work, stage, process, found):
        activities = MARKED[rule]
        if rule == "os-waits" and host_time(work, ["files"]) > host_time(work, activities):
            activities = ["files"]
        return of_stage(work, stage, process, activities)[0] if is_of_stage(work) else of_loop(work, activities)
    return derivation


def is_of_stage(work):
    """A loss of the loop is one of a stage, too, if the host is in the range of that."""
    return work.of_stage and "of the measured loop" not in work.statement


def host_time(work, activities):
    """Whether the host did this at all."""
    host, gpu = host_of(work), work.capture.ops[0].gpu
    pairs, _ = pairs_of(work)
    every = [windows_of(work, stage, process, gpu) for stage in work.stages for process in work.instances(stage)]
    return sum(host.losses(gpu, own).time(*activities) for own in [*every, *pairs.values()] if own)


def graph_capture(work, stage, process, found):
    return of_stage(work, stage, process, CAPTURES)[0] if is_of_stage(work) else of_loop(work, CAPTURES)


def prepares(own):
    """Whether the host prepares kernels: a launch of a prepared one takes less than a millisecond, and waits for nothing."""
    time = sum(own.time(one) / max(own.occurs(one), 1) for one in PLANS)
    causes = collections.Counter()
    for one in PLANS:
        for by_window in own.causes.get(one, []):
            causes.update(by_window)
    return time >= PREPARES and any(causes[cause] for cause in ("sync", "allocation", "first_use"))


def new_shapes(work, stage, process, found):
    attention, _ = of_attention(work, stage, process)
    if attention:
        return prepared(work, stage, process, attention, ["kernel plans"], sum(attention[:2]))
    return prepared(work, stage, process, preparation(work, stage, process), SHAPES, float("inf"))


def prepared(work, stage, process, lost_of, activities, limit):
    lost, issued, windows = lost_of
    line, own = Line(work, stage, process), losses_of(work, stage, process)
    named = sum(time for one in activities for name, time in own.subjects.get(one, {}).items() if name is not None)
    listed = names([own], activities) if 2 * named >= own.time(*activities) else []
    for other in [] if listed else others(work, stage):
        listed = listed or names([losses_of(other, stage, sorted(other.instances(stage))[0])], activities)
    most = sooner(work, stage, process, line)
    saved = min(bound(lost, issued, line.of_host(), line.late_latency(), most), limit, line.whole)
    gain = gain_of_stage(line, own.windows, windows, lost + issued, saved, issued)
    if line.levels and 2 * windows >= own.windows:
        # Repeats of the lower level show what is left.
        gain = max(gain, line.reference - statistics.median(line.levels[0]))
    return dict(share=lost / line.whole, windows=windows, all=own.windows, each=lost / windows, gain=gain,
                names_text=", ".join(listed[:3]))


def of_attention(work, stage, process):
    """Of a stage in which cuDNN computes attention alone: what the host prepares for it and, if the pass shows that, for others."""
    ops = [work.capture.details[op.rank] for one in work.counted(stage, process) for op in one.ops if not op.copy]
    of_cudnn = [own for own in ops if is_of_cudnn(own)]
    if not of_cudnn or not all(map(is_cudnn_attention, of_cudnn)):
        return None, None
    own = losses_of(work, stage, process)
    if not own.time("kernel plans"):
        return preparation(work, stage, process), None
    return tuple((own.time(*activities), sum(own.issued[one] for one in activities), own.occurs(*activities))
                 for activities in (["kernel plans"], LOADED))


def shapes_of_others(work, stage, process, found):
    """What new shapes need of other kernels where cuDNN plans attention for them."""
    _, lost = of_attention(work, stage, process)
    return prepared(work, stage, process, lost, LOADED, sum(lost[:2]))


def losses_of(work, stage, process):
    gpu = work.idle(stage, process)[0][1]
    return host_of(work).losses(gpu, windows_of(work, stage, process, gpu))


def preparation(work, stage, process):
    """Idle time in which the host prepares kernels for input shapes, what it issues for it, and the windows with it: as the
    pass says, or as much of the idle time of the host as another pass with operators says."""
    own = losses_of(work, stage, process)
    if prepares(own) or loads(own):
        activities = SHAPES if prepares(own) else LOADS
        told = own.time(*activities), timed_kernels(work, stage, process, own), long_windows(own, activities)
    else:
        for other in others(work, stage):
            line = Line(other, stage, sorted(other.instances(stage))[0])
            of_other = losses_of(other, stage, line.process)
            share = of_other.time(*SHAPES) / max(line.of_host(), 1)
            if prepares(of_other) and share >= 0.5:
                windows = round(long_windows(of_other, SHAPES) / of_other.windows * own.windows)
                issued = timed_kernels(work, stage, process, own)
                # One iteration of the other pass may be its first; those of this pass must have the time, too.
                each = [sum(times[cause] for cause in HOST) * min(share, 1) for *_, times in work.idle(stage, process)]
                long = [time for time in each if time >= PREPARES]
                told = sum(long), issued, min(windows, len(long))
                break
        else:
            return None
    return told if own.windows >= 3 and 2 * told[2] >= own.windows else None


def long_windows(own, activities):
    """Windows in which these take longer than a launch."""
    times = [sum(own.times[one][number] for one in activities if one in own.times) for number in range(own.windows)]
    return sum(time >= PREPARES for time in times)


def timed_kernels(work, stage, process, own):
    """Time of kernels that cuDNN times to choose from: of the pass, or of another one with operators the share of busy time."""
    if own.issued["kernel plans"]:
        return own.issued["kernel plans"]
    for other in others(work, stage):
        line = Line(other, stage, sorted(other.instances(stage))[0])
        issued = losses_of(other, stage, line.process).issued["kernel plans"]
        if issued:
            return Line(work, stage, process).pool["busy"] * issued / line.pool["busy"]
    return 0


def loads(own):
    """Whether the host loads code in most windows, and no compiler does."""
    calls = [windows for (activity, name), windows in own.calls.items() if activity == "code loading" and name]
    return (own.windows >= 3 and any(2 * len(windows) >= own.windows for windows in calls)
            and 2 * own.occurs("compilation", "graph capture") < own.windows and own.time(*LOADS) >= 1e6 * own.windows)


def others(work, stage):
    """The other passes with this stage."""
    source = getattr(work, "source", None)
    for name in (source.passes("timeline") + source.passes("operators")) if source else []:
        other = source.work(name)
        if other is not work and any(other.counted(stage, process) for process in other.instances(stage)):
            other.stages = other.stages or work.stages
            yield other


def sync_bound(work, stage, process, found):
    activities = ["synchronization", "blocking copy"]
    told, own, line, lost = of_stage(work, stage, process, activities)
    named = sum(time for one in activities for name, time in own.subjects.get(one, {}).items() if name is not None)
    listed = names([own], activities) if 2 * named >= lost else []
    for other in [] if listed else others(work, stage):
        listed = listed or names([losses_of(other, stage, sorted(other.instances(stage))[0])], activities)
    waits = [wait for of in own.waits for wait in of]
    counts = sum(wait.counts for wait in waits)
    name = listed[0] if listed else "nonzero" if counts and 2 * counts >= len(waits) else None
    kind = kind_of_wait(name)
    most, issued = float("inf"), sum(own.issued[one] for one in activities)
    is_mixed = name is None and is_repeated(own) and bool(names([own], activities))
    launches = False
    if kind == "value" or is_mixed:
        waiting = line.waits() * len(line.counted) if line.unprofiled is None else sooner(work, stage, process, line)
        # Where the host works for most of that time, its launches are what the GPU waits for.
        launches = waiting < lost / 2
        # Of a loop of waits, launches do not take the rest.
        most = most if launches and is_repeated(own) else waiting
    if kind == "value" and not launches:
        # The copy to the host goes with its read; what it reads is computed as before.
        issued = min(issued, sum(op.end - op.start for one in line.counted for op in one.ops if op.copy))
    if keeps_host(kind, own) and not (is_mixed and launches):
        most, issued = min(most, line.waits() * len(line.counted)), 0
    saved = min(bound(lost, issued, line.of_host(), line.late_latency()), most, line.whole)
    # Unprofiled times hold what the host does in the range around the operations, where it does not wait.
    beyond = around(work, stage) if line.unprofiled is not None else 0
    gain = gain_of_stage(line, own.windows, told["windows"], min(lost + issued, most), saved, issued, beyond)
    moves = kind == "data" and is_loop_of_copies(work, line, own, name)
    if (launches and is_repeated(own) or moves) and 2 * told["windows"] >= own.windows:
        # Except that of nested stages without such waits.
        nested = sum(inner.idle for inner in nested_in(work, stage, process)
                     if losses_of(work, inner.stage, process).time(*activities) < WAITS * inner.whole) / len(line.counted)
        each, idle = issued / len(line.counted), line.time - line.busy - nested
        gain = line.saving(min(idle + each, line.unprofiled_idle(idle) + each))
    if moves:
        gain += copied(work, line)
    name = ", ".join(listed[:3]) if kind == "mask" else ", ".join(names([own], activities)[:3]) if is_mixed else name
    calls, call, place = sync_calls(work, stage, process)
    return dict(told, gain=gain, names_text=with_shares(work, own, activities, name), calls=calls, call_text=call, around_text=place,
                within_share=min((line.pool["sync"] + line.pool["copy"]) / lost, 1))


def copied(work, line):
    """Time of copies to the host without kernels, of an iteration: work on the GPU has the result to copy, not its data."""
    from stages import exposed_copies_of

    each = [exposed_copies_of(work, [op for op in one.ops if op.copy and work.direction(op) == "DtoH"]) for one in line.counted]
    return min(statistics.median(each), line.busy)


def nested_in(work, stage, process):
    """Lines of the stages whose iterations all lie in those of a stage."""
    own = work.counted(stage, process)
    for other in work.stages:
        parts = work.counted(other, process) if other != stage and process in work.instances(other) else []
        if parts and all(any(lies_in(part, one) for one in own) for part in parts):
            yield Line(work, other, process)


def is_loop_of_copies(work, line, own, name):
    """Whether a call reads three times an iteration or more, and no kernel runs between most copies to the host: a loop over data
    that is there already."""
    reads = statistics.median(sum(subject_of(wait.path, "synchronization") == name for wait in of) for of in own.waits)
    pairs = computing = 0
    for one in line.counted:
        has_read = computes = False
        for op in one.ops:
            if op.copy and work.direction(op) == "DtoH":
                pairs, computing = pairs + has_read, computing + (has_read and computes)
                has_read, computes = True, False
            elif not op.copy:
                computes = True
    return reads >= 3 and 2 * computing < pairs


def with_shares(work, own, activities, listed):
    """Names with the share of each, where the statement has shares: as stated, if all digits agree."""
    stated = re.findall(r"(?:GPU \(|, )([^(,]+?) \((\S+) %\)", work.statement)
    times = collections.Counter()
    for activity in activities:
        times.update({name: time for name, time in own.subjects.get(activity, {}).items() if name is not None})
    known = {name: time / max(times.total(), 1) * 100 for name, time in times.items()}
    if stated and all(abs(known.get(name, -1) - float(share)) <= 1e-6 for name, share in stated):
        return ", ".join(f"{name} ({share} %)" for name, share in stated)
    return listed


def kind_of_wait(name):
    """What the host waits for, by a mark or operator: all work, if nothing says it."""
    name = (name or "").split(" at ")[0].removeprefix("aten::")
    if not name or "synchronize" in name:
        return "all"
    kinds = {"index": "mask", "index_put_": "mask", "index_put": "mask", "nonzero": "size", "masked_select": "size",
             "cpu": "data", "tolist": "data"}
    return kinds.get(name, "value")


def keeps_host(kind, own):
    """Whether the host works as long as before without the waits: it neither works on what it waits for nor loops."""
    return kind == "all" or kind != "data" and not is_repeated(own)


def is_repeated(own):
    """Whether a typical iteration waits in a loop."""
    return statistics.median([len(of) for of in own.waits] or [0]) >= 3


def between(work, stage, process, found):
    """Idle time between stages without what has a name: the two stages with most of it, and where the host computes."""
    host, gpu = host_of(work), work.capture.ops[0].gpu
    pairs, run = pairs_of(work)
    loops = {pair: host.losses(gpu, own) for pair, own in pairs.items() if len(own) >= 3}
    idle = {pair: sum(within(gap, *window[:2]).total() for window in pairs[pair] for gap in work.gaps_within(gpu, *window[:2]))
            for pair in loops}
    # Waits have a finding within stages alone.
    unnamed = UNNAMED | {"synchronization", "blocking copy"}
    named = {pair: sum(own.time(one) for one in list(own.times) if one not in unnamed) for pair, own in loops.items()}
    rest = {pair: max(min(idle[pair] - named[pair], idle[pair] - after_waits(work, process, pair, pairs[pair])), 0) for pair in loops}
    places = {pair: host_place(work, pair, idle[pair]) for pair in loops}
    groups = collections.defaultdict(dict)
    for pair, (side, own, _) in places.items():
        if own == work.of_stage:
            groups[side, own][pair] = rest[pair]
    # A stage may have a finding about the time before its first operation, and another about that after its last one.
    of_statement = [one for one in groups.values() if "between {} and {} (".format(*max(one, key=one.get)) in work.statement]
    group = max(of_statement or groups.values(), key=lambda one: sum(one.values()))
    pair = max(group, key=group.get)
    place, covers = place_of([loops[own] for own in group], set(work.stages))
    range_, covered_ = next_range(work, pair, pairs[pair]) if not named[pair] else (None, 0)
    if place is None and covered_ >= 0.5:
        place, covers = range_, covered_
    causes = collections.Counter()
    for window in pairs[pair]:
        for gap in work.gaps_within(gpu, *window[:2]):
            causes.update(within(gap, *window[:2]))
    each = idle_of_windows(work, gpu, pairs[pair])
    whole, lost, lines = loop_time(work, run), sum(group.values()), lines_of(work)
    _, own, in_place = places[pair]
    if own is None and all(line.unprofiled is not None for line in lines):
        # Unprofiled times hold all that the host does in the ranges of the stages.
        lost = min(lost, whole - sum(line.reference * len(line.counted) for line in lines))
    # The code that the action names is that part of it.
    part = covers if covers and covers < MOST and work.action and place in work.action else 1
    gain = min(lost, whole) * part
    if own is not None and Line(work, own, process).unprofiled is not None:
        line = Line(work, own, process)
        count, most = len(line.counted), max(line.reference - line.busy, 0)
        # Where the range is idle for longer without the profiler, what the host does there takes longer.
        profiled = around(work, own) / count + max(line.time - line.busy, 0)
        own_idle = lost / count * max(most / profiled, 1)
        if work.action and work.action.startswith("Do the work on the data of"):
            # The rest of the idle time is launches after the copy.
            gain = (most if own_idle >= MOST * most else min(own_idle, most)) + copied(work, line)
        else:
            gain = min(own_idle, most) * part
    return dict(share=lost / whole, run=whole, gain=gain, after_text=pair[0], before_text=pair[1], n=len(each),
                median=statistics.median(each), cause_text=causes.most_common(1)[0][0], place_text=place, place_share=covers,
                inside=in_place / idle[pair], inside_text=own)


def once(work, stage, process, found):
    """Of pairs of stages what the longest time between them exceeds the median one by, if it is most of all or twice any other of many."""
    lost, gpu = 0, work.capture.ops[0].gpu
    for windows in pairs_of(work)[0].values():
        each = sorted(idle_of_windows(work, gpu, windows))
        beyond = each[-1] - round(statistics.median(each))
        if len(each) >= 3 and (2 * beyond > sum(each) or len(each) >= 10 and each[-1] >= 2 * each[-2]):
            lost += beyond
    return dict(lost=lost)


def idle_of_windows(work, gpu, windows):
    return [sum(within(gap, *window[:2]).total() for gap in work.gaps_within(gpu, *window[:2])) for window in windows]


def after_waits(work, process, pair, windows):
    """Idle time after a stage whose waits take the host's lead: as far as it was ahead of the GPU where the stage began, if the
    waits are a loop, or as long as they are. Waits that cost less in the stage itself do not explain it."""
    own, stage = losses_of(work, pair[0], process), pair[0]
    activities = ["synchronization", "blocking copy"]
    lost = own.time(*activities)
    if lost < WAITS * Line(work, stage, process).whole:
        return 0
    is_loop = not keeps_host(kind_of_wait((sync_bound(work, stage, process, None)["names_text"] or "").split(", ")[0]), own)
    leads = leads_of(work)[pair] if is_loop else [0] * len(windows)
    wait = sync_time(work, stage, process)
    idle = idle_of_windows(work, work.capture.ops[0].gpu, windows)
    hidden = sum(min(own_idle, max(lead, wait)) for own_idle, lead in zip(idle, leads))
    return hidden if lost >= hidden else 0


def leads_of(work):
    """Of each pair of stages, how far the host is ahead of the GPU where the first of them begins."""
    leads, last, until = collections.defaultdict(list), None, 0
    for start, end, one, counts in chain(work):
        if last is not None and last[1] < start and counts and last[3]:
            leads[last[2].stage, one.stage].append(max(until - last[2].start, 0))
        if last is None or end > last[1]:
            until, last = last[1] if last else 0, (start, end, one, counts)
    return leads


def place_of(losses, stages):
    """The range or operator in which the host computes for at least half of its code that has no name."""
    times, whole = collections.Counter(), 0
    for own in losses:
        for (activity, path), time in own.places.items():
            if activity in ("host code", "system", "launching"):
                whole += time
                name = next((name for kind, name in reversed(path)
                             if kind == "operator" or kind == "range" and name not in stages), None)
                times[name] += time if name else 0
    name, most = times.most_common(1)[0] if times else (None, 0)
    return (name, most / whole) if name and 2 * most >= whole else (None, None)


BETWEEN = (r"The GPU is idle between stages for (?P<share>\S+ %) of the (?P<run>\S+ \S+) of the measured loop, the largest part "
           r"between (?P<after_text>.+) and (?P<before_text>.+) \((?:median (?P<median>\S+ \S+), )?n = (?P<n>\S+)\)\."
           r"(?: Largest cause there: .+?\.)?"
           r"(?: For (?P<inside>\S+ %) of it the CPU is in the range of (?P<inside_text>.+?)\.)?"
           r"(?: (?P<place_share>\S+ %) of the time without a closer cause is CPU code in (?P<place_text>.+?)\.)?")
ONCE = r"The GPU is idle between stages for (?P<lost>\S+ \S+) that occurs? once: no loss of each iteration\."
NAMED = {rule: (PATTERN, marked(rule)) for rule in MARKED} | {
    "graph-capture": (PATTERN, graph_capture), "new-shapes": (PATTERN, new_shapes), "sync-bound": (SYNC, sync_bound),
    "between-stages": (BETWEEN, between), "between-stages once": (ONCE, once)}
