//! Copies between GPU and pageable host memory: slow, and they hold up the host.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::memory::transfers::sums::crosses_host;
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "pageable-copies",
    &[
        Threshold::ratio("thresholds.pageable_bytes", SHARE),
        Threshold::ratio("thresholds.copy_time", TIME),
    ],
    run,
);

/// Pageable bytes ÷ bytes between host and GPU from which on they are worth a finding.
pub(crate) const SHARE: f64 = 0.10;

/// Time of copies ÷ stage time below which it does not matter.
const TIME: f64 = 0.01;

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(&words!(evidence, "pageable_copies.needs"), |stage| {
        let copies = evidence.copies(stage);
        let pageable = copies.and_then(|copies| Some((copies, copies.pageable_share()?)));
        let crosses =
            || copies.is_some_and(|copies| copies.directions().into_iter().any(crosses_host));
        match pageable {
            Some((copies, share)) => finding(evidence, stage, copies, share).into(),
            // What traces operations traces copies: none crosses between host and GPU.
            None if evidence.shows_operations(stage) && !crosses() => Look::Passed,
            None => Look::InsufficientData,
        }
    })
}

fn finding(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    copies: &Place,
    pageable: f64,
) -> Option<Finding> {
    let time = copies.time(None);
    if pageable < SHARE || stage.share(time) < TIME {
        return None;
    }
    Some(Finding {
        statement: say!(
            evidence,
            "pageable_copies.statement",
            stage = Inline::strong(&stage.label),
            pageable = Quantity::ratio(pageable),
            share = Quantity::ratio(stage.share(time)),
        ),
        advice: Some(say!(evidence, "pageable_copies.advice")),
        evidence: vec![copies.evidence(evidence.session)],
        query: stage.window.as_ref().and_then(crate::sql::Window::copies),
        ..stage.saving(pageable * time, &words!(evidence, "pageable_copies.basis"))
    })
}
