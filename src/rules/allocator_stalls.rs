//! The GPU waits for memory to be allocated or freed.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "allocator-stalls",
    title: "Allocator stalls",
    thresholds: &[
        Threshold::ratio("idle time in the allocator, of the stage time, at least", SHARE),
        Threshold::ratio("such calls, of the stage's time on the host, at least", HOST),
        Threshold::ratio("busy share of the stage, where such calls matter, below", BUSY),
    ],
    run,
};

/// Idle time in the allocator ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.01;

/// Time in such calls ÷ time of the stage's ranges on the host from which on they are worth a note.
const HOST: f64 = 0.01;

/// Busy share from which on the host may take its time: the GPU has work.
const BUSY: f64 = 0.9;

fn run(results: &Results<'_>) -> Outcome {
    let by_cause = results.per_stage(ids::IDLE_ALLOCATOR, super::IDLE_NEEDS, finding);
    let noted: Vec<Observation> =
        results.stages.iter().filter_map(|stage| calls(results, stage)).collect();
    match by_cause {
        Outcome::Found(found) => Outcome::Found(found),
        Outcome::Abstained(_) if results.rows(ids::ALLOCATOR_CALLS).next().is_some() => {
            Outcome::of(noted)
        }
        Outcome::Clear(_) if !noted.is_empty() => Outcome::Found(noted),
        other => other,
    }
}

/// Calls that take the host's time, whether or not the GPU waits for them.
fn calls(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let counted = |row: &super::results::Row<'_>| row.text("counted") == "yes";
    let (mut number, mut time) = (0.0, 0.0);
    for row in results.of_stage(ids::ALLOCATOR_CALLS, stage).filter(counted) {
        number += row.sum("calls");
        time += row.sum("time_ns");
    }
    let host = results.number(ids::HOST_TIME, &stage.scope)? * stage.counted;
    let is_busy = results.number(ids::BUSY_SHARE, &stage.scope).is_some_and(|busy| busy >= BUSY);
    if time <= 0.0 || time < HOST * host || is_busy {
        return None;
    }
    Some(Observation {
        statement: prose![
            Inline::Strong(stage.label.clone()),
            " allocates or frees memory in ",
            Quantity::new(number, Unit::Count),
            " CUDA calls, which take ",
            Quantity::ratio(time / host),
            " of its time on the host."
        ],
        advice: Some(prose![
            "Such calls may wait until the GPU is idle: reuse memory, allocate before the loop, or let the framework's \
             allocator keep what it has."
        ]),
        evidence: results.evidence(ids::HOST_TIME, &stage.scope),
        ..stage.note()
    })
}

fn finding(results: &Results<'_>, stage: &StageLine) -> Option<Observation> {
    let saved = results.number(ids::IDLE_ALLOCATOR, &stage.scope)?;
    if stage.share(saved) < SHARE {
        return None;
    }
    Some(Observation {
        statement: prose![
            Inline::Strong(stage.label.clone()),
            " waits for ",
            Quantity::ratio(stage.share(saved)),
            " of its time in calls that allocate or free memory or instantiate graphs."
        ],
        advice: Some(prose![
            "Warm up with the largest sizes, so that the caching allocator holds what it needs; set ",
            Inline::Code("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".to_owned()),
            "; keep ",
            Inline::Code("torch.cuda.empty_cache()".to_owned()),
            " out of the loop."
        ]),
        next: Some(prose![
            "A PyTorch trace with ",
            Inline::Code("profile_memory=True".to_owned()),
            ": it shows which operator makes the allocator grow."
        ]),
        evidence: results.evidence(ids::IDLE_ALLOCATOR, &stage.scope),
        query: stage.window.as_ref().map(|window| {
            window.calls(&["cudaMalloc%", "cudaFree%", "cudaHostAlloc%", "cudaGraphInstantiate%"])
        }),
        ..stage.saving_idle(saved, "stage time without the gaps that allocating calls left")
    })
}
