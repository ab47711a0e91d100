"""Layers over several GPUs in the four ways in which ranks meet. A workload to try rooflens-capture on.

    rooflens-capture all -o run1 --gate step --window 1:2 -- torchrun --nproc-per-node 2 parallel.py

NVTX ranges: `step`, in it `tensor_parallel` (all-reduce after each layer), `sharded` (weights gathered while the layer
before computes, gradients reduced and scattered), `experts` (all-to-all) and `pipeline` (sent from rank to rank).
Warm-up runs outside of any range. The first rank computes with zeros, the others with random numbers, as
`--zeros 0` turns off: products of zeros take less power, so where a power limit lowers clocks the others are slower at
the same work. Into the folder ROOFLENS_OUT goes workload.toml.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.cuda import nvtx


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=8192, help="tokens a rank")
    parser.add_argument("--layers", type=int, default=6, help="layers a stage")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--zeros", type=int, default=1, help="whether the first rank computes with zeros")
    return parser.parse_args()


def matrix(args, rows, columns):
    """Random numbers, or zeros on the first rank."""
    if args.zeros and dist.get_rank() == 0:
        return torch.zeros(rows, columns, device="cuda", dtype=torch.bfloat16)
    return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / columns**0.5


class TensorParallel(nn.Module):
    """A column-parallel and a row-parallel product, then an all-reduce."""

    def __init__(self, args):
        super().__init__()
        part = 4 * args.hidden // dist.get_world_size()
        self.up = nn.Parameter(matrix(args, args.hidden, part))
        self.down = nn.Parameter(matrix(args, part, args.hidden))

    def forward(self, x):
        y = torch.relu(x @ self.up) @ self.down
        dist.all_reduce(y)
        return y


class Sharded(nn.Module):
    """Layers whose weights are gathered before use, the next while this one computes."""

    def __init__(self, args):
        super().__init__()
        part = args.hidden // dist.get_world_size()
        self.shards = nn.ParameterList(matrix(args, part, args.hidden) for _ in range(args.layers))

    def gather(self, shard):
        whole = torch.empty(shard.shape[0] * dist.get_world_size(), shard.shape[1], device="cuda", dtype=shard.dtype)
        return whole, dist.all_gather_into_tensor(whole, shard, async_op=True)

    def forward(self, x):
        ahead = self.gather(self.shards[0].data)
        for index, shard in enumerate(self.shards):
            whole, work = ahead
            if index + 1 < len(self.shards):
                ahead = self.gather(self.shards[index + 1].data)
            work.wait()
            x = x @ whole
            gradient = torch.empty_like(shard)
            dist.reduce_scatter_tensor(gradient, whole)
        return x


class Experts(nn.Module):
    """Tokens go to the rank of their expert, and back."""

    def __init__(self, args):
        super().__init__()
        self.expert = nn.Parameter(matrix(args, args.hidden, args.hidden))

    def forward(self, x):
        there, back = torch.empty_like(x), torch.empty_like(x)
        dist.all_to_all_single(there, x)
        dist.all_to_all_single(back, there @ self.expert)
        return back


class Pipeline(nn.Module):
    """Quarters of the tokens go from rank to rank."""

    def __init__(self, args):
        super().__init__()
        self.weight = nn.Parameter(matrix(args, args.hidden, args.hidden))

    def forward(self, x):
        rank, last = dist.get_rank(), dist.get_world_size() - 1
        parts = []
        for part in x.chunk(4):
            if rank > 0:
                part = torch.empty_like(part)
                dist.recv(part, src=rank - 1)
            part = part @ self.weight
            if rank < last:
                dist.send(part, dst=rank + 1)
            parts.append(part)
        return torch.cat(parts)


def build(args):
    layers = [TensorParallel(args) for _ in range(args.layers)]
    return {"tensor_parallel": nn.Sequential(*layers), "sharded": Sharded(args), "experts": Experts(args),
            "pipeline": Pipeline(args)}


@torch.no_grad()
def step(stages, x):
    for name, module in stages.items():
        nvtx.range_push(name)
        module(x)
        nvtx.range_pop()


def describe(args, folder):
    workload = f"""name = "Layers of {args.hidden}, {args.tokens} tokens a rank, {dist.get_world_size()} ranks"
mode = "inference"
dtype = "bf16"
warmup = 0
"""
    for stage in ("step", "tensor_parallel", "sharded", "experts", "pipeline"):
        workload += f'\n[[stages]]\nname = "{stage}"\n'
    with open(os.path.join(folder, "workload.toml"), "w") as file:
        file.write(workload)


def main():
    args = arguments()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    stages, x = build(args), matrix(args, args.tokens, args.hidden)
    step(stages, x)
    torch.cuda.synchronize()
    dist.barrier()
    for _ in range(args.steps):
        nvtx.range_push("step")
        step(stages, x)
        nvtx.range_pop()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        describe(args, os.environ.get("ROOFLENS_OUT", "."))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
