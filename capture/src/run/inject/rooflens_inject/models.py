"""Which models are built, and with what shapes they are called.

The outermost call of a model is what counts: models contain models. Calls are seen at the class, so that no instance
carries anything of ours, and what torch.compile traces is as if nothing were hooked.
"""
import collections
import functools
import threading
import weakref

from . import loading, marks, notes, ranges, steps

# Inputs by whose shape a call is known, the first that is there.
INPUTS = ("input_ids", "inputs_embeds", "decoder_input_ids", "pixel_values", "input_features", "input_values")

# Keys and values of tokens before, by the names of arguments: transformers calls them `cache` from 5 on.
CACHES = ("past_key_values", "cache")

# Names of classes that generate text, by their ends.
GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")

# Packages whose layers and weights are quantized or of eight bits.
QUANTIZED = ("torchao", "bitsandbytes", "awq", "auto_gptq", "gptqmodel", "transformer_engine", "compressed_tensors", "hqq")

# Different shapes of calls and of inputs, and models, that are kept.
MAX_SHAPES, MAX_INPUTS, MAX_MODELS = 200, 10000, 16


class Local(threading.local):
    """Of a thread: whether a model, or a call of generate, is running."""

    is_inside = generates = False


_local = Local()
_models = {}  # By id: (weak reference, Model).
_built = weakref.WeakSet()
_compile = {}
_watched, _parts = set(), set()

# Packages of PyTorch whose modules wrap a model. Other modules of PyTorch may be a whole model, such as `nn.Sequential`.
WRAPPERS = ("torch.nn.parallel", "torch.distributed", "torch._dynamo", "torch.fx", "torch.jit")
_torch = None

# The last call whose inputs are given by position: (what it is known by, module, Model, key of its shape, phase, sizes).
_last = (None,) * 6


class Model:
    """One model that was called as the outermost one."""

    def __init__(self, module):
        self.described = describe(module) if notes.are_begun() else {}
        self.shapes, self.runs, self.run = collections.Counter(), collections.Counter(), 0
        self.inputs = set()
        self.autocast = None

    def called(self, phase, shape):
        """Counts a call. Gives the key that it is counted by."""
        key = (phase, *shape)
        if key not in self.shapes:
            if len(self.shapes) >= MAX_SHAPES:
                key = (phase, None, None)
            self.autocast = autocast() or self.autocast
        self.shapes[key] += 1
        if phase == "decode":
            self.run += 1
        elif self.run:
            self.runs[self.run] += 1
            self.run = 0
        return key

    def is_first(self, inputs):
        """Whether no call before had inputs of this shape."""
        if inputs in self.inputs or len(self.inputs) >= MAX_INPUTS:
            return False
        self.inputs.add(inputs)
        return True

    def as_json(self):
        runs = collections.Counter(self.runs)
        if self.run:
            runs[self.run] += 1
        calls = [{"phase": key[0], "batch": key[1], "tokens": key[2], "count": count} for key, count in self.shapes.items()]
        return {**self.described, "autocast": self.autocast, "calls": calls,
                "decodes": [[steps, count] for steps, count in runs.items()]}


def install(torch):
    global _torch
    _torch = torch
    notes.part("models", models_as_json)
    notes.part("compile", _compile)
    loading.replace(torch, "compile", _compiled)
    module = torch.nn.Module
    for name in ("to", "cuda", "eval", "parameters"):
        loading.replace(module, name, _found)
    if hasattr(module, "compile"):
        loading.after(module, "compile", _compiled_in_place)


def hook_transformers(modeling):
    cls = modeling.PreTrainedModel
    loading.after(cls, "__init__", lambda _, self, *args, **kwargs: _built.add(self))
    watch(cls)


def hook_generation(generation):
    def wrapper(generate):
        def called(*args, **kwargs):
            current = steps.current
            if current is None or _local.generates:
                return generate(*args, **kwargs)
            _local.generates = True
            current.generates()
            try:
                return generate(*args, **kwargs)
            finally:
                _local.generates = False
                current.generated()

        return called

    loading.replace(generation.GenerationMixin, "generate", wrapper)


