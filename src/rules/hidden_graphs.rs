//! Whole-graph tracing hides the kernels.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Metric, Scope};

pub(super) static RULE: Rule = Rule {
    id: "hidden-graphs",
    title: "Kernels hidden in CUDA graphs",
    thresholds: &[Threshold::ratio("operation time of a stage in whole graphs, at least", SHARE)],
    run,
};

/// Time of whole graphs ÷ operation time of a stage from which on it is said.
pub(super) const SHARE: f64 = 0.10;

/// The class of such operations.
pub(super) const CLASS: &str = "cuda graph";

fn run(results: &Results<'_>) -> Outcome {
    if results.all(ids::CLASS_SHARE).next().is_none() {
        return Outcome::lacks("GPU operations in stages");
    }
    let hidden = |metric: &&Metric| {
        metric.scope.class.as_deref() == Some(CLASS)
            && metric.value.number().is_some_and(|share| share >= SHARE)
    };
    let found: Vec<&Metric> = results.all(ids::CLASS_SHARE).filter(hidden).collect();
    let passes = found.chunk_by(|a, b| a.scope.pass == b.scope.pass);
    Outcome::of(passes.map(|of_pass| finding(results, of_pass)).collect())
}

/// The stage, with the rank where there are several.
fn label(metric: &Metric) -> String {
    let stage = metric.scope.stage.clone().unwrap_or_default();
    metric.scope.rank.map_or(stage.clone(), |rank| format!("{stage} · rank {rank}"))
}

/// One finding a pass, with its stages.
fn finding(results: &Results<'_>, stages: &[&Metric]) -> Observation {
    let pass = stages.first().and_then(|metric| metric.scope.pass.clone()).unwrap_or_default();
    let mut statement = prose!["In pass ", Inline::Code(pass.clone()), " "];
    for (number, metric) in stages.iter().enumerate() {
        statement.extend(prose![
            if number == 0 { "" } else { ", " },
            Quantity::ratio(metric.value.number().unwrap_or_default()),
            " of ",
            Inline::Strong(label(metric))
        ]);
    }
    statement.push(
        " is CUDA graphs traced as a whole: the kernels in them, their classes and gaps are unknown, and a graph counts as \
         busy from start to end."
            .into(),
    );
    Observation {
        // Another pass of the bundle shows what this one hides.
        severity: if pass == results.pass { Severity::Warning } else { Severity::Note },
        scope: Scope { pass: Some(pass.clone()), ..Scope::default() },
        title: format!("pass {pass}"),
        statement,
        next: Some(prose![
            "nsys with ",
            Inline::Code("--cuda-graph-trace=node".to_owned()),
            ": it costs more overhead and shows each kernel."
        ]),
        evidence: stages.iter().take(1).flat_map(|metric| metric.evidence.clone()).collect(),
        ..Observation::default()
    }
}
