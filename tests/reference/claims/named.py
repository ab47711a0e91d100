"""Rules that name what the host did while the GPU was idle: of a stage, or of the measured loop.

Definitions: docs/findings/garbage-collection.md and the pages of the other rules below.
"""

import collections
import statistics

from activities import LOADER, Host, names, windows_of
from idle import within
from instances import covered
from line import HOST, Line
from parts import chain, sync_calls

MARKED = {"garbage-collection": ["garbage collection"], "data-loader": ["data loader"], "compilation": ["compilation"],
          "checkpoint": ["checkpoint"], "empty-cache": ["empty_cache", "allocation"], "os-waits": ["sleep"]}
CAPTURES = ["graph capture", "empty_cache", "garbage collection"]
SHAPES = ["kernel plans", "new shape"]
LOADS = ["code loading", "host code", "allocation", "synchronization", "files"]
IDLE = (r"The GPU is idle for (?P<share>\S+ %) of (?:the (?P<run>\S+ \S+) of the measured loop|.+?)"
        r" (?:while .+?|in and after waits for the GPU)(?: \((?P<names_text>[^)]+)\))?")
OCCURS = r", in (?P<windows>\S+) of (?P<all>\S+) iterations \((?P<each>\S+ \S+) each\)"
PATTERN = IDLE + OCCURS + r"\.(?: A loop with fixed shapes does so once\.)?"
SYNC = (IDLE + r"(?: \(median (?P<calls>\S+) calls per iteration\))?" + OCCURS
        + r"; (?P<within_share>\S+ %) of it before these calls return, the rest until new work arrives in the empty queue\."
          r"(?: Longest in (?P<call_text>\S+?)(?: in (?P<around_text>.+))?\.)?")


def host_of(work):
    if not hasattr(work, "host"):
        work.host = Host(work)
    return work.host


def bound(lost, issued, of_host):
    """Its time; with all idle time of the host where most of that has this cause."""
    return (max(of_host, lost) if lost >= of_host * 2 / 3 else lost) + issued


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


def of_stage(work, stage, process, activities, lost=None, windows=None):
    line, host = Line(work, stage, process), host_of(work)
    gpu = line.found[0][1]
    own = host.losses(gpu, windows_of(work, stage, process, gpu))
    windows = own.occurs(*activities) if windows is None else windows
    issued = sum(own.issued[one] for one in activities) if lost is None else 0
    lost = own.time(*activities) if lost is None else lost
    saved = min(bound(lost, issued, line.of_host()), line.whole)
    listed = names([own], activities)
    gain = line.saving_share(saved / line.whole, issued / own.windows)
    if 2 * windows < own.windows:
        gain = lost + issued
    return dict(share=lost / line.whole, windows=windows, all=own.windows, each=lost / max(windows, 1), gain=gain,
                names_text=", ".join(listed[:3])), own, line, lost


def of_loop(work, activities):
    host = host_of(work)
    pairs, run = pairs_of(work)
    gpu = work.capture.ops[0].gpu
    stages = [(stage, process) for stage in work.stages for process in work.instances(stage) if work.counted(stage, process)
              and work.counted(stage, process)[0].ops]
    stages = [one for one in stages if one[0] in work.stages]
    of_stages = [host.losses(gpu, windows_of(work, *one, gpu)) for one in stages]
    of_pairs = [host.losses(gpu, own) for own in pairs.values() if len(own) >= 3]
    main = max(of_pairs, key=lambda own: own.occurs(*activities))
    lost = sum(own.time(*activities) for own in [*of_pairs, *of_stages])
    issued = sum(own.issued[one] for own in [*of_pairs, *of_stages] for one in activities)
    between = sum(within(gap, *window[:2]).total() for own in pairs.values() for window in own
                  for gap in work.gaps_within(gpu, *window[:2]))
    in_stages = sum(Line(work, *one).idle for one in stages)
    windows = main.occurs(*activities)
    return dict(share=(lost + issued) / run, run=run, windows=windows, all=main.windows, each=(lost + issued) / max(windows, 1),
                gain=min(bound(lost, issued, between + in_stages), run),
                names_text=", ".join(names([*of_pairs, *of_stages], activities)[:3]))


