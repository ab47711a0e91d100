//! Profiled launches as rules see them: what part of a stage's GPU time each kernel, grid and block stands for,
//! with the counters of the launch that is nearest to the timeline.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Scope};

use super::results::Row;
use super::stage::StageLine;
use super::{Look, Outcome, Results, ids, products};
use crate::findings::{Inline, Quantity, Query};
use crate::prose;

/// What these rules lack.
const NEEDS: &str =
    "kernels of the timeline profiled with counters (an Nsight Compute pass of the same workload)";

/// A kernel, grid and block of a stage, profiled.
#[derive(Clone, Copy)]
pub(super) struct Profiled<'a> {
    pub(super) kernel: &'a str,
    pub(super) pass: &'a str,
    /// Share of the stage's GPU time.
    pub(super) share: f64,
    /// How far the launch is from the median of those that it stands for.
    distance: f64,
    /// Its row of `profiled_kernels`.
    pub(super) counters: Row<'a>,
    /// Its row of `deep_dive`.
    pub(super) depth: Row<'a>,
}

impl Profiled<'_> {
    pub(super) fn is_bound(&self, class: &str) -> bool {
        self.counters.text("bound") == class
    }

    /// Waves of its grid.
    pub(super) fn waves(&self) -> Option<f64> {
        self.depth.number("waves").filter(|waves| *waves > 0.0)
    }

    /// Use of the unit that it uses most, as a share of that unit's peak.
    pub(super) fn use_of_units(&self) -> Option<f64> {
        const UNITS: [&str; 4] =
            ["sol_compute_percent", "sol_dram_percent", "sol_l2_percent", "sol_l1_percent"];
        let known = UNITS.iter().filter_map(|unit| self.counters.number(unit));
        known.reduce(f64::max).map(|percent| (percent / 100.0).clamp(0.0, 1.0))
    }
}

pub(super) use crate::analysis::counters::represent::matching::ENOUGH;

/// Looks at the profiled kernels of each stage. A stage of which little was profiled can have findings, but is not
/// clear of them.
pub(super) fn per_stage<L: Into<Look>>(
    results: &Results<'_>,
    look: fn(&Results<'_>, &StageLine, &[Profiled<'_>]) -> L,
) -> Outcome {
    let index = Index::new(results);
    results.each_stage(NEEDS, |stage| {
        let profiled = index.of_stage(results, stage);
        if profiled.is_empty() {
            return Look::Lacks;
        }
        let known = results.number(ids::PROFILED_SHARE, &stage.scope);
        match look(results, stage, &profiled).into() {
            Look::Clear if known.is_some_and(|share| share < ENOUGH) => Look::Lacks,
            look => look,
        }
    })
}

/// What was profiled of a stage, the most time first.
pub(super) fn of_stage<'a>(results: &Results<'a>, stage: &StageLine) -> Vec<Profiled<'a>> {
    Index::new(results).of_stage(results, stage)
}

/// Rows of launches by pass and number.
struct Index<'a> {
    counters: BTreeMap<(&'a str, u64), Row<'a>>,
    depth: BTreeMap<(&'a str, u64), Row<'a>>,
}

impl<'a> Index<'a> {
    fn new(results: &Results<'a>) -> Self {
        let by_launch = |id| results.rows(id).filter_map(|row| Some((key(&row)?, row))).collect();
        Self { counters: by_launch(ids::PROFILED_KERNELS), depth: by_launch(ids::DEEP_DIVE) }
    }

    /// What was profiled of a stage, the most time first.
    fn of_stage(&self, results: &Results<'a>, stage: &StageLine) -> Vec<Profiled<'a>> {
        let mut groups = BTreeMap::<_, Profiled<'a>>::new();
        let rows = results.rows(ids::REPRESENTATIVENESS);
        for row in rows {
            let Some(part) = part(results, stage, row.text("stage")) else { continue };
            let Some(profiled) = self.profiled(&row, part) else { continue };
            // Launches that stand for the same time are one group; two sizes on one grid are two.
            let group = (row.text("kernel"), row.text("grid"), row.text("block"));
            groups
                .entry((group, profiled.share.to_bits()))
                .and_modify(|own| {
                    if profiled.distance < own.distance {
                        *own = profiled;
                    }
                })
                .or_insert(profiled);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|a, b| b.1.share.total_cmp(&a.1.share).then(a.0.cmp(&b.0)));
        groups.into_iter().map(|(_, profiled)| profiled).collect()
    }

    fn profiled(&self, row: &Row<'a>, part: f64) -> Option<Profiled<'a>> {
        let key = key(row)?;
        Some(Profiled {
            kernel: row.text("kernel"),
            pass: row.text("pass"),
            share: part * row.number("time_share").filter(|share| *share > 0.0)?,
            distance: row.number("ratio").map_or(f64::MAX, |ratio| (ratio - 1.0).abs()),
            counters: *self.counters.get(&key)?,
            depth: *self.depth.get(&key)?,
        })
    }
}

/// The part of a stage's GPU time that the stage of this label has: itself, or one within it.
fn part(results: &Results<'_>, stage: &StageLine, label: &str) -> Option<f64> {
    if label == stage.label {
        return Some(1.0);
    }
    let inner = stage.nested.iter().find(|one| one.label == label)?;
    let time = results.number(ids::OPERATION_TIME_SUM, &inner.scope)?;
    let times = stage
        .steps
        .filter(|_| stage.step().is_some_and(|step| step.scope == inner.scope))
        .unwrap_or(1.0);
    let whole = gpu_time(results, stage);
    (whole > 0.0).then(|| (time * times / whole).min(1.0))
}

fn key<'a>(row: &Row<'a>) -> Option<(&'a str, u64)> {
    Some((row.text("pass"), row.number("launch")? as u64))
}

/// Σ of the shares.
pub(super) fn share(profiled: &[Profiled<'_>]) -> f64 {
    profiled.iter().map(|one| one.share).sum()
}

/// GPU time of an instance of the stage, nanoseconds: what shares are of.
pub(super) fn gpu_time(results: &Results<'_>, stage: &StageLine) -> f64 {
    results.number(ids::OPERATION_TIME_SUM, &stage.scope).unwrap_or(stage.busy)
}

/// How much of the stage the profile knows, in words.
pub(super) fn known(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    match results.number(ids::PROFILED_SHARE, &stage.scope) {
        Some(share) => {
            prose![" Profiled launches stand for ", Quantity::ratio(share), " of that GPU time."]
        }
        None => Vec::new(),
    }
}

/// The time of a kernel on its grid in the timeline.
pub(super) fn query(stage: &StageLine, one: &Profiled<'_>) -> Option<Query> {
    let name = products::short_name(one.counters.text("name"));
    let sizes = one.counters.text("grid").split('x').map(|size| size.parse::<u64>().ok());
    let blocks = sizes.collect::<Option<Vec<u64>>>()?.into_iter().try_fold(1, u64::checked_mul)?;
    products::is_plain(name).then(|| Some(stage.window.as_ref()?.grid(name, blocks))).flatten()
}

/// The timeline and the passes of the profiled launches.
pub(super) fn evidence(
    results: &Results<'_>,
    stage: &StageLine,
    profiled: &[Profiled<'_>],
) -> Vec<Evidence> {
    let passes: std::collections::BTreeSet<&str> = profiled.iter().map(|one| one.pass).collect();
    let of_pass = passes.into_iter().flat_map(|pass| {
        let scope = Scope { pass: Some(pass.to_owned()), ..Scope::default() };
        results.evidence(ids::PROFILED_TIME, &scope)
    });
    std::iter::once(stage.evidence()).chain(of_pass).collect()
}
