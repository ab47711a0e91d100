"""Every number, name and bound of the findings of reports, derived again from the raw artifacts without Rooflens.

usage: claims [--jobs N] [--timeout SECONDS] ROOFLENS [FILE_OR_FOLDER...]

Without a file: all bundles of the fixtures, the planted ones included. Runs `ROOFLENS report INPUT` for each bundle and file, reads its findings, and
derives what each states from the artifacts: timelines (stages.py), repeats (repeats.py), what the host did (named.py), groups
of operators (chains.py), GEMMs (products.py), ranks (ranks.py), the model (model.py), counters (limits.py, counters.py, profiles.py). Prints a line for each finding with what is stated
and what is derived, the false ones marked FALSE, and ends with 1 if there are any. Counts and names must be equal, other
numbers to 1e-6 of themselves; numbers of which the report has three digits only, to those. A finding is `partly` derived if
a number has no derivation, and `not derived` if its rule has none; the last table counts them by rule. From the report come
what is to be checked, which stages are the outermost ones, and nothing else.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import report
from bundle import Input
from calls import CALLS
from chains import CHAINS
from counters import COUNTERS, coverage, representatives
from first_page import figures
from instances import WHOLE, Pass
from kernels import KERNELS
from limits import LIMITS
from named import NAMED, losses_of
from parts import product_share
from power import PATTERN, clock_limit
from profiles import PROFILED, Profile
from products import PRODUCTS
from ranks import RANKS
from repeats import REPEATS
from stages import RULES
from utilization import UTILIZATION

DERIVATIONS = RULES | NAMED | CALLS | CHAINS | LIMITS | KERNELS | REPEATS | COUNTERS | PRODUCTS | UTILIZATION | RANKS
ROOT = pathlib.Path(__file__).resolve().parents[3]
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "Hz": 1, "MHz": 1e6, "GHz": 1e9,
         "W": 1, "flop_per_second": 1, "bytes_per_second": 1}


def value(text):
    """A share, a time or bytes, or a count, as a number."""
    number, _, unit = text.strip().partition(" ")
    return float(number) * (0.01 if unit == "%" else UNITS[unit] if unit else 1)


# cuDNN's names of passes.
PASSES = {"fwd": "fprop", "bwd": "bprop"}
DTYPES = {"fp64": "double", "fp32": "float", "bf16": "bfloat16", "fp16": "half", "scalar": ""}


def is_short_for(short, name):
    """Whether the words of a short name are in a kernel's name, in any spelling."""
    plain = re.sub(r"(\d+x\d+)_(\d+)x\d+", r"\1x\2", name).lower().replace("_", "")
    return all(word in name or word.replace("_", "") in plain or DTYPES.get(word, " ") in plain or PASSES.get(word, " ") in plain
               for word in short.split())


def are_short_for(short, names):
    """Whether short names, each one once in a row and at most ten, are those of kernels in this order."""
    parts, at = [part for part in short.split(" → ") if part != "…"], 0
    for name in names:
        if at < len(parts) and is_short_for(parts[at], name):
            at += 1
        elif at < len(parts) and not (at and is_short_for(parts[at - 1], name)):
            return False
    return at == len(parts)


def is_true(group, stated, derived):
    """Names and counts must be equal, other numbers to all digits that the report has."""
    if derived is None:
        return False
    if isinstance(derived, tuple):
        return are_short_for(stated, derived)
    if group.endswith("_text"):
        return stated == derived or group.endswith("kernel_text") and is_short_for(stated, derived)
    has_three_digits = " " in stated and len(re.sub(r"\D", "", stated).lstrip("0")) <= 3
    tolerance = 0.0051 if has_three_digits else 1e-6
    return abs(value(stated) - derived) <= tolerance * max(abs(derived), 1e-12)


def process_of_rank(work, stage, rank):
    processes = sorted(work.instances(stage))
    if rank is None or len(processes) == 1:
        return processes[0] if processes else None
    return processes[int(rank)] if int(rank) < len(processes) else None


