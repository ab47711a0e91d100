"""Workloads that know nothing of the capture: the argument says which."""
import gc
import os
import re
import sys
import threading
import types

import torch
from torch.cuda import nvtx, work
from transformers.generation.utils import GenerationMixin
from transformers.modeling_utils import Config, PreTrainedModel


class LlamaForCausalLM(PreTrainedModel, GenerationMixin):
    def __init__(self):
        super().__init__(Config())
        self.weights = [torch.Tensor(1000, 1000), torch.Tensor(10, dtype="torch.float32")]

    def forward(self, input_ids=None, past_key_values=None, labels=None, attention_mask=None, cache=None):
        work(10 if input_ids.shape[1] > 1 else 2)


def ranges():
    """A prompt of 16 tokens and three decoded ones, three times; the first is slow."""
    model, prompt = LlamaForCausalLM(), torch.Tensor(4, 16, dtype="torch.int64")
    for repeat in range(3):
        nvtx.range_push("Prefill")
        work(50 if repeat == 0 else 0)
        model(input_ids=prompt)
        nvtx.range_pop()
        nvtx.range_push("decode loop")
        for _ in range(3):
            model(input_ids=torch.Tensor(4, 1), past_key_values=[])
        nvtx.range_pop()


def train():
    """No ranges; two forward passes before each update."""
    from torch.distributed.device_mesh import DeviceMesh

    DeviceMesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
    model, optimizer, x = LlamaForCausalLM(), torch.optim.AdamW(), torch.Tensor(8, 32, dtype="torch.int64")
    model.training = torch.nn.grad = True
    for _ in range(4):
        for _ in range(2):
            model(input_ids=x, labels=x)
            torch.autograd.backward(x)
        work(1)
        optimizer.step()
    print("ranges", nvtx.opened)


def image():
    """A vision transformer of torchvision: 1 layer of 4, an MLP of 8, patches of 2 in an image of 4, 3 classes."""

    class VisionTransformer(torch.nn.Module):
        image_size, hidden_dim, mlp_dim, num_classes = 4, 4, 8, 3

        def __init__(self):
            layer = types.SimpleNamespace(num_heads=2)
            self.encoder = types.SimpleNamespace(layers=[layer])
            self.conv_proj = types.SimpleNamespace(kernel_size=(2, 2), in_channels=3)
            # Attention 4·4·5, MLP 4·8·2 + 8 + 4, norms 4·4; patches 4·13, positions 4·5, class 4, norm 8; head 3·5.
            self.weights = [torch.Tensor(172), torch.Tensor(52 + 20 + 4 + 8), torch.Tensor(15)]

        def forward(self, x):
            work(1)

    VisionTransformer.__module__ = "torchvision.models.vision_transformer"
    VisionTransformer.children = lambda self: [self.encoder]
    VisionTransformer().eval()(torch.Tensor(8, 3, 4, 4))


def container():
    """The whole model is a container of PyTorch, which a thread calls three times."""

    class Sequential(torch.nn.Module):
        def forward(self, x):
            work(2)

    Sequential.__module__ = "torch.nn.modules.container"
    Sequential.children = lambda self: [torch.nn.Module()]
    model = Sequential().eval()
    thread = threading.Thread(target=lambda: [model(torch.Tensor(4, 8)) for _ in range(3)])
    thread.start()
    thread.join()
    print("ranges", nvtx.opened)


def generate():
    model, prompt = LlamaForCausalLM(), torch.Tensor(2, 8, dtype="torch.int64")
    for _ in range(2):
        model.generate(prompt, 5)
    print("ranges", nvtx.opened)


def updates():
    """No model and no range: an update of the weights every 3 ms, after 10 ms for the first."""
    optimizer = torch.optim.AdamW()
    work(7)
    for _ in range(5):
        work(3)
        optimizer.step()
    print("ranges", nvtx.opened)


def graphs():
    """A range around all, and nothing but a CUDA graph in it."""
    graph = torch.cuda.CUDAGraph()
    nvtx.range_push("loop")
    for _ in range(4):
        graph.replay()
        work(1)
    nvtx.range_pop()
    print("ranges", nvtx.opened)


def host():
    """What the host does and profilers do not show, each once; then three calls of a model with two shapes."""
    from torch.utils.data import DataLoader

    gc.disable()
    x = torch.Tensor(4)
    for _ in DataLoader([x]):
        pass
    gc.collect()
    torch.save(x, "nowhere")
    torch.cuda.empty_cache()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=None)
    graph.capture_end()
    torch.cuda.synchronize()
    torch.cuda.Stream().synchronize()
    float(x)
    x.nonzero()
    x[x]
    x.to("cpu"), x.to(device=torch.device("cpu"))
    # None of these waits.
    x.to("cuda"), x.to(torch.float32), x.to("cpu", non_blocking=True)
    model = LlamaForCausalLM()
    for tokens in (16, 12, 16):
        prompt = torch.Tensor(4, tokens, dtype="torch.int64")
        model(input_ids=prompt, attention_mask=prompt)
    model(input_ids=torch.Tensor(4, 1), past_key_values=[], attention_mask=torch.Tensor(4, 17))
    names = [name for name in nvtx.started if "gc generation 0" not in name and "gc generation 1" not in name]
    print(*(re.sub(r":[0-9]+$", ":N", name) for name in names), sep="\n")
    print("open", nvtx.open_ranges)


class DynamicCache:
    def __init__(self, length):
        self.length = length

    def get_seq_length(self):
        return self.length


def sizes():
    """Prompts of different lengths, and a short batch at the end; each takes 1 ms for 8 tokens, the first 30 ms more."""
    model = LlamaForCausalLM()
    LlamaForCausalLM.forward = lambda self, input_ids=None, **_: work(input_ids.numel() / 8)
    for repeat, (batch, tokens) in enumerate([(4, 16), (4, 160), (4, 16), (4, 80), (4, 160), (1, 32)]):
        nvtx.range_push("prefill")
        work(30 if repeat == 0 else 0)
        model(input_ids=torch.Tensor(batch, tokens, dtype="torch.int64"))
        nvtx.range_pop()
    for steps in (2, 3, 5, 4):
        nvtx.range_push("decode")
        for step in range(steps):
            # As in transformers 4 with a mask, and in 5 without.
            past = {"past_key_values": [], "attention_mask": torch.Tensor(4, 17 + step)}
            cache = {"cache": DynamicCache(16 + step)}
            model(input_ids=torch.Tensor(4, 1), **(past if steps < 5 else cache))
        nvtx.range_pop()


def vllm():
    from vllm.entrypoints.llm import LLM

    LLM("/models/Tiny", tensor_parallel_size=2, hf_token=os.environ["FAKE_SECRET_TOKEN"]).generate(["a"])


def sglang():
    from sglang.srt.entrypoints.engine import Engine

    Engine(model_path="/models/Tiny", tp_size=4, api_key=os.environ["FAKE_SECRET_TOKEN"]).generate("a")


def hostile():
    """A model whose parts raise whatever is asked of them, and whose own error must come through."""

    class Broken(PreTrainedModel):
        def parameters(self):
            raise RuntimeError("no parameters for you")

        def forward(self, **_):
            raise KeyError("mine")

    try:
        Broken(None)(input_ids=None)
    except KeyError as error:
        print("caught", error)


globals()[sys.argv[1]]()
