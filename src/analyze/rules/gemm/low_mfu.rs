//! The GPU is busy, but its tensor cores are not.

use crate::profiled;
use crate::stage::{Key, StageLine};
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_analysis::time::timeline::sampled::Counter;
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::{StageKind, Unit};
use rooflens_sections::group_color;
use rooflens_session::Arrange;

pub(crate) static RULE: Rule = Rule::new(
    "low-mfu",
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.mfu", MFU),
        Threshold::ratio("thresholds.fusing", BESIDE),
        Threshold::ratio("thresholds.fusing_alone", MOST),
    ],
    run,
);

/// Busy share from which on the kernels are worth the look.
const BUSY: f64 = 0.75;

/// MFU while the GPU is busy below which a stage of large matrix products leaves something to gain.
const MFU: f64 = 0.60;

/// Share of the busy time beside matrix products from which on fusing them is the first advice.
const BESIDE: f64 = 0.25;

/// The same where MFU is not known: most of it.
const MOST: f64 = 0.50;

/// Roofline time ÷ time of the GEMMs from which on they leave nothing to gain.
const NEAR: f64 = 0.95;

/// Share of the stage's GPU time from which on its kernels are profiled, and need not be.
const PROFILED: f64 = 0.5;

/// Share of the stage time from which on the statement names a class beside GEMMs, and how many it names.
const NAMED: f64 = 0.01;
const SHOWN_CLASSES: usize = 4;

fn run(evidence: &Evidence<'_>) -> Outcome {
    if !evidence.stages.is_empty() && !evidence.stages.iter().any(StageLine::is_compute) {
        return Outcome::NotApplicable(words!(evidence, "low_mfu.no_stage"));
    }
    let compute = evidence.stages.iter().filter(|stage| stage.is_compute());
    let looks = compute.map(|stage| {
        let look = evidence.look_at_kernels(stage, |stage| look(evidence, stage));
        (stage.label.as_str(), look)
    });
    Outcome::of_stages(looks, &words!(evidence, "low_mfu.needs"))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let utilization = evidence.utilization(stage);
    let mfu = utilization.and_then(|one| Some((one.kernel_time_mfu().ok()?, one.measured_share())));
    let busy = stage.busy_share;
    let Some((mfu, measured)) = mfu else {
        // Without the model's FLOPs it is at least known what could be fused.
        let (fusible, _) = beside_products(evidence, stage);
        let is_much = busy >= BUSY && fusible >= MOST * busy * stage.time;
        return match products(evidence, stage) {
            Some(_) if is_much => Look::found(finding(evidence, stage, None, None)),
            _ => Look::InsufficientData,
        };
    };
    if mfu >= MFU {
        return Look::Passed;
    }
    if busy < BUSY {
        return Look::Suppressed(words!(
            evidence,
            "low_mfu.idle",
            idle = Quantity::ratio(1.0 - busy)
        ));
    }
    Look::found(finding(evidence, stage, Some(mfu), measured))
}

/// Share of the busy time that GEMMs take.
fn products(evidence: &Evidence<'_>, stage: &StageLine) -> Option<f64> {
    let group = evidence.stage_time(stage.key())?.share(ClassGroup::Gemm);
    (group > 0.0).then_some(group)
}