def none_known(work, statement):
    """Products without sizes: of each stage their share of the GPU time."""
    one = (r"No GEMM of (.+?)(?: · rank (\d+))? has known shapes \(GEMMs take (\S+ %) of its GPU time\); (?:FLOP totals, "
           r"and savings that need shapes, exclude the rest|no GEMM FLOPs, and no savings that need shapes, are given for it)\.")
    part = (r"Only (\S+ %) of GEMM time in (.+?)(?: · rank (\d+))? has known shapes \(GEMMs take (\S+ %) of its GPU time\), and "
            r"(\S+ %) of its GPU time has known FLOPs; FLOP totals, and savings that need shapes, exclude the rest\.")
    if re.sub(part, "", re.sub(one, "", statement)).strip():
        return None, "statement not understood"
    stated, derived = {}, {}
    # Which GEMMs have shapes does not change the share that they take.
    for gemms, stage, rank, share, known in re.findall(part, statement):
        stated |= {f"{stage}{rank}_share": share, f"{stage}{rank}_of_gemms": gemms, f"{stage}{rank}_known": known}
        derived[f"{stage}{rank}_share"] = product_share(work, stage, process_of_rank(work, stage, rank or None))
    for stage, rank, share in re.findall(one, statement):
        group = f"{stage}{rank}_share"
        stated[group] = share
        derived[group] = product_share(work, stage, process_of_rank(work, stage, rank or None))
    return stated, derived


def hidden_graphs(work, statement):
    """Graphs that are traced as a whole: of each stage their share of the operation time."""
    stated = {f"{stage}_share": share for share, stage in re.findall(r"(\S+ %) of ([^,(]+?)(?=,| \()", statement)}
    derived = {}
    for stage in work.stages:
        ops = [op for own in work.instances(stage) for one in work.counted(stage, own) for op in one.ops]
        graphs = [op for op in ops if work.capture.details[op.rank]["kind"] == "GRAPH_TRACE"]
        derived[f"{stage}_share"] = sum(op.end - op.start for op in graphs) / max(sum(op.end - op.start for op in ops), 1)
    return stated, derived


OF_PARTS = {"sync-bound": ("share", "within_share", "with_loss", "gain", "windows", "all", "each"), "allocator-stalls": ("share", "gain"),
            "host-bound": ("share", "does_text", "os_share", "off_share", "gain"), "stage-busy": ("cause_text", "cause_share"),
            "os-waits": ("with_loss",)}


def derive(work, finding):
    """What the statement says and what is derived, by group; or why there is nothing."""
    rule = finding["rule"]
    work.of_stage, work.statement, work.action = finding["stage"], finding["statement"], finding["named"]
    if rule == "flop-coverage":
        return none_known(work, finding["statement"])
    if rule == "hidden-graphs":
        return hidden_graphs(work, finding["statement"])
    if rule == "profile-coverage":
        return coverage(work, finding["statement"], process_of_rank)
    if rule == "clock-limits" and (match := re.fullmatch(PATTERN, finding["statement"])):
        stated = {group: text for group, text in match.groupdict().items() if text is not None}
        return stated, clock_limit(work.source, match[1], match[2], match[match.lastindex])
    if rule == "unrepresentative-profile":
        return representatives(work, finding["statement"])
    derivations = PROFILED if isinstance(work, Profile) else DERIVATIONS
    if rule not in derivations:
        return None, "no derivation of this rule"
    # A rule with several statements has one derivation for each.
    variants = [own for name, own in derivations.items() if name == rule or name.startswith(rule + " ")]
    pattern, derivation = next((own for own in variants if re.fullmatch(own[0], finding["statement"])), variants[0])
    match = re.fullmatch(pattern, finding["statement"])
    if match is None:
        return None, "statement not understood"
    stated = {group: text for group, text in match.groupdict().items() if text is not None}
    if isinstance(work, Profile):
        return stated, derivation(work)
    stage = finding["stage"] or (work.stages[0] if work.stages else None)
    process = process_of_rank(work, stage, finding["rank"])
    work.pauses = (finding["stage"], finding["rank"]) in work.with_pauses
    derived = derivation(work, stage, process, work.idle(stage, process) if process is not None else [])
    if stage == WHOLE and rule in OF_PARTS and derived and any(one.total() for one in losses_of(work, stage, process).named()):
        # No definition says where a whole capture is cut into its ten parts, which named idle time depends on.
        derived = {group: value for group, value in derived.items() if group not in OF_PARTS[rule]}
    return stated, derived


