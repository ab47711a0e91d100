//! Busy time of a stage by class of kernels: GEMMs apart from convolutions, and kernels that could be fused.

use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::Quantity;
use rooflens_schemas::StageKind;
use rooflens_sections::group_color;
use rooflens_session::Arrange;
use rooflens_units::{Count, Ns, Ratio, Time};

use crate::evidence::Evidence;
use crate::stage::{Key, StageLine};

/// Share of the stage time from which on the statement names a class next to GEMMs, and how many it names.
const NAMED: Ratio = Ratio(0.01);
const SHOWN_CLASSES: usize = 4;

/// Part of the group of GEMMs that is GEMMs: it holds convolutions, too.
pub(crate) fn gemms_of_group(evidence: &Evidence<'_>, stage: &StageLine) -> Ratio {
    part(evidence, stage.key(), ClassGroup::Gemm, KernelClass::Gemm)
}

/// Part of the durations of a group that operations of one of its classes take; all of it where classes are not known.
pub(crate) fn part(
    evidence: &Evidence<'_>,
    stage: Key,
    group: ClassGroup,
    class: KernelClass,
) -> Ratio {
    let Some(work) = evidence.work(stage) else {
        return Ratio::ONE;
    };
    let of_group = KernelClass::ALL.into_iter();
    let of_group = of_group.filter(|other| other.group() == group);
    let whole: Ns = of_group.map(|class| work.time(class)).sum();
    match whole > Ns::ZERO {
        true => Ratio::of(work.time(class), whole),
        false => Ratio::ZERO,
    }
}

/// Iterations of a stage that count.
fn counted(summary: &Summary) -> Count {
    Count(summary.counted.max(1) as f64)
}

/// Busy time of a stage by group in each of so many iterations, or of its own if there are more.
fn parts(evidence: &Evidence<'_>, stage: Key, iterations: Count) -> Vec<(ClassGroup, Time)> {
    let Some(time) = evidence.stage_time(stage) else {
        return Vec::new();
    };
    let counted = iterations.max(counted(&time.summary));
    let mut parts = Vec::new();
    for (group, time) in time.parts() {
        parts.push((group, time / counted));
    }
    parts
}

/// The same of the kernels that could be fused: their durations, for other kernels of a group may run next to more.
fn fusible_parts_of(
    evidence: &Evidence<'_>,
    stage: Key,
    iterations: Count,
) -> Vec<(ClassGroup, Time)> {
    let mut parts = parts(evidence, stage, iterations);
    for (group, time) in &mut parts {
        let Some(work) = evidence.work(stage) else {
            let mut classes = KernelClass::ALL.into_iter();
            if !classes.any(|class| class.group() == *group && class.is_fusible()) {
                *time = Time::ZERO;
            }
            continue;
        };
        let (mut whole, mut fusible) = (Ns::ZERO, Ns::ZERO);
        for class in KernelClass::ALL {
            if class.group() == *group {
                whole += work.time(class);
                fusible += match class.is_fusible() {
                    true => work.fusible_of(class),
                    false => Ns::ZERO,
                };
            }
        }
        let part = Ratio::of(fusible, whole.max(Ns(1)));
        let durations = fusible.time() / iterations.max(counted(&work.summary));
        *time = (*time).min(durations.max(*time * part));
    }
    parts
}

/// The same without kernels of an optimizer: they run after all others, whatever their classes, and maybe not in each
/// iteration.
fn fusible_parts(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<(ClassGroup, Time)> {
    let mut of_optimizers = Vec::new();
    for nested in &stage.nested {
        if nested.kind == StageKind::Optimizer {
            of_optimizers.extend(fusible_parts_of(evidence, nested.key(), stage.counted));
        }
    }
    let mut parts = fusible_parts_of(evidence, stage.key(), stage.counted);
    for (group, time) in &mut parts {
        let of_group = of_optimizers.iter().filter(|(other, _)| other == group);
        *time -= of_group.map(|(_, time)| time).sum::<Time>();
    }
    parts.retain(|(_, time)| *time > Time::ZERO);
    parts
}

/// Kernels of an iteration that could be fused.
pub(crate) struct Fusible {
    /// Their time.
    pub(crate) time: Time,
    /// The part of it that one kernel for each run of them takes at least.
    pub(crate) kept: Time,
    /// Operations of the stage that remain, as a share.
    pub(crate) remaining: Ratio,
}

impl Fusible {
    /// Time that fusing saves at most.
    pub(crate) fn saved(&self) -> Time {
        self.time - self.kept
    }
}

/// The kernels of a stage that could be fused. What a compiler fused already goes into GEMMs, which move its bytes.
pub(crate) fn fusible(evidence: &Evidence<'_>, stage: &StageLine) -> Fusible {
    let time = fusible_parts(evidence, stage)
        .iter()
        .map(|(_, time)| time)
        .sum();
    let work = evidence.work(stage.key());
    let mut whole = work.map_or(Ns::ZERO, StageWork::fusible).time();
    let mut kept = work.map_or(Ns::ZERO, |work| work.kept).time();
    let mut removed = work.map_or(0, StageWork::removable);
    for nested in &stage.nested {
        let work = evidence.work(nested.key());
        if let Some(work) = work.filter(|_| nested.kind == StageKind::Optimizer) {
            whole -= work.fusible().time();
            kept -= work.kept.time();
            removed = removed.saturating_sub(work.removable());
        }
    }
    let share = match whole.is_positive() && !evidence.platform.compiled {
        true => Ratio::of(kept.max(Time::ZERO), whole),
        false => Ratio::ZERO,
    };
    Fusible {
        time,
        kept: time * share,
        remaining: Ratio(removed as f64 / work.map_or(1, StageWork::operations).max(1) as f64)
            .rest(),
    }
}

/// Whether attention kernels, which are fused, are among the kernels of a stage.
pub(crate) fn has_attention(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let time = evidence.stage_time(stage.key());
    let mut parts = time.into_iter().flat_map(|time| time.parts());
    parts.any(|(group, _)| group == ClassGroup::Attention)
}

/// Busy time of an iteration by group, GEMMs aside, or of those kernels alone that could be fused; the most first, in words.
/// What takes less than [`NAMED`] of the stage is not named.
pub(crate) fn others(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    only_fusible: bool,
) -> Option<String> {
    let parts = match only_fusible {
        true => fusible_parts(evidence, stage),
        false => parts(evidence, stage.key(), stage.counted),
    };
    let least = stage.time * NAMED;
    let mut named = Vec::new();
    for (group, time) in parts {
        if group != ClassGroup::Gemm && time > least {
            named.push((group_color(group).label(), time.into()));
        }
    }
    listed(evidence, named)
}

/// Classes by label with their figures, the most first, in words.
pub(crate) fn listed(
    evidence: &Evidence<'_>,
    mut classes: Vec<(&str, Quantity)>,
) -> Option<String> {
    classes.arrange_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let mut words = Vec::new();
    for (label, value) in classes.into_iter().take(SHOWN_CLASSES) {
        let class = evidence.text.word(label);
        words.push(words!(
            evidence,
            "low_mfu.other",
            class = class,
            value = value
        ));
    }
    (!words.is_empty()).then(|| words.join(evidence.text.semicolon()))
}
