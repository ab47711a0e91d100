//! Copies that only change the type of tensors.

use crate::chains::{self, Subject};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::operators::chains::ChainKind;

pub(crate) static RULE: Rule = Rule::new("dtype-casts", &[chains::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    chains::outcome(evidence, ChainKind::Cast, draft)
}

fn draft(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Draft {
    let arguments = arguments! {
        stage = subject.stage.clone(),
        casts = subject.chains(),
        per = subject.per(evidence),
        time = subject.time,
        share = subject.share,
        launches = subject.launches,
        sizes = subject.sizes(),
        from = subject.from(),
        to = subject.to(),
        around = subject.around(evidence),
        frame = subject.frame(evidence),
    };
    Draft::new(subject.finding.clone(), arguments)
}
