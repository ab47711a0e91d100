//! Work, peaks and missing figures in words.

use rooflens_schemas::{StageKind, Unit};

use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::Ceiling;
use rooflens_analysis::utilization::mfu::work::Formula;
use rooflens_findings::Quantity;

/// How the reason ends where a utilization cannot be.
pub(crate) const ABOVE_PEAK: &str = "is more than the peak allows";

/// How the reason begins where a GPU has no peak.
pub(crate) const NO_PEAK: &str = "no peak for";

/// Why a figure is not known.
pub fn reason(why: &Unavailable) -> String {
    let text = match why {
        Unavailable::NotStated(what) => return format!("workload.toml does not state {what}"),
        Unavailable::TooManySteps(steps) => {
            return format!("{steps} decode steps are more than this is made for");
        }
        Unavailable::UnknownGpu(name) => return format!("{NO_PEAK} {name}"),
        Unavailable::NoPeak { dtype, gpu } if !dtype.is_empty() => {
            return format!("no {dtype} peak for {gpu}");
        }
        Unavailable::AbovePeak(share) => {
            return format!("{} {ABOVE_PEAK}", Quantity::ratio(*share));
        }
        Unavailable::NoPeak { .. } => "the type of some products is not known",
        Unavailable::NoModel => "no model config in this bundle; add config.json",
        Unavailable::NoFormula => "no FLOPs formula for this kind of stage",
        Unavailable::NoSteps => "the stage has no decode step",
        Unavailable::NotDecode => "bytes are counted for decode stages only",
        Unavailable::Unprofiled => "un-profiled repeats have no busy time",
        Unavailable::UnnamedGpu => "the bundle does not name the GPU; give --gpu",
        Unavailable::NoGpu => "no peak for this GPU",
        Unavailable::NoSizes => "the sizes of no matrix kernel are known",
        Unavailable::NoTime => "the stage takes no time",
        Unavailable::NoClock => {
            "no clock samples within the stage: neither sampled GPU metrics in this pass nor NVML samples during it"
        }
    };
    text.to_owned()
}

/// The rate of a ceiling with its source.
pub(super) fn rate(ceiling: &Ceiling) -> String {
    let rate = Quantity::new(ceiling.rate, Unit::FlopPerSecond);
    format!("{} {} dense {rate} ({})", ceiling.gpu, ceiling.dtype, ceiling.source)
}

/// The bandwidth of a ceiling with its source.
pub(super) fn bandwidth(ceiling: &Ceiling) -> String {
    let bandwidth = Quantity::new(ceiling.bandwidth, Unit::BytesPerSecond);
    format!("{} {bandwidth} ({})", ceiling.gpu, ceiling.bandwidth_source)
}

/// The work of a stage with its numbers.
pub(super) fn formula(formula: &Formula) -> String {
    let Formula { kind, batch, prompt, passes, model_parallel } = *formula;
    let mut text = match kind {
        StageKind::Prefill => {
            format!("one forward pass, batch {batch} × {prompt} tokens, logits of the last")
        }
        StageKind::Decode => {
            format!("{passes} forward passes, batch {batch} × 1 token behind {prompt} and more")
        }
        StageKind::DecodeStep => format!(
            "one forward pass, batch {batch} × 1 token at the mean context of {passes} steps behind {prompt}"
        ),
        StageKind::Forward => {
            format!("one forward pass, batch {batch} × {prompt} tokens, all logits")
        }
        StageKind::Backward => format!("2 × forward, batch {batch} × {prompt} tokens"),
        _ => format!("3 × forward, batch {batch} × {prompt} tokens"),
    };
    if model_parallel > 1 {
        text.push_str(&format!(", ÷ {model_parallel} GPUs that share the model"));
    }
    text
}