def check(work, finding):
    """Whether a finding is true, and its parts in words."""
    work.gain = None
    stated, derived = derive(work, finding)
    if stated is None:
        return "not derived", derived
    # No group of a chain rule: all of the statement is false.
    derived = dict.fromkeys(stated) if derived is None else derived
    if "few" in stated:
        derived["gain"] = derived["time"]
    if finding["saved_ns"] is not None:
        stated["gain"] = f"{finding['saved_ns']!r} ns"
    work.gain = derived.get("gain")
    parts, false, missing = [], [], [group for group in stated if group not in derived]
    for group, text in stated.items():
        shown = derived.get(group)
        shown = f"{shown:.10g}" if isinstance(shown, (int, float)) else shown
        parts.append(f"{group} {text} | {shown}")
        if group not in missing and not is_true(group, text, derived[group]):
            false.append(group)
    if false:
        return "FALSE", f"[{', '.join(false)}] " + "; ".join(parts)
    return ("partly", f"[{', '.join(missing)} not derived] " + "; ".join(parts)) if missing else ("true", "; ".join(parts))


def inputs(arguments):
    """Bundles, and files outside of them."""
    for argument in map(pathlib.Path, arguments or [ROOT / "fixtures"]):
        if argument.is_file():
            yield argument
            continue
        bundles = sorted(found.parent for found in argument.rglob("manifest.json"))
        yield from bundles
        if not bundles:
            yield from sorted(one for one in argument.rglob("*") if one.is_file())


def page_one(told, work, gains):
    """Of each figure of the first page its state, as a finding, and words."""
    try:
        for stage, name, groups in figures(told, work, gains):
            false = [group for group, (stated, derived) in groups.items() if not is_equal(stated, derived)]
            words = "; ".join(f"{group} {stated} | {derived:.10g}" for group, (stated, derived) in groups.items())
            state = "FALSE" if false else "true"
            yield state, dict(rule=f"page one: {re.sub(' .*', '', name)}", stage=stage, rank=None), f"{false or ''}{name}: {words}"
    except Exception as error:
        yield "not derived", dict(rule="page one", stage=None, rank=None), f"{type(error).__name__}: {error}"


def is_equal(stated, derived):
    return is_true("", stated, derived) if isinstance(stated, str) else abs(stated - derived) <= 1e-6 * max(abs(derived), 1e-12)


def claims(rooflens, path, folder):
    """Of each finding of an input its state, its rule and words."""
    told = report.read(rooflens, path, folder)
    if told is None:
        return
    findings, source = list(report.findings(told)), Input(path, folder)
    stages = list(dict.fromkeys(row["stage"].split(" · rank")[0] for row in report.dataset(told, "stages")))
    with_pauses = {(one["stage"], one["rank"]) for one in findings if one["rule"] == "host-pauses"}
    gains, main = {}, source.work(first_pass(source)) if source.passes("timeline") else None
    if isinstance(main, Pass):
        main.stages = stages_of(main, stages)
        source.settle(main)
    for finding in findings:
        try:
            has_own = source.raw(finding["pass"]) and finding["rule"] != "unrepresentative-profile"
            name = finding["pass"] if has_own else first_pass(source)
            work = source.work(name) if name else Baseline(source)
            work.stages, work.with_pauses = stages_of(work, stages), with_pauses
            state, words = check(work, finding)
            if finding["saved_ns"] is not None:
                gains[finding["rule"], finding["stage"]] = work.gain, finding["named"]
        except Exception as error:
            state, words = "not derived", f"{type(error).__name__}: {error}"
        yield state, finding, words
    name = first_pass(source)
    work = source.work(name) if name else None
    if isinstance(work, Pass):
        work.stages = stages_of(work, stages)
        yield from page_one(told, work, gains)


