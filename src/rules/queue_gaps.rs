//! Gaps between operations that were issued in time: the GPU itself takes them, one after the other.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::idle::line::CauseSum;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule =
    Rule { id: "queue-gaps", thresholds: &[Threshold::ratio("thresholds.queue_gaps", SHARE)], run };

/// Idle time of cause *queue, latency* ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

fn run(results: &Results<'_>) -> Outcome {
    results.per_cause(Cause::Queue, |stage, line, idle| finding(results, stage, line, idle).into())
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    line: &Line,
    saved: f64,
) -> Option<Observation> {
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
    let CauseSum { gaps, time, .. } = line.sums[Cause::Queue as usize];
    if gaps > 0 {
        statement.extend(prose![
            ", in ",
            Quantity::count(gaps),
            " gaps of ",
            Quantity::new(time as f64 / gaps as f64, Unit::Nanoseconds),
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
        evidence: vec![line.evidence(&results.context)],
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.saving_idle(saved, "stage time without the gaps in front of issued operations")
    })
}
