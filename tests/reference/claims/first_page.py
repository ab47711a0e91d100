"""Figures of the first page: times and busy shares of stages, times after actions, shares that actions save, covered time, parts
without an action.

Definitions: docs/methodology.md, *Upper bounds of gains* and *Time*. Times after several actions are computed jointly by the program;
here they lie between the time without all of these savings and that without the largest one of them.
"""

import collections
import re

import report
from idle import LABELS
from instances import MARK, covered, projection
from line import Line
from named import loop_time, pairs_of
from parts import chain

EFFECT = re.compile(r"\S+ \S+ of (.+?) \((\S+ %)\)")
LOOP, STEP, REQUEST = "Measured loop", "Training step", "Request"
# What a figure says of its stage: that it is of two levels of repeats, as profiled, or of a step.
OF_STAGE = re.compile(r"(.+?)(?:, mean of two levels \(.*\)|, profiled)?(, per step(?: \(of (\d+)\))?)?")


def figures(told, work, gains):
    """Of each figure its name, and by group what is stated and what is derived. The gains of findings are derived ones."""
    processes = {stage: sorted(work.instances(stage)) for stage in work.stages}
    lines = {stage: Line(work, stage, own[0]) for stage, own in processes.items() if len(own) == 1 and work.counted(stage, own[0])}
    actions, loop = report.dataset(told, "summary_actions"), loop_of(work)
    step = sum(line.reference for line in lines.values())
    requested = request(told, work, lines)
    if requested:
        yield REQUEST, "times", {"now": (requested[2], requested[0])}
    for row in report.dataset(told, "headline"):
        line = lines.get(row["stage"])
        if line and row["busy_share"] is not None:
            yield row["stage"], "busy share", {"share": (value(row["busy_share"]), line.busy_share)}
    for row in report.dataset(told, "summary_figures"):
        stage, of_step, steps = OF_STAGE.fullmatch(row["figure"]).groups()
        is_loop, is_step = row["figure"].startswith(LOOP) and len(lines) == len(work.stages), row["figure"] == STEP
        if row["unit"] != "ns" or of_step and not steps or not (stage in lines or is_loop and loop or is_step):
            continue
        now = loop if is_loop else step if is_step else lines[stage].reference / int(steps or 1)
        groups = {"now": (value(row["now"]), now)}
        saved = [saved_of(action, lines, gains, None if is_loop or is_step else stage, is_loop) for action in actions]
        for number in range(1, 1 + len(saved)):
            after, own = value(row.get(f"after_{number}")), saved[:number]
            # Stalls, and what is of the loop alone, overlap with stages in a way that the raw data do not tell.
            if after is None or None in own or is_loop and any(place not in lines for one in own for place in one):
                break
            # Of a stage its savings overlap; those of several stages, and stalls, do not.
            places = {place for one in own for place in one}
            most = sum(sum(one.get(place, 0) for one in own) for place in places)
            joined = [joined_of(action, lines, gains, None if is_loop or is_step else stage, is_loop) for action in actions[:number]]
            most = (most + sum(joined)) / int(steps or 1)
            least = sum(max(one.get(place, 0) for one in own) for place in places) / int(steps or 1)
            groups[f"after {number}"] = (after, min(max(after, max(now - most, 0) - 1e-6 * now), now - least + 1e-6 * now))
        yield stage, "times", groups
    for action in actions:
        effect = EFFECT.match(action["effect"])
        stage, gain = found_in(action, gains)
        if effect and gain is not None and (stage in lines or stage is None and loop):
            # Stalls are of the loop, and those of the first request of that one.
            is_of_loop = stage is None or value(action["of_ns"]) == value(action["run_ns"])
            whole = loop if is_of_loop else lines[stage].reference
            if whole is None:
                continue
            groups = {"saved": (value(action["saved_ns"]), gain), "of": (value(action["of_ns"]), whole)}
            if effect[1] == "each step" and any(row["figure"] == STEP for row in report.dataset(told, "summary_figures")):
                of_step = saved_of(action, lines, gains, None, False)
                if of_step is not None:
                    # Earlier actions may have saved the same of other stages.
                    most, stated = sum(of_step.values()) / step, float(effect[2].split()[0]) / 100
                    groups["share"] = effect[2], min(max(stated, gain / step * 0.995), most * 1.005)
            elif effect[1] == "each request" and requested:
                saved = saved_of(action, lines, gains, None, False)
                if saved is None or not set(saved) <= {"prefill", "decode"}:
                    continue
                whole_saved = sum(own * (requested[1] if place == "decode" else 1) for place, own in saved.items())
                groups["share"] = effect[2], whole_saved / requested[0]
            elif effect[1] == "the measured loop" and loop:
                # Rules of one action overlap: it saves the most of one of them at least, and all of their savings at most.
                of_run = saved_of(action, lines, gains, None, True) if not is_of_loop else {stage: gain}
                if of_run is not None:
                    least, stated = sum(of_run.values()), float(effect[2].split()[0]) / 100
                    most = least + joined_of(action, lines, gains, None, True)
                    groups["share"] = effect[2], min(max(stated, least / loop * 0.995), most / loop * 1.005)
            elif "request" not in effect[1] and effect[1] != "each step":
                groups["share"] = effect[2], gain / whole
            yield stage, f"action {action['number']}", groups
    yield from without_action(told, work, lines)
    if len({op.gpu for op in work.capture.ops}) == 1 and (phases := report.dataset(told, "account_phases")):
        measured = [row for row in phases if row["phase"] in ("measured iterations", "slow measured iterations")]
        spans = [projection(one) for _, _, one, counts in chain(work) if counts]
        yield None, "covered time", {"time": (float(sum(value(row["time_ns"]) for row in measured)), covered(spans)),
                                     "share": (sum(value(row["captured_share"]) for row in measured), covered(spans) / captured(work))}


