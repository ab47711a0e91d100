//! Transformers that denoise latent images: FLUX, Stable Diffusion 3, PixArt, DiT, after `diffusers`.
//!
//! One pass is one step for one image. Text and image tokens attend to one another; each kind has matrices of its own.

use super::keys::{Keys, MAX_DIMENSION, MAX_SIDE, Unsupported};
use crate::Llm;
use crate::layer::{Attention, Core, Layer, Matrix, Part, Reach};

/// Width of the sines that a time is written in.
const SINES: u64 = 256;

pub(super) fn read(name: &str, keys: &Keys<'_>, llm: &mut Llm) -> bool {
    let read = match name {
        "FluxTransformer2DModel" => flux,
        "SD3Transformer2DModel" => stable_diffusion,
        "PixArtTransformer2DModel" => pixart,
        "DiTTransformer2DModel" => dit,
        _ => return false,
    };
    let heads = keys.need(&["num_attention_heads"]);
    llm.hidden = heads * keys.need(&["attention_head_dim"]);
    if llm.hidden > MAX_DIMENSION {
        let field = "attention_head_dim";
        keys.refuse(Unsupported::Implausible { field });
        return true;
    }
    read(keys, llm, heads);
    true
}

/// A matrix that so many positions pass, with a bias.
const fn of(part: Part, name: &'static str, inputs: u64, outputs: u64, rows: u64) -> Matrix {
    Matrix::new(part, name, inputs, outputs)
        .bias(true)
        .rows(rows)
}

/// Two layers that make a vector of hidden size from a condition.
fn condition(inputs: u64, hidden: u64) -> [Matrix; 2] {
    [
        of(Part::Other, "condition", inputs, hidden, 1),
        of(Part::Other, "condition", hidden, hidden, 1),
    ]
}

/// Scales and shifts of a layer, from the condition.
const fn modulation(hidden: u64, vectors: u64) -> Matrix {
    of(Part::Other, "modulation", hidden, vectors * hidden, 1)
}

/// Projections of one kind of tokens.
fn stream(layer: Layer, hidden: u64, rows: u64, outputs: bool) -> Layer {
    let names = ["q", "k", "v", "o"];
    let count = if outputs { 4 } else { 3 };
    let matrices = names[..count]
        .iter()
        .map(|name| of(Part::Projections, name, hidden, hidden, rows));
    matrices.fold(layer, Layer::matrix)
}

fn feed(layer: Layer, hidden: u64, rows: u64) -> Layer {
    let layer = Layer {
        feed: "MLP",
        ..layer
    };
    layer
        .matrix(of(Part::Mlp, "up", hidden, 4 * hidden, rows))
        .matrix(of(Part::Mlp, "down", 4 * hidden, hidden, rows))
}

/// All tokens see so many, or all.
fn core(hidden: u64, heads: u64, reach: Reach) -> Core {
    let size = hidden / heads.max(1);
    Core {
        heads,
        query_key: size,
        value: size,
        stored: 0,
        read: 2 * hidden,
        kv_heads: heads,
        reach,
        absorbed: None,
    }
}

fn joint(layer: Layer, hidden: u64, heads: u64) -> Layer {
    let mut layer = Layer {
        mixer: "joint attention",
        ..layer
    };
    layer.cores.push(core(hidden, heads, Reach::All));
    layer
}

