"""Stands in for torch: modules that can be called, optimizers that step, and events that tell whole milliseconds."""
from . import autograd, compiler, cuda, library, nn, optim, profiler

_C, ops = library.core, library.ops
nn.DataParallel = nn.parallel.DataParallel

__version__ = "2.11.0"
float32, bfloat16 = "torch.float32", "torch.bfloat16"


class device:
    def __init__(self, kind):
        self.type = kind


class Tensor:
    is_cuda = True

    def __init__(self, *shape, dtype=bfloat16):
        self.shape, self.dtype, self.requires_grad = shape, dtype, True

    def item(self):
        return 1.0

    def tolist(self):
        return [self.item()]

    def to(self, *_, **__):
        return self

    cpu = nonzero = __getitem__ = to

    def __bool__(self):
        return True

    __float__ = item

    def numel(self):
        size = 1
        for one in self.shape:
            size *= one
        return size

    def dim(self):
        return len(self.shape)

    def is_floating_point(self):
        return "int" not in self.dtype


def is_grad_enabled():
    return nn.grad


def is_autocast_enabled():
    return False


def get_float32_matmul_precision():
    return "highest"


def compile(model=None, **options):
    return model


def save(value, path):
    pass
