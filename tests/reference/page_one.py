"""The first page of reports, checked against itself and against the data sets of the same report.

usage: [ROOFLENS=PROGRAM] page_one.py [--rooflens PROGRAM] [--jobs N] [BUNDLE_OR_FILE...]

Without inputs: the bundles of fixtures/ and of fixtures/planted/captures/. Runs `PROGRAM report INPUT --format csv -o DIR` for
each input and prints `INPUT: check: values` for each violation; exits with 1 if there is any. The checks:

figures     no value after an action is above the one before it, below zero, or below the hardware limit; a stage keeps some
            time; the loop is the whole that its actions state, and keeps what its stages keep; a request is their sum
moves       each action shortens a time, and one of the whole loop shortens it by half of its claim at least
order       actions are in the order of saved time × confidence, and of saved time where the confidence is the same; a named
            cause may precede a general rule about at most twice the time, and an action of each iteration stalls, as docs/methodology.md
            has it
shares      shares of findings.csv, account.csv and account_phases.csv are between 0 and 1, and no saving exceeds its whole
account     children sum to their parent, phases and passes to the total, and each stage with GPU work has a node
busy        the busy share of a stage is the same in the data sets that define it in the same way (see `busy`)
outcomes    no rule passed without data, and each found rule has its findings
unexplained a warning of 5 % of the measured loop has an action, or another action is about its stage, or the page states it
            among its caveats: a limit of the clock is no fault of the program
coverage    the page says which share of the captured time its figures are about: first among the caveats below 90 %
leaves      each part of 5 % of the measured iterations has an action on its stage or on the loop, or a row of no_action.csv with
            its reason; no row has more time than its leaf, in measured iterations or between stages

An action against stalls may move `First request` alone: lines with `exempt` say so, and are no violations.
"""

import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXACT = 1e-9
DIGITS = 1e-12
# Profiled time ÷ unprofiled time up to which the profiler does not slow a stage.
NOT_SLOWED = 1.1
LEAST_OF_LOOP = 0.05
CLAIMED = 0.5
WEIGHTS = {"High": 0.9, "Medium": 0.6, "Low": 0.3}
COVERED = 0.9
STALLS = {"host-pauses"}
# Rules that say where idle time goes, and not why.
GENERAL = {"launch-bound", "host-bound", "between-stages", "queue-gaps", "host-pauses"}
# The same of kernels: it follows named causes that bound at least half of its time.
GENERAL_ON_KERNELS = "low-mfu"
LOOP = "Measured loop"
MEASURED = ("measured iterations", "slow measured iterations")
BETWEEN = "between stages"
LEAVES = ("operation", "idle cause", "no operation")
RANK = re.compile(r" · rank (\d+)$")
# A baseline with two levels of times.
LEVELS = re.compile(r", mean of two levels \(.*\)$")
STEP = re.compile(r", per step( \(of (\d+)\))?$")

