//! The GPU is busy, but its tensor cores are not.

use crate::classes::{fusible, gemms_of_group, has_attention, others};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::time::timeline::sampled::Counter;
use rooflens_document::{Finding, Inline, Root};
use rooflens_units::{Ns, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "low-mfu",
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.mfu", MFU),
        Threshold::ratio("thresholds.fusing", OTHER_KERNELS),
        Threshold::ratio("thresholds.fusing_alone", MOST),
    ],
    outcome,
)
.on_kernels()
.general();

/// Busy share from which on the kernels are worth the look.
const BUSY: Ratio = Ratio(0.75);

/// MFU while the GPU is busy below which a stage of large GEMMs leaves something to gain.
const MFU: Ratio = Ratio(0.60);

/// Share of the busy time next to GEMMs from which on fusing them is the first advice.
const OTHER_KERNELS: Ratio = Ratio(0.25);

/// The same where MFU is not known: most of it.
const MOST: Ratio = Ratio(0.50);

/// Roofline time ÷ time of the GEMMs from which on they leave nothing to gain.
const NEAR: Ratio = Ratio(0.95);

/// Share of the stage's GPU time from which on its kernels are profiled, and need not be.
const PROFILED: Ratio = Ratio(0.5);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if !evidence.stages.is_empty() && !evidence.stages.iter().any(StageLine::is_compute) {
        return Outcome::NotApplicable(words!(evidence, "low_mfu.no_stage"));
    }
    let compute = evidence.stages.iter().filter(|stage| stage.is_compute());
    Outcome::of_stages(compute.map(|stage| {
        let look = evidence.look_at_kernels(stage, |stage| look(evidence, stage));
        (stage.label(), look)
    }))
}

/// MFU while the GPU is busy, and the measured peak as a share of the specified one.
#[derive(Clone, Copy)]
struct BusyMfu {
    mfu: Ratio,
    measured: Option<Ratio>,
}

fn busy_mfu(evidence: &Evidence<'_>, stage: &StageLine) -> Option<BusyMfu> {
    let utilization = evidence.utilization(stage)?;
    Some(BusyMfu {
        mfu: utilization.kernel_time_mfu().ok()?,
        measured: utilization.measured_share(),
    })
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    // A host that the profiler slows down leaves idle time that the program does not have.
    let busy = stage.reference_busy();
    let Some(mfu) = busy_mfu(evidence, stage) else {
        // Without the model's FLOPs it is at least known what could be fused.
        let fusible = fusible(evidence, stage);
        let is_much =
            busy >= BUSY && fusible.time >= stage.busy * MOST && fusible.saved().is_positive();
        return match products(evidence, stage) {
            Some(_) if is_much => draft(evidence, stage, None).into(),
            _ => Look::InsufficientData,
        };
    };
    if mfu.mfu >= MFU {
        return Look::Passed;
    }
    if busy < BUSY {
        return Look::Suppressed(words!(evidence, "low_mfu.idle", idle = busy.rest()));
    }
    draft(evidence, stage, Some(mfu)).into()
}