/// 1024 × 1024 pixels: 128 × 128 latents, four of them a token; 512 tokens of text.
fn flux(keys: &Keys<'_>, llm: &mut Llm, heads: u64) {
    let (hidden, image, text) = (llm.hidden, 64 * 64, 512);
    let size = hidden / heads;
    llm.sequence = Some(image + text);
    llm.remarks
        .push("one step for 1024 × 1024 pixels and 512 tokens of text is counted".to_owned());
    llm.matrices.extend(condition(SINES, hidden));
    if keys.flag("guidance_embeds", false) {
        llm.matrices.extend(condition(SINES, hidden));
    }
    llm.matrices
        .extend(condition(keys.or(&["pooled_projection_dim"], 768), hidden));
    let channels = keys.or(&["in_channels"], 64);
    llm.matrices.extend([
        of(
            Part::Other,
            "text in",
            keys.or(&["joint_attention_dim"], 4096),
            hidden,
            text,
        ),
        of(Part::Other, "image in", channels, hidden, image),
        modulation(hidden, 2),
        of(
            Part::Other,
            "image out",
            hidden,
            keys.or(&["out_channels"], channels),
            image,
        ),
    ]);
    let mut double = joint(Layer::default().vectors(4 * size), hidden, heads);
    for rows in [image, text] {
        double = feed(
            stream(double, hidden, rows, true).matrix(modulation(hidden, 6)),
            hidden,
            rows,
        );
    }
    let all = image + text;
    let single = joint(Layer::default().vectors(2 * size), hidden, heads);
    let single = Layer {
        feed: "MLP",
        ..stream(single, hidden, all, false)
    }
    .matrix(modulation(hidden, 3))
    .matrix(of(Part::Mlp, "up", hidden, 4 * hidden, all))
    .matrix(of(Part::Mlp, "down", 5 * hidden, hidden, all));
    llm.layers.push((keys.need(&["num_layers"]), double));
    llm.layers.push((keys.need(&["num_single_layers"]), single));
}

/// Tokens of an image of the size that the model was made for.
fn patches(keys: &Keys<'_>) -> u64 {
    let side = keys.need(&["sample_size"]) / keys.side(&["patch_size"], 2).max(1);
    if side > MAX_SIDE {
        let field = "sample_size";
        keys.refuse(Unsupported::Implausible { field });
    }
    let side = side.min(MAX_SIDE);
    side * side
}

/// The layers that make tokens of patches, and patches of tokens.
fn patch_layers(
    keys: &Keys<'_>,
    hidden: u64,
    image: u64,
    channels: u64,
    out_channels: u64,
) -> [Matrix; 2] {
    let patch = keys.side(&["patch_size"], 2);
    let pixels = patch * patch;
    let out_channels = keys.or(&["out_channels"], out_channels);
    [
        of(Part::Other, "image in", channels * pixels, hidden, image),
        of(
            Part::Other,
            "image out",
            hidden,
            out_channels * pixels,
            image,
        ),
    ]
}

/// 77 tokens of CLIP and 256 of T5.
fn stable_diffusion(keys: &Keys<'_>, llm: &mut Llm, heads: u64) {
    let (hidden, image, text) = (llm.hidden, patches(keys), 77 + 256);
    let size = hidden / heads;
    llm.sequence = Some(image + text);
    llm.remarks.push(format!(
        "one step for {image} image tokens and {text} of text is counted"
    ));
    let channels = keys.or(&["in_channels"], 16);
    llm.matrices.extend(condition(SINES, hidden));
    llm.matrices
        .extend(condition(keys.or(&["pooled_projection_dim"], 2048), hidden));
    let caption = keys.or(&["caption_projection_dim"], hidden);
    let [image_in, image_out] = patch_layers(keys, hidden, image, channels, channels);
    llm.matrices.extend([
        of(
            Part::Other,
            "text in",
            keys.or(&["joint_attention_dim"], 4096),
            caption,
            text,
        ),
        image_in,
        modulation(hidden, 2),
        image_out,
    ]);
    let normed = keys.text("qk_norm").is_some();
    let twice = keys.list("dual_attention_layers").unwrap_or_default();
    let depth = keys.depth();
    for index in 0..depth {
        let is_last = index + 1 == depth;
        let is_twice = twice.iter().any(|layer| layer.as_u64() == Some(index));
        let norms = if normed { 4 * size } else { 0 };
        let mut layer = joint(Layer::default().vectors(norms), hidden, heads);
        layer = stream(layer, hidden, image, true);
        if is_twice {
            // Image tokens see one another once more.
            layer = stream(layer, hidden, image, true).vectors(norms / 2);
            layer.cores.push(core(
                hidden,
                heads,
                Reach::Fixed(image * image / (image + text)),
            ));
        }
        layer = feed(
            layer.matrix(modulation(hidden, if is_twice { 9 } else { 6 })),
            hidden,
            image,
        );
        // The last layer needs no outputs of the text.
        layer = stream(layer, hidden, text, !is_last);
        layer = layer.matrix(modulation(hidden, if is_last { 2 } else { 6 }));
        if !is_last {
            layer = feed(layer, hidden, text);
        }
        super::push(llm, layer);
    }
}