# Rules and the data sets one of which must have a row before the rule can pass.
COUNTERS = ("profiled_kernels",)
IDLE = ("idle", "between")
SHAPES = ("operator_shapes", "stage_kernels")  # Sizes of operators, or the names of kernels.
STRIDES = ("operator_shapes",)
GEMMS = ("gemms",)
NEEDS = {
    "stage-busy": ("stages",), "launch-bound": ("idle",), "host-bound": ("idle",), "host-pauses": ("idle",),
    "between-stages": ("between",), "sync-bound": ("idle",), "data-loader": IDLE, "garbage-collection": IDLE,
    "compilation": IDLE, "new-shapes": IDLE, "graph-capture": IDLE, "checkpoint": IDLE, "os-waits": IDLE,
    "empty-cache": IDLE, "allocator-stalls": ("idle",), "first-use": ("idle",), "queue-gaps": ("idle",),
    "short-kernels": ("stages",), "exposed-copies": ("stages",), "exposed-communication": ("stages",),
    "straggler": ("ranks",), "low-mfu": ("utilization",), "decode-bandwidth": ("utilization",),
    "no-tensor-cores": ("kernels",), "tf32-gemms": ("kernels",), "gemm-roofline": GEMMS, "gemm-bandwidth": GEMMS,
    "gemm-quantization": GEMMS, "gemm-alignment": GEMMS, "repeated-gemms": ("stage_kernels",), "no-kv-cache": ("stage_instances",), "optimizer-loop": SHAPES, "dense-embeddings": SHAPES, "repeated-calls": SHAPES, "constant-calls": SHAPES, "recomputed-activations": SHAPES, "unused-gradients": SHAPES, "gathered-rows": SHAPES, "unread-logits": SHAPES,
    "double-kernels": ("stage_kernels",), "depthwise-filters": ("stage_kernels",), "prime-ffts": ("stage_kernels",), "permutations": ("stage_kernels",), "row-sampling": ("stage_kernels",), "value-sorts": ("stage_kernels",), "repeated-backward": ("stage_kernels",), "copied-cache": ("stage_kernels",), "decode-rows": ("stage_kernels",), "pool-windows": ("stage_kernels",), "constant-masks": ("stage_kernels",), "packed-attention": ("stage_kernels",), "one-hot-selection": ("stage_kernels",), "early-upsampling": ("stage_kernels",), "growing-cache": ("stage_kernels",), "gathered-cache": ("stage_kernels",), "sorted-sums": ("stage_kernels",), "nan-checks": ("stage_kernels",),
    "attention-math": SHAPES, "expert-loop": SHAPES, "gemm-loop": SHAPES, "summed-products": SHAPES, "row-additions": SHAPES,
    "repeated-tensors": STRIDES, "fp64-operators": SHAPES, "layout-conversions": SHAPES, "transposed-copies": STRIDES,
    "norm-unfused": SHAPES, "pointwise-unfused": SHAPES, "gemm-epilogue": SHAPES, "dtype-casts": SHAPES, "small-grids": COUNTERS + ("stage_kernels",),
    "uncoalesced-access": COUNTERS, "bank-conflicts": COUNTERS, "local-memory": COUNTERS, "contended-atomics": COUNTERS,
    "divergent-branches": COUNTERS, "cache-traffic": COUNTERS, "double-precision": COUNTERS, "low-occupancy": COUNTERS, "wave-tail": COUNTERS,
    "profiled-bound": COUNTERS, "profile-coverage": COUNTERS,
    "unrepresentative-profile": COUNTERS, "clock-limits": ("power",), "memory-pressure": ("memory",),
    "uneven-pace": ("pace",), "repeat-outliers": ("repeats",), "profiler-overhead": ("repeats",),
    "utilization-basis": ("utilization", "gemms", "attention", "workload_stages", "profiled_kernels"),
    "attribution-coverage": ("attribution",), "hidden-graphs": ("stages",), "unknown-kernels": ("kernels",),
    "flop-coverage": ("stage_kernels",),
    # Without copies, the operations show that there are none.
    "pageable-copies": ("copies", "stages"),
}


def number(text):
    return float(text) if text else None


def shown(*values):
    return ", ".join(f"{value:.15g}" if isinstance(value, float) else str(value) for value in values)


