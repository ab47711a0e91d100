//! The profiler slows the stage: its times are not those of the workload.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_findings::{Inline, Observation, Quantity, Severity};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "profiler-overhead",
    thresholds: &[
        Threshold::one("thresholds.overhead", RATIO),
        Threshold::one("thresholds.overhead_warning", WARNING),
    ],
    run,
};

/// Profiled ÷ un-profiled stage time from which on it is worth a finding.
const RATIO: f64 = 1.10;

/// Ratio from which on times of the profiled pass must be read with care.
const WARNING: f64 = 1.25;

fn run(results: &Results<'_>) -> Outcome {
    if !results.stages.iter().any(|stage| stage.unprofiled.is_some()) {
        return Outcome::Abstained(words!(results, "profiler_overhead.needs"));
    }
    Outcome::of(results.stages.iter().filter_map(|stage| finding(results, stage)).collect())
}

/// What remains of a stage without the profiler, if that is much less, in words: its time, and how long the GPU is busy.
pub(super) fn without(results: &Results<'_>, stage: &StageLine, busy: f64) -> Vec<Inline> {
    let much = |time: &f64| *time > 0.0 && stage.time >= RATIO * time;
    stage.unprofiled.filter(much).map_or_else(Vec::new, |time| {
        say!(
            results,
            "profiler_overhead.without",
            time = Quantity::new(time, Unit::Nanoseconds),
            busy = Quantity::ratio((busy * stage.time / time).min(1.0)),
        )
    })
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let unprofiled = stage.unprofiled.filter(|time| *time > 0.0)?;
    let ratio = stage.time / unprofiled;
    (ratio >= RATIO).then(|| Observation {
        severity: if ratio >= WARNING { Severity::Warning } else { Severity::Note },
        statement: say!(
            results,
            "profiler_overhead.statement",
            stage = Inline::strong(&stage.label),
            time = Quantity::new(stage.time, Unit::Nanoseconds),
            pass = Inline::code(&results.pass),
            unprofiled = Quantity::new(unprofiled, Unit::Nanoseconds),
            steps = stage.steps.map(|_| words!(results, "profiler_overhead.steps")),
            share = Quantity::ratio(1.0 - unprofiled / stage.time),
        ),
        advice: Some(say!(results, "profiler_overhead.advice")),
        next: Some(say!(results, "profiler_overhead.next")),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}