def hook_dynamo(eval_frame):
    """What torch.compile makes of a module is called from outside of what it compiles."""
    cls = eval_frame.OptimizedModule
    cls.__call__ = watched(cls.__call__, lambda self: self._orig_mod)


# Modules that are hooked once they are imported.
LATER = [("transformers.modeling_utils", hook_transformers), ("transformers.generation.utils", hook_generation),
         ("torch._dynamo.eval_frame", hook_dynamo)]


def watch(cls):
    """Calls of modules of this class are seen, unless the class calls itself in its own way."""
    if cls not in _watched and cls.__call__ is _torch.nn.Module.__call__:
        _watched.add(cls)
        cls.__call__ = watched(lambda self, *args, **kwargs: _torch.nn.Module.__call__(self, *args, **kwargs), lambda self: self)


def watched(call, model_of):
    """The same call, noted if it is the outermost one of this thread."""
    compiling = ranges.is_compiling(_torch)

    @functools.wraps(call)
    def __call__(self, *args, **kwargs):
        if compiling() or _local.is_inside:
            return call(self, *args, **kwargs)
        _local.is_inside = True
        phase, mark = _called(model_of(self), args, kwargs) or (None, None)
        try:
            return call(self, *args, **kwargs)
        finally:
            _local.is_inside = False
            marks.end(mark)
            if phase is not None:
                steps.current.ends(phase)

    return __call__


@loading.quiet
def _called(module, args, kwargs):
    """Notes a call. Gives its phase if its end is to be noted, and its mark."""
    global _last
    if steps.current is None or notes.is_fork or steps.has_batches and not steps.current.batch():
        return None
    # Small models are called thousands of times a second, with inputs of the same shape.
    signature = signature_of(module, args, kwargs)
    known, last_module, model, key, phase, sizes = _last
    if signature is not None and signature == known and last_module() is module:
        model.shapes[key] += 1
        is_open = steps.current.begins(phase, sizes)
        notes.tick()
        return phase if is_open else None, None
    kept = _models.get(id(module))
    if kept is None or kept[0]() is not module:
        if len(_models) >= MAX_MODELS:
            return None
        kept = _models[id(module)] = (weakref.ref(module), Model(module))
    # Engines put requests of different lengths into one call.
    reference, model = kept
    batch = steps.current.batch()
    if args and isinstance(args[0], dict):
        args, kwargs = (), args[0]
    inputs, is_text = inputs_of(args, kwargs)
    shape = (None, None) if batch else shape_of(inputs, is_text)
    phase = batch or phase_of(module, shape, kwargs)
    is_new = not model.shapes
    key = model.called(phase, shape)
    sizes = {"batch": shape[0], "tokens": shape[1], "keys": keys_of(shape[1], kwargs)}
    _last = (signature, reference, model, key, phase, sizes)
    is_open = steps.current.begins(phase, sizes)
    if is_new:
        notes.write()
    else:
        notes.tick()
    return phase if is_open else None, marks.KIND and mark_of(model, batch, phase, sizes, inputs)


def signature_of(module, args, kwargs):
    """What the phase and the sizes of a call depend on, if that is the shape of its first input alone."""
    if not args or kwargs or marks.KIND or steps.has_batches:
        return None
    shape = getattr(args[0], "shape", None)
    return None if shape is None else (shape, module.training, _torch.is_grad_enabled())


def mark_of(model, batch, phase, sizes, inputs):
    """The mark of a call. The batch of an engine has one with its sizes already."""
    is_first = model.is_first(inputs)
    return marks.call(phase, sizes, is_first) if is_first or not batch else None


def inputs_of(args, kwargs):
    """The shape of the first input, and whether that is text."""
    name = first_given(INPUTS, kwargs)
    given = kwargs[name] if name else (args[0] if args else next(iter(kwargs.values()), None))
    shape = tuple(getattr(given, "shape", ()))
    for size in shape:
        if not isinstance(size, int):
            return (), False
    return shape, name in INPUTS[:3] or name is None and len(shape) == 2 and not given.is_floating_point()


