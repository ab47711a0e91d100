"""Marks of what the host does and profilers do not show: ranges of NVTX under nsys, of torch.profiler in its own pass.

    ROOFLENS_MARKS  nvtx or torch: who records. Without it nothing is marked, as in the baseline.

Marked are garbage collection, waits for a DataLoader, compilation, capture of CUDA graphs, torch.save, empty_cache,
synchronizing calls with operator and source line, and the calls of the outermost model with their sizes (models.py).
The torch profiler records loaders and compilation itself: its pass has no second marks of these. It records operators,
too, but lines of Python only with stacks, which slow down all of it.

Names begin with PREFIX, which the analyzer turns into a domain, and which it takes for no stage. PyTorch opens ranges
in NVTX's default domain only, and the package nvtx may be absent. NVTX marks are start/end ranges: an open one does
not disturb the pushes and pops of the workload. torch.profiler.record_function goes through the dispatcher, where a
collection amid tracing would get into the traced graph; _record_function_with_args_enter does not.

Synchronizing calls are found by methods of Tensor that are replaced once. Alternatives:
  - torch.cuda.set_sync_debug_mode covers all of ATen, but it warns after the call, without its duration, and a
    workload that turns warnings into errors would fail.
  - TorchFunctionMode and TorchDispatchMode see every operator, which costs microseconds for each of them.
A mask as index is no method: a Tensor.__getitem__ in Python would make each tensor a sequence for C, so that
torch.tensor([x, y]) of scalars would fail. All masks are counted by the operator nonzero, whoever calls it: x[mask],
x[mask] = y, torch.nonzero(x), torch.where(mask), and C++. That operator alone gets a kernel in Python, at the dispatch key
right above the devices, where it has none. Other operators are not touched; each call of nonzero costs 5 µs more.
Not seen are copy_ and what else C++ calls. cuDNN tells Python nothing of its plans.

torch.compile traces tensor methods by their names, so that it does not see the wrappers; where it resumes after a
graph break it would compile their frames, and is told to skip them. The mark is not made while something is traced.
"""
import atexit
import contextlib
import dis
import functools
import gc
import inspect
import os
import sys

from . import loading, ranges

KIND = os.environ.get("ROOFLENS_MARKS")

PREFIX = "rooflens:"

# Methods of Tensor that wait for the GPU, and the names of their marks.
SYNCHRONIZING = {
    "item": "item", "tolist": "tolist", "masked_select": "masked_select", "equal": "equal", "cpu": "cpu",
    "__bool__": "bool", "__int__": "int", "__float__": "float", "__index__": "int",
}

# Instructions with a mask as index, and the operators that they run. From Python 3.14 on, BINARY_OP is one of them.
SUBSCRIPTS = {"BINARY_SUBSCR": "index", "BINARY_OP": "index", "STORE_SUBSCR": "index_put_"}

# Frames that are searched for a line of the workload.
MAX_FRAMES = 24

# Sites that are kept: code may be made in each step.
MAX_SITES = 10000

_open = _close = _compiling = None
_inner = ()
_library = None
_collection = None
_sites = {}  # What _site gives, by identity of the code and instruction: the hash of code reads all of its instructions.


def begin(name):
    """Opens a mark. Gives its handle, or None where nothing is marked."""
    if _open is None:
        return None
    try:
        return _open(PREFIX + name)
    except Exception:  # A name that is no valid text must not stop the workload.
        return None


def end(handle):
    if handle is not None and _close is not None:
        _close(handle)


def call(phase, sizes, is_new):
    """A call of the outermost model, and whether it is the first one with inputs of this shape."""
    if _open is None:
        return None
    known = "".join(f" {name}={size}" for name, size in sizes.items() if size is not None)
    return begin(f"{'new shape' if is_new else 'call'} {phase}{known}")


