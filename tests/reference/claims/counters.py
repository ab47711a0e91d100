"""Rules about what the counters of Nsight Compute say of stages, and how much of them.

Definitions: docs/methodology.md, *Profiled kernels and rooflines*. A launch of the timeline takes the class that most of its
profiled launches have.
"""

import collections
import re
import statistics

from chains import stages_of
from kernel_names import class_of
from limits import blocks, profiles, profiles_of, signature
from parts import details

TUNED = ("gemm", "convolution", "attention")
SCALAR = re.compile(r"smsp__sass_thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum\.per_cycle_elapsed")
CLASSES = r"(?P<class_text>\S+) for (?P<share>\S+ %) of its GPU time(?:, (?P<second_text>\S+) for (?P<second_share>\S+ %))?" \
          r"(?:, (?P<third_text>\S+) for (?P<third_share>\S+ %))?"


def bound(profile):
    if not profile.is_known:
        return "unknown"
    if profile.busiest < 0.6:
        return "latency-bound"
    if profile.compute - profile.memory >= 0.1:
        threads = (profile.count("smsp__inst_executed.sum") or profile.count("inst_executed")) * 32
        # Without counters of its FLOPs, a launch may do any work.
        has_tensors = any("ops_path_tensor" in name for name in profile.metrics)
        is_counted = any(map(SCALAR.fullmatch, profile.metrics)) and (has_tensors or not any("nvjet" in name for name in profile.names))
        return "instruction-bound" if is_counted and flops(profile) < 0.25 * threads else "compute-bound"
    if profile.memory - profile.compute >= 0.1:
        return next(level for level in ("dram", "l2", "l1") if getattr(profile, level) >= profile.memory - 0.05).upper() + "-bound"
    return "balanced"


def flops(profile):
    by_clock = profile.count("smsp__cycles_elapsed.avg.per_second") * profile.duration / 1e9
    cycles = profile.count("smsp__cycles_elapsed.avg") or by_clock
    scalar = sum(value * cycles * (1 + (match[2] == "fma")) * (1 + (match[1] == "h"))
                 for name, value in profile.metrics.items() if (match := SCALAR.fullmatch(name)))
    return scalar + sum(value for name, value in profile.metrics.items()
                        if name.startswith("sm__ops_path_tensor_") and name.endswith(".sum"))


def reason(profile):
    if profile.metrics.get("launch__waves_per_multiprocessor", 1) < 1:
        return "small grid"
    if profile.metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active", 100) < 30:
        return "low occupancy"
    waits = {name: share for name, share in profile.states.items() if name != "selected" and not name.endswith("not_issued")}
    return "stall: " + max(waits, key=waits.get).replace("_", " ") if waits else "cause not counted"


def represented(work, stage, process):
    """Each GPU operation of a stage with its profiled launches, and whether they have its grid."""
    candidates = collections.defaultdict(list)
    for profile in profiles(work):
        for name in profile.names:
            candidates[name].append(profile)
    for one in work.counted(stage, process):
        for op in one.ops:
            own, time = details(work, op), op.end - op.start
            known = [] if op.copy else [profile for profile in candidates[signature(own["name"])] if profile.block == own["block"]]
            same = [profile for profile in known if profile.grid == own["grid"]]
            if class_of(own) in TUNED and "reduc" not in own["name"]:
                same = [profile for profile in same if 2 / 3 <= time / profile.duration <= 1.5]
                yield op, sorted(same, key=lambda profile: abs(profile.duration - time))[:1], bool(same)
            else:
                near = [profile for profile in known if 0.25 <= blocks(own["grid"]) / blocks(profile.grid) <= 4]
                yield op, same or near, bool(same)


def profiled_bound(work, stage, process, found):
    times, groups, whole = collections.Counter(), collections.defaultdict(list), 0
    for op, own, is_same in represented(work, stage, process):
        whole += op.end - op.start
        groups[signature(details(work, op)["name"]), details(work, op)["grid"], is_same, tuple(own)].append(op.end - op.start)
    reasons = collections.Counter()
    for (*_, is_same, own), durations in groups.items():
        if own:
            times[collections.Counter(map(bound, own)).most_common(1)[0][0]] += sum(durations)
            median = statistics.median(durations)
            nearest = min(own, key=lambda profile: abs(profile.duration - median))
            if is_same and bound(nearest) == "latency-bound":
                reasons[reason(nearest)] += sum(durations)
    shares = [(name, time / whole) for name, time in times.most_common(3)] + [(None, None)] * 3
    (first, share), (second, second_share), (third, third_share) = shares[:3]
    why, part = reasons.most_common(1)[0] if first == "latency-bound" and reasons else (None, 0)
    return dict(class_text=first, share=share, second_text=second, second_share=second_share, third_text=third,
                third_share=third_share, covered_share=times.total() / whole, reason_text=why,
                part_share=part / max(reasons.total(), 1))