/// Share of the busy time that GEMMs take.
fn products(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Ratio> {
    let share = evidence.stage_time(stage.key())?.share(ClassGroup::Gemm);
    (share > Ratio::ZERO).then_some(share)
}

/// Times of GEMMs of known sizes in an instance.
struct Gemms {
    time: Time,
    /// The part of it above the roofline.
    above: Time,
    /// Roofline time ÷ time.
    near: Ratio,
}

fn gemms(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Gemms> {
    let gemms = evidence.gemms(stage)?;
    let above = gemms.recoverable()?;
    Some(Gemms {
        time: gemms.per_instance(gemms.time.time()),
        above: gemms.per_instance(above),
        near: Ratio(above / gemms.time.max(Ns(1)).time()).rest(),
    })
}

/// Without MFU it is known that kernels take time that could be fused.
fn draft(evidence: &Evidence<'_>, stage: &StageLine, mfu: Option<BusyMfu>) -> Draft {
    let measured = mfu.and_then(|mfu| mfu.measured);
    let mfu = mfu.map(|mfu| mfu.mfu);
    let timeline = evidence.results.timeline().ok();
    let tensor = timeline.and_then(|timeline| timeline.mean(stage.stage, Counter::TensorActive));
    let products = products(evidence, stage);
    let gemms = gemms(evidence, stage);
    let near = gemms
        .as_ref()
        .map(|gemms| gemms.near)
        .filter(|near| *near >= NEAR);
    let fusible = fusible(evidence, stage);
    let fused = fusible.saved();
    let fuses =
        fused.is_positive() && products.is_some_and(|products| products.rest() >= OTHER_KERNELS);
    let others = others(evidence, stage, fuses);
    // Fusing saves no more than the kernels that it fuses take.
    let used = mfu.map_or(0.0, |mfu| {
        mfu.0 / measured.map_or(1.0, |measured| measured.0)
    });
    let lost = stage.busy * (1.0 - used).max(0.0);
    let (saved, basis) = match measured {
        _ if fuses && fused < lost => (fused, "basis_fusible"),
        Some(_) => (lost, "basis_measured"),
        None => (lost, "basis"),
    };
    let platform = &evidence.platform;
    let has_fp8 = platform.has_fp8() == Some(true);
    let fusible_share = mfu.is_none().then(|| Ratio::of(fusible.time, stage.busy));
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        busy = stage.reference_busy(),
        mfu = mfu,
        fusible = fusible_share,
        tensor = tensor.map(Ratio),
        products = products.map(|share| Ratio(share.0 * gemms_of_group(evidence, stage).0)),
        gemm = gemms.as_ref().map(|gemms| gemms.time),
        above = gemms.as_ref().map(|gemms| gemms.above),
        others = others.as_deref().filter(|_| !fuses),
        fused = others.as_deref().filter(|_| fuses),
        attention = (evidence.has_projections() && !has_attention(evidence, stage)).then_some(""),
        kept = Some(fusible.kept).filter(Time::is_positive),
        fp8 = has_fp8.then_some("FP8"),
        share = measured,
    };
    let span = evidence.launching(stage);
    // The same call after call: fused kernels need fewer.
    let remaining = span.map(|time| time * fusible.remaining);
    let left = stage.reference() - saved;
    let is_met = |time: &Time| *time < left;
    let (now, later) = (span.filter(is_met), remaining.filter(is_met));
    let unmet = span.filter(|time| !is_met(time));
    let root = fuses.then(|| Root {
        cause: words!(
            evidence,
            "low_mfu.root_cause",
            near = near,
            peak = measured,
            plain = near.is_none().then_some(""),
            others = others.as_deref().unwrap_or_default(),
        ),
        action: words!(
            evidence,
            "low_mfu.root_action",
            torch = (platform.pytorch && !platform.compiled).then_some(""),
            compiled = platform.compiled.then_some(""),
        ),
        condition: Some(words!(
            evidence,
            "low_mfu.root_if",
            stage = stage.label.as_str(),
            left = left,
            met = now,
            now = unmet.filter(|_| later.is_some()),
            later = later,
            unmet = unmet.filter(|_| later.is_none()),
            still = remaining.filter(|_| fusible.remaining < Ratio::ONE),
        )),
        passes: 1,
    });
    let is_profiled = profiled::share(&profiled::of_stage(evidence, stage)) >= PROFILED;
    let finding = Finding {
        evidence: vec![stage.figures.clone()],
        ..stage.saving_kernels(saved)
    };
    Draft::new(finding, arguments)
        .basis(basis)
        .advice(if fuses { "advice_fuse" } else { "advice" })
        .next((!is_profiled).then_some("next"))
        .known_cause(root)
}
