"""NVTX ranges of the workload. Calls `enter(name)` of listeners before a range opens, and `leave()` after it closed.

Covers torch.cuda.nvtx (range_push, range_pop, range) and the package nvtx (annotate, push_range, pop_range).
"""
import contextlib
import functools
import threading

from . import loading


class Local(threading.local):
    """Of a thread: whether ranges that open now are ours."""

    is_ours = False


# Methods of the listeners. Some workloads open thousands of ranges a second: what runs for each of them looks up little.
_enters, _leaves = [], []
_local = Local()
_hooked = set()

# Whether ranges that are not ours are dropped.
_is_hidden = False


def listen(torch, listener):
    """Adds a listener; the first one hooks the functions."""
    _enters.append(listener.enter)
    _leaves.insert(0, listener.leave)
    _hook(torch)


def hide(torch):
    """Drops the workload's own ranges from now on."""
    global _is_hidden
    _is_hidden = True
    _hook(torch)


@contextlib.contextmanager
def ours():
    """Ranges that open or close in here are not hidden."""
    _local.is_ours = True
    try:
        yield
    finally:
        _local.is_ours = False


def is_hidden():
    return _is_hidden and not _local.is_ours


def _hook(torch):
    if torch in _hooked:
        return
    _hooked.add(torch)
    compiling = is_compiling(torch)
    loading.replace(torch.cuda.nvtx, "range_push", lambda push: _push(push, compiling))
    loading.replace(torch.cuda.nvtx, "range_pop", lambda pop: _pop(pop, compiling))
    loading.on_import("nvtx.nvtx", _hook_package)


def is_compiling(torch):
    """A function that torch.compile takes for a constant: what it traces is as if nothing were hooked."""
    return getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)


def opened(name):
    try:
        for enter in _enters:
            enter(name)
    except Exception as error:
        loading.say(opened, error)


def closed():
    try:
        for leave in _leaves:
            leave()
    except Exception as error:
        loading.say(closed, error)


def _push(push, compiling):
    def range_push(msg, *args, **kwargs):
        if compiling():
            return push(msg, *args, **kwargs)
        if _is_hidden and not _local.is_ours:
            return 0
        opened(msg)
        return push(msg, *args, **kwargs)

    return range_push


def _pop(pop, compiling):
    def range_pop(*args, **kwargs):
        if compiling():
            return pop(*args, **kwargs)
        if _is_hidden and not _local.is_ours:
            return 0
        depth = pop(*args, **kwargs)
        closed()
        return depth

    return range_pop


def _hook_package(nvtx):
    """Its own functions and classes: without a profiler these call nothing that could be seen."""
    annotate = nvtx.annotate
    loading.after(annotate, "__init__", _name)
    _before(annotate, "__enter__", lambda self, *_: opened(self._rooflens_name))
    _before(annotate, "__exit__", lambda *_: closed())
    _before(nvtx, "push_range", lambda message=None, *_, **__: opened(str(message or "")))
    _before(nvtx, "pop_range", lambda *_, **__: closed())
    loading.replace(annotate, "__call__", _decorate)


def _name(_, self, message=None, *args, **kwargs):
    self._rooflens_name = str(message or "")


def _before(owner, name, hook):
    """Calls the hook before each call. A call in a hidden range does nothing."""

    def wrapper(old):
        def called(*args, **kwargs):
            if is_hidden():
                return None
            hook(*args, **kwargs)
            return old(*args, **kwargs)

        return called

    loading.replace(owner, name, wrapper)


def _decorate(decorate):
    def called(self, function):
        decorated = decorate(self, function)
        name = self._rooflens_name or getattr(function, "__name__", "")

        @functools.wraps(decorated)
        def inner(*args, **kwargs):
            if is_hidden():
                return function(*args, **kwargs)
            opened(name)
            try:
                return decorated(*args, **kwargs)
            finally:
                closed()

        return inner

    return called