def stages_of(work, stages):
    """The stages of the report; the whole capture is one only of a pass without another."""
    others = [stage for stage in stages if stage != WHOLE]
    has_other = not isinstance(work, Profile) and any(any(work.instances(stage).values()) for stage in others)
    return others if has_other else stages


class Baseline:
    """What a bundle without a profiled pass holds: unprofiled repeats and samples."""

    def __init__(self, source):
        self.source = source

    def instances(self, stage):
        return {}


def first_pass(source):
    passes = source.passes("timeline") + source.passes("operators") + source.passes("counters")
    return next(iter(passes), None)


def check_input(rooflens, path):
    """Prints the findings of an input."""
    with tempfile.TemporaryDirectory() as folder:
        for state, finding, words in claims(rooflens, path, folder):
            place = " · ".join(str(one) for one in (path.name, finding["stage"], finding["rank"]) if one is not None)
            print(f"{state}\t{place}\t{finding['rule']}\t{words}", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"took\t{path.name}\t-\t{time.process_time() + used.ru_utime + used.ru_stime:.1f} s of CPU time", flush=True)


def lines_of(rooflens, path, timeout):
    """The lines of an input by a process of its own; it is not finished if it runs into the timeout."""
    command = [sys.executable, __file__, "--single", rooflens, str(path)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        out, ending = process.stdout, process.stderr.strip().splitlines()[-1:] if process.returncode else []
    except subprocess.TimeoutExpired as stopped:
        out, ending = (stopped.stdout or b"").decode(), [f"no end after {timeout} s"]
    lines = out.splitlines() + [f"NOT FINISHED\t{path.name}\t-\t{reason}" for reason in ending]
    return path, lines


def print_table(heading, table, times):
    print(f"\n{heading:40}{'findings':>9}{'true':>7}{'partly':>7}{'false':>7}{'not derived':>13}")
    everything = sum(table.values(), collections.Counter())
    for name, counts in [*sorted(table.items()), ("all", everything)]:
        findings = counts.total() - counts["NOT FINISHED"]
        ending = " not finished" if counts["NOT FINISHED"] else times.get(name, "")
        print(f"{name:40}{findings:9}{counts['true']:7}{counts['partly']:7}{counts['FALSE']:7}{counts['not derived']:13} {ending}")
    return everything


def main(rooflens, arguments, jobs, timeout):
    by_rule, by_input = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    times = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        checks = [pool.submit(lines_of, rooflens, path, timeout) for path in inputs(arguments)]
        for check_ in concurrent.futures.as_completed(checks):
            path, lines = check_.result()
            print(*lines, sep="\n", flush=True)
            for line in lines:
                state, _, rule, words = line.split("\t", 3)
                if state != "took":
                    by_rule[rule][state] += 1
                    by_input[path.name][state] += 1
                else:
                    times[path.name] = words
    print_table("input", by_input, times)
    everything = print_table("rule", by_rule, {})
    sys.exit(everything["FALSE"] + everything["NOT FINISHED"] > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="inputs at a time")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for an input")
    parser.add_argument("--single", action="store_true", help="one input, in this process")
    parser.add_argument("rooflens")
    parser.add_argument("inputs", nargs="*")
    options = parser.parse_args()
    if options.single:
        check_input(options.rooflens, pathlib.Path(options.inputs[0]))
    else:
        main(options.rooflens, options.inputs, options.jobs, options.timeout)
