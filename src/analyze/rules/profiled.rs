//! Profiled launches as rules see them: what part of a stage's GPU time each kernel, grid and block stands for,
//! with the counters of the launch that is nearest to the timeline.

use std::collections::{BTreeMap, BTreeSet};

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, products};
use rooflens_analysis::counters::details::figures::{Figure, Figures};
use rooflens_analysis::counters::ncu::KernelCounters;
use rooflens_analysis::counters::ncu::bound::{THRESHOLDS, Verdict};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::{Classifier, Known};
use rooflens_document::{Inline, Quantity, Query};
use rooflens_session::{Arrange, KernelId};

/// A kernel, grid and block of a stage, profiled.
#[derive(Clone)]
pub(crate) struct Profiled<'a> {
    /// The kernel of the timeline.
    pub(crate) kernel: Option<KernelId>,
    /// Share of the stage's GPU time.
    pub(crate) share: f64,
    /// How far the launch is from the median of those that it stands for.
    distance: f64,
    /// Its counters.
    pub(crate) launch: &'a KernelCounters,
    /// Its figures.
    pub(crate) figures: &'a Figures,
    /// What bounds it.
    pub(crate) verdict: Verdict,
}

impl Profiled<'_> {
    /// Name of the kernel for people.
    pub(crate) fn name(&self) -> Inline {
        Inline::code(&self.launch.identity.short)
    }

    /// Waves of its grid.
    pub(crate) fn waves(&self) -> Option<f64> {
        self.figures.get(Figure::Waves).filter(|waves| *waves > 0.0)
    }

    /// Use of the unit that it uses most, as a share of that unit's peak.
    pub(crate) fn use_of_units(&self) -> Option<f64> {
        let sol = &self.launch.sol;
        let memory = sol.memory.highest().map(|(_, percent)| percent);
        let highest = sol.compute.into_iter().chain(memory).reduce(f64::max);
        highest.map(|percent| (percent / 100.0).clamp(0.0, 1.0))
    }
}

pub(crate) use rooflens_analysis::counters::represent::matching::ENOUGH;

/// Looks at the profiled kernels of each stage. A stage of which little was profiled can have findings, but is not
/// clear of them.
pub(crate) fn per_stage<L: Into<Look>>(
    evidence: &Evidence<'_>,
    look: fn(&Evidence<'_>, &StageLine, &[Profiled<'_>]) -> L,
) -> Outcome {
    evidence.each_of_kernels(&words!(evidence, "profiled.needs"), |stage| {
        let profiled = of_stage(evidence, stage);
        if profiled.is_empty() {
            return Look::InsufficientData;
        }
        match look(evidence, stage, &profiled).into() {
            Look::Passed
                if evidence
                    .executed(stage)
                    .is_some_and(|own| own.covered < ENOUGH) =>
            {
                Look::InsufficientData
            }
            look => look,
        }
    })
}

/// What was profiled of a stage, the most time first.
pub(crate) fn of_stage<'a>(evidence: &Evidence<'a>, stage: &StageLine) -> Vec<Profiled<'a>> {
    groups(evidence, stage).unwrap_or_default()
}

fn groups<'a>(evidence: &Evidence<'a>, stage: &StageLine) -> Known<Vec<Profiled<'a>>> {
    let known = evidence.results;
    let (counters, details) = (known.counters()?, known.details()?);
    let (matching, all) = (known.matching()?, known.represent()?);
    // Launches that stand for the same time are one group; two sizes on one grid are two.
    let mut groups = BTreeMap::<(usize, usize), Profiled<'a>>::new();
    for one in &all.launches {
        let (Some(group), Some(share)) = (one.line.zip(one.group), one.share) else {
            continue;
        };
        let Some(part) = part(stage, &matching.lines[group.0].summary) else {
            continue;
        };
        let launch = counters.launch(one.profile);
        let profiled = Profiled {
            kernel: matching.kernels[one.profile.index()].kernel,
            share: part * share,
            distance: one.ratio.map_or(f64::MAX, |ratio| (ratio - 1.0).abs()),
            launch,
            figures: &details.launch(one.profile).figures,
            verdict: THRESHOLDS.classify(Classifier::Rooflens, launch),
        };
        let nearest = groups.entry(group).or_insert_with(|| profiled.clone());
        if profiled.distance < nearest.distance {
            *nearest = profiled;
        }
    }
    let mut groups: Vec<_> = groups.into_values().filter(|one| one.share > 0.0).collect();
    groups.arrange_by(|a, b| b.share.total_cmp(&a.share));
    Ok(groups)
}

/// The part of a stage's GPU time that another one has: itself, or one within it.
fn part(stage: &StageLine, other: &Summary) -> Option<f64> {
    if stage.is(other) {
        return Some(1.0);
    }
    let key = (other.stage, other.process);
    stage.nested.iter().find(|one| one.key() == key)?;
    let is_step = stage.step().is_some_and(|step| step.key() == key);
    let times = stage.steps.filter(|_| is_step).unwrap_or(1.0);
    let whole = stage.operation_time;
    (whole > 0.0).then(|| (other.sum * times / whole).min(1.0))
}

/// Σ of the shares.
pub(crate) fn share(profiled: &[Profiled<'_>]) -> f64 {
    profiled.iter().map(|one| one.share).sum()
}

/// How much of the stage the profile knows, in words.
pub(crate) fn known(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let words = |share| say!(evidence, "profiled.known", share = Quantity::ratio(share));
    evidence
        .executed(stage)
        .map_or_else(Vec::new, |own| words(own.covered))
}

/// The time of a kernel on its grid in the timeline.
pub(crate) fn query(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    one: &Profiled<'_>,
) -> Option<Query> {
    let name = products::short_name(evidence.session.text(one.launch.name));
    let blocks = Some(one.launch.grid.volume()).filter(|blocks| *blocks > 0)?;
    products::is_plain(name)
        .then(|| Some(stage.window.as_ref()?.grid(name, blocks)))
        .flatten()
}

/// The timeline and the passes of the profiled launches.
pub(crate) fn evidence(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    profiled: &[Profiled<'_>],
) -> Vec<rooflens_schemas::Evidence> {
    let passes: BTreeSet<_> = profiled.iter().map(|one| one.launch.pass).collect();
    let of_pass = passes
        .into_iter()
        .flat_map(|pass| evidence.profile_evidence(pass));
    std::iter::once(stage.evidence()).chain(of_pass).collect()
}
