"""Rules about repeats and iterations: outliers, trends, the overhead of the profiler.

Definitions: docs/findings/repeat-outliers.md and the pages of the other rules below.
"""

import statistics

from instances import length, lies_in
from line import Line

SET_UP = ("first_use", "host_code", "allocation")


def repeat_outliers(work, stage, process, found):
    """Of the outliers among repeats of the same sizes, the one farthest from its median."""
    before = len(work.source.baseline[work.of_stage].get("before", []))
    number, time, median, count, score = max(work.source.outliers(work.of_stage), key=lambda own: abs(own[1] - own[2]))
    return dict(number=number + before, time=time, median=median, count=count, score=score)


def settled(work, stage, process, found):
    own = work.source.baseline[work.of_stage]
    before, after = own.get("before", []), own["ms"]
    return dict(number=len(before), time=statistics.median(before) * 1e6 if before else None, count=len(after),
                median=statistics.median(after) * 1e6)


def uneven_pace(work, stage, process, found):
    times = [length(one) for one in work.counted(stage, process)]
    third = len(times) // 3
    return dict(drift_share=abs(statistics.median(times[-third:]) / statistics.median(times[:third]) - 1))


def jump(work, stage, process, found):
    """The change of level that leaves the least squared deviations, and the number of its iteration among all, from 0 on."""
    counted = work.counted(stage, process)
    times = [length(one) for one in counted]

    def left(at):
        return sum(sum((time - statistics.fmean(own)) ** 2 for time in own) for own in (times[:at], times[at:]))

    at = min(range(3, len(times) - 2), key=left)
    return dict(before=statistics.median(times[:at]), after=statistics.median(times[at:]),
                number=[id(one) for one in work.instances(stage)[process]].index(id(counted[at])))


def profiler_overhead(work, stage, process, found):
    """The median of iterations without set-up and slow steps, against the baseline."""
    line = Line(work, stage, process)
    set_ups = [sum(times[cause] for cause in SET_UP) / whole for _, _, whole, times in found]
    usual = statistics.median(set_ups)
    steps = work.counted(f"{stage}_step", process)
    slow = [step for step in steps if length(step) > 1.25 * statistics.median(map(length, steps))]
    warm = []
    for (one, _, whole, _), set_up in zip(found, set_ups):
        is_set_up = set_up >= 0.1 and (len(found) < 3 or set_up > 2 * usual)
        is_slow = len(found) >= 3 and whole > 1.25 * line.time
        if not is_set_up and not is_slow and not any(lies_in(step, one) for step in slow):
            warm.append(whole)
    # Of two levels the mean of all iterations.
    profiled = line.time if line.levels else statistics.median(warm)
    # Where both are alike, the median of all iterations, which tables show.
    profiled = line.time if abs(line.time - profiled) <= 0.05 * profiled else profiled
    return dict(unprofiled=line.unprofiled, share=1 - line.unprofiled / profiled, time=profiled, warm=len(warm), all=len(found))


REPEATS = {
    "repeat-outliers": (r"Repeat (?P<number>\S+) of .+? takes (?P<time>\S+ \S+), against a median of (?P<median>\S+ \S+) of "
                        r"(?P<count>\S+) repeats \(modified z-score (?P<score>\S+)\)\.", repeat_outliers),
    "repeat-outliers settled": (r"The first (?P<number>\S+) repeats of .+? take (?P<time>\S+ \S+), and the last (?P<count>\S+) settle at "
                                r"(?P<median>\S+ \S+) \(medians\): figures are of the settled ones\.", settled),
    "uneven-pace": (r"In pass \S+, the time of .+? (?:grows|drops) by (?P<drift_share>\S+ %) from the first to the last third of its "
                    r"iterations\.", uneven_pace),
    "uneven-pace jump": (r"In pass \S+, .+? goes from (?P<before>\S+ \S+) to (?P<after>\S+ \S+) \(medians\) at iteration (?P<number>\S+): "
                         r"a jump, not a gradual drift\.", jump),
    "profiler-overhead": (r".+? takes (?P<unprofiled>\S+ \S+) in the baseline(?: for as many steps)?, (?P<share>\S+ %) less than "
                          r"in pass \S+ \((?P<time>\S+ \S+)(?:, .+?, (?P<warm>\S+) of (?P<all>\S+): .+)?\)\.", profiler_overhead)}
