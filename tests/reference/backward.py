"""GPU time of the backward pass by operators of the forward pass, from a raw PyTorch trace and nothing else.

    zstd -dc fixtures/h200x2-ddp/torch/rank0.pt.trace.json.zst | python3 tests/reference/backward.py

Follows the arrows (`fwdbwd`) that PyTorch draws, where the importer goes by sequence numbers. An arrow ends at a node's
function; what the engine does around it has the same sequence number and belongs to the same forward operator.
"""

import collections
import json
import sys



def load(file):
    # Times as texts, so that none goes through floating point before it is a whole number of nanoseconds.
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


def main():
    events = load(sys.stdin)
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    lanes = nest(operators)
    at = {(one["lane"], one["start"]): one for one in operators}
    arrows = {"s": {}, "f": {}}
    for event in events:
        if event.get("cat") == "fwdbwd":
            arrows[event["ph"]][event["id"]] = at[(event["lane"], event["start"])]
    forward = {id(node): arrows["s"][key] for key, node in arrows["f"].items()}
    number = lambda one: (one["args"].get("Sequence number"), one["args"].get("Fwd thread id"))
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
                path.append(tie["name"])
                tie = tie["around"]
            sums[" / ".join(reversed(path))] += time
    for path, time in sorted(sums.items(), key=lambda item: (-item[1], item[0])):
        print(time, path)
    print(sum(sums.values()), "of", engine, "ns that autograd issued")


main()
