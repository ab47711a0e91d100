//! Gaps between operations that were issued in time: the GPU itself takes them, one after the other.

use super::results::Row;
use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "queue-gaps",
    title: "Gaps between issued operations",
    thresholds: &[Threshold::ratio(
        "idle time with work issued, of the stage time, at least",
        SHARE,
    )],
    run,
};

/// Idle time of cause *queue, latency* ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

/// The cause in the data sets of idle time.
const QUEUE: &str = "queue, latency";

fn run(results: &Results<'_>) -> Outcome {
    results.per_stage(ids::IDLE_QUEUE, super::IDLE_NEEDS, finding)
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let saved = results.number(ids::IDLE_QUEUE, &stage.scope)?;
    if stage.share(saved) < SHARE {
        return None;
    }
    let replays = results.replays_graphs(stage);
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " leaves the GPU idle for ",
        Quantity::ratio(stage.share(saved)),
        if replays {
            " of its time between operations that a CUDA graph replays"
        } else {
            " of its time between operations that were issued before the gap"
        }
    ];
    let mut own = results.of_stage(ids::IDLE_SUMS, stage).filter(|row| row.text("cause") == QUEUE);
    let mean = |row: Row<'_>| Some((row.number("gaps")?, row.number("total_ns")?));
    if let Some((gaps, total)) = own.next().and_then(mean).filter(|(gaps, _)| *gaps > 0.0) {
        statement.extend(prose![
            ", in ",
            Quantity::new(gaps, Unit::Count),
            " gaps of ",
            Quantity::new(total / gaps, Unit::Nanoseconds),
            " on average"
        ]);
    }
    statement.push(": the host does not hold it up.".into());
    let advice = match replays {
        true => prose![
            "Another graph changes nothing: each operation waits for the one before it. Make the graph of fewer and larger \
             kernels (fusion, ",
            Inline::Code("torch.compile".to_owned()),
            ") before it is captured, and capture what does not depend on one another on several streams."
        ],
        false => prose![
            "Fewer and larger kernels have fewer gaps; a CUDA graph shortens them. If the longest gaps wait for an event, \
             look at the stream that they wait for."
        ],
    };
    Some(Observation {
        statement,
        advice: Some(advice),
        evidence: results.evidence(ids::IDLE_QUEUE, &stage.scope),
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.saving_idle(saved, "stage time without the gaps in front of issued operations")
    })
}