class Report:
    """The data sets of a report, and what was found wrong in them."""

    def __init__(self, folder):
        self.folder = folder
        self.document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        self.violations = []
        self.exempt = []

    def rows(self, name):
        path = self.folder / f"{name}.csv"
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def caveats(self):
        """Items of the last list of the first page, each as a list of words and numbers."""
        lists = [block["list"] for block in self.document["summary"] if "list" in block]
        return lists[-1] if lists else []

    def is_caveat(self, title):
        """Whether the first page states the finding with this title among its caveats."""
        blocks = [block for part in ("sections", "appendix") for section in self.document[part] for block in section["blocks"]]
        found = [block["finding"] for block in blocks if "finding" in block]
        return any(finding["title"] == title and finding["statement"] in self.caveats() for finding in found)

    def wrong(self, check, *values):
        self.violations.append((check, shown(*values)))

    def primary(self):
        """The pass whose stages the first page shows."""
        for finding in self.rows("findings"):
            if finding["rule"] == "stage-busy":
                return finding["pass"]
        return next((row["pass"] for row in self.rows("stages")), None)

    def stages(self):
        return {row["stage"]: row for row in self.rows("stages") if row["pass"] == self.primary()}

    def counted(self):
        """Measured iterations of each stage."""
        return {stage: int(row["instances"].split()[0]) for stage, row in self.stages().items()}

    def iterations(self):
        """Times of the measured iterations of each stage."""
        times = collections.defaultdict(list)
        for row in self.rows("stage_instances"):
            if row["pass"] == self.primary() and not row["excluded"] and number(row["time_ns"]):
                times[row["stage"]].append(number(row["time_ns"]))
        return times

    def outermost(self):
        """Stages that the account divides the time by: none lies in another one."""
        return {row["label"] for row in self.rows("account") if row["kind"] == "measured iterations"}

    def run_ns(self):
        """Time of the measured loop as the actions state it, else of all iterations of the outermost stages."""
        for row in self.rows("summary_actions"):
            return number(row["run_ns"])
        counted, quality = self.counted(), {row["stage"]: row for row in self.rows("quality")}
        of_rank = collections.Counter()
        for stage in self.outermost() & set(quality) & set(counted):
            time = number(quality[stage]["unprofiled_ns"]) or number(quality[stage]["time_ns"]) or 0
            of_rank[rank_of(stage)] += counted[stage] * time
        return max(of_rank.values(), default=0)


def differs(value, other):
    return abs(value - other) > 1e-6 * max(value, other)


def rank_of(stage):
    found = RANK.search(stage)
    return found and found[1]


class Figure:
    """A row of the first table: the time now, and after each action."""

    def __init__(self, row):
        self.label, self.unit = row["figure"], row["unit"]
        self.is_time = self.unit == "ns"
        self.now, self.limit = number(row["now"]), number(row["limit"])
        self.after = [number(row[f"after_{nth}"]) for nth in (1, 2, 3)]
        if self.label.startswith(LOOP):
            self.label = LOOP
        label = LEVELS.sub("", self.label).removesuffix(", profiled")
        self.is_step = bool(STEP.search(label))
        self.stage = STEP.sub("", label)

    def before(self, nth):
        """The last known value before the nth action."""
        known = [self.now] + [value for value in self.after[:nth] if value is not None]
        return known[-1]


def figures(report):
    rows = [Figure(row) for row in report.rows("summary_figures")]
    times = [row for row in rows if row.is_time]
    stages, counted = report.stages(), report.counted()
    for row in rows:
        for nth, value in enumerate(row.after):
            if value is None:
                continue
            before = row.before(nth)
            better = value <= before * (1 + DIGITS) if row.is_time else value >= before * (1 - DIGITS)
            if not better:
                report.wrong("figures", row.label, f"after {nth + 1} is worse", before, value)
            if value < 0 or row.is_time and value == 0 and row.now > 0:
                report.wrong("figures", row.label, f"after {nth + 1} leaves no time", value)
            if row.limit is not None:
                possible = value >= row.limit * (1 - EXACT) if row.is_time else value <= row.limit * (1 + EXACT)
                if not possible:
                    report.wrong("figures", row.label, f"after {nth + 1} is past the limit", value, row.limit)
    of_stage = {row.stage: row for row in times if row.stage in stages}

    def whole(row, value):
        steps = number(stages[row.stage]["steps"]) if row.is_step else None
        return value * (steps or 1)

    for row in times:
        if row.label == LOOP:
            loop_keeps(report, row, of_stage, whole, counted)
        elif row.label.startswith("Request"):
            request_is_sum(report, row, of_stage)


