//! Copies that repeat a tensor for what reads it.

use crate::chains::{self, Subject};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::operators::chains::ChainKind;

pub(crate) static RULE: Rule = Rule::new("repeated-tensors", &[chains::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    chains::outcome(evidence, ChainKind::Repeat, draft)
}

fn draft(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Draft {
    let arguments = arguments! {
        stage = subject.stage.clone(),
        copies = subject.chains(),
        per = subject.per(evidence),
        time = subject.time,
        share = subject.share,
        launches = subject.launches,
        sizes = subject.sizes(),
        factor = subject.factor(),
        around = subject.around(evidence),
        frame = subject.frame(evidence),
    };
    Draft::new(subject.finding.clone(), arguments)
}
