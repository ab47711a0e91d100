//! The GPU runs dry because the host waited for it.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "sync-bound",
    title: "Synchronizing calls in the loop",
    thresholds: &[Threshold::ratio(
        "idle time by synchronizing, of the stage time, at least",
        SHARE,
    )],
    run,
};

/// Idle time by synchronizing calls ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    let charged = results.all(ids::SYNC_IDLE).any(|metric| metric.scope.stage.is_some());
    let id = if charged { ids::SYNC_IDLE } else { ids::IDLE_SYNC };
    results.per_stage(id, super::IDLE_NEEDS, finding)
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let number = |id| results.number(id, &stage.scope);
    // All of the gap that a call leaves, where that is known: without the call there is none.
    let (id, saved) = match number(ids::SYNC_IDLE) {
        Some(idle) => (ids::SYNC_IDLE, idle),
        None => (ids::IDLE_SYNC, number(ids::IDLE_SYNC)?),
    };
    if stage.share(saved) < SHARE {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " lets the GPU run dry in synchronizing calls: ",
        Quantity::ratio(stage.share(saved)),
        " of its time is idle because the host waited and had issued nothing more"
    ];
    if let Some(calls) = number(ids::SYNC_CALLS) {
        let calls = Quantity::new(calls, rooflens_schemas::Unit::Count);
        statement.extend(prose![" (", calls, " such calls an instance)"]);
    }
    let own = results.rows(ids::SYNCHRONIZATION).filter(|row| row.text("pass") == results.pass);
    let worst = own.max_by(|a, b| a.sum("in_stage_ns").total_cmp(&b.sum("in_stage_ns")));
    if let Some(row) = worst.filter(|row| row.sum("in_stage_ns") > 0.0) {
        statement.extend(prose!["; the costliest is ", Inline::Code(row.text("call").to_owned())]);
        let place =
            [row.text("operator"), row.text("range")].into_iter().find(|own| !own.is_empty());
        if let Some(place) = place {
            statement.extend(prose![" in ", Inline::Code(place.to_owned())]);
        }
    }
    statement.push(".".into());
    Some(Observation {
        statement,
        advice: Some(prose![
            "Remove ",
            Inline::Code(".item()".to_owned()),
            ", ",
            Inline::Code(".cpu()".to_owned()),
            ", printing of tensors and ",
            Inline::Code("torch.cuda.synchronize()".to_owned()),
            " from the loop; copy results with ",
            Inline::Code("non_blocking=True".to_owned()),
            " and read them a step later."
        ]),
        next: Some(prose![
            "A PyTorch trace with stacks (",
            Inline::Code("with_stack=True".to_owned()),
            "): it names the line of each synchronizing call."
        ]),
        evidence: results.evidence(id, &stage.scope),
        query: stage
            .window
            .as_ref()
            .map(|window| window.calls(&["cuda%Synchronize%", "cudaMemcpy%"])),
        ..stage.saving_idle(saved, "stage time without the gaps that synchronizing calls left")
    })
}
