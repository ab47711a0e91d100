"""Runs a fused softmax and a matrix product written in Triton, in a loop, without a model."""
import torch
import triton
import triton.language as tl


@triton.jit
def softmax(out, rows, columns, stride, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    index = tl.arange(0, WIDTH)
    values = tl.load(rows + row * stride + index, mask=index < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + index, values / tl.sum(values, axis=0), mask=index < columns)


@triton.jit
def product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + (start + depth)[None, :])
        right = tl.load(b + (start + depth)[:, None] * n + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))


torch.manual_seed(0)
x = torch.randn(8192, 4096, device="cuda")
y = torch.empty_like(x)
a = torch.randn(4096, 2048, device="cuda", dtype=torch.half)
b = torch.randn(2048, 4096, device="cuda", dtype=torch.half)
c = torch.empty(4096, 4096, device="cuda", dtype=torch.half)
for step in range(400):
    softmax[(8192,)](y, x, 4096, 4096, WIDTH=4096)
    product[(64, 64)](a, b, c, 4096, 4096, 2048, M=64, N=64, K=32)
torch.cuda.synchronize()
print(y.sum().item(), c.float().abs().mean().item())