def install(torch):
    global _open, _close, _compiling, _inner
    if KIND == "nvtx":
        opens, closes = torch.cuda.nvtx.range_start, torch.cuda.nvtx.range_end
    else:
        opens = torch.autograd._record_function_with_args_enter
        closes = torch.autograd._record_function_with_args_exit
    # A build without CUDA has no NVTX: it fails here, and nothing is hooked. A call without sizes says nothing.
    closes(opens(PREFIX + "call"))
    _open, _close, _compiling = opens, closes, ranges.is_compiling(torch)
    _inner = ("<", *(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in (__file__, torch.__file__)))
    # A child after a fork may not use what its parent's profiler has set up.
    os.register_at_fork(after_in_child=stop)
    gc.callbacks.append(_collects)
    atexit.register(stop)
    _around(torch, "save", lambda *_, **__: "torch.save")
    _around(torch.cuda, "empty_cache", lambda *_, **__: "empty_cache")
    if hasattr(torch.cuda, "CUDAGraph"):
        _captures(torch.cuda.CUDAGraph)
    _synchronizes(torch)
    loading.on_import("triton.compiler.compiler", _hook_triton)
    if KIND == "nvtx":
        loading.on_import("torch.utils.data.dataloader", _hook_loader)
        loading.on_import("torch._dynamo.utils", _hook_compiler)
    loading.on_import("torch._dynamo.eval_frame", _hide_from_dynamo)


def stop():
    """Marks nothing any more."""
    global _open, _close
    _open = _close = None
    if _collects in gc.callbacks:
        gc.callbacks.remove(_collects)


def _collects(phase, information):
    global _collection
    if phase == "start":
        _collection = begin(f"gc generation {information['generation']}")
    else:
        handle, _collection = _collection, None
        end(handle)


def _put(owner, name, called):
    """Puts a wrapper in the place of an attribute."""
    setattr(owner, name, functools.wraps(getattr(owner, name))(called))


def _around(owner, name, name_of):
    """Marks the calls of a function. The name is that of the arguments."""
    old, name_of = getattr(owner, name), loading.quiet(name_of)

    def called(*args, **kwargs):
        if _compiling():
            return old(*args, **kwargs)
        handle = begin(name_of(*args, **kwargs) or name)
        try:
            return old(*args, **kwargs)
        finally:
            end(handle)

    _put(owner, name, called)


def _captures(graph):
    """A capture lasts from the beginning to the end that PyTorch tells, whatever is pushed and popped in it."""
    begins, ends, handles = graph.capture_begin, graph.capture_end, {}

    def capture_begin(self, *args, **kwargs):
        handles[id(self)] = begin("cuda graph capture")
        return begins(self, *args, **kwargs)

    def capture_end(self, *args, **kwargs):
        try:
            return ends(self, *args, **kwargs)
        finally:
            end(handles.pop(id(self), None))

    _put(graph, "capture_begin", capture_begin)
    _put(graph, "capture_end", capture_end)


def _hook_loader(dataloader):
    # PyTorch's own name of the range, which it opens for its profiler only.
    _around(dataloader._BaseDataLoaderIter, "__next__", lambda loader: loader._profile_name)


def _hook_compiler(utils):
    """Phases of Dynamo and Inductor. Modules import the function after this, and get the wrapper."""
    timed = utils.dynamo_timed
    if not inspect.isgeneratorfunction(inspect.unwrap(timed)):
        return  # Before PyTorch 2.5 it decorates functions.

    @contextlib.contextmanager
    @functools.wraps(timed)
    def dynamo_timed(key, *args, **kwargs):
        handle = begin(f"compile {key}")
        try:
            with timed(key, *args, **kwargs) as value:
                yield value
        finally:
            end(handle)

    utils.dynamo_timed = dynamo_timed


def _hook_triton(compiler):
    _around(compiler, "compile", lambda source, *_, **__: f"triton compile {getattr(source, 'name', '')}".strip())


