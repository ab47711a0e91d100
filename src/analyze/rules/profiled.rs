//! Profiled launches as rules see them: the part of a stage's GPU time that each kernel, grid and block represents,
//! with the counters of the launch that is nearest to the timeline.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::Evidence as Source;

use crate::evidence::Evidence;
use crate::products;
use crate::rule::{Look, Outcome};
use crate::stage::StageLine;
use rooflens_analysis::counters::limits::{Cause, KernelLimit, KernelLimits, Reason};
use rooflens_analysis::counters::ncu::KernelCounters;
use rooflens_analysis::counters::ncu::bound::{THRESHOLDS, Verdict};
pub(crate) use rooflens_analysis::counters::represent::matching::ENOUGH;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::{Classifier, Known};
use rooflens_document::{Inline, Part, Query};
use rooflens_session::{Arrange, KernelId};
use rooflens_units::{Count, Ratio, Time};

/// Share of a stage's GPU time beyond the limits of its kernels from which on it is worth a finding.
pub(crate) const LOST: Ratio = Ratio(0.02);

/// The kernels of a stage or pass with one fault.
pub(crate) struct Faults<'a> {
    /// Those with the fault as their first, the one that loses most first.
    pub(crate) kernels: Vec<&'a KernelLimit>,
    /// Their share of its GPU time.
    pub(crate) share: Ratio,
    /// Their time beyond their limits ÷ its GPU time.
    pub(crate) lost: Ratio,
    /// GPU time of all kernels of the stage or pass.
    whole: Time,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(limits: &'a KernelLimits, reason: Reason) -> Option<Self> {
        let mut kernels: Vec<_> = limits.kernels.iter().collect();
        kernels.retain(|kernel| kernel.cause().is_some_and(|cause| cause.reason == reason));
        let lost = |kernel: &KernelLimit| kernel.now.time() - kernel.limit();
        kernels.arrange_by(|a, b| lost(b).total_cmp(&lost(a)));
        let time: Time = kernels.iter().map(|kernel| kernel.now.time()).sum();
        let beyond: Time = kernels.iter().map(|kernel| lost(kernel)).sum();
        let whole = limits.time.time();
        (!kernels.is_empty()).then(|| Self {
            kernels,
            share: Ratio::of(time, whole),
            lost: Ratio::of(beyond, whole),
            whole,
        })
    }

    /// What each kernel loses of this GPU time of an iteration, by row.
    pub(crate) fn lost_by_kernel(&self, time: Time) -> Vec<(Part, Time)> {
        let mut lost = Vec::new();
        for limit in &self.kernels {
            let beyond = Ratio::of(limit.now.time() - limit.limit(), self.whole);
            lost.extend(
                limit
                    .kernel
                    .map(|kernel| (Part::Kernel(kernel.0), time * beyond)),
            );
        }
        lost
    }

    /// The kernel that loses most, and its fault.
    pub(crate) fn largest(&self) -> (&'a KernelLimit, &'a Cause) {
        let kernel = self.kernels[0];
        (kernel, &kernel.causes[0])
    }
}

/// A kernel, grid and block of a stage, profiled.
#[derive(Clone)]
pub(crate) struct Profiled<'a> {
    /// The kernel of the timeline.
    pub(crate) kernel: Option<KernelId>,
    /// Share of the stage's GPU time.
    pub(crate) share: Ratio,
    /// How far the launch is from the median of those that it represents.
    distance: Ratio,
    pub(crate) launch: &'a KernelCounters,
    pub(crate) verdict: Verdict,
}

impl Profiled<'_> {
    /// Name of the kernel for people.
    pub(crate) fn name(&self) -> Inline {
        Inline::code(&self.launch.identity.short)
    }
}

/// The outcome over the profiled kernels of each stage. A stage of which little was profiled can have findings, but does
/// not pass.
pub(crate) fn per_stage<L: Into<Look>>(
    evidence: &Evidence<'_>,
    look: fn(&Evidence<'_>, &StageLine, &[Profiled<'_>]) -> L,
) -> Outcome {
    evidence.each_of_kernels(|stage| {
        let profiled = of_stage(evidence, stage);
        if profiled.is_empty() {
            return Look::InsufficientData;
        }
        let executed = evidence.executed(stage);
        match look(evidence, stage, &profiled).into() {
            Look::Passed if executed.is_some_and(|work| work.covered < ENOUGH) => {
                Look::InsufficientData
            }
            look => look,
        }
    })
}

