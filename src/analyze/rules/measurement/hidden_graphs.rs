//! Whole-graph tracing hides the kernels.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Scope;

pub(crate) static RULE: Rule = Rule::new(
    "hidden-graphs",
    &[Threshold::ratio("thresholds.whole_graphs", SHARE)],
    run,
)
.on_measurement();

/// Time of whole graphs ÷ operation time of a stage from which on it is said.
const SHARE: f64 = 0.10;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let work = evidence.results.stage_work().map_or(&[][..], |all| all);
    if work.iter().all(|one| one.total == 0) {
        return Outcome::lacks(&words!(evidence, "hidden_graphs.needs"));
    }
    let found: Vec<(&StageWork, f64)> = work
        .iter()
        .filter_map(|one| Some((one, hidden(one)?)))
        .collect();
    let passes = found.chunk_by(|a, b| a.0.pass == b.0.pass);
    Outcome::of(passes.map(|of_pass| finding(evidence, of_pass)).collect())
}

/// The share of the operation time of a stage in whole graphs, if it is worth a finding.
pub(crate) fn hidden(work: &StageWork) -> Option<f64> {
    work.share(work.time(KernelClass::Graph))
        .filter(|share| *share >= SHARE)
}

/// One finding a pass, with its stages.
fn finding(evidence: &Evidence<'_>, stages: &[(&StageWork, f64)]) -> Finding {
    let (session, facts) = (evidence.session, evidence.facts);
    let first = stages[0].0;
    let pass = session.pass_name(first.pass).to_owned();
    let of_stage = |(work, share): &(&StageWork, f64)| {
        let stage = Inline::strong(work.summary.label(session, facts));
        say!(
            evidence,
            "hidden_graphs.stage",
            share = Quantity::ratio(*share),
            stage = stage
        )
    };
    let stages = stages
        .iter()
        .map(of_stage)
        .collect::<Vec<_>>()
        .join(&Inline::from(evidence.text.comma()));
    Finding {
        // Another pass of the bundle shows what this one hides.
        severity: if Some(first.pass) == evidence.primary {
            Severity::Warning
        } else {
            Severity::Note
        },
        scope: Scope {
            pass: Some(pass.clone()),
            ..Scope::default()
        },
        title: words!(evidence, "hidden_graphs.title", pass = pass.as_str()),
        statement: say!(
            evidence,
            "hidden_graphs.statement",
            pass = Inline::code(pass),
            stages = stages,
        ),
        next: session
            .graph_nodes
            .is_empty()
            .then(|| say!(evidence, "hidden_graphs.next")),
        evidence: vec![first.evidence(session)],
        ..Finding::default()
    }
}