def loop_keeps(report, loop, of_stage, whole, counted):
    """The loop is the one that the actions refer to, and never shorter than the iterations of its stages, each at most as long
    as now and less by what the actions save, where these are not slower without the profiler."""
    stages, outermost, times = report.stages(), report.outermost(), report.iterations()
    of_run = {row["rule"] for row in report.rows("findings") if not row["stage"]}
    for action in report.rows("summary_actions"):
        name = f"action {action['number']} {action['rule']}"
        if action["number"] == "1" and differs(loop.now, number(action["run_ns"])):
            report.wrong("figures", "loop now is not run_ns", loop.now, number(action["run_ns"]))
        if action["rule"] in of_run and differs(loop.now, number(action["of_ns"])):
            report.wrong("figures", "loop now is not the whole of", name, loop.now, number(action["of_ns"]))
    for nth, value in enumerate([loop.now] + loop.after):
        if value is None:
            continue
        least = collections.Counter()
        for stage, row in of_stage.items():
            left = ([row.now] + row.after)[nth]
            is_measured = whole(row, row.now) <= number(stages[stage]["time_ns"]) * (1 + EXACT)
            if stage in outermost and is_measured and left is not None:
                now, saved = whole(row, row.now), whole(row, row.now - left)
                least[rank_of(stage)] += sum(max(min(time, now) - saved, 0) for time in times[stage])
        most = max(least.values(), default=0)
        # Times of the report are of whole nanoseconds, of medians of half ones.
        if value < most - sum(counted.values()):
            report.wrong("figures", f"loop after {nth} is below its stages", value, float(most))


def request_is_sum(report, request, of_stage):
    found = re.search(r"(\d+)[\s\u202f]decode steps", request.label)
    prefill, decode = of_stage.get("prefill"), of_stage.get("decode")
    if not (found and prefill and decode and decode.is_step):
        return
    for nth, value in enumerate([request.now] + request.after):
        if value is None:
            continue
        parts = ([prefill.now] + prefill.after)[nth] + int(found[1]) * ([decode.now] + decode.after)[nth]
        if differs(value, parts):
            report.wrong("figures", f"request after {nth} is not the sum of its stages", value, parts)


def moves(report):
    rows = [row for row in map(Figure, report.rows("summary_figures")) if row.is_time]
    findings = report.rows("findings")
    for action in report.rows("summary_actions"):
        nth, rule = int(action["number"]) - 1, action["rule"]
        moved = {}
        for row in rows:
            value = row.after[nth]
            if value is not None and value < row.before(nth):
                moved[row.label] = row.before(nth) - value
        first = [label for label in moved if label.startswith("First request")]
        of_rule = [finding for finding in findings if finding["rule"] == rule]
        name = f"action {nth + 1} {rule}"
        if not moved:
            report.wrong("moves", name, "moves no time", number(action["run_saved_ns"]))
        elif rule in STALLS:
            report.exempt.append(f"{name} is against stalls, moves {' and '.join(moved)}")
        elif len(first) == len(moved):
            report.wrong("moves", name, "moves the first request alone")
        is_of_run = of_rule and not any(finding["stage"] for finding in of_rule)
        claimed, brought = number(action["run_saved_ns"]), moved.get(LOOP, 0.0)
        if (is_of_run or rule in STALLS) and brought < claimed * CLAIMED:
            report.wrong("moves", name, "claims and brings to the loop", claimed, brought)


STALLS = {"host-pauses"}


def order(report):
    actions = report.rows("summary_actions")
    for earlier, later in zip(actions, actions[1:]):
        levels = [row["confidence"].split(":")[0] for row in (earlier, later)]
        saved = [number(row["run_saved_ns"]) for row in (earlier, later)]
        expected = [value * WEIGHTS[level] for value, level in zip(saved, levels)]
        names = f"{earlier['rule']} before {later['rule']}"
        is_general = [row["rule"] in GENERAL or row["rule"] == GENERAL_ON_KERNELS for row in (earlier, later)]
        is_raised = is_general[1] and not is_general[0] and saved[0] >= saved[1] / 2
        # An action of each iteration may precede one against stalls of few: docs/methodology.md has the condition.
        is_of_stalls = [row["rule"] in STALLS for row in (earlier, later)]
        if is_raised or is_of_stalls[1] and not is_of_stalls[0]:
            continue
        if levels[0] == levels[1] and saved[0] < saved[1] * (1 - EXACT):
            report.wrong("order", names, levels[0], *saved)
        elif expected[0] < expected[1] * (1 - EXACT):
            report.wrong("order", names, "saved × confidence", *expected)


