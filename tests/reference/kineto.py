"""The `Capture` of idle.py from a PyTorch (Kineto) trace, read without Rooflens.

Times are microseconds with fractions; they become nanoseconds. One trace is one process; the thread of an event is its pid
and tid. Operations are events of the categories of the GPU, calls those of the CUDA (or HIP) runtime and driver, ranges the
user's annotations. Overhead that the profiler states for a thread is that of the profiler.
"""

import collections
import decimal
import gzip
import json

from idle import Capture, Op, process_of, union

PROCESS = 1 << 24
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


def read(path):
    """The events of a trace; none if the file is no trace."""
    raw = open(path, "rb").read()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    whole = json.loads(raw, parse_float=decimal.Decimal, strict=False)
    events = whole.get("traceEvents", []) if isinstance(whole, dict) else whole
    return [one for one in events if isinstance(one, dict) and one.get("ph") == "X"]


def span(event):
    start = decimal.Decimal(event["ts"]) * 1000
    return int(start.to_integral_value()), int((start + decimal.Decimal(event.get("dur", 0)) * 1000).to_integral_value())


class Trace(Capture):
    def __init__(self, path):
        events, threads = read(path), {}

        def thread(event):
            return threads.setdefault((event["pid"], event["tid"]), PROCESS | len(threads))

        self.names, self.ops, self.kernels, self.full, self.details = {}, [], {}, {}, {}
        by_thread, self.ranges, self.cpu_ops = collections.defaultdict(list), [], collections.defaultdict(list)
        overhead, self.operators, self.frames = (collections.defaultdict(list) for _ in range(3))
        for event in events:
            category, arguments = event.get("cat"), event.get("args", {})
            if category in GPU:
                self.add(event, category, arguments)
            elif category in CALLS:
                by_thread[thread(event)].append((*span(event), arguments.get("correlation"), event["name"]))
            elif category == "user_annotation":
                self.ranges.append((*span(event), thread(event), event["name"], None, 59))
            elif category == "cpu_op":
                self.cpu_ops[thread(event)].append((*span(event), event["name"]))
                self.operators[thread(event)].append((*span(event), event["name"], arguments))
            elif category == "python_function":
                self.frames[thread(event)].append((*span(event), event["name"]))
            elif category == "overhead":
                overhead[thread(event)].append(span(event))
        self.ops.sort(key=lambda op: (op.start, op.end, op.rank))
        self.index(by_thread)
        self.os, self.off_cpu = {}, {}
        self.profiler = {one: union(own) for one, own in overhead.items()}

    def add(self, event, category, arguments):
        rank, name = len(self.ops), event["name"]
        self.ops.append(Op(*span(event), PROCESS, arguments.get("correlation"), arguments.get("device", event["pid"]),
                           name.startswith("nccl"), category != "kernel",
                           category == "gpu_memcpy" and "Pageable" in name, rank))
        self.kernels[self.ops[-1]] = name
        self.full[rank] = name if category == "kernel" else None
        self.details[rank] = dict(name=name, kind=category, bytes=arguments.get("bytes"),
                                  stream=arguments.get("stream"), grid=tuple(arguments.get("grid") or ()) or None,
                                  block=tuple(arguments.get("block") or ()) or None)

    def index(self, by_thread):
        """Calls that lie in no other, and of each correlation its call."""
        self.calls, self.call_of = {}, {}
        for thread, calls in by_thread.items():
            outermost, last = [], None
            for call in sorted(calls, key=lambda call: (call[0], -call[1])):
                if last is None or call[1] > last:
                    last = call[1]
                    outermost.append(call)
                    self.call_of[process_of(thread), call[2]] = (thread, call)
            self.calls[thread] = outermost
        self.first = {}
        for op in self.ops:
            self.first.setdefault((op.process, op.correlation), op)
        self.loading = self.loads()
