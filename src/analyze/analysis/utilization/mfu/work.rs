//! What a stage has to compute and to move, from the workload description and the model's dimensions.

use rooflens_schemas::{StageKind, Workload};

use crate::utilization::Unavailable;
use rooflens_hardware::element_bytes;
use rooflens_llm::{Convention, Shape, attention, forward, forward_bytes};
use rooflens_session::Llm;
use rooflens_units::{Bytes, Count, Flops, Ratio};

/// Decode steps beyond which a workload description is not believed.
const MAX_STEPS: u64 = 1 << 20;

/// The work of one stage instance on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Model FLOPs, causal attention.
    pub flops: Flops,
    /// Model FLOPs, every query attending every key.
    pub flops_full: Flops,
    /// Bytes that must move at least; only for stages whose passes are counted one by one.
    pub bytes: Option<Bytes>,
    /// Tokens processed or produced.
    pub tokens: Count,
    /// Images processed, by a model of images.
    pub images: Option<Count>,
    /// The numbers that it follows from.
    pub formula: Formula,
    /// Its forward passes, of all GPUs that share the model.
    pub shapes: Vec<Shape>,
    /// Share of these passes that is the stage's: one of a decode loop's steps.
    pub share: Ratio,
    /// Images that encoders read in it.
    pub read: u64,
}

/// The numbers that the work follows from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formula {
    /// What the stage computes.
    pub kind: StageKind,
    /// Sequences.
    pub batch: u64,
    /// Tokens of the prompt; of a vision stage the images of a sequence.
    pub prompt: u64,
    /// Forward passes.
    pub passes: usize,
    /// GPUs that share the model.
    pub model_parallel: u64,
    /// Images of a sequence that a prefill reads, where its ranges contain those of the vision stage.
    pub images: Option<u64>,
    /// Share of the matrix parameters that training updates, if not all.
    pub trained: Option<Ratio>,
}

/// The work of a stage, or what is missing to know it.
pub(super) fn work(
    kind: StageKind,
    steps: Option<u64>,
    workload: &Workload,
    model: Option<&Llm>,
    dtype: Option<&str>,
) -> Result<Work, Unavailable> {
    let passes = match kind {
        StageKind::Optimizer | StageKind::Other => {
            return Err(Unavailable::NoFormula);
        }
        StageKind::Backward => 2.0,
        StageKind::TrainStep => 3.0,
        StageKind::Vision
        | StageKind::Prefill
        | StageKind::Decode
        | StageKind::DecodeStep
        | StageKind::Forward => 1.0,
    };
    let model = model.ok_or(Unavailable::NoModel)?;
    let batch = workload.batch.ok_or(Unavailable::NotStated("the batch"))?;
    if kind == StageKind::Vision {
        return vision(batch, workload, model, dtype);
    }
    // Of images the model says it.
    let prompt = workload.prompt_tokens.or(model.sequence);
    let prompt = prompt.ok_or(Unavailable::NotStated("prompt_tokens"))?;
    let steps = steps.or(workload.output_tokens);
    let shapes = shapes(kind, steps, batch, prompt, model)?;
    if shapes.is_empty() {
        return Err(Unavailable::NoSteps);
    }
    // A decode step of a loop has the mean context of the loop.
    let share_of_passes = if kind == StageKind::DecodeStep {
        Ratio(1.0 / shapes.len() as f64)
    } else {
        Ratio::ONE
    };
    let model_parallel = workload.model_parallel.unwrap_or(1).max(1);
    let share = share_of_passes / model_parallel as f64;
    let forward_only = passes == 1.0;
    let trained = Ratio(workload.weight_gradients.unwrap_or(1.0));
    let reached = Ratio(workload.input_gradients.unwrap_or(1.0));
    let flops = |convention| {
        let flops = shapes.iter().map(|shape| {
            let whole = forward(model, *shape, convention);
            // The backward pass has as many FLOPs for gradients of inputs and of weights, and both in attention.
            let mixing = attention(model, *shape, convention);
            let frozen = (whole - mixing) * (2.0 - reached.0 - trained.0)
                + mixing * (2.0 * (1.0 - reached.0));
            let skipped = if forward_only { Flops(0.0) } else { frozen };
            whole * passes - skipped
        });
        flops.sum::<Flops>() * share
    };
    let element = dtype.and_then(element_bytes).filter(|_| forward_only);
    let bytes = |element| -> Bytes {
        let passes = shapes.iter();
        passes
            .map(|shape| forward_bytes(model, *shape, element))
            .sum()
    };
    let tokens: Count = shapes.iter().map(Shape::tokens).sum();
    let images = || -> Count { shapes.iter().map(|shape| Count(shape.batch as f64)).sum() };
    Ok(Work {
        flops: flops(Convention::Causal),
        flops_full: flops(Convention::Full),
        bytes: element.map(|element| bytes(element) * share),
        tokens: tokens * share,
        images: model.sequence.map(|_| images() * share),
        formula: Formula {
            kind,
            batch,
            prompt,
            passes: shapes.len(),
            model_parallel,
            images: None,
            trained: workload.weight_gradients.map(Ratio),
        },
        share: share_of_passes,
        shapes,
        read: 0,
    })
}

