"""As in vLLM 0.11: a batch is what the scheduler puts out."""
import dataclasses

import torch
from torch.cuda import work


@dataclasses.dataclass
class SchedulerOutput:
    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]] = dataclasses.field(default_factory=dict)


class GPUModelRunner:
    """A prompt takes 10 ms, a decode step is two CUDA graphs of 2 ms."""

    def __init__(self):
        self.graph = torch.cuda.CUDAGraph()

    def capture_model(self):
        for _ in range(5):
            self.graph.replay()

    def execute_model(self, scheduler_output, intermediate_tensors=None):
        if not scheduler_output.num_scheduled_tokens:
            return
        if max(scheduler_output.num_scheduled_tokens.values()) > 4:
            work(10)
            return
        self.graph.replay()
        self.graph.replay()
