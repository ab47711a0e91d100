"""Optimizers, backward passes, and how processes share the work."""
import collections
import sys

from . import loading, notes, steps

_optimizers = collections.Counter()
_parallel = {}
_meshes = []


def install(torch):
    notes.part("optimizers", _optimizers)
    notes.part("parallel", parallel)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_updated)
    loading.replace(torch.autograd, "backward", _backward)
    loading.after(torch.nn.parallel.DistributedDataParallel, "__init__", lambda *_, **__: _count("ddp"))
    loading.after(torch.nn.DataParallel, "__init__", lambda *_, **__: _count("data_parallel"))


def hook_fsdp(module):
    loading.after(module.FullyShardedDataParallel, "__init__", lambda *_, **__: _count("fsdp"))


def hook_fully_shard(module):
    loading.after(module, "fully_shard", lambda *_, **__: _count("fsdp2"))


def hook_mesh(module):
    @loading.quiet
    def built(_, self, *args, **kwargs):
        names = getattr(self, "mesh_dim_names", None)
        entry = {"names": list(names or []), "shape": list(self.mesh.shape)}
        if entry not in _meshes and len(_meshes) < 16:
            _meshes.append(entry)

    loading.after(module.DeviceMesh, "__init__", built)


def hook_deepspeed(module):
    @loading.quiet
    def built(_, self, *args, **kwargs):
        _count("deepspeed")
        _parallel["zero_stage"] = self.zero_optimization_stage()

    loading.after(module.DeepSpeedEngine, "__init__", built)


# Modules that are hooked once they are imported.
LATER = [
    ("torch.distributed.fsdp.fully_sharded_data_parallel", hook_fsdp),
    ("torch.distributed.fsdp._fully_shard._fully_shard", hook_fully_shard),
    ("torch.distributed.device_mesh", hook_mesh),
    ("deepspeed.runtime.engine", hook_deepspeed),
]


def parallel():
    """Wrappers, meshes, and the process group while there is one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        _parallel.update(world_size=distributed.get_world_size(), backend=str(distributed.get_backend()))
    return {**_parallel, **({"meshes": _meshes} if _meshes else {})}


def _count(what):
    _parallel[what] = _parallel.get(what, 0) + 1


@loading.quiet
def _updated(optimizer, *_):
    _optimizers[type(optimizer).__name__] += 1
    if _optimizers[type(optimizer).__name__] == 1:
        parallel()
    if steps.current is not None:
        steps.current.updated()


def _backward(backward):
    def called(*args, **kwargs):
        if steps.current is not None:
            loading.quiet(steps.current.seen)("backward")
        return backward(*args, **kwargs)

    return called
