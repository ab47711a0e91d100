"""FLOPs and bytes of a model by its dimensions and the sizes of the workload.

Definitions: docs/methodology.md, *FLOPs and bytes of the model*. Decoders of one kind of layer and vision transformers; of others
nothing is derived.
"""

import json
import statistics

from operators import BANDWIDTH, RATES, gpu_name

# Gated layers have three matrices.
CLASSES = 1000
DECODERS, VISION, BYTES = {"llama", "qwen2", "qwen3", "mistral"}, {"vit"}, 2
PASSES = {"prefill": 1, "forward": 1, "backward": 2, "train_step": 3}


class Model:
    def __init__(self, config, name):
        self.kind, self.hidden, self.layers = config["model_type"], config["hidden_size"], config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.size = config.get("head_dim") or self.hidden // self.heads
        self.keys = 2 * (config.get("num_key_value_heads") or self.heads) * self.size
        self.inner = config["intermediate_size"]
        matrices = 2 if self.kind in VISION else 3
        of_layer = self.hidden * (2 * self.heads * self.size + self.keys) + matrices * self.hidden * self.inner
        self.matrices = self.layers * of_layer
        # Without classes, images have a pooler.
        classes = self.hidden if name == "ViTModel" else len(config.get("id2label", [])) or CLASSES
        self.head = self.hidden * (classes if self.kind in VISION else config["vocab_size"])
        self.patches = (config["image_size"] // config["patch_size"]) ** 2 if self.kind in VISION else None
        self.patch = self.kind in VISION and self.hidden * config["num_channels"] * config["patch_size"] ** 2

    def flops(self, batch, tokens, with_logits):
        """Of a forward pass without earlier positions: one token of a class comes with the patches of an image."""
        if self.kind in VISION:
            tokens, pairs, others, with_logits = self.patches + 1, (self.patches + 1) ** 2, self.patches * self.patch, 1
        else:
            pairs, others = tokens * (tokens + 1) / 2, 0
        attention = 4 * self.heads * self.size * pairs * self.layers
        return batch * (2 * tokens * self.matrices + 2 * others + 2 * with_logits * self.head + attention)

    def bytes(self, batch, prompt, steps):
        """Of decode steps: weights and rows of the embedding, keys and values of all positions, and those of the new one."""
        cache = self.keys * self.layers * batch
        return sum(self.matrices + self.head + batch * self.hidden + cache * (prompt + step + 2) for step in range(steps)) * BYTES


def model_of(source):
    file = source.path / source.workload.get("config", "config.json") if source.is_bundle else None
    config = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    return Model(config, source.workload.get("name")) if config.get("model_type") in DECODERS | VISION else None


def mfu(work, stage, time):
    """Model FLOPs ÷ (time × peak), or none."""
    model, workload = model_of(work.source), work.source.workload
    stage = next((own.get("kind", stage) for own in workload.get("stages", []) if own["name"] == stage), stage)
    if model is None or stage not in PASSES or not model.patches and "prompt_tokens" not in workload:
        return None
    tokens = workload.get("prompt_tokens", 0)
    # In inference, a loop needs the logits of the last position.
    is_last = stage == "prefill" or stage == "forward" and workload.get("mode") == "inference"
    flops = PASSES[stage] * model.flops(workload["batch"], tokens, 1 if is_last else tokens)
    return flops / (time / 1e9 * RATES[workload["dtype"]])


def mbu(work, stage):
    """Bytes of the repeats, or of the profiled steps, ÷ (their time × bandwidth), or none."""
    model, workload = model_of(work.source), work.source.workload
    if model is None or stage != "decode" or "prompt_tokens" not in workload:
        return None
    time, steps = work.source.unprofiled(stage)
    if time is None or not (steps := steps or workload.get("output_tokens")):
        own = work.counted(stage, sorted(work.instances(stage))[0])
        time, steps = statistics.median(one.ops[-1].end - one.ops[0].start for one in own), work.steps(own[0])
    steps = int(statistics.median(steps) if isinstance(steps, list) else steps)
    bandwidth = next(rate for gpu, rate in BANDWIDTH.items() if gpu in gpu_name(work))
    return model.bytes(workload["batch"], workload["prompt_tokens"], steps) / (time / 1e9 * bandwidth)