/// Without MFU it is known that kernels take time that could be fused.
fn finding(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    mfu: Option<f64>,
    measured: Option<f64>,
) -> Finding {
    let busy = stage.busy_share;
    let timeline = evidence.results.timeline().ok();
    let tensor = timeline.and_then(|all| all.mean(stage.stage, Counter::TensorActive));
    let products = products(evidence, stage);
    let gemms = evidence
        .gemms(stage)
        .and_then(|own| Some((own, own.recoverable()?)));
    let per =
        |(own, sum): (&StageProducts, f64)| Quantity::new(own.per_instance(sum), Unit::Nanoseconds);
    let near = gemms.map(|(own, above)| 1.0 - above / own.time.max(1) as f64);
    let fuses = products.is_some_and(|products| 1.0 - products >= BESIDE);
    let others = others(evidence, stage, fuses);
    let platform = &evidence.platform;
    let root = fuses.then(|| Root {
        cause: words!(
            evidence,
            "low_mfu.root_cause",
            near = near.filter(|near| *near >= NEAR).map(Quantity::ratio),
            peak = measured.map(Quantity::ratio),
            plain = near.is_none_or(|near| near < NEAR).then_some(""),
            others = others.as_deref().unwrap_or_default(),
        ),
        action: words!(
            evidence,
            "low_mfu.root_action",
            torch = (platform.pytorch && !platform.compiled).then_some(""),
            compiled = platform.compiled.then_some(""),
        ),
        condition: None,
        passes: 1,
    });
    let basis = match measured {
        Some(share) => words!(
            evidence,
            "low_mfu.basis_measured",
            share = Quantity::ratio(share)
        ),
        None => words!(evidence, "low_mfu.basis"),
    };
    let used = mfu.map_or(0.0, |mfu| mfu / measured.unwrap_or(1.0));
    let lost = stage.time * busy * (1.0 - used).max(0.0);
    let (fusible, attention) = beside_products(evidence, stage);
    let is_profiled = profiled::share(&profiled::of_stage(evidence, stage)) >= PROFILED;
    // Fusing saves no more than the kernels that it fuses take.
    let (saved, basis) = match fuses.then_some(fusible).filter(|fusible| *fusible < lost) {
        Some(fusible) => (fusible, words!(evidence, "low_mfu.basis_fusible")),
        None => (lost, basis),
    };
    Finding {
        statement: say!(
            evidence,
            "low_mfu.statement",
            stage = Inline::strong(&stage.label),
            busy = Quantity::ratio(stage.baseline_busy()),
            mfu = mfu.map(Quantity::ratio),
            beside = mfu
                .is_none()
                .then(|| Quantity::ratio(fusible / (busy * stage.time))),
            tensor = tensor.map(Quantity::ratio),
            products =
                products.map(|share| Quantity::ratio(share * gemms_of_group(evidence, stage))),
            gemm = gemms.map(|(own, _)| per((own, own.time as f64))),
            above = gemms.map(per),
            others = others.as_deref().filter(|_| !fuses),
            fused = others.as_deref().filter(|_| fuses),
        ),
        advice: Some(match fuses {
            true => {
                say!(
                    evidence,
                    "low_mfu.advice_fuse",
                    attention = (!attention).then_some("")
                )
            }
            false => {
                let fp8 = evidence.platform.has_fp8() == Some(true);
                say!(evidence, "low_mfu.advice", fp8 = fp8.then_some("FP8"))
            }
        }),
        next: (!is_profiled).then(|| say!(evidence, "low_mfu.next")),
        evidence: vec![stage.figures.clone()],
        root,
        ..stage.saving_kernels(saved, &basis)
    }
}

/// Whether kernels of a class could be fused into others: products and attention do the work, collectives and copy engines
/// move it, the optimizer's run after all of them, and of others nobody knows.
const fn is_fusible(class: KernelClass) -> bool {
    matches!(
        class,
        KernelClass::Normalization
            | KernelClass::Softmax
            | KernelClass::Elementwise
            | KernelClass::Reduction
            | KernelClass::Quantization
            | KernelClass::Layout
            | KernelClass::Gather
    )
}

/// Part of the group of GEMMs that is GEMMs: it holds convolutions, too.
pub(crate) fn gemms_of_group(evidence: &Evidence<'_>, stage: &StageLine) -> f64 {
    part(evidence, stage.key(), ClassGroup::Gemm, |class| {
        class == KernelClass::Gemm
    })
}