def shape_of(shape, is_text):
    """Sequences and tokens of a call; tokens of text alone."""
    if is_text and len(shape) == 1:
        return 1, shape[0]
    return shape[0] if shape else None, shape[1] if is_text and len(shape) > 1 else None


@loading.quiet
def keys_of(tokens, kwargs):
    """Tokens that the attention of a sequence reads, by shapes alone: values are on the GPU. None if none tells."""
    mask = kwargs.get("attention_mask")
    if len(getattr(mask, "shape", ())) == 2 and isinstance(mask.shape[1], int):
        return mask.shape[1]
    past = past_of(kwargs)
    if past is None or tokens is None:
        return tokens
    if isinstance(past, (tuple, list)):
        return past[0][0].shape[-2] + tokens if past else None
    # A static cache has its length on the GPU, and attention reads all of its room.
    kind = type(past).__name__
    if kind == "DynamicCache":
        return past.get_seq_length() + tokens
    layer = getattr(past, "layers", [past])[0] if kind == "StaticCache" else None
    return getattr(layer, "max_cache_len", None)


def past_of(kwargs):
    name = first_given(CACHES, kwargs)
    return kwargs[name] if name else None


def first_given(names, kwargs):
    """The first of these arguments that is given. This runs in each step of the workload: generators take three times as long."""
    if kwargs:
        for name in names:
            if kwargs.get(name) is not None:
                return name
    return None


def phase_of(module, shape, kwargs):
    """train, prefill, decode (one token a sequence, after others), or forward: a pass without a cache."""
    if module.training and _torch.is_grad_enabled():
        return "train"
    has_past = past_of(kwargs) is not None
    if shape[1] == 1 and has_past:
        return "decode"
    generates = has_past or type(module).__name__.endswith(GENERATES) and kwargs.get("labels") is None
    return "prefill" if generates and shape[1] is not None else "forward"


def autocast():
    """The data type that matrix work is cast to, if it is."""
    try:
        if _torch.is_autocast_enabled():
            return str(_torch.get_autocast_dtype("cuda")).replace("torch.", "")
    except Exception:
        pass
    return None


def gradients(module):
    """Shares of the matrix parameters that training updates, and that gradients of inputs pass through to those."""
    layers = [layer for layer in module.modules() if not isinstance(layer, _torch.nn.Embedding)]
    matrices = [matrix for layer in layers for matrix in layer.parameters(recurse=False) if matrix.dim() > 1]
    sizes = [matrix.numel() for matrix in matrices]
    is_trained = [matrix.requires_grad for matrix in matrices]
    if not any(is_trained):
        return None
    weights = sum(size for size, trained in zip(sizes, is_trained) if trained)
    inputs = sum(sizes[is_trained.index(True):])
    return {"weights": weights / sum(sizes), "inputs": inputs / sum(sizes)}


def describe(module):
    """What a model is: its config, its parameters by type, how its weights are kept."""
    config = getattr(module, "config", None)
    found = {"class": type(module).__name__, "parameters": {}, "layers": {}, "recomputes": False}
    sizes = collections.Counter()
    kinds = collections.Counter()
    for parameter in module.parameters():
        sizes[str(parameter.dtype).replace("torch.", "")] += parameter.numel()
        if type(parameter).__module__.split(".")[0] in QUANTIZED:
            kinds[f"{type(parameter).__module__.split('.')[0]} {type(parameter).__name__}"] += 1
    for layer in module.modules():
        found["recomputes"] |= getattr(layer, "gradient_checkpointing", False) is True
        if type(layer).__module__.split(".")[0] in QUANTIZED:
            kinds[f"{type(layer).__module__.split('.')[0]} {type(layer).__name__}"] += 1
    found["parameters"], found["layers"] = dict(sizes), dict(kinds)
    found["gradients"] = loading.quiet(gradients)(module)
    if hasattr(config, "to_dict"):
        found["config"] = config.to_dict()
        # A config that was not saved does not name the class, and so not the head.
        found["config"]["architectures"] = found["config"].get("architectures") or [found["class"]]
        found["attention"] = getattr(config, "_attn_implementation", None)
    else:
        found["config"] = loading.quiet(vit_config)(module, sum(sizes.values()))
    devices = getattr(module, "hf_device_map", None)
    found["devices"] = len({str(device) for device in devices.values()}) if isinstance(devices, dict) else None
    found["tensor_parallel"] = getattr(module, "_tp_size", None)
    found["is_fsdp"] = any(cls.__name__ == "FSDPModule" for cls in type(module).__mro__)
    if sizes.get("float32"):
        found["matmul_precision"] = loading.quiet(_torch.get_float32_matmul_precision)()
    return found


