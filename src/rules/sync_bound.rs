//! The GPU runs dry because the host waited for it.

use rooflens_schemas::Evidence;

use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::sync::{PassSync, StageSync};
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "sync-bound",
    thresholds: &[Threshold::ratio("thresholds.synchronizing", SHARE)],
    run,
};

/// Idle time by synchronizing calls ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.02;

fn run(results: &Results<'_>) -> Outcome {
    let sync = results.context.results.sync().ok();
    let Some(sync) = sync.filter(|sync| sync.passes.iter().any(|pass| !pass.stages.is_empty()))
    else {
        return results.per_cause(Cause::Sync, |stage, line, idle| {
            let evidence = line.evidence(&results.context);
            finding(results, stage, idle, evidence, None).into()
        });
    };
    // All of the gap that a call leaves, where that is known: without the call there is none.
    results.each_stage(&words!(results, "findings.needs_idle"), |stage| {
        let Some((pass, own)) = sync.of_stage(stage.stage, stage.process) else {
            return Look::Lacks;
        };
        let evidence = pass.evidence(results.context.session);
        finding(results, stage, own.idle, evidence, Some((pass, own))).into()
    })
}

fn finding(
    results: &Results<'_>,
    stage: &StageLine,
    saved: f64,
    evidence: Evidence,
    calls: Option<(&PassSync, &StageSync)>,
) -> Option<Observation> {
    if stage.share(saved) < SHARE {
        return None;
    }
    let mut statement = prose![
        Inline::Strong(stage.label.clone()),
        " lets the GPU run dry in synchronizing calls: ",
        Quantity::ratio(stage.share(saved)),
        " of its time is idle because the host waited and had issued nothing more"
    ];
    if let Some((pass, own)) = calls {
        let count = Quantity::new(own.calls, rooflens_schemas::Unit::Count);
        statement.extend(prose![" (", count, " such calls an instance)"]);
        statement.extend(costliest(results, pass));
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
        evidence: vec![evidence],
        query: stage
            .window
            .as_ref()
            .map(|window| window.calls(&["cuda%Synchronize%", "cudaMemcpy%"])),
        ..stage.saving_idle(saved, "stage time without the gaps that synchronizing calls left")
    })
}

/// The call of a pass that costs most in stages, and where it is, in words.
fn costliest(results: &Results<'_>, pass: &PassSync) -> Vec<Inline> {
    let session = results.context.session;
    let worst = pass.places.iter().max_by_key(|place| place.sum.in_stage);
    let Some(place) = worst.filter(|place| place.sum.in_stage > 0) else { return Vec::new() };
    let call = session.text(place.call).to_owned();
    let mut text = prose!["; the costliest is ", Inline::Code(call)];
    let around = place.operator_name(session).map(ToOwned::to_owned);
    if let Some(around) = around.or_else(|| place.path(session)) {
        text.extend(prose![" in ", Inline::Code(around)]);
    }
    text
}