def without_action(told, work, lines):
    """Parts of the measured iterations without an action: the time of one of their kernels, copies of a direction, idle time by cause."""
    spans = [projection(one) for _, _, one, counts in chain(work) if counts]
    whole, causes = sum(end - start for start, end in spans), {label: cause for cause, label in LABELS.items()}
    if whole != covered(spans):
        # The earlier of two iterations has what both have.
        return
    for row in report.dataset(told, "no_action"):
        line, time, label = lines.get(row["stage"]), float(value(row["ns"])), row["label"]
        ops = [op for one in line.counted for op in one.ops] if line else []
        if line is None or covered((op.start, op.end) for op in ops) != sum(op.end - op.start for op in ops):
            continue
        if row["kind"] == "idle cause" and label in causes:
            own = line.pool[causes[label]]
        elif row["kind"] == "operation":
            times = collections.Counter()
            for op in ops:
                direction = f"memcpy {work.direction(op)}" if op.copy else None
                times[direction or work.capture.details[op.rank]["name"]] += op.end - op.start
            # Names are short ones there: it must be the time of a kernel, or of several of one name.
            own = times[label] if label.startswith("memcpy") else min(times.values(), key=lambda one: abs(one - time))
        else:
            continue
        yield row["stage"], f"no action {label}", {"time": (time, own), "share": (value(row["share"]), own / whole)}


def loop_of(work):
    """Time of the measured loop of a single process."""
    processes = {process for stage in work.stages for process in work.instances(stage)}
    return loop_time(work, pairs_of(work)[1]) if len(processes) == 1 else None


def request(told, work, lines):
    """Time of a request, its decode steps ÷ those of a loop, and the stated time; none without prefill and decode."""
    for row in report.dataset(told, "summary_figures"):
        match = re.fullmatch(REQUEST + r" \(prefill and (\d+) decode steps\)", row["figure"])
        if match and {"prefill", "decode"} <= set(lines):
            decode = lines["decode"]
            steps = work.steps(decode.counted[0]) or work.source.workload.get("output_tokens")
            if steps:
                times = int(match[1]) / steps
                return lines["prefill"].reference + decode.reference * times, times, value(row["now"])
    return None


def found_in(action, gains):
    """Where the finding of an action is, and its gain; none if that is not derived or of several stages."""
    found = [(stage, gain) for (rule, stage), (gain, _) in gains.items() if rule == action["rule"] and gain is not None]
    same = [own for own in found if abs(own[1] - value(action["saved_ns"])) <= 1e-6 * max(own[1], 1)]
    # It can be one of those without a derivation.
    if not same and len(found) == sum(rule == action["rule"] for rule, _ in gains):
        same = found
    return same[0] if len(same) == 1 else (None, None)


def saved_of(action, lines, gains, stage, is_loop):
    """What an action saves, by stage: of one, of all stages of a step, or of the loop, stalls by themselves. None if not derived."""
    where, gain = found_in(action, gains)
    if gain is None or where is None and not is_loop or where is not None and where not in lines:
        return None
    is_stall = value(action["of_ns"]) == value(action["run_ns"])
    if is_stall:
        return {action["number"]: gain} if is_loop else {}
    # Findings of several stages may have one action, and so may several rules: of one stage the larger gain at least.
    of_rule = {own: one for (rule, own), one in gains.items() if rule == action["rule"]}
    same = {own: gain for own, (gain, name) in of_rule.items() if name == action["action"] and own in lines} | {where: gain}
    for (rule, own), (gain, _) in gains.items():
        if rule in action["also"].split(", ") and own in lines and own not in same:
            of_rule[own], same[own] = (gain, action["action"]), gain
    if None in same.values():
        return None if stage is None or same.get(stage, 0) is None else {stage: same.get(stage, 0)}
    if stage is not None:
        return None if stage in of_rule and stage not in same else {stage: same.get(stage, 0)}
    return {own: gain * (len(lines[own].counted) if is_loop else 1) for own, gain in same.items()}


def joined_of(action, lines, gains, stage, is_loop):
    """The most that other rules of an action, and its rule in other words, save with it: of one stage, of all of a step, or of the loop."""
    most = 0
    for (rule, own), (gain, name) in gains.items():
        is_joined = rule in action["also"].split(", ") or rule == action["rule"] and name != action["action"]
        if is_joined and (stage is None or own == stage):
            is_of_loop = own is None or rule == "host-pauses"
            times = (1 if is_of_loop else len(lines[own].counted) if own in lines else float("inf")) if is_loop else not is_of_loop
            most += (float("inf") if gain is None else gain) * times if times else 0
    return most


def captured(work):
    """From the first to the last operation, call or start of a range of the program."""
    calls = [call for own in work.capture.calls.values() for call in own]
    starts = [start for start, _, _, name in work.ranges if not (name or "").startswith(MARK)]
    ops = work.capture.ops
    return max([op.end for op in ops] + [call[1] for call in calls] + starts) - min([ops[0].start] + [call[0] for call in calls] + starts)


def value(cell):
    return cell["value"] if isinstance(cell, dict) else cell
