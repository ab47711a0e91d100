//! The GPU waits because the host issues work too slowly.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "launch-bound",
    title: "Launches hold up the GPU",
    thresholds: &[Threshold::ratio(
        "idle time while launching, of the stage time, at least",
        SHARE,
    )],
    run,
};

/// Idle time while launching ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

fn run(results: &Results<'_>) -> Outcome {
    results.per_stage(ids::IDLE_LAUNCHING, super::IDLE_NEEDS, finding)
}

/// Idle time while launching, if it is the largest cause and worth a finding.
pub(super) fn launching(results: &Results<'_>, stage: &StageLine) -> Option<f64> {
    let number = |id| results.number(id, &stage.scope);
    let launching = number(ids::IDLE_LAUNCHING)?;
    // Pauses that typical instances do not have are no reason to leave launching alone.
    let causes = ids::IDLE_CAUSES.iter().filter_map(|(id, _)| match *id {
        ids::IDLE_HOST_CODE => host_pauses::host_code(results, stage),
        id => number(id),
    });
    let is_largest = causes.fold(0.0, f64::max) <= launching;
    (stage.share(launching) >= SHARE && is_largest).then_some(launching)
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let number = |id| results.number(id, &stage.scope);
    let launching = launching(results, stage)?;
    let busy = number(ids::BUSY_SHARE).unwrap_or(1.0) * stage.time;
    let saved = results.saved(ids::BOUND_LAUNCHING, stage).unwrap_or(launching);
    Some(Observation {
        statement: statement(results, stage, launching, busy),
        advice: Some(advice(results, stage)),
        next: Some(next(results, stage)),
        evidence: results.evidence(ids::IDLE_LAUNCHING, &stage.scope),
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.saving_idle(saved, "stage time without the gaps in which the host was launching")
    })
}

fn statement(results: &Results<'_>, stage: &StageLine, launching: f64, busy: f64) -> Vec<Inline> {
    let number = |id| results.number(id, &stage.scope);
    let mut text = prose![Inline::Strong(stage.label.clone())];
    // The word is kept for stages of which launching takes the largest part.
    let verdict =
        results.of_stage(ids::LAUNCH_FIGURES, stage).next().map(|row| row.text("verdict"));
    let is_bound = verdict.map_or(launching > busy, |verdict| verdict == "launch-bound");
    text.push(if is_bound { " is launch-bound: " } else { " waits for launches: " }.into());
    text.extend(prose![
        "for ",
        Quantity::ratio(stage.share(launching)),
        " of its time the GPU has nothing to run while the host issues the next operation"
    ]);
    let launches = number(ids::LAUNCHES_PER_STEP).map(|count| (count, " launches a step"));
    let launches = launches.or(number(ids::OPERATIONS).map(|count| (count, " GPU operations")));
    if let Some((count, words)) = launches {
        text.extend(prose!["; it has ", Quantity::new(count, Unit::Count), words]);
    }
    if let Some(mean) = number(ids::MEAN_KERNEL_TIME) {
        let mean = Quantity::new(mean, Unit::Nanoseconds);
        text.extend(prose![", kernels last ", mean, " on average"]);
    }
    if let Some(call) = number(ids::LAUNCH_API_TIME) {
        let call = Quantity::new(call, Unit::Nanoseconds);
        text.extend(prose![", and a launch call takes ", call]);
    }
    text.push(".".into());
    text
}

fn advice(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    if results.replays_graphs(stage) {
        return prose![
            "The stage replays CUDA graphs already: the time goes between replays. Capture more in one graph, take work of \
             the host out from between replays, and issue the next replay before the last one ends."
        ];
    }
    if stage.is_decode() {
        return prose![
            "Replay the step as a CUDA graph (",
            Inline::Code("torch.compile(mode=\"reduce-overhead\")".to_owned()),
            ", or the serving engine's graph mode), then raise the batch: kernels grow, launches do not. Graphs need shapes that \
             stay: a cache that grows by a step, or is concatenated, has to be made static first."
        ];
    }
    prose![
        "Fuse small kernels (",
        Inline::Code("torch.compile".to_owned()),
        "), capture the stage as a CUDA graph, or give it more work at once."
    ]
}

fn next(results: &Results<'_>, stage: &StageLine) -> Vec<Inline> {
    if results.replays_graphs(stage) {
        return prose![
            "nsys with ",
            Inline::Code("--sample=process-tree --python-sampling=true".to_owned()),
            ": it names the code that runs between replays."
        ];
    }
    prose![
        "nsys with ",
        Inline::Code("--cuda-graph-trace=node --sample=process-tree".to_owned()),
        " on a run with CUDA graphs: the gaps between kernels must shrink to a microsecond or two."
    ]
}