def shares(report):
    for name in ("findings", "account", "account_phases"):
        for row in report.rows(name):
            for column, text in row.items():
                if column.endswith("share") and text and not 0 <= float(text) <= 1:
                    label = row.get("finding") or row.get("label") or row.get("name")
                    report.wrong("shares", f"{name}.csv", label, column, text)
    for row in report.rows("findings") + report.rows("summary_actions"):
        saved, of_ns = number(row["saved_ns"]), number(row["of_ns"])
        if saved is None:
            continue
        name = row.get("finding") or f"action {row['number']} {row['rule']}"
        if saved < 0 or saved > of_ns * (1 + DIGITS):
            report.wrong("shares", name, "saves more than its whole", saved, of_ns)
        run_saved, run_ns = number(row.get("run_saved_ns")), number(row.get("run_ns"))
        if run_saved is not None and run_saved > run_ns * (1 + DIGITS):
            report.wrong("shares", name, "saves more of the run than the run", run_saved, run_ns)
        share = number(row.get("share"))
        if share is not None and of_ns and abs(share - saved / of_ns) > EXACT:
            report.wrong("shares", name, "share is not saved ÷ whole", share, saved / of_ns)


def account(report):
    rows = report.rows("account")
    if not rows:
        return
    by_id = {row["id"]: row for row in rows}
    children, roots = collections.Counter(), 0
    for row in rows:
        if row["parent"]:
            children[row["parent"]] += int(row["ns"])
            if row["parent"] not in by_id:
                report.wrong("account", f"node {row['id']} has no parent", row["parent"])
        else:
            roots += int(row["ns"])
    for parent, total in children.items():
        if parent in by_id and total != int(by_id[parent]["ns"]):
            row = by_id[parent]
            report.wrong("account", f"node {parent}", row["kind"], row["label"], int(row["ns"]), "children", total)
    for row in rows:
        if roots and abs(number(row["captured_share"]) - int(row["ns"]) / roots) > EXACT:
            report.wrong("account", f"node {row['id']}", "share of all roots", row["captured_share"], int(row["ns"]) / roots)
    phases = sum(int(row["time_ns"]) for row in report.rows("account_phases"))
    if phases != roots:
        report.wrong("account", "phases and roots", phases, roots)
    labels = {row["label"] for row in rows}
    for stage in worked(report):
        if stage not in labels:
            report.wrong("account", "stage with iterations outside of all nodes of stages", stage)


def worked(report):
    """Stages with GPU work whose measured iterations do not all lie within those of another stage."""
    spans = collections.defaultdict(list)
    for row in report.rows("stage_instances"):
        is_counted = row["pass"] == report.primary() and not row["excluded"]
        if is_counted and row["start_ns"] and int(row["operations"] or 0) > 0:
            start = int(row["start_ns"])
            spans[row["stage"]].append((start, start + int(float(row["time_ns"]))))

    def lies_in(stage, outer):
        if sorted(spans[stage]) == sorted(spans[outer]):
            return stage not in report.outermost()
        return all(any(first <= start and end <= last for first, last in spans[outer]) for start, end in spans[stage])

    for stage in list(spans):
        if not any(outer != stage and lies_in(stage, outer) for outer in list(spans)):
            yield stage


