//! Independent small GEMMs, one after the other.

use crate::chains::{self, Subject};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule};
use rooflens_analysis::operators::chains::ChainKind;

pub(crate) static RULE: Rule = Rule::new(chains::GEMM_LOOP, &[chains::THRESHOLD], outcome);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    chains::outcome(evidence, ChainKind::Gemms, draft)
}

fn draft(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Draft {
    let arguments = arguments! {
        stage = subject.stage.clone(),
        loops = subject.chains(),
        kernels = subject.kernels(),
        per = subject.per(evidence),
        time = subject.time,
        share = subject.share,
        launches = subject.launches,
        sizes = subject.sizes(),
        factor = subject.factor(),
        frame = subject.frame(evidence),
    };
    Draft::new(subject.finding.clone(), arguments)
}
