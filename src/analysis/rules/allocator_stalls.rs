//! The GPU waits for memory to be allocated or freed.

use super::stage::StageLine;
use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;

pub(super) static RULE: Rule = Rule {
    id: "allocator-stalls",
    title: "Allocator stalls",
    thresholds: &[Threshold::ratio(
        "idle time in the allocator, of the stage time, at least",
        SHARE,
    )],
    run,
};

/// Idle time in the allocator ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    results.per_stage(ids::IDLE_ALLOCATOR, super::IDLE_NEEDS, finding)
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
        ..stage.saving(saved, "stage time without the gaps that allocating calls left")
    })
}