def busy(report):
    """Compares:

    - headline.busy_share with 1 − the shares of idle time and of other work in breakdown: both are the busy time of the
      profiled iteration ÷ the time that the row shows;
    - headline.busy_share with stages.busy_share × stages.time_ns ÷ headline.unprofiled_ns, as its caption has it,
      where there is a baseline and that is at most 1; else with stages.busy_share, or 1 of a profiled time that is longer;
    - stages.busy_share with median busy_ns ÷ median time_ns of the counted rows of stage_instances;
    - launch_figures.busy_share with Σ busy_ns ÷ Σ time_ns of these rows;
    - account_phases.busy_share of measured iterations with the `busy` nodes of account ÷ their parents, and with Σ busy_ns ÷
      Σ time_ns of stage_instances where these iterations do not overlap.
    """
    stages = report.stages()
    idle = collections.Counter()
    for row in report.rows("breakdown"):
        if row["part"] in ("idle", "other work"):
            idle[row["stage"]] += number(row["share"])

    def differ(stage, names, *values):
        if None not in values and abs(values[0] - values[1]) > EXACT:
            report.wrong("busy", stage, names, *values)

    measured = collections.defaultdict(list)
    for row in report.rows("stage_instances"):
        if row["pass"] == report.primary() and not row["excluded"] and number(row["time_ns"]):
            measured[row["stage"]].append((number(row["time_ns"]), number(row["busy_ns"])))
    total = {stage: [sum(column) for column in zip(*rows)] for stage, rows in measured.items()}
    for row in report.rows("headline"):
        stage, share = STEP.sub("", row["stage"]), number(row["busy_share"])
        if row["stage"] in idle:
            differ(stage, "headline, 1 − idle of breakdown", share, 1 - idle[row["stage"]])
        line = stages.get(stage)
        if line and share is not None and line["busy_share"]:
            derived, unprofiled = number(line["busy_share"]), number(row["unprofiled_ns"])
            if unprofiled:
                steps = number(line["steps"]) if STEP.search(row["stage"]) else None
                time_ns, unprofiled = number(line["time_ns"]), unprofiled * (steps or 1)
                profiled = number(row["profiled_ns"]) * (steps or 1)
                if abs(profiled / time_ns - 1) > EXACT and stage in total:
                    # Means where unprofiled repeats lie at two levels.
                    derived, time_ns = total[stage][1] / total[stage][0], profiled
                scaled = derived * time_ns / unprofiled
                if scaled <= 1:
                    derived = scaled
                elif time_ns > NOT_SLOWED * unprofiled:
                    derived = 1.0
            differ(stage, "headline, busy ÷ baseline time" if unprofiled else "headline, stages", share, derived)
    for stage, line in stages.items():
        if stage in measured:
            time, worked_ns = (statistics.median(column) for column in zip(*measured[stage]))
            differ(stage, "stages, medians of stage_instances", number(line["busy_share"]), worked_ns / time)
    for row in report.rows("launch_figures"):
        if row["pass"] == report.primary() and row["stage"] in total:
            time, worked_ns = total[row["stage"]]
            differ(row["stage"], "launch_figures, sums of stage_instances", number(row["busy_share"]), worked_ns / time)
    nodes = report.rows("account")
    by_id = {row["id"]: row for row in nodes}
    of_label = collections.defaultdict(lambda: [0, 0])
    for row in nodes:
        if row["kind"] == "measured iterations":
            of_label[row["label"]][0] += int(row["ns"])
        if row["kind"] == "busy" and by_id[row["parent"]]["kind"] == "measured iterations":
            of_label[by_id[row["parent"]]["label"]][1] += int(row["ns"])
    for row in report.rows("account_phases"):
        stage = row["name"]
        if row["phase"] != "measured iterations" or not of_label[stage][0]:
            continue
        time, worked_ns = of_label[stage]
        differ(stage, "account_phases, account", number(row["busy_share"]), worked_ns / time)
        if stage in total and total[stage][0] == time:
            differ(stage, "account_phases, sums of stage_instances", number(row["busy_share"]), total[stage][1] / time)


