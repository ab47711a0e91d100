#!/usr/bin/env bash
# Runs `rooflens inspect` and `rooflens report` on every file below $ROOFLENS_CORPUS, each on its own, and
# prints what became of it. Fails on a panic, a hang, and on a report without a word about why it is empty.
# ROOFLENS names the program; by default it is built.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

corpus="${ROOFLENS_CORPUS:-}"
if [ -z "$corpus" ] || [ ! -d "$corpus" ]; then
    echo "skipped: ROOFLENS_CORPUS names no folder with files to try"
    exit 0
fi

program="${ROOFLENS:-}"
if [ -z "$program" ]; then
    cargo build --release --locked || exit 1
    program="${CARGO_TARGET_DIR:-target}/release/rooflens"
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
declare -A totals
failures=0

# Runs the program under a time limit; sets `code`, and leaves its output in $scratch/out and $scratch/err.
run() {
    timeout --kill-after=10 120 "$program" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
}

# Sets `outcome` from the exit code of a command: ok, refused, or a failure of the program.
judge() {
    case $code in
        0) outcome=ok ;;
        1) outcome=errors ;; # done, and told what is wrong
        3) outcome=refused ;;
        101) outcome=PANIC ;;
        124 | 137) outcome=HANG ;;
        *) outcome="EXIT-$code" ;;
    esac
}

# The line in which the program says why it gave up.
reason() {
    grep -m1 '^error' "$scratch/err" | cut -c1-160
}

# A report is silently empty if it has no metric, no data set, and no word about the quality of its data.
silent() {
    python3 - "$1" <<'PYTHON'
import json, pathlib, sys
report = next(pathlib.Path(sys.argv[1]).rglob("report.json"), None)
if report is None:
    sys.exit(0)
report = json.loads(report.read_text())
said = report.get("data_quality") or report.get("metrics")
rows = any(dataset.get("rows") for dataset in report.get("datasets", []))
sys.exit(1 if said or rows else 0)
PYTHON
}

printf '%-30s %-10s %-10s %s\n' "kind" "inspect" "report" "file: reason"
while IFS= read -r -d '' file; do
    name="${file#"$corpus"/}"
    run inspect "$file"
    judge
    inspected=$outcome
    kind="$(grep -A1 -m1 '^artifacts' "$scratch/out" | tail -n1 | sed -E 's/^ +[^ ]+ +//' | cut -c1-30)"
    why="$(reason)"

    rm -rf "$scratch/report"
    run report "$file" -o "$scratch/report"
    judge
    reported=$outcome
    [ "$reported" = ok ] || why="$(reason)"
    if [ "$reported" = ok ] && silent "$scratch/report"; then
        reported=SILENT
    fi
    if [ "$reported" = refused ] && [ -z "$why" ]; then
        reported=SILENT
    fi

    [ "$reported" = ok ] && [ "$inspected" = ok ] && why=""
    printf '%-30s %-10s %-10s %s\n' "${kind:-?}" "$inspected" "$reported" "$name${why:+: $why}"
    for outcome in "$inspected" "$reported"; do
        case $outcome in ok | errors | refused) ;; *) failures=$((failures + 1)) ;; esac
    done
    totals["$reported"]=$((${totals["$reported"]:-0} + 1))
done < <(find "$corpus" -type f -print0 | sort -z)

echo
for outcome in "${!totals[@]}"; do
    printf '%6d %s\n' "${totals[$outcome]}" "$outcome"
done | sort -k2
[ "$failures" = 0 ] || { echo "$failures failures"; exit 1; }