def _hide_from_dynamo(eval_frame):
    """Dynamo compiles no frame of this module, nor of the functions in its functions."""
    functions = [value for value in globals().values() if inspect.isfunction(value) and value.__module__ == __name__]
    codes = [function.__code__ for function in (*functions, loading.quiet)]
    while codes:
        code = codes.pop()
        eval_frame.skip_code(code)
        codes.extend(inner for inner in code.co_consts if inspect.iscode(inner))


def _synchronizes(torch):
    for name, label in SYNCHRONIZING.items():
        if hasattr(torch.Tensor, name):
            _waits(torch.Tensor, name, label)
    _waits_for_copy(torch.Tensor, torch.device)
    loading.quiet(_counts)(torch)
    for owner, name, label in (
        (torch.cuda, "synchronize", "cuda.synchronize"), (torch.cuda.Stream, "synchronize", "Stream.synchronize"),
        (torch.cuda.Event, "synchronize", "Event.synchronize"),
    ):
        _around(owner, name, lambda *_, label=label, **__: label + _place())


def _waits(tensor, name, label):
    old = getattr(tensor, name)

    def called(self, *args, **kwargs):
        if not self.is_cuda or _compiling():
            return old(self, *args, **kwargs)
        handle = begin(label + _place())
        try:
            return old(self, *args, **kwargs)
        finally:
            end(handle)

    _put(tensor, name, called)


def _waits_for_copy(tensor, device_type):
    """Tensor.to waits if it copies from the GPU to the CPU."""
    old = tensor.to

    def to(self, *args, **kwargs):
        target = args[0] if args else kwargs.get("device")
        kind = type(target)
        # Models convert types in each layer: this is the way of those calls.
        if kind is not str and kind is not device_type:
            return old(self, *args, **kwargs)
        waits = target.startswith("cpu") if kind is str else target.type == "cpu"
        if not waits or not self.is_cuda or kwargs.get("non_blocking") or _compiling():
            return old(self, *args, **kwargs)
        handle = begin("cpu" + _place())
        try:
            return old(self, *args, **kwargs)
        finally:
            end(handle)

    _put(tensor, "to", to)


def _counts(torch):
    """The operator nonzero waits for the number of elements."""
    global _library
    key, nonzero = torch._C.DispatchKey.BackendSelect, torch.ops.aten.nonzero.default
    below = torch._C._dispatch_keyset_full_after(key)

    def counted(keys, mask):
        if not mask.is_cuda or _compiling():
            return nonzero.redispatch(keys & below, mask)
        handle = begin(_counter() + _place())
        try:
            return nonzero.redispatch(keys & below, mask)
        finally:
            end(handle)

    _library = torch.library.Library("aten", "IMPL")
    _library.impl("nonzero", counted, key.name, with_keyset=True)


def _counter():
    """The operator that counts elements, by the instruction of the innermost frame; threads of C++ have no frame."""
    frame = sys._getframe(1).f_back
    return "nonzero" if frame is None else _site(frame)[1]


def _place():
    """File and line of the innermost frame that is neither PyTorch's nor of this package; nothing without one."""
    frame = sys._getframe(1).f_back
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        place = _site(frame)[0]
        if place:
            return place
        frame = frame.f_back
    return ""


def _site(frame):
    """File and line of a frame, empty for PyTorch and this package; the operator that its instruction runs; its code."""
    code, instruction = frame.f_code, frame.f_lasti
    site = _sites.get((id(code), instruction))
    if site is None:
        file = _file(code.co_filename)
        place = f" at {file}:{frame.f_lineno}" if file is not None else ""
        operator = SUBSCRIPTS.get(dis.opname[code.co_code[instruction]], "nonzero")
        site = (place, operator, code)
        if len(_sites) < MAX_SITES:
            _sites[id(code), instruction] = site  # The code in it keeps its identity from being used again.
    return site


def _file(path):
    """The name of a file: in a package from there on, else without folders, which may hold names of people.

    Code that PyTorch generates has a name in angle brackets instead of a file.
    """
    _, is_package, package = path.rpartition("-packages/")
    file = package if is_package else path.rpartition("/")[2]
    return None if path.startswith(_inner) else file