def outcomes(report):
    rules, found = report.rows("rules"), collections.Counter(row["rule"] for row in report.rows("findings"))
    primary = {row["stage"] for row in report.rows("headline")}
    for row in rules:
        rule, outcome = row["rule"], row["outcome"]
        if outcome.startswith("found"):
            if int(outcome.split()[1]) != found[rule]:
                report.wrong("outcomes", rule, outcome, "findings", found[rule])
        elif found[rule]:
            report.wrong("outcomes", rule, outcome, "findings", found[rule])
        if outcome != "clear":
            continue
        if rule in NEEDS and not any(report.rows(name) for name in NEEDS[rule]):
            report.wrong("outcomes", rule, "passed, but these data sets are empty", " ".join(NEEDS[rule]))
        skipped = row["reason"].removeprefix("not evaluated: ")
        if row["reason"] and skipped == row["reason"]:
            report.wrong("outcomes", rule, "passed with a reason", row["reason"])
        skipped = {STEP.sub("", stage.strip()) for stage in skipped.split(",")}
        if primary and {STEP.sub("", stage) for stage in primary} <= skipped:
            report.wrong("outcomes", rule, "passed, but evaluated no stage", row["reason"])


def unexplained(report):
    findings, actions = report.rows("findings"), report.rows("summary_actions")
    rules = {rule for row in actions for rule in [row["rule"], *row["also"].split(", ")]}
    run_ns = report.run_ns()
    scopes = {(row["stage"], row["rank"]) for row in findings if row["rule"] in rules and row["saved_ns"]}
    for row in findings:
        saved, weight = number(row["saved_ns"]), number(row["weight_ns"])
        if row["severity"] not in ("warning", "critical") or not saved or not run_ns:
            continue
        if weight < LEAST_OF_LOOP * run_ns or row["rule"] in rules or (row["stage"], row["rank"]) in scopes:
            continue
        # Of several GPUs, the page states the largest limit.
        if any(report.is_caveat(other["finding"]) for other in findings if other["rule"] == row["rule"]):
            continue
        report.wrong("unexplained", row["finding"], row["severity"], weight, f"{weight / run_ns:.1%} of", run_ns,
                     f"{len(actions)} actions")


def coverage(report):
    phases = report.rows("account_phases")
    total = sum(int(row["time_ns"]) for row in phases)
    if not total:
        return
    # The time of the measured loop holds what lies between its iterations.
    is_loop = any(row["figure"].startswith("Time of the measured loop") for row in report.rows("summary_tiles"))
    measured = sum(int(row["time_ns"]) for row in phases if row["phase"].endswith("measured iterations")
                   or is_loop and row["phase"] == BETWEEN)
    share, items = measured / total, report.caveats()
    at = [nth for nth, item in enumerate(items) if share_and_time(item, share, total)]
    # Unprofiled times hold what the host does in the ranges of stages while the GPU has no operation of them: at least
    # 5 % of the time, and at most what lies between.
    between = sum(int(row["time_ns"]) for row in phases if row["phase"] == BETWEEN) / total
    if not at and between >= 0.05:
        at = [nth for nth, item in enumerate(items) if covers(item, (share + 0.05, share + between), total)]
    if not at:
        report.wrong("coverage", "the page does not say", share, "of", total)
    elif (share < COVERED) != (at[0] == 0) and len(items) > 1:
        report.wrong("coverage", share, "is caveat", at[0] + 1, "of", len(items))


def share_and_time(item, share, total):
    """Whether an item begins with this share of this time."""
    values = [part["quantity"]["value"] for part in item if "quantity" in part][:2]
    return len(values) == 2 and abs(values[0] - share) <= EXACT and values[1] == total


def covers(item, within, total):
    """Whether an item begins with a share of this time within these."""
    values = [part["quantity"]["value"] for part in item if "quantity" in part][:2]
    return len(values) == 2 and within[0] <= values[0] + EXACT and values[0] - EXACT <= within[1] and values[1] == total