/// The forward passes of a stage: a decode loop has one for each step.
fn shapes(
    kind: StageKind,
    steps: Option<u64>,
    batch: u64,
    prompt: u64,
    model: &Llm,
) -> Result<Vec<Shape>, Unavailable> {
    let whole = |logits| Shape {
        batch,
        new: prompt,
        past: 0,
        logits,
    };
    Ok(match kind {
        StageKind::Prefill => vec![whole(1)],
        StageKind::Decode | StageKind::DecodeStep => {
            let steps = steps.ok_or(Unavailable::NotStated("output_tokens"))?;
            if steps > MAX_STEPS {
                return Err(Unavailable::TooManySteps(steps));
            }
            let step = |index| Shape {
                batch,
                new: 1,
                past: prompt.saturating_add(index),
                logits: 1,
            };
            (0..steps).map(step).collect()
        }
        // An image has one label, a text a prediction of each token.
        _ => vec![whole(if model.sequence.is_some() { 1 } else { prompt })],
    })
}

impl Work {
    /// The work of a prefill whose ranges contain those of the vision stage.
    pub(super) fn with_images(mut self, vision: &Self) -> Self {
        self.flops += vision.flops;
        self.flops_full += vision.flops_full;
        self.bytes = self
            .bytes
            .zip(vision.bytes)
            .map(|(bytes, read)| bytes + read);
        self.read = vision.read;
        self.formula.images = Some(vision.formula.prompt);
        self
    }
}

