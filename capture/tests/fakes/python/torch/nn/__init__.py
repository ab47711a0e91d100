from . import parallel

grad = False


class Module:
    training = False

    def _call(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _call

    def parameters(self, recurse=True):
        return getattr(self, "weights", [])

    def modules(self):
        return [self]

    def children(self):
        return []

    def to(self, *_):
        return self

    cuda = to

    def eval(self):
        return self


class Embedding(Module):
    pass
