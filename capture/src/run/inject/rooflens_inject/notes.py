"""The notes of this process: one JSON file, written when something is new, from time to time, and at exit."""
import atexit
import json
import os
import sys
import time

from . import loading

# Seconds between writes while the workload goes on, and the share of the time that they may take: a process that is
# killed writes nothing at its end.
LEAST, MOST, SHARE = 1.0, 20.0, 0.005

_parts = {}
_state = {"path": None, "due": 0.0, "ends": []}

# Whether this process is a fork of the one that began: what loads data, for example.
is_fork = False


def _forked():
    global is_fork
    is_fork = True


os.register_at_fork(after_in_child=_forked)


def begin(folder):
    """Begins a file in this folder. Processes that are forked later write nothing."""
    _state["path"] = os.path.join(folder, f"{os.getpid()}.json")
    atexit.register(finish)


def are_begun():
    """Whether there is a file."""
    return _state["path"] is not None


@loading.quiet
def mark(folder, what):
    """Says to the capture that a process of the run was there: `python`, or `torch` once it is imported."""
    open(os.path.join(folder, what), "a").close()


def part(name, value):
    """A part of the notes: a value, or a function that gives it when they are written."""
    _parts[name] = value


def at_end(function):
    """Called before the notes are written for the last time."""
    _state["ends"].append(function)


def tick():
    """Writes the notes if the last time is long ago."""
    if _state["path"] and time.monotonic() > _state["due"]:
        write()


@loading.quiet
def write():
    if not _state["path"] or is_fork:
        return
    begun = time.monotonic()
    _state["due"] = begun + LEAST
    values = {name: value() if callable(value) else value for name, value in list(_parts.items())}
    values = {name: value for name, value in values.items() if value}
    if not values:
        return
    values.update(version=1, pid=os.getpid(), **_ranks())
    # Under another name first: what is read is whole.
    part = _state["path"] + ".part"
    with open(part, "w") as file:
        json.dump(values, file, default=str)
    os.replace(part, _state["path"])
    now = time.monotonic()
    _state["due"] = now + min(MOST, max(LEAST, (now - begun) / SHARE))


@loading.quiet
def finish():
    if not is_fork:
        for function in _state["ends"]:
            loading.quiet(function)()
        write()


def _ranks():
    """Where this process stands among others."""
    found = {}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        value = os.environ.get(name, "")
        if value.isdigit():
            found[name.lower()] = int(value)
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(getattr(torch, "__version__", ""))
    return found
