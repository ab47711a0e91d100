//! Copies between GPU and pageable host memory: slow, and they hold up the host.

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "pageable-copies",
    title: "Pageable memory",
    thresholds: &[
        Threshold::ratio(
            "bytes from or to pageable memory, of those of host copies, at least",
            SHARE,
        ),
        Threshold::ratio("time of copies, of the stage time, at least", TIME),
    ],
    run,
};

/// Pageable bytes ÷ bytes between host and GPU from which on they are worth a finding.
pub(super) const SHARE: f64 = 0.10;

/// Directions between host and GPU, as metrics name them.
pub(super) const DIRECTIONS: [&str; 2] = ["memcpy HtoD", "memcpy DtoH"];

/// Time of copies ÷ stage time below which it does not matter.
const TIME: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    let needs =
        "copies between host and GPU one by one, with the kind of memory (nsys --trace=cuda)";
    results.each_stage(needs, |stage| {
        let crosses =
            |direction: &&str| results.of_class(ids::COPY_BYTES, stage, direction).is_some();
        match results.number(ids::PAGEABLE_SHARE, &stage.scope) {
            Some(_) => finding(results, stage).into(),
            // What traces operations traces copies: none crosses between host and GPU.
            None if results.shows_operations(stage) && !DIRECTIONS.iter().any(crosses) => {
                Look::Clear
            }
            None => Look::Lacks,
        }
    })
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let pageable = results.number(ids::PAGEABLE_SHARE, &stage.scope)?;
    let time = results.number(ids::COPY_TIME, &stage.scope)?;
    if pageable < SHARE || stage.share(time) < TIME {
        return None;
    }
    Some(Observation {
        statement: prose![
            "Of the bytes that ",
            Inline::Strong(stage.label.clone()),
            " moves between host and GPU, ",
            Quantity::ratio(pageable),
            " are in pageable memory; its copies take ",
            Quantity::ratio(stage.share(time)),
            " of its time. Such copies go through a staging buffer and hold up the host."
        ],
        advice: Some(prose![
            "Allocate host buffers pinned (",
            Inline::Code("pin_memory=True".to_owned()),
            ") and copy with ",
            Inline::Code("non_blocking=True".to_owned()),
            "."
        ]),
        evidence: results.evidence(ids::PAGEABLE_SHARE, &stage.scope),
        query: stage.window.as_ref().and_then(super::sql::Window::copies),
        ..stage.saving(pageable * time, "pageable share × time of copies: the copies take no time")
    })
}
