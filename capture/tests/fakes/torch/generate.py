import sys
import threading

import torch
from torch.cuda import nvtx

assert sys.user_customized


def generate():
    for step in range(4):
        nvtx.range_push("decode")
        nvtx.range_push(f"step {step}")
        nvtx.range_pop()
        nvtx.range_pop()


if "worker" in sys.argv:
    worker = threading.Thread(target=generate)
    worker.start()
    worker.join()
else:
    generate()
