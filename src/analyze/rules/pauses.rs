//! Pauses of the host that some instances of a stage hold and its typical instance does not.
//!
//! Several rules need them: idle time in host code is a cause of its own only without them, and a cold first repeat or a
//! stage that gets faster is said with them.

use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::time::idle::between::MANY;
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::{Activity, Cause};
use rooflens_document::{Inline, Quantity, Root};
use rooflens_session::Ns;
use rooflens_stats::doubtful_first;
use rooflens_units::{Count, Ratio, Time};

use crate::evidence::Evidence;
use crate::known::Lost;
use crate::stage::{Nested, StageLine};
use crate::trends;

/// The rule that says them.
pub(crate) const RULE: &str = "host-pauses";

/// Idle time in host code that typical instances do not have ÷ time of all iterations from which on it is worth a finding.
pub(crate) const SHARE: Ratio = Ratio(0.05);

/// Part of such time in the first measured instance from which on it is that of a cold start.
const IN_FIRST: Ratio = Ratio(0.9);

/// Share of the time of stalls from which on plans are most of it.
const MOST: Ratio = Ratio(0.5);

/// Instances below which the median one is as likely as not one with pauses.
pub(crate) const INSTANCES: Count = Count(3.0);

/// Pauses of a stage.
pub(crate) struct Pauses {
    /// Idle time in host code of a typical instance.
    pub(crate) typical: Time,
    /// What each counted instance has beyond it, summed, without the profiler's stalls.
    pub(crate) beyond: Time,
    /// The stalls of the profiler among them.
    pub(crate) profiled: Time,
    /// The longest time in a gap.
    pub(crate) longest: Ns,
}

/// Idle time in host code of a typical instance: the median; of few instances, as many steps of median.
pub(crate) fn typical(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    if stage.counted >= INSTANCES {
        let idle = evidence.idle(stage.key())?;
        return idle.median_rest_of(Cause::HostCode).ok();
    }
    let idle_of_step = evidence.idle(stage.step()?.key())?;
    let step = idle_of_step.median_rest_of(Cause::HostCode).ok()?;
    Some(step * stage.steps?)
}

/// Idle time in host code that typical instances do not have, summed over the counted ones.
fn beyond(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let typical = typical(evidence, stage)?;
    let idle = evidence.idle(stage.key())?;
    let instances = idle.instances.iter();
    Some(instances.map(|parts| more(parts, typical)).sum())
}

/// What an instance has beyond a typical one: one with less takes nothing from what another has more.
fn more(parts: &Parts, typical: Time) -> Time {
    (parts.rest(&[Cause::HostCode]).time() - typical).max(Time::ZERO)
}

/// What the profiler adds to typical instances of a stage, summed over the counted ones. The median of few instances holds
/// their pauses. An unprofiled time holds what the host does in the range of the stage before
/// the first and after the last operation, too.
pub(crate) fn added_by_profiler(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    let pauses = match stage.counted < INSTANCES {
        true => beyond(evidence, stage).unwrap_or_default(),
        false => Time::ZERO,
    };
    let Some(unprofiled) = stage.unprofiled else {
        return Time::ZERO;
    };
    let series = evidence.unprofiled_series(stage);
    let beyond = series.map_or(Time::ZERO, Series::beyond_levels);
    let captured = stage.time * stage.counted + evidence.around_operations(stage);
    (captured - unprofiled * stage.counted - pauses - beyond).max(Time::ZERO)
}

/// What slow iterations take beyond typical ones, less what as many or at least ten unprofiled repeats do: a stall that
/// repeats do not have is one of the profiled run. A cold first one of three is none of the loop.
pub(crate) fn stalls_of_profiler(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    // Warm-up is no part of the loop, either.
    if last(evidence, stage).is_some() {
        return beyond(evidence, stage).unwrap_or_default();
    }
    let (Some(series), Some(typical)) = (evidence.unprofiled_series(stage), stage.unprofiled)
    else {
        return Time::ZERO;
    };
    let iterations = evidence.iterations(stage);
    let usual = stage.time.max(typical);
    if let (Some(first), true) = (iterations.first(), is_cold(evidence, stage)) {
        return (*first - usual).max(Time::ZERO);
    }
    if series.repeats.len() < iterations.len().min(MANY) {
        return Time::ZERO;
    }
    let beyond = iterations.into_iter().sum::<Time>() - usual * stage.counted;
    let mean = typical * Ratio::of(series.mean(), series.typical());
    let of_repeats = (mean - typical).max(Time::ZERO) * stage.counted;
    (beyond - of_repeats).max(Time::ZERO)
}

/// Whether the first of three iterations would be a cold start, of which more are excluded.
pub(crate) fn is_cold(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    doubtful_first(&evidence.iterations(stage)).is_some()
}

/// Whether nearly all of what typical instances do not have lies in the first measured one: it may be a cold start.
pub(crate) fn are_in_first(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let Some(idle) = evidence.idle(stage.key()) else {
        return false;
    };
    let (Some(typical), Some(first)) = (typical(evidence, stage), idle.instances.first()) else {
        return false;
    };
    let of_first = first.rest(&[Cause::HostCode]).time() - typical;
    let all = beyond(evidence, stage).unwrap_or_default();
    idle.instances.len() > 1 && of_first.is_positive() && of_first >= all * IN_FIRST
}

