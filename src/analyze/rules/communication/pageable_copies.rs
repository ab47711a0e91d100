//! Copies between GPU and pageable host memory: slow, and they hold up the host.

use crate::communication::PAGEABLE;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::StageLine;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::memory::transfers::sums::crosses_host;
use rooflens_document::{Finding, Inline};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "pageable-copies",
    &[
        Threshold::ratio("thresholds.pageable_bytes", PAGEABLE),
        Threshold::ratio("thresholds.copy_time", TIME),
    ],
    outcome,
);

/// Time of copies ÷ stage time below which it does not matter.
const TIME: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| look(evidence, stage))
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let copies = evidence.copies(stage);
    if let Some(copies) = copies
        && let Some(share) = copies.pageable_share()
    {
        return draft(evidence, stage, copies, share).into();
    }
    let crosses = copies.is_some_and(|copies| copies.directions().into_iter().any(crosses_host));
    match evidence.shows_operations(stage) && !crosses {
        // What traces operations traces copies: none crosses between host and GPU.
        true => Look::Passed,
        false => Look::InsufficientData,
    }
}

fn draft(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    copies: &Place,
    pageable: Ratio,
) -> Option<Draft> {
    let time = copies.time(None);
    if pageable < PAGEABLE || stage.share(time) < TIME {
        return None;
    }
    let finding = Finding {
        evidence: vec![copies.evidence(evidence.session)],
        query: stage.window.as_ref().and_then(Window::copies),
        ..stage.saving(time * pageable)
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        pageable = pageable,
        share = stage.share(time),
    };
    Some(Draft::new(finding, arguments))
}
