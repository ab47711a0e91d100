"""Every number of the findings of reports, derived again from the artifact without Rooflens.

usage: claims.py ROOFLENS FILE_OR_FOLDER...

Runs `ROOFLENS report FILE -o x.json` for each file, reads the data set `findings`, and derives each number, cause and name of
each statement from the artifact itself (claims_stage.py: stages of nsys exports and PyTorch traces, claims_ncu.py: tables of
Nsight Compute). Prints a line for each finding with what is stated, what is derived and how far they are apart: of shares
and of times within a stage as share of the stage, which may be 1 % at most; of counts not at all; of means three digits.
From the report comes what is to be checked, which stages are the outermost ones, and nothing else.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from claims_ncu import PROFILED, Profile
from claims_parts import product_share
from claims_stage import RULES
from instances import WHOLE, Pass

UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
OF_STAGE = {"gain", "time", "run", "median", "whole", "longest"}
NARROW_SPACE = "\u202f"


def value(text):
    """A share, a time or bytes, or a count, as a number."""
    text = text.strip()
    number, _, unit = text.partition(" ")
    return float(number) * (0.01 if unit == "%" else UNITS[unit] if unit else 1)


def compare(group, stated, derived, stage_ns):
    """The difference as share of the stage, or of the number itself, and whether it is small enough."""
    if derived is None:
        return None, False
    if group.endswith("_text"):
        same = (stated == derived or group == "remark_text" and derived.startswith(stated)
                or group.endswith("kernel_text") and all(part in derived for part in stated.split()))
        return 0.0 if same else None, same
    stated = value(stated)
    if group.endswith("share"):
        return abs(stated - derived), abs(stated - derived) <= 0.01
    if group in OF_STAGE:
        difference = abs(stated - derived) / (stage_ns or derived or 1)
        return difference, difference <= 0.01
    difference = abs(stated - derived) / max(abs(derived), 1e-12)
    return difference, difference <= 0.0051


def dataset(report, name):
    for one in report["datasets"]:
        if one["id"] == name:
            columns = [column["id"] for column in one["columns"]]
            return [dict(zip(columns, row)) for row in one["rows"]]
    return []


def process_of_rank(work, stage, rank):
    processes = sorted(work.instances(stage))
    if rank is None or len(processes) == 1:
        return processes[0] if processes else None
    return processes[int(rank)] if int(rank) < len(processes) else None


def none_known(work, statement):
    """Products without sizes: of each stage that is told their share of the GPU time."""
    one = (r"No GEMM of (.+?)(?: · rank (\d+))? has known shapes \(GEMMs take (\S+ %) of its GPU time\); FLOP totals and "
           r"GEMM savings exclude the rest\.")
    if re.sub(one, "", statement).strip():
        return None, "statement not understood"
    stated, derived = {}, {}
    for stage, rank, share in re.findall(one, statement):
        group = f"{stage}{rank}_share"
        stated[group] = share
        derived[group] = product_share(work, stage, process_of_rank(work, stage, rank or None))
    return stated, derived, None


def derive(work, finding):
    """Groups of the statement, the derived values and the time of the stage; or why there are none."""
    rule = finding["rule"]
    work.pauses = (finding["stage"], finding["rank"]) in work.with_pauses
    if rule == "flop-coverage":
        return none_known(work, finding["statement"])
    if rule not in (PROFILED if isinstance(work, Profile) else RULES):
        return None, "no derivation of this rule"
    pattern, derivation = (PROFILED if isinstance(work, Profile) else RULES)[rule]
    match = re.fullmatch(pattern, finding["statement"].replace(NARROW_SPACE, ""))
    if match is None:
        return None, "statement not understood"
    stated = {group: text for group, text in match.groupdict().items() if text is not None}
    if isinstance(work, Profile):
        return stated, derivation(work), None
    stage = finding["stage"] or (work.stages[0] if work.stages else WHOLE)
    process = process_of_rank(work, stage, finding["rank"])
    found = work.idle(stage, process)
    stage_ns = sum(whole for _, _, whole, _ in found) / max(len(found), 1)
    return stated, derivation(work, stage, process, found), stage_ns if finding["stage"] else None


def check(work, finding):
    """The state of a finding, the largest difference, and its parts in words."""
    stated, *rest = derive(work, finding)
    if stated is None:
        return "not derived", None, rest[0]
    derived, stage_ns = rest
    parts, worst, state = [], 0.0, "ok"
    if "few" in stated:
        derived["gain"] = derived["time"]
    if finding["saved_ns"] is not None and derived.get("gain") is not None:
        stated["gain"] = f"{finding['saved_ns']} ns"
    for group, text in stated.items():
        difference, small = compare(group, text, derived.get(group), stage_ns)
        worst = max(worst, difference if difference is not None else 1.0)
        if not small and state != "DIFFERS":
            state = "bound differs" if group == "gain" else "DIFFERS"
        shown = derived.get(group)
        if shown is None:
            return "not derived", None, f"{group}: {text}"
        parts.append(f"{group} {text} | {shown:.6g}" if isinstance(shown, (int, float)) else f"{group} {text} | {shown}")
    return state, worst, "; ".join(parts)


def report(rooflens, path, folder):
    out = pathlib.Path(folder) / "x.json"
    out.unlink(missing_ok=True)
    subprocess.run([rooflens, "report", str(path), "-o", str(out)], capture_output=True)
    return json.loads(out.read_text()) if out.exists() else None


def work_of(path, told):
    work = Profile(path) if path.suffix in (".csv", ".ncu-rep") else Pass(str(path))
    work.stages = list(dict.fromkeys(row["stage"].split(" · rank")[0] for row in dataset(told, "stages")))
    return work


def files(arguments):
    for argument in map(pathlib.Path, arguments):
        yield from sorted(one for one in argument.rglob("*") if one.is_file()) if argument.is_dir() else [argument]


def main(rooflens, *arguments):
    table, reports, derived, complete = collections.defaultdict(collections.Counter), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for path in files(arguments):
            told = report(rooflens, path, folder)
            if told is None:
                continue
            findings, states = dataset(told, "findings"), []
            try:
                work = work_of(path, told) if findings else None
            except Exception as error:
                work, reason = None, f"{type(error).__name__}: {error}"
            if work:
                work.with_pauses = {(one["stage"], one["rank"]) for one in findings if one["rule"] == "host-pauses"}
            for finding in findings:
                try:
                    state, worst, words = check(work, finding) if work else ("not derived", None, reason)
                except Exception as error:
                    state, worst, words = "not derived", None, f"{type(error).__name__}: {error}"
                states.append(state)
                table[finding["rule"]][state] += 1
                print(f"{state}\t{'' if worst is None else f'{worst:.4%}'}\t{path}\t{finding['rule']}\t{words}", flush=True)
            reports += 1
            derived += "not derived" not in states
            complete += all(state in ("ok", "bound differs") for state in states)
    print(f"\n{'rule':28}{'findings':>9}{'derived':>9}{'differing':>10}{'only bound':>12}")
    rows = sorted(table.items(), key=lambda item: -item[1].total())
    for rule, counts in [*rows, ("all", sum(table.values(), collections.Counter()))]:
        print(f"{rule:28}{counts.total():9}{counts.total() - counts['not derived']:9}{counts['DIFFERS']:10}"
              f"{counts['bound differs']:12}")
    print(f"of {reports} reports {derived} have every finding derived, {complete} of them without a difference in a statement")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
