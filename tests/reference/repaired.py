"""Counts the repaired programs whose fault is the first explanation of `rooflens compare`.

    repaired.py --rooflens BIN REPAIRED [NAME...]

REPAIRED is a folder of captures of the programs of fixtures/planted with FIX=1, one folder each with the
program's name. For each of them, the capture of the fault is compared with the repaired one. A fault is found if a rule
that truth.toml lists for it is the first one next to the first explanation of the report.
"""

import argparse
import csv
import pathlib
import subprocess
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
PLANTED = ROOT / "fixtures/planted"


def first_rules(rooflens, before, after):
    """The rules next to the first explanation, with its words; none if the comparison failed."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out"
        command = [rooflens, "compare", "-q", before, after, "--format", "csv", "-o", output]
        for condition in ("gpu", "workload", "stages"):
            command += ["--allow", condition]
        compared = subprocess.run(command, capture_output=True, text=True)
        if compared.returncode:
            return None, compared.stderr.strip().splitlines()[-1]
        with open(output / "compare_explanations.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    if not rows:
        return [], "no explanation"
    row = rows[0]
    return row["rules"].split(), f"{row['stage']}: {row['explanation']} ({float(row['share'] or 0):.0%})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooflens", default=ROOT / "target/release/rooflens")
    parser.add_argument("repaired", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    truth = tomllib.loads((PLANTED / "truth.toml").read_text())["programs"]
    first = any_place = programs = 0
    for program in truth:
        name = pathlib.Path(program["file"]).stem
        after = arguments.repaired / program["name"]
        if not program["faults"] or not after.exists() or arguments.names and name not in arguments.names:
            continue
        programs += 1
        expected = {rule for rules in program["rules"] for rule in rules.split("|")}
        rules, words = first_rules(arguments.rooflens, PLANTED / "captures" / name, after)
        is_first = bool(rules) and rules[0] in expected
        first += is_first
        any_place += bool(rules) and bool(expected & set(rules))
        mark = "first" if is_first else "other"
        print(f"{mark:5} {name:24} {' '.join(sorted(expected))}: {words} | {' '.join(rules or [])}")
    print(f"{first} of {programs} faults are the first explanation; {any_place} are next to it")


if __name__ == "__main__":
    main()