def leaves(report):
    nodes = {row["id"]: row for row in report.rows("account")}
    times, largest, whole = collections.Counter(), collections.Counter(), 0
    for row in nodes.values():
        if row["kind"] in MEASURED:
            whole += int(row["ns"])
        if row["kind"] not in LEAVES:
            continue
        phase = row
        while phase and phase["kind"] not in (*MEASURED, BETWEEN):
            phase = nodes.get(phase["parent"])
        if phase:
            leaf, time = (RANK.sub("", phase["label"]), row["kind"], row["label"]), int(row["ns"])
            times[leaf] += time
            # What lies between stages may have a row, and needs none.
            if phase["kind"] in MEASURED:
                largest[leaf, phase["id"]] = max(largest[leaf, phase["id"]], time)
    # Kernels of one short name are leaves of their own: the largest of each phase counts.
    least = collections.Counter()
    for (leaf, _), time in largest.items():
        least[leaf] += time
    # Names of kernels are shorter there: a row is the leaf of its stage and kind with its time.
    named = collections.defaultdict(list)
    for row in report.rows("no_action"):
        named[row["stage"], row["kind"]].append(int(row["ns"]))
        if not row["reason"]:
            report.wrong("leaves", row["stage"], row["label"], "no reason")
    rules = {row["rule"] for row in report.rows("summary_actions")}
    of_actions = {row["stage"] for row in report.rows("findings") if row["rule"] in rules and row["saved_ns"]}
    for (stage, kind), rows in named.items():
        longest = max((time for leaf, time in times.items() if leaf[:2] == (stage, kind)), default=0)
        if max(rows) > longest:
            report.wrong("leaves", stage, kind, "time in no_action.csv", max(rows), longest)
    for leaf, time in times.items():
        is_of_action = leaf[0] in of_actions or "" in of_actions
        is_named = any(least[leaf] <= own <= time for own in named[leaf[:2]])
        if least[leaf] >= LEAST_OF_LOOP * whole and not is_named and not is_of_action:
            report.wrong("leaves", *leaf, f"{least[leaf] / whole:.1%} without an action or a reason")


CHECKS = (figures, moves, order, shares, account, busy, outcomes, unexplained, coverage, leaves)


def check(program, given):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "report"
        command = [program, "report", str(given), "--format", "csv", "--format", "json", "-o", str(folder)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired:
            return [("run", "no report after 180 s")], [], "no report"
        if not folder.exists():
            is_refused = run.returncode == 3
            reason = shown(run.returncode, run.stderr.strip()[:200].replace("\n", " "))
            return [] if is_refused else [("run", reason)], [], "no report"
        report = Report(folder)
        for each in CHECKS:
            each(report)
        has_page = bool(report.rows("summary_figures"))
        return report.violations, report.exempt, "with figures" if has_page else "without figures"


def option(arguments, name, default):
    if name not in arguments:
        return default
    at = arguments.index(name)
    arguments.pop(at)
    return arguments.pop(at)


def bundles():
    """The bundles of this repository."""
    folders = sorted((ROOT / "fixtures").iterdir()) + sorted((ROOT / "fixtures/planted/captures").iterdir())
    return [folder for folder in folders if folder.is_dir() and folder.name != "planted"]


def main():
    arguments = sys.argv[1:]
    program = option(arguments, "--rooflens", os.environ.get("ROOFLENS", "rooflens"))
    jobs = int(option(arguments, "--jobs", "2"))
    inputs = [pathlib.Path(argument) for argument in arguments] or bundles()
    kinds, wrong = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for given, (violations, exempt, kind) in zip(inputs, pool.map(lambda given: check(program, given), inputs)):
            kinds[kind] += 1
            wrong += len(violations)
            for name, values in violations:
                print(f"{given}: {name}: {values}", flush=True)
            for line in exempt:
                print(f"{given}: exempt: {line}", flush=True)
    print(f"{len(inputs)} inputs ({', '.join(f'{count} {kind}' for kind, count in kinds.items())}), {wrong} violations")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
