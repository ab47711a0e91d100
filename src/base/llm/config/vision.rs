//! Encoders of images and sound, and what makes inputs of a decoder from their outputs.
//!
//! After the classes of `transformers`; DeepSeek-OCR after `deepencoder.py` of its own.

use serde_json::Value;

use super::defaults;
use super::keys::{Keys, MAX_DIMENSION, MAX_SIDE};
use crate::layer::{Attention, Layer, Matrix, Part, Reach};
use crate::{Encoder, Fit, Llm, View};

/// Side of an image in pixels, where the model takes any.
const SIDE: u64 = 1024;

/// What is fixed by a tower's class rather than by keys.
#[derive(Clone, Copy)]
struct Tower {
    names: &'static [&'static str],
    /// Vectors of hidden size in a layer.
    norms: u64,
    /// The same outside of the layers.
    around: u64,
    gated: bool,
    /// Biases of attention, of the feed-forward block, of the first projection.
    biases: (bool, bool, bool),
    /// A token for the whole image.
    class: bool,
    positions: Positions,
    /// Norms of queries and keys.
    qk_norm: bool,
    /// Images of any size.
    any_size: bool,
    connector: Connector,
}

/// The table of positions.
#[derive(Clone, Copy)]
enum Positions {
    None,
    /// One row for each token.
    Tokens,
    /// So many rows, or as the first key says.
    Rows(&'static str, u64),
}

/// What follows the tower.
#[derive(Clone, Copy)]
enum Connector {
    /// As the model around the tower says.
    OfModel,
    /// Joins patches, two layers; so many norms of hidden size before, with more of them for features of other depths.
    Merger(u64),
}

const SIGLIP: Tower = Tower {
    names: &["siglip_vision_model", "siglip"],
    norms: 4,
    around: 2,
    gated: false,
    biases: (true, true, true),
    class: false,
    positions: Positions::Tokens,
    qk_norm: false,
    any_size: false,
    connector: Connector::OfModel,
};

const QWEN: Tower = Tower {
    names: &["qwen2_vl"],
    around: 0,
    biases: (true, true, false),
    positions: Positions::None,
    any_size: true,
    connector: Connector::Merger(2),
    ..SIGLIP
};

const TOWERS: &[Tower] = &[
    SIGLIP,
    Tower {
        names: &["clip_vision_model"],
        around: 5,
        biases: (true, true, false),
        class: true,
        ..SIGLIP
    },
    Tower {
        names: &["pixtral"],
        norms: 2,
        around: 1,
        gated: true,
        biases: (false, false, false),
        positions: Positions::None,
        any_size: true,
        ..SIGLIP
    },
    Tower {
        names: &["internvl_vision", "intern_vit_6b"],
        norms: 6,
        around: 1,
        class: true,
        ..SIGLIP
    },
    Tower {
        names: &["llama4_vision_model"],
        around: 5,
        biases: (true, true, false),
        class: true,
        ..SIGLIP
    },
    QWEN,
    Tower {
        names: &["qwen2_5_vl"],
        norms: 2,
        gated: true,
        connector: Connector::Merger(1),
        ..QWEN
    },
    Tower {
        names: &[
            "qwen3_vl",
            "qwen3_vl_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "qwen3_omni_moe_vision_encoder",
        ],
        biases: (true, true, true),
        positions: Positions::Rows("num_position_embeddings", 2304),
        ..QWEN
    },
    Tower {
        names: &["kimi_k25"],
        biases: (true, true, true),
        around: 2,
        positions: Positions::Rows("", 64 * 64),
        ..QWEN
    },
    Tower {
        names: &["gemma4_vision"],
        gated: true,
        biases: (false, false, false),
        around: 0,
        // A row for each of both coordinates.
        positions: Positions::Rows("", 2 * 10_240),
        qk_norm: true,
        any_size: true,
        ..SIGLIP
    },
];

/// Adds the encoders of a config to its language model; a remark names those that are not known.
pub(super) fn read(value: &Value, llm: &mut Llm) {
    let parent = text(value, "model_type");
    for (key, name) in [("vision_config", "vision"), ("audio_config", "audio")] {
        let Some(part) = value.get(key).filter(|part| part.is_object()) else {
            continue;
        };
        let family = match text(part, "model_type") {
            "" | "vision" => parent,
            family => family,
        };
        let keys = Keys::new(part, &Value::Null, defaults(family));
        let encoders = match family {
            "mllama_vision_model" => vec![tiles(&keys, llm)],
            "qwen3_omni_moe_audio_encoder" => vec![sound(&keys)],
            "deepseek_vl_v2" | "deepseekocr" if part.pointer("/width/sam_vit_b").is_some() => {
                ocr(value, llm)
            }
            _ => tower(family, &keys, value, llm).into_iter().collect(),
        };
        if encoders.is_empty() || keys.check(family).is_err() {
            llm.remarks
                .push(format!("its {name} part ({family}) is not counted"));
            continue;
        }
        if encoders.iter().any(|encoder| encoder.name == "audio") {
            llm.remarks.push("sound of 30 s is assumed".to_owned());
        }
        llm.encoders.extend(encoders);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

const fn outside(name: &'static str, inputs: u64, outputs: u64, rows: u64) -> Matrix {
    Matrix::new(Part::Other, name, inputs, outputs).rows(rows)
}

/// The tower of a family, and the name that it is known by: newer configs call it `…_vision`.
fn known(family: &str) -> Option<(&'static Tower, &str)> {
    let named = |name: &str| TOWERS.iter().find(|tower| tower.names.contains(&name));
    let of_family = family.strip_suffix("_vision").unwrap_or(family);
    named(family)
        .map(|tower| (tower, family))
        .or_else(|| Some((named(of_family)?, of_family)))
}

/// Patches of an image.
struct Patches {
    /// Side of a patch in pixels.
    side: u64,
    /// Side of what is joined into one output, in patches.
    merge: u64,
    /// The image in outputs.
    view: View,
}

impl Patches {
    fn new(tower: &Tower, family: &str, keys: &Keys<'_>, value: &Value) -> Self {
        let of_model = value.get("spatial_merge_size").and_then(Value::as_u64);
        let joins = matches!(tower.connector, Connector::Merger(_))
            || matches!(
                family,
                "internvl_vision" | "intern_vit_6b" | "llama4_vision_model"
            );
        let of_class = if joins { 2 } else { 1 };
        let of_model = of_model.filter(|_| family == "pixtral");
        let names = [
            "spatial_merge_size",
            "merge_kernel_size",
            "pooling_kernel_size",
        ];
        let merge = keys.side(&names, of_model.unwrap_or(of_class)).max(1);
        let side = keys.side(&["patch_size"], 14).max(1);
        let fit = match family {
            "pixtral" => Fit::Up(keys.side(&["image_size"], 1024)),
            "gemma4_vision" => {
                let tokens = value.get("vision_soft_tokens_per_image");
                Fit::Budget(tokens.and_then(Value::as_u64).unwrap_or(280).min(MAX_SIDE))
            }
            "kimi_k25" => Fit::Up(u64::MAX),
            _ => Fit::Nearest,
        };
        let unit = side * merge;
        let pixels = match tower.any_size {
            true => SIDE,
            // What is no whole output is cut off.
            false => keys.side(&["image_size"], 224) / unit * unit,
        };
        Self {
            side,
            merge,
            view: View::new(unit, fit, pixels),
        }
    }
}

/// A tower whose layers are alike.
fn tower(family: &str, keys: &Keys<'_>, value: &Value, model: &mut Llm) -> Option<Encoder> {
    let (tower, family) = known(family)?;
    let hidden = keys.need(&["embed_dim", "vt_hidden_size", "hidden_size"]);
    if tower.any_size {
        model.assume_images(SIDE);
    }
    let Patches { side, merge, view } = Patches::new(tower, family, keys, value);
    let patches = view.area() * merge * merge;
    let tokens = patches + u64::from(tower.class);
    let is_merged = matches!(tower.connector, Connector::Merger(_));
    let frames = if is_merged && family.starts_with("qwen") {
        keys.side(&["temporal_patch_size"], 2)
    } else {
        1
    };
    let channels = keys.side(&["num_channels", "in_channels", "in_chans"], 3);
    let (_, _, patch_bias) = tower.biases;
    let inputs = channels * frames * side * side;
    let first = outside("patches", inputs, hidden, patches);
    let mut llm = Llm {
        family: family.to_owned(),
        hidden,
        sequence: Some(tokens),
        vectors: tower.around * hidden,
        matrices: vec![first.bias(patch_bias)],
        ..Llm::default()
    };
    llm.tables = match tower.positions {
        Positions::None => 0,
        Positions::Tokens => tokens * hidden,
        Positions::Rows(key, rows) => keys.or(&[key], rows) * hidden,
    };
    let inner = keys.or(
        &["intermediate_size", "vt_intermediate_size"],
        keys.or(&["mlp_ratio"], 4) * hidden,
    );
    layers(tower, keys, inner, side, &mut llm);
    if family.starts_with("siglip") && keys.flag("vision_use_head", true) {
        pooling(&mut llm, inner);
    }
    let outputs = connect(tower, keys, value, model, (&mut llm, view.area(), merge));
    Some(Encoder {
        name: "vision",
        llm,
        outputs,
        view: tower.any_size.then_some(view),
    })
}

/// The layers of a tower. Of those with windows, some see the whole image.
fn layers(tower: &Tower, keys: &Keys<'_>, inner: u64, patch: u64, llm: &mut Llm) {
    let heads = keys.need(&["num_heads", "num_attention_heads", "vt_num_attention_heads"]);
    let depth = keys.need(&["depth", "num_hidden_layers", "vt_num_hidden_layers"]);
    let whole = keys.list("fullatt_block_indexes");
    let window = keys.maybe(&["window_size"]).filter(|_| whole.is_some());
    let (bias, mlp_bias, _) = tower.biases;
    for index in 0..depth.min(4096) {
        let sees_all =
            whole.is_none_or(|list| list.iter().any(|layer| layer.as_u64() == Some(index)));
        let reach = match window {
            Some(pixels) if !sees_all => Reach::Fixed((pixels / patch) * (pixels / patch)),
            _ => Reach::All,
        };
        let mut attention = Attention::multi_head(llm.hidden, heads, bias, reach);
        if let Some(size) = keys.maybe(&["head_dim"]) {
            (attention.head_dim, attention.value_dim) = (size, size);
        }
        if tower.norms == 6 {
            attention.qkv_bias = keys.flag("attention_bias", keys.flag("qkv_bias", false));
        }
        let norms = if tower.qk_norm {
            2 * attention.head_dim
        } else {
            0
        };
        let layer = Layer::default()
            .attention(&attention)
            .mlp(llm.hidden, inner, tower.gated, mlp_bias)
            .vectors(tower.norms * llm.hidden + norms);
        super::push(llm, layer);
    }
}

/// A head that SigLIP has for images alone; a language model does not run it.
fn pooling(llm: &mut Llm, inner: u64) {
    let hidden = llm.hidden;
    let unused = |inputs, outputs| {
        let matrix = Matrix::new(Part::Other, "pooling", inputs, outputs);
        matrix.bias(true).copies(1, 0)
    };
    llm.vectors += 3 * hidden;
    llm.matrices.extend([
        unused(hidden, 3 * hidden),
        unused(hidden, hidden),
        unused(hidden, inner),
        unused(inner, hidden),
    ]);
}

/// Adds what follows a tower, and gives the positions that an image takes.
fn connect(
    tower: &Tower,
    keys: &Keys<'_>,
    value: &Value,
    model: &Llm,
    (llm, outputs, merge): (&mut Llm, u64, u64),
) -> u64 {
    let (hidden, wide) = (llm.hidden, merge * merge * llm.hidden);
    let number = |key: &str, default: u64| {
        let number = value.get(key).and_then(Value::as_u64);
        number.unwrap_or(default).min(MAX_DIMENSION)
    };
    let flag =
        |key: &str, default: bool| value.get(key).and_then(Value::as_bool).unwrap_or(default);
    let into = model.hidden;
    if let Connector::Merger(norms) = tower.connector {
        let out = match llm.family.as_str() {
            // Qwen2-VL calls the size of its outputs `hidden_size`.
            "qwen2_vl" => keys.or(&["hidden_size"], into),
            _ => keys.or(&["out_hidden_size", "text_hidden_size"], into),
        };
        let deeper = keys
            .list("deepstack_visual_indexes")
            .map_or(0, <[Value]>::len) as u64;
        llm.vectors += norms * hidden + deeper * 2 * wide;
        let copies = 1 + deeper;
        let matrix = |name, outputs_of| {
            let matrix = outside(name, wide, outputs_of, outputs).bias(true);
            matrix.copies(copies, copies)
        };
        llm.matrices.push(matrix("merge", wide));
        llm.matrices.push(matrix("connect", out));
        return outputs;
    }
    let mut layer = |name, inputs, outputs_of, rows, bias| {
        llm.matrices
            .push(outside(name, inputs, outputs_of, rows).bias(bias));
    };
    match text(value, "model_type") {
        "gemma3" => {
            let outputs = number("mm_tokens_per_image", 256);
            layer("connect", hidden, into, outputs, false);
            llm.vectors += hidden;
            return outputs;
        }
        "gemma4" => layer("connect", hidden, into, outputs, false),
        "paligemma" => layer("connect", hidden, into, outputs, true),
        "mistral3" => {
            let bias = flag("multimodal_projector_bias", false);
            layer("merge", wide, hidden, outputs, false);
            layer("connect", hidden, into, outputs, bias);
            layer("connect", into, into, outputs, bias);
            llm.vectors += hidden;
        }
        "internvl" | "internvl_chat" => {
            layer("connect", wide, into, outputs, true);
            layer("connect", into, into, outputs, true);
            llm.vectors += 2 * wide;
        }
        "llama4" => {
            let (inner, out) = (
                keys.or(&["projector_input_dim"], 4096),
                keys.or(&["projector_output_dim", "vision_output_dim"], 4096),
            );
            layer("merge", wide, inner, outputs, false);
            layer("merge", inner, out, outputs, false);
            layer("connect", out, into, outputs, false);
        }
        _ => {
            let bias = flag("multimodal_projector_bias", true);
            layer("connect", hidden, into, outputs, bias);
            layer("connect", into, into, outputs, bias);
        }
    }
    outputs
}

/// Llama 3.2: tiles of an image with tables for their places, and keys and values for layers of cross-attention.
fn tiles(keys: &Keys<'_>, model: &Llm) -> Encoder {
    let hidden = keys.need(&["hidden_size"]);
    let heads = keys.need(&["attention_heads", "num_attention_heads"]);
    let inner = keys.need(&["intermediate_size"]);
    let patch = keys.side(&["patch_size"], 14).max(1);
    let grid = keys.side(&["image_size"], 448) / patch;
    let (tiles, tokens) = (keys.side(&["max_num_tiles"], 4), grid * grid + 1);
    let ratios = keys
        .list("supported_aspect_ratios")
        .map_or(8, <[Value]>::len) as u64
        + 1;
    let layer = Layer::default()
        .attention(&Attention::multi_head(hidden, heads, false, Reach::All))
        .mlp(hidden, inner, false, true)
        .vectors(4 * hidden);
    let global = layer.clone().vectors(2);
    let features = hidden
        * (1 + keys
            .list("intermediate_layers_indices")
            .map_or(5, <[Value]>::len) as u64);
    let (rows, into) = (tiles * tokens, model.hidden);
    let channels = keys.side(&["num_channels"], 3);
    let mut llm = Llm {
        family: "mllama_vision_model".to_owned(),
        hidden,
        // Padded to a multiple of 8.
        sequence: Some(tiles * tokens.next_multiple_of(8)),
        layers: vec![
            (keys.need(&["num_hidden_layers"]), layer),
            (keys.or(&["num_global_layers"], 8), global),
        ],
        tables: (ratios * tiles * (tokens + 2) + tokens).saturating_mul(hidden),
        vectors: 5 * hidden + 3,
        matrices: vec![
            outside(
                "patches",
                channels * patch * patch,
                hidden,
                tiles * grid * grid,
            ),
            outside("connect", features, into, rows).bias(true),
        ],
        ..Llm::default()
    };
    // Each layer that attends to the image has keys and values of it.
    for (count, layer) in &model.layers {
        let Some(core) = layer
            .cores
            .first()
            .filter(|core| core.reach == Reach::Fixed(rows))
        else {
            continue;
        };
        for name in ["cross k", "cross v"] {
            let matrix = outside(name, into, core.kv_heads * core.value, rows);
            llm.matrices.push(matrix.copies(*count, *count));
        }
    }
    Encoder {
        name: "vision",
        llm,
        outputs: 0,
        view: None,
    }
}

/// Qwen3-Omni: convolutions over 100 frames at a time, of which 13 tokens remain; 30 s of sound.
fn sound(keys: &Keys<'_>) -> Encoder {
    let (hidden, heads) = (
        keys.need(&["d_model"]),
        keys.need(&["encoder_attention_heads"]),
    );
    let depth = keys.need(&["encoder_layers"]);
    let (mels, channels) = (
        keys.or(&["num_mel_bins"], 128),
        keys.or(&["downsample_hidden_size"], 480),
    );
    let (chunks, tokens) = (30, 13);
    let windows = keys.or(&["n_window_infer"], 800) / 100;
    let convolution = |name, inputs, times, bins| {
        outside(name, 9 * inputs, channels, chunks * times * bins).bias(true)
    };
    let layer = Layer::default()
        .attention(&Attention::multi_head(
            hidden,
            heads,
            true,
            Reach::Fixed(windows * tokens),
        ))
        .mlp(hidden, keys.need(&["encoder_ffn_dim"]), false, true)
        .vectors(4 * hidden);
    let rows = chunks * tokens;
    let out = keys.or(&["output_dim"], hidden);
    let llm = Llm {
        family: "qwen3_omni_moe_audio_encoder".to_owned(),
        hidden,
        sequence: Some(rows),
        layers: vec![(depth, layer)],
        vectors: 2 * hidden,
        matrices: vec![
            convolution("convolution", 1, 50, mels / 2),
            convolution("convolution", channels, 25, mels / 4),
            convolution("convolution", channels, 13, mels / 8),
            outside("frames", channels * (mels / 8), hidden, rows),
            outside("connect", hidden, hidden, rows).bias(true),
            outside("connect", hidden, out, rows).bias(true),
        ],
        ..Llm::default()
    };
    Encoder {
        name: "audio",
        llm,
        outputs: rows,
        view: None,
    }
}

/// DeepSeek-OCR: SAM with windows, convolutions that join 16 patches, CLIP over what remains, one projection.
fn ocr(value: &Value, model: &Llm) -> Vec<Encoder> {
    let number = |path: &str, default: u64| {
        let number = value.pointer(path).and_then(Value::as_u64);
        number.unwrap_or(default).min(16 * MAX_SIDE)
    };
    let (hidden, depth, heads) = (
        number("/vision_config/width/sam_vit_b/width", 768),
        number("/vision_config/width/sam_vit_b/layers", 12),
        number("/vision_config/width/sam_vit_b/heads", 12),
    );
    let side = number("/vision_config/image_size", 1024);
    let mut view = View::new(16 * 4, Fit::Padded, side);
    view.breaks = true;
    let (grid, patches) = (4 * view.rows, 16 * view.area());
    let indexes = value.pointer("/vision_config/width/sam_vit_b/global_attn_indexes");
    let global = indexes.and_then(Value::as_array).map_or(4, Vec::len) as u64;
    let (window, neck) = (14, 256);
    let layer = |reach, places: u64| {
        Layer::default()
            .attention(&Attention::multi_head(hidden, heads, true, reach))
            .mlp(hidden, 4 * hidden, false, true)
            // Tables of relative places in both directions.
            .vectors(4 * hidden + 2 * (2 * places).saturating_sub(1) * (hidden / heads.max(1)))
    };
    let sam = Llm {
        family: "sam_vit_b".to_owned(),
        hidden,
        sequence: Some(patches),
        layers: vec![
            (
                depth.saturating_sub(global),
                layer(Reach::Fixed(window * window), window),
            ),
            (global, layer(Reach::All, grid)),
        ],
        tables: patches * hidden,
        vectors: 4 * neck,
        matrices: vec![
            outside("patches", 3 * 16 * 16, hidden, patches).bias(true),
            outside("convolution", hidden, neck, patches),
            outside("convolution", 9 * neck, neck, patches),
            outside("convolution", 9 * neck, 512, patches / 4),
            outside("convolution", 9 * 512, 1024, patches / 16),
        ],
        ..Llm::default()
    };
    let (wide, into) = (
        number("/vision_config/width/clip-l-14-224/width", 1024),
        number("/projector_config/n_embed", model.hidden),
    );
    let clip_heads = number("/vision_config/width/clip-l-14-224/heads", 16);
    let outputs = patches / 16;
    let layer = Layer::default()
        .attention(&Attention::multi_head(wide, clip_heads, true, Reach::All))
        .mlp(wide, 4 * wide, false, true)
        .vectors(4 * wide);
    let places = number("/vision_config/width/clip-l-14-224/image_size", 224) / 14;
    let clip = Llm {
        family: "clip-l-14".to_owned(),
        hidden: wide,
        sequence: Some(outputs + 1),
        layers: vec![(
            number("/vision_config/width/clip-l-14-224/layers", 24),
            layer,
        )],
        tables: (places * places + 1) * wide,
        // The class token and the first norm; the row break and the end of an image.
        vectors: 3 * wide + 2 * into,
        matrices: vec![
            // SAM gives its patches instead.
            Matrix::new(Part::Other, "patches", 3 * 14 * 14, wide).copies(1, 0),
            outside(
                "connect",
                number("/projector_config/input_dim", 2048),
                into,
                outputs,
            )
            .bias(true),
        ],
        ..Llm::default()
    };
    vec![
        Encoder {
            name: "vision",
            llm: sam,
            outputs: 0,
            view: Some(view),
        },
        Encoder {
            name: "vision",
            llm: clip,
            outputs: view.outputs(),
            view: Some(view),
        },
    ]
}
