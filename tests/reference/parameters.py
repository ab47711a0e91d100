"""Counts the models of src/base/llm/config/published.json with the classes of `transformers` and `diffusers`.

An independent reference: each config becomes a model on the meta device, which has shapes and no values. Parameters are
summed over its tensors, FLOPs of a forward pass are those of `torch.utils.flop_counter`.

    pip install torch transformers diffusers
    python parameters.py published.json            # compares, one line a model
    python parameters.py published.json --record   # writes what is missing
    python parameters.py --defaults                # prints defaults.json

Buffers that a checkpoint stores and a pass adds to scores (biases that balance experts) count as parameters.
"""

import copy
import json
import sys
import warnings

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig
from transformers.models.auto import modeling_auto

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

# Types that are published nested in a config, and the keys that give a model its size.
NESTED = """gemma gemma2 gemma3_text gemma4_text llama mistral qwen2 qwen3 phi3 mllama_text_model llama4_text
qwen2_vl_text qwen2_5_vl_text qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text qwen3_5_text qwen3_5_moe_text
siglip_vision_model clip_vision_model pixtral internvl_vision llama4_vision_model mllama_vision_model gemma4_vision
qwen3_omni_moe_vision_encoder qwen3_omni_moe_audio_encoder""".split()
SIZES = """hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim vocab_size
sliding_window num_channels image_size patch_size depth num_heads embed_dim mlp_ratio in_channels spatial_merge_size
temporal_patch_size out_hidden_size num_position_embeddings d_model encoder_layers encoder_attention_heads
encoder_ffn_dim num_mel_bins downsample_hidden_size output_dim n_window_infer num_global_layers attention_heads
max_num_tiles pooling_kernel_size projector_input_dim projector_output_dim vision_output_dim num_experts
num_experts_per_tok num_local_experts moe_intermediate_size intermediate_size_mlp shared_expert_intermediate_size
cross_attention_layers interleave_moe_layer_step attention_chunk_size tie_word_embeddings vision_use_head
attention_bias linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim""".split()

TABLES = [
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    modeling_auto.MODEL_MAPPING_NAMES,
]

TOKENS = 64


def build(config):
    """The model of a config on the meta device."""
    config = copy.deepcopy(config)  # Classes change what they are given.
    if "_class_name" in config:
        import diffusers

        with torch.device("meta"):
            return getattr(diffusers, config["_class_name"]).from_config(config)
    names = (config.get("architectures") or []) + [table.get(config["model_type"]) for table in TABLES]
    name = next(name for name in names if name and hasattr(transformers, name))
    settings = AutoConfig.for_model(**config)
    settings._attn_implementation = "eager"
    with torch.device("meta"):
        return getattr(transformers, name)._from_config(settings)


def parameters(model):
    """Parameters, and stored biases that balance experts."""
    count = sum(parameter.numel() for parameter in model.parameters())
    state = model.state_dict(keep_vars=True)
    biases = [name for name in state if name.endswith("e_score_correction_bias") or name.endswith("expert_bias")]
    return count + sum(state[name].numel() for name in biases if not isinstance(state[name], torch.nn.Parameter))


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype, device="meta")


def inputs(model):
    """What a pass over TOKENS tokens needs; a text or sound of full length, a latent image with its text."""
    config, name = model.config, type(model).__name__
    tokens = zeros(1, TOKENS, dtype=torch.long)
    if name.startswith("Flux"):
        image, text = 64 * 64, 512
        return {
            "hidden_states": zeros(1, image, config.in_channels),
            "encoder_hidden_states": zeros(1, text, config.joint_attention_dim),
            "pooled_projections": zeros(1, config.pooled_projection_dim),
            "timestep": zeros(1),
            "guidance": zeros(1),
            "img_ids": zeros(image, 3),
            "txt_ids": zeros(text, 3),
        }
    if name.startswith("SD3"):
        return {
            "hidden_states": zeros(1, config.in_channels, config.sample_size, config.sample_size),
            "encoder_hidden_states": zeros(1, 77 + 256, config.joint_attention_dim),
            "pooled_projections": zeros(1, config.pooled_projection_dim),
            "timestep": zeros(1),
        }
    if name.startswith("PixArt"):
        sizes = {"resolution": zeros(1, 2), "aspect_ratio": zeros(1, 1)}
        return {
            "hidden_states": zeros(1, config.in_channels, config.sample_size, config.sample_size),
            "encoder_hidden_states": zeros(1, 300, config.caption_channels),
            "timestep": zeros(1),
            "added_cond_kwargs": sizes if model.use_additional_conditions else {"resolution": None, "aspect_ratio": None},
        }
    if name.startswith("DiT"):
        return {
            "hidden_states": zeros(1, config.in_channels, config.sample_size, config.sample_size),
            "timestep": zeros(1),
            "class_labels": zeros(1, dtype=torch.long),
        }
    if name.startswith("ViT"):
        return {"pixel_values": zeros(1, config.num_channels, config.image_size, config.image_size)}
    if name.startswith("Whisper"):
        sound = zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": sound, "decoder_input_ids": tokens, "use_cache": False}
    if getattr(config, "is_encoder_decoder", False):
        length = getattr(config, "n_positions", None) or getattr(config, "max_position_embeddings", None) or 512
        return {"input_ids": zeros(1, length, dtype=torch.long), "decoder_input_ids": tokens, "use_cache": False}
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "use_cache": False}


def flops(model):
    """FLOPs of a pass as the counter sees them: products of matrices and convolutions."""
    model = model.eval()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("batched_mm")
    given = inputs(model)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**given)
    return counter.get_total_flops()


def image_flops(model):
    """FLOPs of one image of the size of the config, up to the inputs of the decoder."""
    size = model.config.vision_config.image_size
    size = size[0] if isinstance(size, (list, tuple)) else size
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        getattr(model, "model", model).get_image_features(pixel_values=zeros(1, 3, size, size))
    return counter.get_total_flops()


def defaults():
    """Sizes that the classes of nested configs have by default."""
    table = {}
    for name in NESTED:
        stated = AutoConfig.for_model(name).to_dict()
        table[name] = {key: stated[key] for key in SIZES if stated.get(key) is not None}
    return table


def main():
    if "--defaults" in sys.argv:
        lines = [f"  {json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in defaults().items()]
        print("{\n" + ",\n".join(lines) + "\n}")
        return
    path = sys.argv[1]
    with open(path) as file:
        models = json.load(file)
    for one in models:
        try:
            model = build(one["config"])
        except Exception as error:
            print(f"{one['name']}: {type(error).__name__}: {str(error)[:80]}")
            continue
        counted = parameters(model)
        try:
            work = flops(model)
        except Exception as error:
            work = None
            print(f"{one['name']}: no FLOPs: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
        image = None
        if hasattr(model.config, "vision_config"):
            try:
                image = image_flops(model.eval())
            except Exception as error:
                print(f"{one['name']}: no FLOPs of an image: {str(error)[:120]}", file=sys.stderr)
        found = {"parameters": counted, "flops": work, "image_flops": image}
        if "--record" in sys.argv:
            for key, value in found.items():
                if value is not None:
                    one.setdefault(key, value)
        agrees = all(value is None or value == one.get(key) for key, value in found.items())
        print(f"{one['name']}: {counted} parameters, {work} FLOPs: {'equal' if agrees else 'DIFFERENT'}")
    if "--record" in sys.argv:
        with open(path, "w") as file:
            file.write("[\n" + ",\n".join("  " + json.dumps(one, ensure_ascii=False) for one in models) + "\n]\n")


main()
