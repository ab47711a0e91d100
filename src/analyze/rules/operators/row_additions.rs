//! Sums of many rows into few rows by atomic additions.

use crate::chains::{self, Subject};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::operators::chains::ChainKind;

pub(crate) static RULE: Rule = Rule::new("row-additions", &[chains::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    chains::outcome(evidence, ChainKind::Atomics, draft)
}

fn draft(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Draft {
    let arguments = arguments! {
        stage = subject.stage.clone(),
        kernels = subject.kernels(),
        per = subject.per(evidence),
        time = subject.time,
        share = subject.share,
        launches = subject.launches,
        sizes = subject.sizes(),
        factor = subject.factor(),
        operators = subject.operators(),
        frame = subject.frame(evidence),
    };
    Draft::new(subject.finding.clone(), arguments)
}