/// The work of reading the images of a batch.
fn vision(
    batch: u64,
    workload: &Workload,
    model: &Llm,
    dtype: Option<&str>,
) -> Result<Work, Unavailable> {
    let images = workload.images.ok_or(Unavailable::NotStated("images"))?;
    let towers = || {
        model
            .encoders
            .iter()
            .filter(|encoder| encoder.name == "vision")
    };
    if towers().next().is_none() {
        return Err(Unavailable::NoFormula);
    }
    let read = batch.saturating_mul(images);
    let model_parallel = workload.model_parallel.unwrap_or(1).max(1);
    let share = Ratio(1.0 / model_parallel as f64);
    let flops: Flops = towers().map(|tower| tower.forward(read)).sum();
    let outputs: u64 = towers().map(|tower| tower.outputs).sum();
    let element = dtype.and_then(element_bytes);
    let bytes = |element| -> Bytes { towers().map(|tower| tower.bytes(read, element)).sum() };
    Ok(Work {
        flops: flops * share,
        flops_full: flops * share,
        bytes: element.map(|element| bytes(element) * share),
        tokens: Count(read as f64 * outputs as f64) * share,
        images: Some(Count(read as f64) * share),
        formula: Formula {
            kind: StageKind::Vision,
            batch,
            prompt: images,
            passes: 1,
            model_parallel,
            images: None,
            trained: None,
        },
        shapes: Vec::new(),
        share: Ratio::ONE,
        read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_llm::{Decoder, Encoder};

    fn tiny() -> (Workload, Llm) {
        let workload = Workload {
            batch: Some(2),
            prompt_tokens: Some(4),
            output_tokens: Some(3),
            ..Workload::default()
        };
        // One layer, hidden 2, one head of 2, plain MLP of 4: 4·2·2 + 2·2·4 = 32 parameters; head 2·10 = 20.
        let model = Decoder {
            hidden: 2,
            intermediate: 4,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            vocab: 10,
            ..Decoder::default()
        };
        (workload, model.into())
    }

    #[test]
    fn a_decode_loop_is_the_sum_of_its_steps() {
        let (workload, model) = tiny();
        let loop_work = work(
            StageKind::Decode,
            None,
            &workload,
            Some(&model),
            Some("bf16"),
        )
        .expect("complete");
        // Projections 3·2·2·32 = 384, head 3·2·2·20 = 240, attention 2·(2+2)·2·(5 + 6 + 7) = 288.
        assert_eq!(loop_work.flops, Flops(384.0 + 240.0 + 288.0));
        assert_eq!(loop_work.tokens, Count(6.0));
        let step = work(
            StageKind::DecodeStep,
            None,
            &workload,
            Some(&model),
            Some("bf16"),
        )
        .expect("complete");
        assert_eq!(step.flops * 3.0, loop_work.flops);
        assert_eq!(step.tokens, Count(2.0));
    }

    #[test]
    fn counted_steps_win_over_stated_ones() {
        let (workload, model) = tiny();
        let two = work(
            StageKind::Decode,
            Some(2),
            &workload,
            Some(&model),
            Some("bf16"),
        )
        .expect("complete");
        assert_eq!(two.tokens, Count(4.0));
    }

    #[test]
    fn training_is_three_times_forward_with_all_logits() {
        let (workload, model) = tiny();
        let forward = work(
            StageKind::Forward,
            None,
            &workload,
            Some(&model),
            Some("bf16"),
        )
        .expect("complete");
        let step = work(
            StageKind::TrainStep,
            None,
            &workload,
            Some(&model),
            Some("bf16"),
        )
        .expect("complete");
        // 2·8·32 + 2·8·20 + 2·4·2·(4·5/2).
        assert_eq!(forward.flops, Flops(512.0 + 320.0 + 160.0));
        assert_eq!(step.flops, 3.0 * forward.flops);
    }

    /// Forward 512 + 320 + 160; gradients of inputs and weights for 0.5 + 0.25 of 832; 2 · 0.5 of attention's 160.
    #[test]
    fn frozen_weights_need_no_gradients() {
        let (workload, model) = tiny();
        let workload = Workload {
            weight_gradients: Some(0.25),
            input_gradients: Some(0.5),
            ..workload
        };
        let of = |kind| work(kind, None, &workload, Some(&model), Some("bf16"));
        let flops = |kind| of(kind).expect("complete").flops;
        assert_eq!(flops(StageKind::TrainStep), Flops(992.0 + 624.0 + 160.0));
        assert_eq!(flops(StageKind::Backward), Flops(624.0 + 160.0));
        assert_eq!(flops(StageKind::Forward), Flops(992.0));
    }

    #[test]
    fn the_tokens_of_an_image_are_those_of_the_model() {
        let (workload, text) = tiny();
        let unstated = Workload {
            prompt_tokens: None,
            ..workload
        };
        let of = |model: &Llm| {
            work(
                StageKind::Forward,
                None,
                &unstated,
                Some(model),
                Some("bf16"),
            )
        };
        assert_eq!(of(&text), Err(Unavailable::NotStated("prompt_tokens")));
        // 2 images of 4 patches, with one label each: 2·8·32 + 2·2·20 + 2·4·2·(4·5/2).
        let image = Llm {
            sequence: Some(4),
            ..text
        };
        let work = of(&image).expect("complete");
        let flops = Flops(512.0 + 80.0 + 160.0);
        assert_eq!((work.tokens, work.flops), (Count(8.0), flops));
        assert_eq!(work.images, Some(Count(2.0)));
    }

    #[test]
    fn a_vision_stage_is_the_encoder_once_for_each_image() {
        let (workload, text) = tiny();
        let (_, image) = tiny();
        let tower = Encoder {
            name: "vision",
            llm: Llm {
                sequence: Some(4),
                head: None,
                ..image
            },
            outputs: 3,
            view: None,
        };
        let model = Llm {
            encoders: vec![tower],
            ..text
        };
        let of = |workload: &Workload| {
            work(
                StageKind::Vision,
                None,
                workload,
                Some(&model),
                Some("bf16"),
            )
        };
        assert_eq!(of(&workload), Err(Unavailable::NotStated("images")));
        let stated = Workload {
            images: Some(5),
            ..workload
        };
        // 10 images of 4 patches: 2·40·32 and 10·4·2·(4·5/2); 3 positions of each.
        let work = of(&stated).expect("complete");
        assert_eq!(work.flops, Flops(2560.0 + 800.0));
        assert_eq!((work.tokens, work.images), (Count(30.0), Some(Count(10.0))));
        // 2 bytes of 32 parameters, of 40 patches of 2, and of 40 keys and values of 4 read and written.
        assert_eq!(work.bytes, Some(Bytes(2.0 * (32.0 + 80.0 + 320.0))));
    }

    #[test]
    fn what_is_missing_is_named() {
        let (workload, model) = tiny();
        let result = work(StageKind::Prefill, None, &workload, None, Some("bf16"));
        assert_eq!(result, Err(Unavailable::NoModel));
        // FLOPs and tokens follow from sizes alone, bytes need the type.
        let typed = work(
            StageKind::Prefill,
            None,
            &workload,
            Some(&model),
            Some("bf16"),
        );
        let untyped = work(StageKind::Prefill, None, &workload, Some(&model), None);
        let (typed, untyped) = (typed.expect("complete"), untyped.expect("complete"));
        assert_eq!((untyped.flops, untyped.tokens), (typed.flops, typed.tokens));
        assert_eq!((untyped.bytes, typed.bytes.is_some()), (None, true));
        let no_batch = Workload {
            batch: None,
            ..workload
        };
        let result = work(
            StageKind::Prefill,
            None,
            &no_batch,
            Some(&model),
            Some("bf16"),
        );
        assert_eq!(result, Err(Unavailable::NotStated("the batch")));
    }
}