/// Share of what typical instances do not have in the first half of the instances from which on the pauses have ended: five
/// stalls lie there by chance once in 32 times.
const ENDED: Ratio = Ratio(0.98);
const STALLS: usize = 5;

/// The number of the last instance with pauses, from 1, if those of the second half have none: they are warm-up.
pub(crate) fn last(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Count> {
    let idle = evidence.idle(stage.key())?;
    let typical = typical(evidence, stage)?;
    let instances = idle.instances.iter();
    let more: Vec<Time> = instances.map(|parts| more(parts, typical)).collect();
    let longest = more.iter().copied().fold(Time::ZERO, Time::max);
    let is_stall = |more: &Time| *more >= longest / 2.0;
    let last = more.iter().rposition(is_stall)?;
    let first_half: Time = more[..more.len() / 2].iter().sum();
    let stalls = more.iter().filter(|more| is_stall(more)).count();
    let have_ended = first_half >= beyond(evidence, stage)? * ENDED;
    (longest.is_positive() && stalls >= STALLS && have_ended).then_some(Count((last + 1) as f64))
}

/// The pauses of a stage, if they are worth a finding.
pub(crate) fn pauses(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Pauses> {
    let idle = evidence.idle(stage.key())?;
    let (typical, captured) = (typical(evidence, stage)?, beyond(evidence, stage)?);
    let longest = idle.gaps[Cause::HostCode as usize].longest;
    let profiled = stalls_of_profiler(evidence, stage).min(captured);
    // The loop has no stalls of the profiler.
    let is_large = captured.is_positive() && captured >= (stage.of_loop + profiled) * SHARE;
    is_large.then_some(Pauses {
        typical,
        beyond: captured - profiled,
        profiled,
        longest,
    })
}

/// Time in which the host plans and loads kernels for new shapes, if it is most of the stalls.
pub(crate) fn plans(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> Option<Lost> {
    let idle = evidence.idle(stage.key())?;
    let lost = Lost::of_preparation(&idle.sources, &[Activity::KernelPlans, Activity::NewShape]);
    let are_most = lost.windows > 1 && lost.idle >= pauses.captured() * MOST;
    are_most.then_some(lost)
}

impl Pauses {
    /// Those of the captured loop, with the profiler's stalls.
    pub(crate) fn captured(&self) -> Time {
        self.beyond + self.profiled
    }
}

/// Whether such pauses are most of the idle time in host code.
pub(crate) fn prevail(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let idle = evidence.idle(stage.key());
    let host_code = idle.map_or(Ns::ZERO, |idle| idle.pool.rest(&[Cause::HostCode]));
    match pauses(evidence, stage) {
        Some(pauses) => pauses.captured().0 >= host_code.time().0 / 2.0,
        None => false,
    }
}

/// Whether a stage has such pauses.
pub(crate) fn hold(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    pauses(evidence, stage).is_some()
}

/// Idle time in host code of an instance: without the pauses, where typical instances have none.
pub(crate) fn host_code(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Time> {
    let idle = evidence.idle(stage.key())?;
    let pooled = idle.rest_of_stage(Cause::HostCode).ok()?;
    match pauses(evidence, stage) {
        Some(pauses) => Some(pauses.typical.min(pooled)),
        None => Some(pooled),
    }
}

/// What to do about a wait for the data loader.
pub(crate) fn loader_root(evidence: &Evidence<'_>, cause: String) -> Root {
    Root {
        cause,
        action: words!(evidence, "host_pauses.root_action_loader"),
        condition: Some(words!(evidence, "host_pauses.root_if_loader")),
        passes: 1,
    }
}

/// That the rule about pauses says it of these stages.
pub(crate) fn said_of(evidence: &Evidence<'_>, stages: &str) -> String {
    let rule = evidence.text.rule(RULE);
    words!(
        evidence,
        "repeat_outliers.said_by",
        stages = stages,
        rule = rule
    )
}

/// That a stage or its steps get faster, in words.
pub(crate) fn also_faster(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let mut keys: Vec<_> = stage.nested.iter().map(Nested::key).collect();
    keys.push(stage.key());
    for (series, summary) in trends::of_stages(evidence) {
        if !keys.contains(&(summary.stage, summary.process)) {
            continue;
        }
        if let Some(drift) = trends::drift(series).filter(|drift| *drift < Ratio::ZERO) {
            let name = Inline::strong(trends::name(evidence, summary));
            let jump = series.jump.as_ref();
            return say!(
                evidence,
                "uneven_pace.also",
                stage = name,
                drift = jump.is_none().then_some(-drift),
                number = jump.map(|jump| Quantity::count(jump.number as u64)),
                before = jump.map(|jump| jump.before),
                after = jump.map(|jump| jump.after),
            );
        }
    }
    Vec::new()
}

/// A cold first repeat of a stage without a profiler, in words.
pub(crate) fn also_cold(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Vec<Inline>> {
    let name = stage.scope.stage.as_deref()?;
    let baseline = evidence.results.baseline().ok()?;
    let series = baseline.unprofiled(evidence.session, name)?;
    if let Some(before) = series.before() {
        return Some(say!(
            evidence,
            "repeat_outliers.also_settled",
            count = Quantity::count(series.settling as u64),
            time = before,
            median = series.median(),
        ));
    }
    let cold = series.worst_outlier().filter(|outlier| outlier.is_cold())?;
    Some(say!(
        evidence,
        "repeat_outliers.also",
        time = Quantity::ns(cold.duration),
        median = cold.typical,
    ))
}