/// The words for data that is lacking without profiled kernels.
pub(crate) fn needs(evidence: &Evidence<'_>) -> String {
    words!(evidence, "profiled.needs")
}

/// What was profiled of a stage, the most time first.
pub(crate) fn of_stage<'a>(evidence: &Evidence<'a>, stage: &StageLine) -> Vec<Profiled<'a>> {
    groups(evidence, stage).unwrap_or_default()
}

fn groups<'a>(evidence: &Evidence<'a>, stage: &StageLine) -> Known<Vec<Profiled<'a>>> {
    let results = evidence.results;
    let counters = results.counters()?;
    let (matching, represented) = (results.matching()?, results.represent()?);
    // Launches that represent the same time are one group; two sizes on one grid are two.
    let mut groups = BTreeMap::<(usize, usize), Profiled<'a>>::new();
    for comparison in &represented.launches {
        let (Some(line), Some(group), Some(share)) =
            (comparison.line, comparison.group, comparison.share)
        else {
            continue;
        };
        let Some(part) = part(stage, &matching.lines[line].summary) else {
            continue;
        };
        let launch = counters.launch(comparison.profile);
        let profiled = Profiled {
            kernel: matching.kernels[comparison.profile.index()].kernel,
            share: part * share,
            distance: comparison
                .ratio
                .map_or(Ratio(f64::MAX), |ratio| (ratio - Ratio::ONE).abs()),
            launch,
            verdict: THRESHOLDS.classify(Classifier::Rooflens, launch),
        };
        let nearest = groups
            .entry((line, group))
            .or_insert_with(|| profiled.clone());
        if profiled.distance < nearest.distance {
            *nearest = profiled;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.retain(|profiled| profiled.share > Ratio::ZERO);
    groups.arrange_by(|a, b| b.share.total_cmp(&a.share));
    Ok(groups)
}

/// The part of a stage's GPU time that a stage has: the same, or one within it.
fn part(stage: &StageLine, summary: &Summary) -> Option<Ratio> {
    if stage.is(summary) {
        return Some(Ratio::ONE);
    }
    let key = (summary.stage, summary.process);
    stage.nested.iter().find(|nested| nested.key() == key)?;
    let is_step = stage.step().is_some_and(|step| step.key() == key);
    let steps = stage.steps.filter(|_| is_step);
    let times = steps.unwrap_or(Count(1.0));
    let whole = stage.operation_time;
    let part = || Ratio(summary.sum * times / whole).min(Ratio::ONE);
    whole.is_positive().then(part)
}

/// Σ of the shares.
pub(crate) fn share(profiled: &[Profiled<'_>]) -> Ratio {
    profiled.iter().map(|profiled| profiled.share).sum()
}

/// Whether small grids are worth a finding.
pub(crate) fn has_small_grids(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let limits = evidence.limits(stage);
    let faults = limits.and_then(|limits| Faults::new(limits, Reason::SmallGrid));
    faults.is_some_and(|faults| faults.lost >= LOST)
}

/// The time of a kernel on its grid in the timeline.
pub(crate) fn query(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    kernel: &KernelLimit,
) -> Option<Query> {
    let name = products::short_name(evidence.session.kernel_name(kernel.kernel?));
    let blocks = kernel.grid.volume();
    if blocks == 0 || !products::is_plain(name) {
        return None;
    }
    Some(stage.window.as_ref()?.grid(name, blocks))
}

/// The timeline and the passes of the profiled launches.
pub(crate) fn evidence(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    profiled: &[Profiled<'_>],
) -> Vec<Source> {
    let passes: BTreeSet<_> = profiled
        .iter()
        .map(|profiled| profiled.launch.pass)
        .collect();
    let mut sources = vec![stage.evidence()];
    for pass in passes {
        sources.extend(evidence.profile_evidence(pass));
    }
    sources
}
