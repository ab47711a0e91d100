#!/usr/bin/env python3
"""Fails if a crate that is compiled without optimization takes 2 % of the instructions of a report.

The profile `release` optimizes the crates that it names, and no others. A hot crate without a name is about ten times
slower, and nothing else says so. This check counts the instructions of a Markdown report with callgrind and assigns each
function to the crate that compiled it: generic functions belong to the crate that uses them.

usage: optimized.py [CAPTURE]        from the root of the repository; needs cargo, nm, and valgrind
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

LIMIT = 0.02
ROOT = pathlib.Path(__file__).resolve().parent.parent


def levels():
    """Optimization level by crate, and the level of all others."""
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["release"]
    package = profile.get("package", {})
    default = package.get("*", {}).get("opt-level", profile["opt-level"])
    named = {name.replace("-", "_"): entry.get("opt-level", default) for name, entry in package.items()}
    return named, default


def build():
    """The program with its symbols: only the link differs from the README's build."""
    subprocess.run(
        ["cargo", "rustc", "--release", "--locked", "--quiet", "--bin", "rooflens", "--", "-Cstrip=none"],
        cwd=ROOT,
        check=True,
    )
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "rooflens"


def instructions(program, capture, folder):
    """Instructions by symbol, without those of callees."""
    counts = folder / "callgrind.out"
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={counts}"]
        + [program, "report", capture, "--format", "md", "-o", folder / "report.md"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    names, costs = {}, collections.Counter()
    symbol, is_call = "", False
    for line in counts.read_text(errors="replace").splitlines():
        if function := re.match(r"fn=\((\d+)\)(?: (.*))?", line):
            number, name = function.groups()
            symbol = names.setdefault(number, name)
        elif callee := re.match(r"cfn=\((\d+)\) (.*)", line):
            names[callee[1]] = callee[2]
        elif line.startswith("calls="):
            is_call = True
        elif cost := re.match(r"[+*\d-]\S* (\d+)$", line):
            if not is_call:
                costs[symbol] += int(cost[1])
            is_call = False
    return costs


def compiled_by(program, symbols):
    """The crate whose library defines each symbol; functions of C libraries and of the standard library have none."""
    crates = {}
    for library in sorted((program.parent / "deps").glob("lib*.rlib")):
        name = re.match(r"lib(.*)-[0-9a-f]+$", library.stem)[1]
        listing = subprocess.run(
            ["nm", "--defined-only", "--format=just-symbols", library], capture_output=True, text=True
        )
        for symbol in symbols.intersection(listing.stdout.split()):
            crates.setdefault(symbol, name)
    return crates


def main():
    capture = sys.argv[1] if len(sys.argv) > 1 else "fixtures/h200-llama-8b"
    named, default = levels()
    program = build()
    with tempfile.TemporaryDirectory() as folder:
        costs = instructions(program, capture, pathlib.Path(folder))
    crates = compiled_by(program, set(costs))
    by_crate = collections.Counter()
    for symbol, cost in costs.items():
        by_crate[crates.get(symbol)] += cost
    total = sum(costs.values())
    slow = []
    for name, cost in by_crate.most_common(20):
        level = named.get(name, default)
        print(f"{cost / total:7.2%}  {name}  level {level}")
        if name is not None and level == 0 and cost >= LIMIT * total:
            slow.append(name)
    if slow:
        sys.exit(f"compiled without optimization, but at least {LIMIT:.0%} of a report: {', '.join(slow)}")


if __name__ == "__main__":
    main()