def covered(work, stage, process):
    """Of a stage the share of GPU time with counters, and the kernel with most time without."""
    whole, known, without = 0, 0, collections.Counter()
    for op, own, _ in represented(work, stage, process):
        whole += op.end - op.start
        known += (op.end - op.start) * bool(own)
        if not own and not op.copy:
            without[details(work, op)["name"]] += op.end - op.start
    kernel, most = without.most_common(1)[0] if without else (None, 0)
    return known / whole, kernel, most / whole


COUNTERS = {"profiled-bound": (r".+? is " + CLASSES + r"; profiled launches represent (?P<covered_share>\S+ %)\."
                               r"(?: Main reason for \S+: (?P<reason_text>.+?) \((?P<part_share>\S+ %) of that time\)\.)?",
                               profiled_bound)}
COVERED = (r"(?:Nsight Compute covers |, )(?P<covered>\S+ %) of GPU time in (?P<stage>[^,(]+?)(?: · rank (?P<rank>\d+))?"
           r"(?: \(largest kernel without counters: (?P<kernel>.+?), (?P<most>\S+ %)\))?(?=,|\.$)")


def coverage(work, statement, process_of_rank):
    """What a finding about all stages says, and what is derived."""
    if re.sub(COVERED, "", statement) != ".":
        return None, "statement not understood"
    stated, derived = {}, {}
    for share, stage, rank, kernel, most in re.findall(COVERED, statement):
        found = covered(work, stage, process_of_rank(work, stage, rank or None))
        for name, text, value in zip(("share", "kernel_text", "most_share"), (share, kernel, most), found):
            if text:
                stated[f"{stage}{rank}_{name}"], derived[f"{stage}{rank}_{name}"] = text, value
    return stated, derived


REPRESENTATIVE = (r"Only (?P<alike>\S+ %) of Nsight Compute kernel time in pass (?P<name>\S+) matches timeline durations\.(?: Of the "
                  r"others, (?P<kernel>.+?) represents the most time \((?P<share>\S+ %) of GPU time in (?P<stage>.+?)\): its "
                  r"launch took (?P<ratio>\S+)× the median\.)? ?")


def representative(work, name):
    """Of a pass the share of profiled time in launches like the median in the timeline, and the largest group of the others."""
    groups = {}
    for key in stages_of(work):
        times = collections.defaultdict(list)
        whole = 0
        for op in (op for one in work.counted(*key) for op in one.ops):
            own = details(work, op)
            whole += op.end - op.start
            if not op.copy:
                times[signature(own["name"]), own["grid"], own["block"]].append((op.end - op.start, own))
        groups[key] = times, whole
    alike = profiled = 0
    most = 0, None, None
    for profile in profiles_of(work.source, name):
        profiled += profile.duration
        found = [(times[sign, profile.grid, profile.block], whole) for times, whole in groups.values() for sign in profile.names
                 if (sign, profile.grid, profile.block) in times]
        if not found:
            continue
        launches, whole = max(found, key=lambda own: sum(time for time, _ in own[0]) / own[1])
        if class_of(launches[0][1]) in TUNED:
            launches = [own for own in launches if 2 / 3 <= own[0] / profile.duration <= 1.5] or launches
        ratio = profile.duration / statistics.median(time for time, _ in launches)
        if 0.8 <= ratio <= 1.25:
            alike += profile.duration
        else:
            most = max(most, (sum(time for time, _ in launches) / whole, launches[0][1]["name"], ratio), key=lambda own: own[0])
    return alike / profiled, *most


def representatives(work, statement):
    if re.sub(REPRESENTATIVE, "", statement):
        return None, "statement not understood"
    stated, derived = {}, {}
    for share, name, kernel, most, _, ratio in re.findall(REPRESENTATIVE, statement):
        found = representative(work, name)
        for group, text, value in zip(("share", "most_share", "kernel_text", "ratio"), (share, most, kernel, ratio), found):
            if text:
                stated[f"{name}_{group}"], derived[f"{name}_{group}"] = text, value
    return stated, derived
