"""GPU time, host time and launches by function of Python, from a raw PyTorch trace and nothing else.

usage: python_functions.py [TRACE.json]

Without an argument: derives the functions with most own device time or idle time of `h200-llama-capture` from
`torch/trace.pt.trace.json`, for `tests/data/expected`.

Prints own device time, own host time, device time, idle time and own idle time in nanoseconds, calls and function.
Nests frames by the ids that PyTorch gave them (`Python parent id`), not by time.
"""

import bisect
import collections
import json
import re
import sys

import expected

# Functions of each order that are compared.
LISTED = 10


def nanoseconds(value):
    whole, _, part = str(value).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def is_function(name):
    wrapped = re.search(r"torch/nn/modules/module\.py\(\d+\): (_wrapped)?_call_impl$", name)
    return re.match(r".+\(\d+\): ", name) is not None and not wrapped


def label(name):
    path, line, function = re.match(r"(.+)\((\d+)\): (.*)$", name).groups()
    return f"{'/'.join(path.split('/')[-2:])}:{line}({function})"


def functions_of(path):
    """Six figures by function, and all time of the GPU."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file, parse_float=lambda text: text)["traceEvents"]
    for event in events:
        if event.get("ph") == "X":
            event["start"] = nanoseconds(event["ts"])
            event["end"] = event["start"] + nanoseconds(event["dur"])
    frames = [event for event in events if event.get("cat") == "python_function"]
    by_id = {frame["args"]["Python id"]: frame for frame in frames}

    def parent(frame):
        while frame is not None:
            frame = by_id.get(frame["args"]["Python parent id"])
            if frame is not None and is_function(frame["name"]):
                return frame
        return None

    functions = [frame for frame in frames if is_function(frame["name"])]
    for frame in functions:
        frame["own"] = frame["end"] - frame["start"]
        frame["device"] = frame["device_own"] = 0
        frame["parent"] = parent(frame)
    for frame in functions:
        if frame["parent"] is not None:
            frame["parent"]["own"] -= frame["end"] - frame["start"]

    lanes = collections.defaultdict(list)
    for frame in functions:
        lanes[(frame["pid"], frame["tid"])].append(frame)
    starts = {}
    for key, lane in lanes.items():
        lane.sort(key=lambda frame: (frame["start"], -frame["end"]))
        starts[key] = [frame["start"] for frame in lane]

    def innermost(lane, time):
        if lane not in lanes:
            return None
        at = bisect.bisect_right(starts[lane], time) - 1
        frame = lanes[lane][at] if at >= 0 else None
        while frame is not None and frame["end"] <= time:
            frame = frame["parent"]
        return frame

    calls = {}
    runtime = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    outer = {}
    for call in sorted(runtime, key=lambda call: (call["pid"], call["tid"], call["start"], -call["end"])):
        lane = (call["pid"], call["tid"])
        calls.setdefault(call["args"].get("correlation"), call)
        if call["end"] <= outer.get(lane, 0):
            continue
        outer[lane] = call["end"]
        frame = innermost(lane, call["start"])
        if frame is not None:
            frame["own"] -= min(call["end"], frame["end"]) - call["start"]

    work = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    total = 0
    for event in work:
        time = event["end"] - event["start"]
        total += time
        call = calls.get(event["args"]["correlation"])
        frame = innermost((call["pid"], call["tid"]), call["start"]) if call else None
        if frame is not None:
            frame["device_own"] += time
        while frame is not None:
            frame["device"] += time
            frame = frame["parent"]

    gaps, until = [], None
    for event in sorted(work, key=lambda event: event["start"]):
        if until is not None and event["start"] > until:
            gaps.append((until, event["start"]))
        until = max(until or 0, event["end"])

    def idle(start, end):
        return sum(max(0, min(end, b) - max(start, a)) for a, b in gaps if a < end and b > start)

    for frame in functions:
        frame["idle"] = frame["idle_own"] = idle(frame["start"], frame["end"])
    for frame in functions:
        if frame["parent"] is not None:
            frame["parent"]["idle_own"] -= frame["idle"]

    sums = collections.defaultdict(lambda: [0] * 6)
    for frame in functions:
        sum_ = sums[label(frame["name"])]
        sum_[0] += frame["device_own"]
        sum_[1] += frame["own"]
        sum_[4] += frame["idle_own"]
        sum_[5] += 1
        around = frame["parent"]
        while around is not None and label(around["name"]) != label(frame["name"]):
            around = around["parent"]
        if around is None:
            sum_[2] += frame["device"]
            sum_[3] += frame["idle"]
    return sums, total


def derive():
    with expected.unpacked("h200-llama-capture", "torch/trace.pt.trace.json") as path:
        sums, total = functions_of(path)
    columns = ["device_self_ns", "host_self_ns", "device_total_ns", "idle_ns", "idle_self_ns", "calls"]
    by_device, by_idle = (sorted(sums, key=lambda name: -sums[name][at])[:LISTED] for at in (0, 3))
    figures = []
    for name in dict.fromkeys(by_device + by_idle):
        for column, value in zip(columns, sums[name]):
            unit = "count" if column == "calls" else "nanoseconds"
            figures.append(expected.cell("python_functions", column, value, unit, function=name))
    for at, column in ((0, "device_self_ns"), (5, "calls")):
        whole = sum(sum_[at] for sum_ in sums.values())
        figures.append(expected.cell("python_functions", column, whole, "count" if at == 5 else "nanoseconds"))
    share = sum(sum_[0] for sum_ in sums.values()) / total
    figures.append(expected.metric("python_coverage", share, "ratio", **{"pass": "torch"}))
    expected.write(__file__, "h200-llama-capture", figures)


def main(path):
    sums, total = functions_of(path)
    for name, sum_ in sorted(sums.items(), key=lambda item: (-item[1][0], -item[1][1], item[0])):
        print(*sum_, name)
    print(sum(sum_[0] for sum_ in sums.values()), "of", total, "ns of the GPU")


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) > 1 else derive()
