//! Stages whose GPU time the profiled launches do not stand for.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::counters::represent::Gap;
use rooflens_analysis::kernels::kernel_sums::command;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Scope;

pub(super) static RULE: Rule = Rule {
    id: "profile-coverage",
    thresholds: &[
        Threshold::ratio("thresholds.covered", COVERED),
        Threshold::ratio("thresholds.stage_time", STAGE),
    ],
    run,
};

/// Share of a stage's GPU time with counters below which they do not tell about the stage.
const COVERED: f64 = 0.50;

/// Share of the run's time from which on a stage deserves counters.
const STAGE: f64 = 0.05;

fn run(results: &Results<'_>) -> Outcome {
    let share = |stage| Some((stage, results.executed(stage)?.covered));
    let known: Vec<(&StageLine, f64)> = results.stages.iter().filter_map(share).collect();
    if known.is_empty() {
        return Outcome::lacks("kernels profiled with counters beside a timeline of the workload");
    }
    let is_low = |(stage, share): &(&StageLine, f64)| {
        *share < COVERED && stage.reference() * stage.counted / stage.run_ns.max(1.0) >= STAGE
    };
    let low: Vec<_> = known.into_iter().filter(is_low).collect();
    Outcome::of((!low.is_empty()).then(|| finding(results, &low)).into_iter().collect())
}

fn finding(results: &Results<'_>, stages: &[(&StageLine, f64)]) -> Observation {
    let mut statement = prose!["Profiled launches stand for "];
    let mut next = Vec::new();
    for (at, (stage, share)) in stages.iter().enumerate() {
        if at > 0 {
            statement.push(", ".into());
            next.push(" and ".into());
        }
        statement.extend(prose![
            Quantity::ratio(*share),
            " of the GPU time of ",
            Inline::Strong(stage.label.clone())
        ]);
        statement.extend(largest(results, stage).unwrap_or_default());
        let command = results.summary(stage).map(|own| command(&results.context, own));
        next.extend(command.map(Inline::Code));
    }
    statement.push(".".into());
    next.extend(prose![
        ": the kernels with the most time, for ",
        Inline::Code("rooflens-capture ncu --kernels".to_owned()),
        "."
    ]);
    let labels: Vec<&str> = stages.iter().map(|(stage, _)| stage.label.as_str()).collect();
    Observation {
        title: labels.join(", "),
        scope: Scope { pass: Some(results.pass.clone()), ..Scope::default() },
        statement,
        next: Some(next),
        evidence: stages.first().map(|(stage, _)| stage.evidence()).into_iter().collect(),
        ..Observation::default()
    }
}

/// The kernel without counters that has the most time, in words.
fn largest(results: &Results<'_>, stage: &StageLine) -> Option<Vec<Inline>> {
    let (facts, known) = (results.context.facts, results.context.results);
    let lines = &known.matching().ok()?.lines;
    // Those with the largest share come first.
    let own = |gap: &&Gap| stage.is(&lines[gap.line].summary);
    let gap = known.represent().ok()?.gaps.iter().find(own)?;
    Some(prose![
        " (the largest of the rest is ",
        Inline::Code(facts.identities[gap.kernel.index()].short.clone()),
        " with ",
        Quantity::ratio(gap.share),
        ")"
    ])
}
