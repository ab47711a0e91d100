//! The GPU waits because the host issues work too slowly.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, host_pauses};
use rooflens_analysis::time::idle::{Cause, Line, Verdict};
use rooflens_analysis::time::what_if::WhatIf;
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "launch-bound",
    thresholds: &[Threshold::ratio("thresholds.launching", SHARE)],
    run,
};

/// Idle time while launching ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

fn run(results: &Results<'_>) -> Outcome {
    results.per_cause(Cause::Launching, |stage, line, _| {
        launching(results, stage).map(|time| finding(results, stage, line, time)).into()
    })
}

/// Idle time while launching, if it is the largest cause and worth a finding.
pub(super) fn launching(results: &Results<'_>, stage: &StageLine) -> Option<f64> {
    let line = results.idle(stage.key())?;
    let launching = line.typical(Cause::Launching).ok()?;
    // Pauses that typical instances do not have are no reason to leave launching alone.
    let causes = line.causes().filter_map(|(cause, time)| match cause {
        Cause::HostCode => host_pauses::host_code(results, stage),
        _ => Some(time),
    });
    let is_largest = causes.fold(0.0, f64::max) <= launching;
    (stage.share(launching) >= SHARE && is_largest).then_some(launching)
}

fn finding(results: &Results<'_>, stage: &StageLine, line: &Line, launching: f64) -> Observation {
    let saved = results.gain(WhatIf::Launching, stage).unwrap_or(launching);
    Observation {
        statement: statement(stage, line, launching),
        advice: Some(advice(results, stage)),
        next: Some(next(results, stage)),
        evidence: vec![line.evidence(&results.context)],
        query: stage.window.as_ref().map(super::sql::Window::idle),
        ..stage.saving_idle(saved, "stage time without the gaps in which the host was launching")
    }
}

fn statement(stage: &StageLine, line: &Line, launching: f64) -> Vec<Inline> {
    let mut text = prose![Inline::Strong(stage.label.clone())];
    // The word is kept for stages of which launching takes the largest part.
    let is_bound = line.verdict().0 == Verdict::Launch;
    text.push(if is_bound { " is launch-bound: " } else { " waits for launches: " }.into());
    text.extend(prose![
        "for ",
        Quantity::ratio(stage.share(launching)),
        " of its time the GPU has nothing to run while the host issues the next operation"
    ]);
    let (count, words) = match line.launches.per_step {
        Some(count) => (count, " launches a step"),
        None => (stage.operations, " GPU operations"),
    };
    text.extend(prose!["; it has ", Quantity::new(count, Unit::Count), words]);
    if let Some(mean) = line.launches.mean_kernel() {
        let mean = Quantity::new(mean, Unit::Nanoseconds);
        text.extend(prose![", kernels last ", mean, " on average"]);
    }
    if let Some(call) = line.launches.mean_call() {
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
