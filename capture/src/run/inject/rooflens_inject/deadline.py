"""Ends the process when the time of its pass is up, so that ncu keeps what it has. Written by rooflens-capture.

    ROOFLENS_DEADLINE  file that is there once the time is up

ncu replays a kernel within the call that launches it, for seconds. A signal in that time reaches Python after the call, or kills
the process within it. A thread sees the file at once, and stops ncu after the launch. Processes without CUDA are not profiled:
they wait for those that are, or the capture ends them by signals.
"""
import os
import sys
import threading
import time

from . import loading

DEADLINE = os.environ.get("ROOFLENS_DEADLINE")

# Seconds between looks for the file, and seconds for which the last launch is waited for.
PERIOD, PATIENCE = 0.1, 5.0


def install(torch, stop=None):
    """Looks for the file from now on. `stop` stops ncu."""
    stop = stop or (lambda: torch.cuda.cudart().cudaProfilerStop())
    threading.Thread(target=loading.quiet(wait), args=(torch, stop), daemon=True).start()


def wait(torch, stop):
    while not (os.path.exists(DEADLINE) and torch.cuda.is_initialized()):
        time.sleep(PERIOD)
    late = threading.Timer(PATIENCE, os._exit, [0])
    late.daemon = True
    late.start()
    loading.quiet(stop)()
    end()


def end():
    """Ends the process without its own end: nothing more is profiled."""
    # Not before torch: compiled code is cached under a hash that depends on what was imported before it.
    import multiprocessing

    # Those that load data look for their parent every few seconds only, and ncu waits for them.
    for child in multiprocessing.active_children():
        if child.daemon:
            child.terminate()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
