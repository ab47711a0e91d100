//! Profiled launches as rules see them: the part of a stage's GPU time that each kernel, grid and block represents,
//! with the counters of the launch that is nearest to the timeline.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::Evidence as Source;

use crate::evidence::Evidence;
use crate::products;
use crate::rule::{Look, Outcome};
use crate::stage::StageLine;
use rooflens_analysis::counters::details::figures::{Figure, Figures};
use rooflens_analysis::counters::ncu::KernelCounters;
use rooflens_analysis::counters::ncu::bound::{Bound, THRESHOLDS, Verdict};
pub(crate) use rooflens_analysis::counters::represent::matching::ENOUGH;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::{Classifier, Known};
use rooflens_document::{Inline, Query};
use rooflens_session::{Arrange, KernelId};
use rooflens_units::{Count, Percent, Ratio};

/// Waves below which a grid leaves most of the block slots empty. Grids between this and one wave are the tail's.
pub(crate) const WAVES: Ratio = Ratio(0.5);

/// The rule that says small grids.
pub(crate) const SMALL_GRIDS: &str = "small-grids";

/// Share of a stage's GPU time from which on small grids are worth a finding.
pub(crate) const SMALL: Ratio = Ratio(0.10);

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
    pub(crate) figures: &'a Figures,
    pub(crate) verdict: Verdict,
}

impl Profiled<'_> {
    /// Name of the kernel for people.
    pub(crate) fn name(&self) -> Inline {
        Inline::code(&self.launch.identity.short)
    }

    /// Waves of its grid.
    pub(crate) fn waves(&self) -> Option<Ratio> {
        let waves = self.figures.get(Figure::Waves).map(Ratio);
        waves.filter(Ratio::is_positive)
    }

    /// Use of the unit that it uses most, as a share of that unit's peak.
    pub(crate) fn use_of_units(&self) -> Option<Ratio> {
        let sol = &self.launch.sol;
        let memory = sol.memory.highest().map(|(_, percent)| percent);
        let highest = sol.compute.into_iter().chain(memory).reduce(Percent::max)?;
        Some(Ratio(highest.0 / 100.0).clamp(Ratio::ZERO, Ratio::ONE))
    }

    /// Whether it is latency-bound on a grid that leaves most of the block slots empty.
    fn is_small(&self) -> bool {
        self.verdict.bound == Bound::Latency && self.waves().is_some_and(|waves| waves < WAVES)
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
    let (counters, details) = (results.counters()?, results.details()?);
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
            figures: &details.launch(comparison.profile).figures,
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

/// Latency-bound kernels whose blocks fill a small part of the GPU.
pub(crate) fn small<'a>(profiled: &[Profiled<'a>]) -> Vec<Profiled<'a>> {
    let mut small = profiled.to_vec();
    small.retain(Profiled::is_small);
    small
}

/// Whether small grids are worth a finding.
pub(crate) fn has_small_grids(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    share(&small(&of_stage(evidence, stage))) >= SMALL
}

/// How much of the stage the profile knows, in words.
pub(crate) fn known(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    match evidence.executed(stage) {
        Some(work) => say!(evidence, "profiled.known", share = work.covered),
        None => Vec::new(),
    }
}

/// The time of a kernel on its grid in the timeline.
pub(crate) fn query(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    profiled: &Profiled<'_>,
) -> Option<Query> {
    let name = products::short_name(evidence.session.text(profiled.launch.name));
    let blocks = profiled.launch.grid.volume();
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