/// Layers that share the modulation, with cross-attention to 300 tokens of text.
fn pixart(keys: &Keys<'_>, llm: &mut Llm, heads: u64) {
    let (hidden, image, text) = (llm.hidden, patches(keys), 300);
    llm.sequence = Some(image);
    llm.remarks.push(format!(
        "one step for {image} image tokens and {text} of text is counted"
    ));
    let channels = keys.or(&["in_channels"], 4);
    let [image_in, image_out] = patch_layers(keys, hidden, image, channels, 2 * channels);
    llm.matrices.extend(condition(SINES, hidden));
    // Without a statement, sizes are conditions of models for 1024 pixels.
    if keys.flag(
        "use_additional_conditions",
        keys.or(&["sample_size"], 0) == 128,
    ) {
        let [first, second] = condition(SINES, hidden / 3);
        // Height and width, then their ratio.
        llm.matrices
            .extend([first.clone().rows(2), second.clone().rows(2)]);
        llm.matrices.extend([first, second]);
    }
    let caption = keys.or(&["caption_channels"], 4096);
    llm.matrices.extend([
        modulation(hidden, 6),
        of(Part::Other, "text in", caption, hidden, text),
        of(Part::Other, "text in", hidden, hidden, text),
        image_in,
        image_out,
    ]);
    llm.vectors = 2 * hidden;
    let attention = Attention::multi_head(hidden, heads, true, Reach::All);
    let mut layer = Layer::default().attention(&attention).vectors(6 * hidden);
    for name in ["q", "o"] {
        layer = layer.matrix(of(Part::Projections, name, hidden, hidden, image));
    }
    for name in ["k", "v"] {
        layer = layer.matrix(of(Part::Projections, name, hidden, hidden, text));
    }
    layer.cores.push(core(hidden, heads, Reach::Fixed(text)));
    llm.layers
        .push((keys.need(&["num_layers"]), feed(layer, hidden, image)));
}

/// Each layer has its own condition of time and class.
fn dit(keys: &Keys<'_>, llm: &mut Llm, heads: u64) {
    let (hidden, image) = (llm.hidden, patches(keys));
    llm.sequence = Some(image);
    llm.remarks
        .push(format!("one step for {image} image tokens is counted"));
    let channels = keys.or(&["in_channels"], 4);
    let [image_in, image_out] = patch_layers(keys, hidden, image, channels, channels);
    llm.matrices
        .extend([image_in, modulation(hidden, 2), image_out]);
    let classes = keys.or(&["num_embeds_ada_norm"], 1000) + 1;
    let [first, second] = condition(SINES, hidden);
    // The last norm uses the weights of the first layer.
    llm.matrices
        .extend([first.clone().copies(0, 1), second.clone().copies(0, 1)]);
    let layer = Layer::default()
        .matrix(first)
        .matrix(second)
        .matrix(modulation(hidden, 6));
    let layer = joint(stream(layer, hidden, image, true), hidden, heads).vectors(classes * hidden);
    let layer = Layer {
        mixer: "bidirectional attention",
        ..layer
    };
    llm.layers
        .push((keys.need(&["num_layers"]), feed(layer, hidden, image)));
}
