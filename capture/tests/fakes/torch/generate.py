import sys

import torch
from torch.cuda import nvtx

assert sys.user_customized
for step in range(4):
    nvtx.range_push("decode")
    nvtx.range_push(f"step {step}")
    nvtx.range_pop()
    nvtx.range_pop()
