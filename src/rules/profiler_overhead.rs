//! The profiler slows the stage: its times are not those of the workload.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};
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
        return Outcome::lacks(
            "un-profiled times of the same stages (a baseline pass with timings.json)",
        );
    }
    Outcome::of(results.stages.iter().filter_map(|stage| finding(results, stage)).collect())
}

/// What remains of a stage without the profiler, if that is much less, in words: its time, and how long the GPU is busy.
pub(super) fn without(stage: &StageLine, busy: f64) -> Vec<Inline> {
    let much = |time: &f64| *time > 0.0 && stage.time >= RATIO * time;
    stage.unprofiled.filter(much).map_or_else(Vec::new, |time| {
        prose![
            " Without the profiler it takes ",
            Quantity::new(time, Unit::Nanoseconds),
            "; if kernels last as long, the GPU is busy for ",
            Quantity::ratio((busy * stage.time / time).min(1.0)),
            " of that."
        ]
    })
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let unprofiled = stage.unprofiled.filter(|time| *time > 0.0)?;
    let ratio = stage.time / unprofiled;
    if ratio < RATIO {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " takes ",
        Quantity::new(stage.time, Unit::Nanoseconds),
        " in pass ",
        Inline::Code(results.pass.clone()),
        " and ",
        Quantity::new(unprofiled, Unit::Nanoseconds),
        " without a profiler"
    ];
    if stage.steps.is_some() {
        statement.push(", for as many steps".into());
    }
    statement.extend(prose![
        ": ",
        Quantity::ratio(1.0 - unprofiled / stage.time),
        " of the profiled time is the profiler's."
    ]);
    Some(Observation {
        severity: if ratio >= WARNING { Severity::Warning } else { Severity::Note },
        statement,
        advice: Some(prose![
            "Quote the un-profiled times. Kernel times and their shares hold; idle times of the timeline are too large by \
             this much. Gains of findings are limited to what un-profiled time leaves."
        ]),
        next: Some(prose![
            "A timeline with less tracing (",
            Inline::Code("--trace=cuda,nvtx --sample=none --cpuctxsw=none".to_owned()),
            ") comes closer."
        ]),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}
