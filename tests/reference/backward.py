"""GPU time of the backward pass by operators of the forward pass, from a raw PyTorch trace and nothing else.

usage: backward.py [TRACE.json]

Without an argument: derives these times and their share of what autograd issued for both ranks of `h200x2-ddp` from
`torch/rankN.pt.trace.json`, for `tests/data/expected`.

Follows the arrows (`fwdbwd`) that PyTorch draws, where the importer goes by sequence numbers. An arrow ends at a node's
function; what the engine does around it has the same sequence number and belongs to the same forward operator.
"""

import collections
import json
import sys

import expected

# Ranges that are stages, and so no part of a path.
STAGES = ("forward", "backward", "optimizer", "train_step", "ProfilerStep#")


def load(path):
    # Times as texts, so that none goes through floating point before it is a whole number of nanoseconds.
    with open(path, encoding="utf-8") as file:
        trace = json.load(file, parse_float=lambda text: text)
    for event in trace["traceEvents"]:
        if "ts" in event and event.get("ph") in ("X", "s", "f"):
            whole, _, part = str(event["ts"]).partition(".")
            event["start"] = int(whole) * 1000 + int((part + "000")[:3])
            whole, _, part = str(event.get("dur", 0)).partition(".")
            event["end"] = event["start"] + int(whole) * 1000 + int((part + "000")[:3])
            event["lane"] = (event.get("pid"), event.get("tid"))
    return trace["traceEvents"]


def nest(spans):
    """Sets `around` of each span to the innermost one around it."""
    lanes = collections.defaultdict(list)
    for span in spans:
        lanes[span["lane"]].append(span)
    for lane in lanes.values():
        lane.sort(key=lambda span: (span["start"], -span["end"]))
        stack = []
        for span in lane:
            while stack and stack[-1]["end"] <= span["start"]:
                stack.pop()
            span["around"] = stack[-1] if stack else None
            stack.append(span)
    return lanes


def innermost(lane, time):
    """The last span to begin that is open at a time; a slow search is enough here."""
    found = None
    for span in lane:
        if span["start"] > time:
            break
        if span["end"] > time:
            found = span
    return found


def backward(path):
    """Time by path of forward operators, and all time that autograd issued."""
    events = load(path)
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    annotations = [event for event in events if event.get("cat") == "user_annotation"]
    lanes = nest(operators + annotations)
    at = {(one["lane"], one["start"]): one for one in operators}
    arrows = {"s": {}, "f": {}}
    for event in events:
        if event.get("cat") == "fwdbwd":
            arrows[event["ph"]][event["id"]] = at[(event["lane"], event["start"])]
    forward = {id(node): arrows["s"][key] for key, node in arrows["f"].items()}
    number = lambda one: (one.get("args", {}).get("Sequence number"), one.get("args", {}).get("Fwd thread id"))
    calls = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls.setdefault(event["args"].get("correlation"), event)
    sums = collections.Counter()
    engine = 0
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        call = calls.get(event["args"]["correlation"])
        if call is None:
            continue
        time = event["end"] - event["start"]
        one = innermost(lanes[call["lane"]], call["start"])
        inside, tie = False, None
        while one is not None:
            inside |= one["name"].startswith("autograd::engine::evaluate_function: ")
            if tie is None and id(one) in forward:
                tie = forward[id(one)]
            # The engine's part of a node: its function lies within.
            if tie is None and number(one)[1]:
                inner = [node for node in arrows["f"].values() if number(node) == number(one)]
                tie = forward[id(inner[0])] if inner else None
            one = one["around"]
        engine += time if inside else 0
        if tie is not None:
            path = []
            while tie is not None:
                if not tie["name"].startswith(STAGES):
                    path.append(tie["name"])
                tie = tie["around"]
            sums[" / ".join(reversed(path))] += time
    return sums, engine


def derive():
    figures = []
    for rank in (0, 1):
        with expected.unpacked("h200x2-ddp", f"torch/rank{rank}.pt.trace.json") as path:
            sums, engine = backward(path)
        scope = {"pass": f"torch · rank {rank}"}
        for path, time in in_order(sums):
            row = {**scope, "path": path}
            figures.append(expected.cell("backward_by_operator", "backward_ns", time, "nanoseconds", **row))
        tied = sum(sums.values())
        figures.append(expected.cell("backward_by_operator", "backward_ns", tied, "nanoseconds", **scope))
        figures.append(expected.metric("backward_coverage", tied / engine, "ratio", **scope))
    expected.write(__file__, "h200x2-ddp", figures)


def in_order(sums):
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def main(path):
    sums, engine = backward(path)
    for path, time in in_order(sums):
        print(time, path)
    print(sum(sums.values()), "of", engine, "ns that autograd issued")


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) > 1 else derive()