def vit_config(module, parameters):
    """The config of a vision transformer of torchvision or timm in the words of transformers, if it has all parameters."""
    package = type(module).__module__.split(".")[0]
    if type(module).__name__ != "VisionTransformer" or package not in ("torchvision", "timm"):
        return None
    if package == "torchvision":
        layers, embed, hidden = list(module.encoder.layers), module.conv_proj, module.hidden_dim
        image, heads, inner, classes = module.image_size, layers[0].num_heads, module.mlp_dim, module.num_classes
    else:
        layers, embed, hidden = list(module.blocks), module.patch_embed.proj, module.embed_dim
        image, heads = module.patch_embed.img_size[0], layers[0].attn.num_heads
        inner, classes = layers[0].mlp.fc1.out_features, module.num_classes
    patch, channels = embed.kernel_size[0], embed.in_channels
    of_layer = 4 * hidden * (hidden + 1) + 2 * hidden * inner + hidden + inner + 4 * hidden
    tokens = (image // patch) ** 2 + 1
    around = (channels * patch * patch + 1 + tokens + 1 + 2) * hidden + classes * (hidden + 1)
    if parameters != len(layers) * of_layer + around:
        return None
    return {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": hidden,
        "num_hidden_layers": len(layers), "num_attention_heads": heads, "intermediate_size": inner,
        "image_size": image, "patch_size": patch, "num_channels": channels,
        "id2label": {str(index): str(index) for index in range(classes)},
    }


def models_as_json():
    """Models that were called; those that were only built if there is none, the largest."""
    called = [model.as_json() for _, model in _models.values()]
    if called:
        return called
    built = [loading.quiet(describe)(module) for module in list(_built)]
    built = [model for model in built if model]
    return sorted(built, key=lambda model: -sum(model["parameters"].values()))[:1]


def _found(old):
    """A module that is moved, put into evaluation or trained as a whole is likely a model."""

    def called(self, *args, **kwargs):
        result = old(self, *args, **kwargs)
        _keep(self)
        return result

    return called


@loading.quiet
def _keep(module):
    cls = type(module)
    # Parts of models are moved, too: a model has parts of its own. Generation asks for parameters in each step.
    if cls in _parts or not any(True for _ in module.children()):
        return
    _parts.add(cls)
    if not cls.__module__.startswith(WRAPPERS) and not any(base in _watched for base in cls.__mro__):
        watch(cls)


def _compiled(compile):
    def called(*args, **kwargs):
        result = compile(*args, **kwargs)
        return _note_compiled(args[0] if args else kwargs.get("model"), result, kwargs) or result

    return called


@loading.quiet
def _note_compiled(model, result, options):
    _compile["calls"] = _compile.get("calls", 0) + 1
    for name in ("mode", "backend", "fullgraph", "dynamic"):
        if options.get(name) is not None:
            _compile[name] = str(options[name])
    owner = getattr(model, "__self__", None)
    if isinstance(owner, _torch.nn.Module) and callable(result):
        # A bound method of a model: its calls come from outside of what is compiled.
        call = watched(lambda self, *args, **kwargs: result(*args, **kwargs), lambda self: self)
        return functools.wraps(result)(lambda *args, **kwargs: call(owner, *args, **kwargs))
    return None


def _compiled_in_place(_, self, *args, **options):
    call = getattr(self, "_compiled_call_impl", None)
    if call is not None:
        call_once = watched(lambda self, *args, **kwargs: call(*args, **kwargs), lambda self: self)
        self._compiled_call_impl = functools.partial(call_once, self)
