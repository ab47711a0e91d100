"""Launches of a PyTorch trace with the operators that launched them: sizes, strides and types; least times of a GPU."""

import bisect
import collections
import math
import re
import sqlite3

from activities import changes
from kernel_names import class_of

# Bytes a second; FLOP a second of dense products: datasheets of NVIDIA.
BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12}
RATES = {"bf16": 989.4e12, "fp16": 989.4e12, "fp32": 494.7e12, "fp64": 66.9e12, "simt fp32": 66.9e12}
CACHE, FASTEST = 50e6, 1_000
DTYPES = {"double": ("fp64", 8), "float": ("fp32", 4), "c10::BFloat16": ("bf16", 2), "c10::Half": ("fp16", 2),
          "long int": ("int64", 8), "long": ("int64", 8), "int": ("int32", 4), "short int": ("int16", 2), "short": ("int16", 2),
          "signed char": ("int8", 1), "unsigned char": ("uint8", 1), "bool": ("bool", 1)}
FLOATS = {"fp64", "fp32", "bf16", "fp16", "fp8"}
PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::_addmm_activation": 1}

Tensor = collections.namedtuple("Tensor", "dims strides dtype size")
Operator = collections.namedtuple("Operator", "start end name tensors thread list")


def elements(tensor):
    return math.prod(tensor.dims)


def stored(tensor):
    """Elements in memory: an expanded dimension counts once."""
    strides = tensor.strides if len(tensor.strides) == len(tensor.dims) else [1] * len(tensor.dims)
    return math.prod(size for size, stride in zip(tensor.dims, strides) if stride != 0)


def bytes_of(tensor):
    return stored(tensor) * tensor.size


def order(tensor):
    """Axes of more than one element, that with the largest stride first."""
    if len(tensor.strides) != len(tensor.dims):
        return None
    return sorted((axis for axis, size in enumerate(tensor.dims) if size > 1), key=lambda axis: (-tensor.strides[axis], axis))


def sizes(tensor):
    return " × ".join(map(str, tensor.dims))


def tensors_of(arguments):
    shapes, strides, types = (arguments.get(name) or [] for name in ("Input Dims", "Input Strides", "Input type"))
    found = []
    for at, shape in enumerate(shapes):
        if shape and all(isinstance(size, int) for size in shape):
            name = types[at] if at < len(types) else ""
            dtype = DTYPES.get(name, ("fp8", 1) if "Float8" in name else ("", 4))
            stride = strides[at] if at < len(strides) else []
            found.append(Tensor(tuple(shape), tuple(stride) if all(isinstance(one, int) for one in stride) else (), *dtype))
    return found


def list_of(arguments):
    """Dimensions of the tensors of the first list."""
    lists = [shape for shape in arguments.get("Input Dims") or [] if shape and all(isinstance(one, list) for one in shape)]
    return [tuple(dims) for dims in lists[0]] if lists else []


def broadcast(tensors):
    """Elements of the result of an operator that works element by element."""
    largest, whole = max((elements(one) for one in tensors), default=0), 1
    for axis in range(1, max((len(one.dims) for one in tensors), default=0) + 1):
        own = {one.dims[-axis] for one in tensors if len(one.dims) >= axis} - {1}
        if len(own) > 1:
            return largest
        whole *= max(own, default=1)
    return max(whole, largest) if tensors else 0


class Launch:
    """A kernel with the operator that launched it."""

    def __init__(self, op, at, details_, place, around):
        self.op, self.at, self.kernel, self.place, self.around = op, at, details_["name"], place, around
        self.time, self.blocks = op.end - op.start, math.prod(details_["grid"] or (0,))
        self.threads = self.blocks * math.prod(details_["block"] or (0,))
        self.call = around[-1] if around else None
        self.name = self.call.name if self.call else None
        self.tensors = self.call.tensors if self.call else []
        self.elements = broadcast(self.tensors)
        self.is_reduction = "reduce_kernel" in self.kernel
        self.is_copy = re.search(r"copy_kernel|CatArray|nchwTo|nhwcTo", self.kernel) is not None
        self.is_elementwise = "elementwise_kernel" in self.kernel and not self.is_copy
        self.kind = class_of({"name": self.kernel, "kind": "KERNEL"})
        self.is_gemm = self.kind == "gemm"

    def inputs(self):
        return self.tensors[1:] if self.name == "aten::copy_" else self.tensors

    def bytes(self):
        return sum(bytes_of(one) for one in self.inputs())

    def output(self):
        """Type of the result."""
        if self.name.endswith("_") and self.tensors:
            return self.tensors[0]
        floats = [one for one in self.tensors if one.dtype in FLOATS]
        return max(reversed(floats), key=lambda one: one.size) if floats else self.tensors[0]

    def copy(self):
        return self.tensors if self.name == "aten::copy_" and len(self.tensors) == 2 else None

    def expansion(self):
        """Target and source of a kernel by TorchInductor that repeats a tensor along one axis."""
        if not (self.name or "").startswith("triton_") or "_expand_" not in self.name or len(self.tensors) != 2:
            return None
        source, target = self.tensors
        longer = sum(own != size for own, size in zip(source.dims, target.dims))
        return (target, source) if len(source.dims) == len(target.dims) and longer == 1 and source.dtype == target.dtype else None

    def product(self):
        """Operands, depth and elements of the output of a product."""
        first = PRODUCTS.get(self.name)
        if first is None or len(self.tensors) < first + 2:
            return None
        left, right = self.tensors[first:first + 2]
        if len(left.dims) < 2 or len(right.dims) < 2:
            return None
        depth = left.dims[-1]
        return left, right, depth, elements(left) // max(depth, 1) * right.dims[-1]


class Roof:
    """Least times of a GPU."""

    def __init__(self, name):
        self.bandwidth = next(rate for gpu, rate in BANDWIDTH.items() if gpu in name)

    def moving(self, size):
        return max(size / self.bandwidth * 1e9, FASTEST) if size > CACHE else FASTEST

    def computing(self, flops, dtype, size):
        return max(flops / RATES[dtype] * 1e9 if dtype in RATES else 0, self.moving(size))


def operators_around(work, op):
    """The operators around the launch of an operation, the outermost first."""
    if not hasattr(work, "open_operators"):
        work.open_operators = {
            thread: changes([Operator(*one[:3], tensors_of(one[3]), thread, list_of(one[3])) for one in own if one[0] < one[1]])
            for thread, own in getattr(work.capture, "operators", {}).items()}
    thread, call = work.call(op) or (None, None)
    if thread not in work.open_operators:
        return []
    times, paths = work.open_operators[thread]
    return paths[bisect.bisect_right(times, call[0]) - 1]


def frame_of(work, call):
    """The innermost function of Python around an operator, without those of the interpreter."""
    own = [(start, -end, name) for start, end, name in getattr(work.capture, "frames", {}).get(call.thread, [])
           if start <= call.start < end and not name.startswith("<")] if call else []
    return max(own)[2] if own else None


def gpu_name(work):
    with sqlite3.connect(f"file:{work.capture.path}?mode=ro", uri=True) as db:
        return db.execute("select name from TARGET_INFO_GPU").fetchone()[0]
