//! Some instances of a stage hold long pauses of the host that its typical instance does not have.

use std::collections::BTreeMap;

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, repeat_outliers, uneven_pace};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::idle::longest::ended_by;
use rooflens_findings::{Gain, GainKind, Inline, Observation, Quantity, Severity};
use rooflens_model::{Ns, StrId};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "host-pauses",
    thresholds: &[
        Threshold::ratio("thresholds.pauses", SHARE),
        Threshold::one("thresholds.typical_instances", INSTANCES),
    ],
    run,
};

/// Idle time in host code that typical instances do not have ÷ time of all iterations from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// Instances below which the median one is as likely as not one with pauses.
const INSTANCES: f64 = 3.0;

/// Pauses of a stage.
struct Pauses {
    /// Idle time in host code of a typical instance, nanoseconds.
    typical: f64,
    /// That of all counted instances beyond it.
    beyond: f64,
    /// The longest time in a gap, nanoseconds.
    longest: Ns,
}

fn run(results: &Results<'_>) -> Outcome {
    results.each_stage(&words!(results, "host_pauses.needs"), |stage| {
        if typical(results, stage).is_none() {
            return Look::Lacks;
        }
        pauses(results, stage).map(|pauses| finding(results, stage, &pauses)).into()
    })
}

/// Idle time in host code of a typical instance: the median; of few instances, as many steps of median.
fn typical(results: &Results<'_>, stage: &StageLine) -> Option<f64> {
    let of = |key| results.idle(key)?.median_of(Cause::HostCode).ok();
    match stage.counted >= INSTANCES {
        true => of(stage.key()),
        false => of(stage.step()?.key()).zip(stage.steps).map(|(step, steps)| step * steps),
    }
}

fn pauses(results: &Results<'_>, stage: &StageLine) -> Option<Pauses> {
    let line = results.idle(stage.key())?;
    let typical = typical(results, stage)?;
    let beyond = line.of(Cause::HostCode) as f64 - typical * stage.counted;
    let longest = line.gaps[Cause::HostCode as usize].longest;
    let holds = beyond > 0.0 && beyond >= SHARE * measured(results, stage);
    holds.then_some(Pauses { typical, beyond, longest })
}

/// Time of all iterations of all stages of the rank that count, nanoseconds, the stalls within them.
fn measured(results: &Results<'_>, stage: &StageLine) -> f64 {
    let own = results.stages.iter().filter(|one| one.scope.rank == stage.scope.rank);
    own.filter_map(|one| Some(results.idle(one.key())?.pool.time as f64)).sum()
}

/// Whether a stage has such pauses.
pub(super) fn hold(results: &Results<'_>, stage: &StageLine) -> bool {
    pauses(results, stage).is_some()
}

/// Idle time in host code of an instance: without the pauses, where typical instances have none.
pub(super) fn host_code(results: &Results<'_>, stage: &StageLine) -> Option<f64> {
    let pooled = results.idle(stage.key())?.of_stage(Cause::HostCode).ok()?;
    Some(pauses(results, stage).map_or(pooled, |pauses| pauses.typical.min(pooled)))
}

fn finding(results: &Results<'_>, stage: &StageLine, pauses: &Pauses) -> Observation {
    let by_steps = stage.counted < INSTANCES;
    let (typical, basis) = match by_steps {
        true => (words!(results, "host_pauses.steps"), words!(results, "host_pauses.basis_steps")),
        false => (words!(results, "host_pauses.instance"), words!(results, "host_pauses.basis")),
    };
    let mut statement = say!(
        results,
        "host_pauses.statement",
        stage = Inline::strong(&stage.label),
        time = Quantity::new(pauses.beyond, Unit::Nanoseconds),
        count = Quantity::count(stage.counted as u64),
        typical = typical,
        longest = Quantity::ns(pauses.longest),
        ended = ended(results, stage),
    );
    statement.extend(uneven_pace::also(results, stage));
    statement.extend(repeat_outliers::also(results, stage));
    let gain = Gain {
        saved_ns: pauses.beyond,
        of_ns: measured(results, stage),
        of: words!(results, "host_pauses.of"),
        basis,
        kind: GainKind::Stalls,
    };
    Observation {
        severity: Severity::of_share(gain.share()),
        weight_ns: pauses.beyond,
        gain: Some(gain),
        statement,
        advice: Some(say!(results, "host_pauses.advice")),
        next: Some(say!(results, "host_pauses.next")),
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.note()
    }
}

/// The work that the longest stalls wait for, by their time, in words.
fn ended(results: &Results<'_>, stage: &StageLine) -> Option<Vec<Inline>> {
    let session = results.context.session;
    let longest = results.idle(stage.key()).map_or(&[][..], |line| &line.longest);
    let mut enders: BTreeMap<String, Ender> = BTreeMap::new();
    for gap in longest.iter().filter(|one| one.gap.times.main() == Cause::HostCode) {
        let ender = enders.entry(ended_by(&results.context, gap.gap.op)).or_default();
        ender.count += 1;
        ender.time += gap.gap.end - gap.gap.start;
        ender.ranges.extend(gap.ranges.last());
    }
    let listed: u64 = enders.values().map(|ender| ender.count).sum();
    let whole: Ns = enders.values().map(|ender| ender.time).sum();
    let (kernel, most) = enders.into_iter().max_by_key(|(_, ender)| ender.time)?;
    // A range is named where all of these stalls lie in it.
    let range = most.ranges.first().filter(|one| {
        most.ranges.len() as u64 == most.count && most.ranges.iter().all(|range| range == *one)
    });
    Some(say!(
        results,
        "host_pauses.ended",
        listed = Quantity::count(listed),
        whole = Quantity::ns(whole),
        share = Quantity::ratio(most.time as f64 / whole.max(1) as f64),
        count = Quantity::count(most.count),
        kernel = Inline::Code(kernel),
        range = range.map(|range| Inline::code(session.text(*range))),
    ))
}

/// The stalls that end with the same work.
#[derive(Default)]
struct Ender {
    count: u64,
    time: Ns,
    /// The innermost range of each that has one.
    ranges: Vec<StrId>,
}