def marked(rule):
    def derivation(work, stage, process, found):
        activities = MARKED[rule]
        if rule == "os-waits" and not host_time(work, activities):
            activities = ["files"]
        return of_stage(work, stage, process, activities)[0] if work.of_stage else of_loop(work, activities)
    return derivation


def host_time(work, activities):
    """Whether the host did this at all."""
    host, gpu = host_of(work), work.capture.ops[0].gpu
    pairs, _ = pairs_of(work)
    every = [windows_of(work, stage, process, gpu) for stage in work.stages for process in work.instances(stage)]
    return sum(host.losses(gpu, own).time(*activities) for own in [*every, *pairs.values()] if own)


def graph_capture(work, stage, process, found):
    return of_stage(work, stage, process, CAPTURES)[0] if work.of_stage else of_loop(work, CAPTURES)


def prepares(own):
    """Whether the host prepares kernels: a launch of a prepared one takes less than a millisecond, and waits for nothing."""
    time = sum(own.time(one) / max(own.occurs(one), 1) for one in SHAPES)
    causes = collections.Counter()
    for one in SHAPES:
        for by_window in own.causes.get(one, []):
            causes.update(by_window)
    return time >= 1e6 and any(causes[cause] for cause in ("sync", "allocation", "first_use"))


def new_shapes(work, stage, process, found):
    host, gpu = host_of(work), work.idle(stage, process)[0][1]
    own = host.losses(gpu, windows_of(work, stage, process, gpu))
    if prepares(own):
        told = of_stage(work, stage, process, SHAPES)[0]
    elif loads(own):
        lost = own.time(*LOADS)
        told = of_stage(work, stage, process, SHAPES, lost, own.occurs(*LOADS))[0]
        line = Line(work, stage, process)
        issued = sum(own.issued[one] for one in LOADS)
        told["gain"] = line.saving_share(min(bound(lost, issued, line.of_host()), line.whole) / line.whole, issued / own.windows)
    else:
        told = None
    for name, other in others(work, stage):
        other_line = Line(other, stage, sorted(other.instances(stage))[0])
        gpu = other_line.found[0][1]
        of_other = host_of(other).losses(gpu, windows_of(other, stage, other_line.process, gpu))
        if told is None and prepares(of_other):
            share = min(of_other.time(*SHAPES) / other_line.of_host(), 1)
            windows = round(of_other.occurs(*SHAPES) / of_other.windows * own.windows)
            told = of_stage(work, stage, process, SHAPES, Line(work, stage, process).of_host() * share, windows)[0]
        if told and not told["names_text"]:
            told["names_text"] = ", ".join(names([of_other], SHAPES)[:3])
    return told


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
        if other is not work and any(other.instances(stage).values()):
            other.stages = other.stages or work.stages
            yield name, other


def sync_bound(work, stage, process, found):
    activities = ["synchronization", "blocking copy"]
    told, own, line, lost = of_stage(work, stage, process, activities)
    listed = names([own], activities)
    for _, other in others(work, stage) if not listed else []:
        process_ = sorted(other.instances(stage))[0]
        gpu = other.idle(stage, process_)[0][1]
        listed = listed or names([host_of(other).losses(gpu, windows_of(other, stage, process_, gpu))], activities)
    waits = [wait for of in own.waits for wait in of]
    counts = sum(wait.counts for wait in waits)
    name = listed[0] if listed else "nonzero" if counts and 2 * counts >= len(waits) else None
    calls, call, around = sync_calls(work, stage, process)
    return dict(told, names_text=name, calls=calls, call_text=call, around_text=around,
                within_share=min((line.pool["sync"] + line.pool["copy"]) / lost, 1))


NAMED = {rule: (PATTERN, marked(rule)) for rule in MARKED} | {
    "graph-capture": (PATTERN, graph_capture), "new-shapes": (PATTERN, new_shapes), "sync-bound": (SYNC, sync_bound)}
