"""Stands in for torch: the profiler writes what happened to it."""
import sys

# With it imported before torch, PyTorch hashes compiled code differently: a pass would compile again what an earlier one cached.
assert "multiprocessing" not in sys.modules, "multiprocessing is imported before torch"

from . import cuda, profiler
