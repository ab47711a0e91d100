//! The GPU is busy, but its tensor cores are not.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::time::timeline::sampled::Counter;
use rooflens_findings::{Inline, Observation, Quantity};

pub(super) static RULE: Rule = Rule {
    id: "low-mfu",
    thresholds: &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.mfu", MFU),
        Threshold::ratio("thresholds.fusing", BESIDE),
    ],
    run,
};

/// Busy share from which on the kernels are worth the look.
const BUSY: f64 = 0.75;

/// MFU while the GPU is busy below which a stage of large matrix products leaves something to gain.
const MFU: f64 = 0.60;

/// Share of the busy time beside matrix products from which on fusing them is the first advice.
const BESIDE: f64 = 0.25;

fn run(results: &Results<'_>) -> Outcome {
    if !results.stages.is_empty() && !results.stages.iter().any(StageLine::is_compute) {
        return Outcome::NotApplicable(words!(results, "low_mfu.no_stage"));
    }
    let compute = results.stages.iter().filter(|stage| stage.is_compute());
    let looks = compute.map(|stage| {
        let look = results.look_at_kernels(stage, |stage| look(results, stage));
        (stage.label.as_str(), look)
    });
    Outcome::of_stages(looks, &words!(results, "low_mfu.needs"))
}

fn look(results: &Results<'_>, stage: &StageLine) -> Look {
    let utilization = results.utilization(stage);
    let mfu = utilization.and_then(|one| Some((one, one.kernel_time_mfu().ok()?)));
    let Some((utilization, mfu)) = mfu else { return Look::Lacks };
    let busy = stage.busy_share;
    if mfu >= MFU {
        return Look::Clear;
    }
    if busy < BUSY {
        return Look::Moot(words!(results, "low_mfu.idle", idle = Quantity::ratio(1.0 - busy)));
    }
    Look::found(finding(results, stage, busy, mfu, utilization.measured_share()))
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    busy: f64,
    mfu: f64,
    measured: Option<f64>,
) -> Observation {
    let timeline = results.context.results.timeline().ok();
    let tensor = timeline.and_then(|all| all.mean(stage.stage, Counter::TensorActive));
    let products = results.stage_time(stage).map(|time| time.share(ClassGroup::Gemm));
    let products = products.filter(|share| *share > 0.0);
    let basis = match measured {
        Some(share) => words!(results, "low_mfu.basis_measured", share = Quantity::ratio(share)),
        None => words!(results, "low_mfu.basis"),
    };
    let lost = (1.0 - mfu / measured.unwrap_or(1.0)).max(0.0);
    Observation {
        statement: say!(
            results,
            "low_mfu.statement",
            stage = Inline::strong(&stage.label),
            busy = Quantity::ratio(busy),
            mfu = Quantity::ratio(mfu),
            tensor = tensor.map(Quantity::ratio),
            products = products.map(Quantity::ratio),
        ),
        advice: Some(match products {
            Some(products) if 1.0 - products >= BESIDE => say!(results, "low_mfu.advice_fuse"),
            _ => {
                let fp8 = results.platform.has_fp8() == Some(true);
                say!(results, "low_mfu.advice", fp8 = fp8.then_some("FP8"))
            }
        }),
        next: Some(say!(results, "low_mfu.next")),
        evidence: vec![stage.figures.clone()],
        ..stage.saving_kernels(stage.time * busy * lost, &basis)
    }
}
