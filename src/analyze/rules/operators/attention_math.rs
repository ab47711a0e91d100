//! Attention as separate GEMMs and a softmax.

use crate::chains::{self, Subject};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::operators::chains::ChainKind;

pub(crate) static RULE: Rule = Rule::new("attention-math", &[chains::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    chains::outcome(evidence, ChainKind::Attention, draft)
}

fn draft(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Draft {
    let arguments = arguments! {
        stage = subject.stage.clone(),
        chains = subject.chains(),
        kernels = subject.kernels(),
        per = subject.per(evidence),
        time = subject.time,
        share = subject.share,
        launches = subject.launches,
        sizes = subject.sizes(),
        operators = subject.operators(),
        around = subject.around(evidence),
        frame = subject.frame(evidence),
    };
    Draft::new(subject.finding.clone(), arguments)
}
