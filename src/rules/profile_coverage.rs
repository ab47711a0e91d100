//! Stages whose GPU time the profiled launches do not stand for.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "profile-coverage",
    title: "Kernels without counters",
    thresholds: &[
        Threshold::ratio("GPU time that profiled launches stand for, less than", COVERED),
        Threshold::ratio("time of the stage, of the run, at least", STAGE),
    ],
    run,
};

/// Share of a stage's GPU time with counters below which they do not tell about the stage.
const COVERED: f64 = 0.50;

/// Share of the run's time from which on a stage deserves counters.
const STAGE: f64 = 0.05;

/// Share of the GPU time that the proposed pass reaches, and the most kernels that it profiles.
const ENOUGH: f64 = 0.90;
const MOST: usize = 30;

fn run(results: &Results<'_>) -> Outcome {
    let share = |stage: &StageLine| results.number(ids::PROFILED_SHARE, &stage.scope);
    if results.stages.iter().all(|stage| share(stage).is_none()) {
        return Outcome::lacks("kernels profiled with counters beside a timeline of the workload");
    }
    let is_low = |stage: &&StageLine| {
        let of_run = stage.reference() * stage.counted / stage.run_ns.max(1.0);
        share(stage).is_some_and(|share| share < COVERED) && of_run >= STAGE
    };
    let low: Vec<&StageLine> = results.stages.iter().filter(is_low).collect();
    Outcome::of((!low.is_empty()).then(|| finding(results, &low)).into_iter().collect())
}

fn finding(results: &Results<'_>, stages: &[&StageLine]) -> Observation {
    let mut statement = prose!["Profiled launches stand for "];
    let mut next = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        if at > 0 {
            statement.push(", ".into());
            next.push(" and ".into());
        }
        let share = results.number(ids::PROFILED_SHARE, &stage.scope).unwrap_or_default();
        statement.extend(prose![
            Quantity::ratio(share),
            " of the GPU time of ",
            Inline::Strong(stage.label.clone())
        ]);
        statement.extend(largest(results, stage));
        let name = stage.scope.stage.as_deref().unwrap_or(&stage.label).replace('\'', "'\\''");
        let top = kernels_for(results, stage);
        let command = format!("rooflens kernels BUNDLE --top {top} --stage '{name}' --yaml");
        next.push(Inline::Code(command));
    }
    statement.push(".".into());
    next.extend(prose![
        ": the kernels with the most time, for ",
        Inline::Code("rooflens-capture ncu --kernels".to_owned()),
        "."
    ]);
    let labels: Vec<&str> = stages.iter().map(|stage| stage.label.as_str()).collect();
    Observation {
        title: labels.join(", "),
        scope: Scope { pass: Some(results.pass.clone()), ..Scope::default() },
        statement,
        next: Some(next),
        evidence: stages.first().map(|stage| stage.evidence()).into_iter().collect(),
        ..Observation::default()
    }
}

/// The kernel without counters that has the most time, in words. The data set has the largest first.
fn largest(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    let mut own =
        results.rows(ids::UNPROFILED_KERNELS).filter(|row| row.text("stage") == stage.label);
    own.next().map_or_else(Vec::new, |row| {
        prose![
            " (the largest of the rest is ",
            Inline::Code(row.text("kernel").to_owned()),
            " with ",
            Quantity::ratio(row.sum("share")),
            ")"
        ]
    })
}

/// How many of the stage's kernels have most of its GPU time.
fn kernels_for(results: &Results<'_>, stage: &StageLine) -> usize {
    let own = results.of_stage(ids::STAGE_KERNELS, stage);
    let mut times: Vec<f64> = own.map(|row| row.sum("total_ns")).collect();
    times.sort_by(|a, b| b.total_cmp(a));
    let enough = ENOUGH * times.iter().sum::<f64>();
    let mut sum = 0.0;
    let needed = times.iter().take_while(|time| {
        let before = sum;
        sum += **time;
        before < enough
    });
    needed.count().clamp(1, MOST)
}
