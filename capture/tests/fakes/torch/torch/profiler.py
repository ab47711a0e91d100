import json
import os
import signal
import sys
import threading

EVENTS = []


class ProfilerActivity:
    CPU, CUDA = "cpu", "cuda"


class record_function:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        EVENTS.append("enter " + self.name)

    def __exit__(self, *_):
        EVENTS.append("exit " + self.name)


class profile:
    def __init__(self, **options):
        EVENTS.append("options " + ",".join(sorted(key for key, value in options.items() if value is True)))

    def start(self):
        self.thread = threading.get_ident()
        EVENTS.append("start")

    def stop(self):
        if threading.get_ident() != self.thread:
            raise RuntimeError("Can't disable Kineto profiler when it's not running")
        self.time_is_up()
        EVENTS.append("stop")

    def time_is_up(self):
        """The time of the pass may end while the profiler stops and while the trace is written."""
        if "late" in sys.argv:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)

    def export_chrome_trace(self, path):
        self.time_is_up()
        with open(path, "w") as file:
            json.dump({"traceEvents": EVENTS}, file)
        if "compiles" in sys.argv:
            # What the process of a compiler leaves, beside that of the workload.
            with open(path.replace("trace.pt", "trace.1.pt"), "w") as file:
                json.dump({"traceEvents": [{"cat": "cuda_runtime"}]}, file)
            with open(path, "w") as file:
                json.dump({"traceEvents": [{"cat": "cpu_op"}]}, file)
