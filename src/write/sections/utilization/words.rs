//! Work, peaks and missing figures in words.

use rooflens_schemas::StageKind;

use crate::Context;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::Ceiling;
use rooflens_analysis::utilization::mfu::work::Formula;
use rooflens_document::Catalogue;

/// Why a figure is not known.
pub fn reason(text: &Catalogue, why: &Unavailable) -> String {
    let line = |key| text.line(key, &[]);
    match why {
        Unavailable::NotStated(what) => {
            text.line("unavailable.not_stated", &[("what", (*what).into())])
        }
        Unavailable::TooManySteps(steps) => text.line(
            "unavailable.too_many_steps",
            &[("steps", steps.to_string().into())],
        ),
        Unavailable::UnknownGpu(gpu) => {
            text.line("unavailable.unknown_gpu", &[("gpu", gpu.as_str().into())])
        }
        Unavailable::NoPeak { dtype, .. } if dtype.is_empty() => line("unavailable.no_type"),
        Unavailable::NoPeak { dtype, gpu } => {
            let arguments = [
                ("dtype", dtype.as_str().into()),
                ("gpu", gpu.as_str().into()),
            ];
            text.line("unavailable.no_peak", &arguments)
        }
        Unavailable::AbovePeak(share) => {
            text.line("unavailable.above_peak", &[("share", (*share).into())])
        }
        Unavailable::NoModel => line("unavailable.no_model"),
        Unavailable::EngineSteps => line("unavailable.engine_steps"),
        Unavailable::NoFormula => line("unavailable.no_formula"),
        Unavailable::NoSteps => line("unavailable.no_steps"),
        Unavailable::NotDecode => line("unavailable.not_decode"),
        Unavailable::Unprofiled => line("unavailable.unprofiled"),
        Unavailable::UnnamedGpu => line("unavailable.unnamed_gpu"),
        Unavailable::NoGpu => line("unavailable.no_gpu"),
        Unavailable::NoSizes => line("unavailable.no_sizes"),
        Unavailable::NoTime => line("unavailable.no_time"),
        Unavailable::NoClock => line("unavailable.no_clock"),
    }
}

/// The rate of a ceiling with its source.
pub(super) fn rate(context: &Context<'_>, ceiling: &Ceiling) -> String {
    words!(
        context,
        "utilization.rate",
        gpu = ceiling.gpu.as_str(),
        dtype = ceiling.dtype.as_str(),
        rate = ceiling.rate,
        source = ceiling.source.as_str(),
    )
}

/// The bandwidth of a ceiling with its source.
pub(super) fn bandwidth(context: &Context<'_>, ceiling: &Ceiling) -> String {
    words!(
        context,
        "utilization.bandwidth",
        gpu = ceiling.gpu.as_str(),
        bandwidth = ceiling.bandwidth,
        source = ceiling.bandwidth_source.as_str(),
    )
}

/// The work of a stage with its numbers.
pub(super) fn formula(context: &Context<'_>, formula: &Formula) -> String {
    let Formula {
        kind,
        batch,
        prompt,
        passes,
        model_parallel,
        images,
        trained,
    } = *formula;
    let (batch, prompt, passes) = (batch.to_string(), prompt.to_string(), passes.to_string());
    let work = match kind {
        StageKind::Vision => say!(
            context,
            "utilization.formula.vision",
            batch = batch,
            images = prompt
        ),
        StageKind::Prefill => {
            say!(
                context,
                "utilization.formula.prefill",
                batch = batch,
                prompt = prompt,
                images = images.map(|images| images.to_string()),
            )
        }
        StageKind::Decode => say!(
            context,
            "utilization.formula.decode",
            passes = passes,
            batch = batch,
            prompt = prompt,
        ),
        StageKind::DecodeStep => say!(
            context,
            "utilization.formula.decode_step",
            batch = batch,
            passes = passes,
            prompt = prompt,
        ),
        StageKind::Forward => {
            say!(
                context,
                "utilization.formula.forward",
                batch = batch,
                prompt = prompt
            )
        }
        StageKind::Backward => {
            say!(
                context,
                "utilization.formula.backward",
                batch = batch,
                prompt = prompt
            )
        }
        _ => say!(
            context,
            "utilization.formula.train_step",
            batch = batch,
            prompt = prompt
        ),
    };
    let gpus = (model_parallel > 1).then(|| model_parallel.to_string());
    words!(
        context,
        "utilization.formula.shared",
        work = work,
        trained = trained,
        gpus = gpus
    )
}
