"""What other tools tell of the difference of two PyTorch traces that is known.

usage: peer_diffs.py --rooflens BIN [--output DIR]

The pair is the trace of fixtures/h100-train and an edited copy. In the copy, a GEMM kernel has the name of another library and
takes four fifths of its time, and each square of a norm and the mean behind it are one kernel that takes as long as the square
alone. No other event is changed, so that the difference of the kernels' time is known. Prints the truth and what each tool says.
Steps have the name that HolisticTraceAnalysis looks for in both traces.

HolisticTraceAnalysis is on PyPI, TraceLens on GitHub (AMD-AGI/TraceLens; `tracelens` on PyPI is another program). Both are imported.
"""

import argparse
import collections
import contextlib
import csv
import io
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "fixtures/h100-train/torch/trace.pt.trace.json.zst"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT"
OTHER = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8"
FUSED = "triton_red_fused_mean_pow_0"


def kernels(events):
    return sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"])


def edited(trace):
    """The edited trace, and by how many microseconds each edit changes the kernels of all steps."""
    events = [dict(event) for event in trace["traceEvents"]]
    truth = collections.Counter()
    gone = set()
    ordered = kernels(events)
    for kernel, following in zip(ordered, ordered[1:] + [None]):
        if kernel["name"] == GEMM:
            truth["GEMMs replaced"] -= kernel["dur"] / 5
            kernel["name"] = OTHER
            kernel["dur"] = kernel["dur"] * 4 / 5
        elif "pow_tensor_scalar" in kernel["name"] and following and "MeanOps" in following["name"]:
            truth["square and mean fused"] -= following["dur"]
            truth["launches gone"] += 1
            kernel["name"] = FUSED
            gone.add(following["args"]["correlation"])

    def stays(event):
        correlation = event.get("args", {}).get("correlation", event.get("id") if event.get("cat") == "ac2g" else None)
        return correlation not in gone

    return {**trace, "traceEvents": [event for event in events if stays(event)]}, truth


def of_rooflens(rooflens, before, after, output):
    command = [rooflens, "compare", "-q", before, after, "--format", "csv", "--allow", "stages", "-o", output / "rooflens"]
    subprocess.run(command, check=True)
    lines = []
    for name in ("compare_explanations", "compare_kernels"):
        with open(output / "rooflens" / f"{name}.csv", newline="") as file:
            for row in list(csv.DictReader(file))[:8]:
                lines.append(f"{name}: " + " | ".join(value[:70] for value in row.values()))
    return lines


def of_hta(before, after):
    from hta.trace_analysis import TraceAnalysis
    from hta.trace_diff import TraceDiff

    with contextlib.redirect_stdout(io.StringIO()):
        control, test = (TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent)) for path in (before, after))
        from hta.trace_diff import DeviceType

        compared = TraceDiff.compare_traces(control.t, test.t, device_type=DeviceType.GPU)
    changed = compared[compared["diff_duration"] != 0].sort_values("diff_duration", key=abs, ascending=False)
    columns = ["diff_counts", "diff_duration", "counts_change_categories"]
    lines = [f"{str(name)[:90]} | " + " | ".join(str(row[column]) for column in columns) for name, row in changed.iterrows()]
    return lines[:12]


def of_tracelens(before, after):
    from TraceLens import TraceDiff, TreePerfAnalyzer

    first, second = (TreePerfAnalyzer.from_file(str(path)) for path in (before, after))
    diff = TraceDiff(first.tree, second.tree)
    diff.generate_tracediff_report()
    table = diff.diff_stats_df
    lines = [f"{len(table)} rows"]
    for column in ("cpu_op_name", "name"):
        sums = table.pivot_table(index=column, columns="source", values="kernel_time", aggfunc="sum", fill_value=0)
        sums["difference"] = sums["trace2"] - sums["trace1"]
        changed = sums[sums["difference"].abs() > 1e-3].sort_values("difference")
        lines += [f"{column} {str(name)[:90]} | {row['trace1']:.3f} | {row['trace2']:.3f} | {row['difference']:.3f}" for name, row in changed.iterrows()]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooflens", default=ROOT / "target/release/rooflens")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        output = arguments.output or pathlib.Path(temporary)
        output.mkdir(exist_ok=True)
        raw = subprocess.run(["zstd", "-dc", TRACE], capture_output=True, check=True).stdout
        trace = json.loads(raw)
        steps = [event for event in trace["traceEvents"] if event.get("name") == "train_step"]
        for number, step in enumerate(sorted(steps, key=lambda event: event["ts"])):
            step["name"] = f"ProfilerStep#{number}"
        after, truth = edited(trace)
        paths = []
        for name, content in (("before", trace), ("after", after)):
            folder = output / name
            folder.mkdir(exist_ok=True)
            paths.append(folder / "trace.pt.trace.json")
            paths[-1].write_text(json.dumps(content))
        for what, change in truth.items():
            print(f"truth: {what}: {change:.3f}")
        tools = {
            "rooflens": lambda: of_rooflens(arguments.rooflens, *paths, output),
            "HTA": lambda: of_hta(*paths),
            "TraceLens": lambda: of_tracelens(*paths),
        }
        for tool, tell in tools.items():
            try:
                lines = tell()
            except Exception as error:
                lines = [f"failed: {type(error).__name__}: {error}"]
            for line in lines:
                print(f"{tool}: {line}")


if __name__ == "__main__":
    main()
