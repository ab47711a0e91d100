//! Whole-graph tracing hides the kernels.

use crate::draft::Draft;
use crate::evidence::{Evidence, HIDDEN, hidden_share};
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::{Finding, Inline, Severity};
use rooflens_schemas::Scope;
use rooflens_session::Ns;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "hidden-graphs",
    &[Threshold::ratio("thresholds.whole_graphs", HIDDEN)],
    outcome,
)
.on_measurement();

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let (mut has_work, mut hidden) = (false, Vec::new());
    for work in evidence.results.stage_work().into_iter().flatten() {
        has_work |= work.total != Ns::ZERO;
        // The timeline of nodes shows what the one for times hides.
        let is_shown = evidence.facts.graph_nodes.is_some() && Some(work.pass) == evidence.primary;
        if let Some(share) = hidden_share(work).filter(|_| !is_shown) {
            hidden.push((work, share));
        }
    }
    if !has_work {
        return Outcome::INSUFFICIENT_DATA;
    }
    let passes = hidden.chunk_by(|a, b| a.0.pass == b.0.pass);
    Outcome::of_drafts(passes.map(|stages| draft(evidence, stages)))
}

/// One finding a pass, with its stages.
fn draft(evidence: &Evidence<'_>, stages: &[(&StageWork, Ratio)]) -> Draft {
    let session = evidence.session;
    let (first, _) = stages[0];
    let pass = session.pass_name(first.pass).to_owned();
    let mut parts = Vec::new();
    for (work, share) in stages {
        let stage = Inline::strong(work.summary.label(session, evidence.facts));
        parts.push(say!(
            evidence,
            "hidden_graphs.stage",
            share = *share,
            stage = stage
        ));
    }
    let finding = Finding {
        // Another pass of the bundle shows what this one hides.
        severity: match Some(first.pass) == evidence.primary {
            true => Severity::Warning,
            false => Severity::Note,
        },
        scope: Scope {
            pass: Some(pass.clone()),
            ..Scope::default()
        },
        title: words!(evidence, "hidden_graphs.title", pass = pass.as_str()),
        evidence: vec![first.evidence(session)],
        ..Finding::default()
    };
    let arguments = arguments! {
        pass = Inline::code(pass),
        stages = parts.join(&Inline::from(evidence.text.comma())),
    };
    let next = session.graph_nodes.is_empty().then_some("next");
    Draft::new(finding, arguments).next(next)
}