/// Part of the durations of a group that operations of some of its classes take; all of it where classes are not known.
fn part(
    evidence: &Evidence<'_>,
    stage: Key,
    group: ClassGroup,
    holds: fn(KernelClass) -> bool,
) -> f64 {
    let own = || {
        KernelClass::ALL
            .into_iter()
            .filter(|class| class.group() == group)
    };
    let Some(work) = evidence.work(stage) else {
        return f64::from(u8::from(own().any(holds)));
    };
    let all: f64 = own().map(|class| work.time(class) as f64).sum();
    let some: f64 = own()
        .filter(|one| holds(*one))
        .map(|class| work.time(class) as f64)
        .sum();
    if all > 0.0 { some / all } else { 0.0 }
}

/// Busy time of a stage by group in each of so many iterations, or of its own if there are more, nanoseconds.
fn parts(evidence: &Evidence<'_>, stage: Key, iterations: f64) -> Vec<(ClassGroup, f64)> {
    let Some(time) = evidence.stage_time(stage) else {
        return Vec::new();
    };
    let counted = iterations.max(time.summary.counted as f64).max(1.0);
    time.parts()
        .into_iter()
        .map(|(group, time)| (group, time / counted))
        .collect()
}

/// The same of the kernels that could be fused. Those of an optimizer run after all others, whatever their classes, and
/// maybe not in each iteration.
fn fusible_parts(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<(ClassGroup, f64)> {
    let fusible = |own: Key| -> Vec<(ClassGroup, f64)> {
        let part = |(group, time)| (group, time * part(evidence, own, group, is_fusible));
        parts(evidence, own, stage.counted)
            .into_iter()
            .map(part)
            .collect()
    };
    let optimizers = stage
        .nested
        .iter()
        .filter(|one| one.kind == StageKind::Optimizer);
    let apart: Vec<(ClassGroup, f64)> = optimizers.flat_map(|one| fusible(one.key())).collect();
    let left = |(group, time): (ClassGroup, f64)| {
        let own = apart.iter().filter(|(other, _)| *other == group);
        (group, time - own.map(|(_, time)| time).sum::<f64>())
    };
    fusible(stage.key())
        .into_iter()
        .map(left)
        .filter(|(_, time)| *time > 0.0)
        .collect()
}

/// Time of an iteration in kernels that could be fused, nanoseconds, and whether attention kernels, which are fused, are
/// among its kernels.
fn beside_products(evidence: &Evidence<'_>, stage: &StageLine) -> (f64, bool) {
    let Some(time) = evidence.stage_time(stage.key()) else {
        return (f64::MAX, false);
    };
    let attention = time
        .parts()
        .iter()
        .any(|(group, _)| *group == ClassGroup::Attention);
    let sum = fusible_parts(evidence, stage)
        .iter()
        .map(|(_, time)| time)
        .sum();
    (sum, attention)
}

/// Busy time of an iteration by group, GEMMs aside, or of those kernels alone that could be fused; the most first, in words.
/// What takes less than [`NAMED`] of the stage is not named.
fn others(evidence: &Evidence<'_>, stage: &StageLine, fusible: bool) -> Option<String> {
    let parts = match fusible {
        true => fusible_parts(evidence, stage),
        false => parts(evidence, stage.key(), stage.counted),
    };
    let least = NAMED * stage.time;
    let others = parts
        .into_iter()
        .filter(|(group, _)| *group != ClassGroup::Gemm);
    let others = others.filter(|(_, time)| *time > least);
    let named = others.map(|(group, time)| (group_color(group).label(), time));
    listed(evidence, named, Unit::Nanoseconds)
}

/// Classes by label with their figures, the most first, in words.
pub(crate) fn listed(
    evidence: &Evidence<'_>,
    classes: impl Iterator<Item = (&'static str, f64)>,
    unit: Unit,
) -> Option<String> {
    let mut groups: Vec<(&str, f64)> = classes.collect();
    groups.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let said = |(label, value): &(&str, f64)| {
        let class = evidence.text.word(label);
        words!(
            evidence,
            "low_mfu.other",
            class = class,
            value = Quantity::new(*value, unit)
        )
    };
    let said: Vec<String> = groups.iter().take(SHOWN_CLASSES).map(said).collect();
    (!said.is_empty()).then(|| said.join(evidence.text.semicolon()))
}
