//! The GPU waits because the host issues work too slowly.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::launching::{
    MANY, RULE as ID, SHARE, cells, has_single_requests, is_within_steps, largest, launching,
    leaves_host_code, micro_batches, samples, varying_operations,
};
use crate::pauses;
use crate::practices;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::{HALF_BUSY, StageLine};
use rooflens_analysis::time::idle::{Cause, StageIdle, Verdict};
use rooflens_document::{Finding, GainKind, Inline};
use rooflens_units::Time;

pub(crate) static RULE: Rule = Rule::new(
    ID,
    &[Threshold::ratio("thresholds.launching", SHARE)],
    outcome,
)
.general();

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Launching, SHARE, |stage, idle, _| {
        if !known::prepares_mostly(evidence, stage) {
            let launching = launching(evidence, stage);
            return launching
                .map(|time| draft(evidence, stage, idle, time, false))
                .into();
        }
        // Once kernels are prepared, a host that is slow by itself still launches.
        let launching = idle.rest_of_stage(Cause::Launching).unwrap_or_default();
        let rest = launching - known::sooner(evidence, stage) - known::added_by_profiler(stage);
        match stage.share(rest) >= SHARE {
            true => draft(evidence, stage, idle, rest, true).into(),
            false => Look::suppressed_by(evidence, "new-shapes"),
        }
    })
}

/// The finding; `is_apart`: a named cause explains more, and not this.
fn draft(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
    launching: Time,
    is_apart: bool,
) -> Draft {
    let (finding, basis, kept) = gain(evidence, stage, idle, launching);
    let finding = Finding {
        evidence: vec![idle.evidence(&evidence.context)],
        query: evidence.query(stage, idle, Cause::Launching),
        is_apart,
        ..finding
    };
    // The word is kept for stages of which launching takes the largest part, and the GPU works for less than half.
    let is_bound = idle.verdict().0 == Verdict::Launch && stage.reference_busy() < HALF_BUSY;
    let launches = idle.launches.per_step;
    let micro_batches = micro_batches(evidence, stage);
    let replayed = evidence.replayed_in(stage);
    let varying = varying_operations(evidence, stage);
    let arguments = arguments! {
        bound = is_bound.then(|| Inline::strong(&stage.label)),
        idle = evidence.idles(stage, idle, &[Cause::Launching], launching),
        launches = launches,
        kept = kept,
        operations = launches.is_none().then_some(stage.operations),
        kernel = idle.launches.mean_kernel(),
        call = idle.launches.median_call,
        sampled = evidence.sampled(idle),
        cells = cells(evidence, stage),
        least = varying.map(|[least, _]| least),
        most = varying.map(|[_, most]| most),
        samples = samples(evidence, stage),
        calls = micro_batches.map(|[calls, _]| calls),
        batch = micro_batches.map(|[_, batch]| batch),
        stage = stage.label.as_str(),
        replayed = replayed,
    };
    let (advice, next) = advice(evidence, stage, idle);
    let draft = Draft::new(finding, arguments)
        .basis(basis)
        .advice(advice)
        .next(next);
    if replayed.is_some() {
        let draft = draft.root("root_cause", "root_action_replayed");
        return draft.only_if("root_if_replayed");
    }
    if let Some((_, cause, action, condition)) = ROOTS.iter().find(|root| root.0 == advice) {
        let draft = draft.root(cause, action);
        return match *condition {
            "" => draft,
            condition => draft.only_if(condition),
        };
    }
    match advice {
        _ if !evidence.platform.pytorch => draft,
        "advice_decode"
            if evidence.session.model.is_some()
                && !practices::has_static_cache(evidence, stage) =>
        {
            draft.root("root_cause", "root_action_cache")
        }
        _ if practices::is_compiled(evidence, stage) => {
            draft.root("root_cause", "root_action_compiled")
        }
        _ => draft.cause_if(true),
    }
}

/// Cause, action and condition of an advice; without a condition that of the rule holds.
const ROOTS: [(&str, &str, &str, &str); 8] = [
    (
        "advice_graphs",
        "root_cause_graphs",
        "root_action_graphs",
        "",
    ),
    ("advice_waits", "root_cause_waits", "root_action_waits", ""),
    ("advice_parts", "root_cause_waits", "root_action_parts", ""),
    (
        "advice_cells",
        "root_cause_cells",
        "root_action_cells",
        "root_if_cells",
    ),
    (
        "advice_accumulation",
        "root_cause_accumulation",
        "root_action_accumulation",
        "root_if_accumulation",
    ),
    (
        "advice_samples",
        "root_cause_samples",
        "root_action_samples",
        "root_if_samples",
    ),
    (
        "advice_requests",
        "root_cause_requests",
        "root_action_requests",
        "root_if_requests",
    ),
    (
        "advice_varying",
        "root_cause_varying",
        "root_action_varying",
        "root_if_varying",
    ),
];

/// The gain, the key of its basis, and host code between the steps, which stays.
fn gain(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
    launching: Time,
) -> (Finding, &'static str, Option<Time>) {
    if let Some(replay) = evidence.replay(stage).and_then(|graph| graph.figures.time) {
        let mut finding = stage.saving_idle(stage.time - replay);
        if let Some(gain) = &mut finding.gain {
            gain.kind = GainKind::Measured;
        }
        return (finding, "basis_replay", None);
    }
    if let Some(samples) = samples(evidence, stage) {
        // A kernel for all samples may take as long as that of one.
        let idle = replayed(evidence, stage, idle)
            .max(launching)
            .min(stage.idle());
        let work = stage.busy * (1.0 - 1.0 / samples.0);
        return (stage.saving(idle + work), "basis_samples", None);
    }
    let largest = largest(evidence, stage, idle);
    let saving = |saved| evidence.saving_idle(stage, idle, &[Cause::Launching], saved);
    // Larger causes have findings of their own.
    if largest.is_none_or(|(_, most)| most > launching) {
        return (saving(launching), "basis_launching", None);
    }
    let saved = replayed(evidence, stage, idle).max(launching);
    let kept = host_code(evidence, stage, idle)
        .filter(|time| time.is_positive() && leaves_host_code(evidence, stage));
    let Some(kept) = kept else {
        return (saving(saved), "basis", None);
    };
    let kept = stage.unprofiled_idle(kept).min(stage.idle());
    let bound = (saved, stage.idle() - kept);
    let finding = evidence.saving_idle_within(stage, idle, &[Cause::Launching], bound);
    (finding, "basis_steps", Some(kept))
}

/// Idle time in host code of a typical iteration.
fn host_code(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Option<Time> {
    let median = || idle.median_rest_of(Cause::HostCode).ok();
    pauses::typical(evidence, stage).or_else(median)
}

/// Idle time of a typical iteration that is gone when one launch replays all its operations: the medians of all causes of
/// the host except for synchronizing calls, copies that block, and host code in one place; and the latency of each launch.
fn replayed(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Time {
    let mut replayed = Time::ZERO;
    for cause in Cause::HOST.into_iter().chain([Cause::Queue]) {
        let median = idle.median_rest_of(cause).ok();
        let time = match cause {
            Cause::Sync | Cause::Copy => None,
            Cause::HostCode if !is_within_steps(evidence, stage, idle) => None,
            Cause::HostCode => host_code(evidence, stage, idle),
            _ => median,
        };
        replayed += time.unwrap_or_default();
    }
    replayed
}

/// Whether the host waits for results so often that no graph of many operations fits between two waits.
fn waits(stage: &StageLine, idle: &StageIdle) -> bool {
    let waits: usize = idle.sources.waits.iter().sum();
    let operations = stage.operations.0 * stage.counted.0;
    idle.sources.waits_for_results() && operations < MANY.0 * waits as f64
}

/// Keys of the advice, and of what to capture next, unless the bundle holds it.
fn advice(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
) -> (&'static str, Option<&'static str>) {
    if evidence.replays_graphs(stage) {
        let next = evidence.has_no_samples().then_some("next_graphs");
        return ("advice_graphs", next);
    }
    if cells(evidence, stage).is_some() {
        return ("advice_cells", None);
    }
    if micro_batches(evidence, stage).is_some() {
        return ("advice_accumulation", None);
    }
    if samples(evidence, stage).is_some() {
        return ("advice_samples", None);
    }
    if stage.is_host_bound && has_single_requests(evidence, stage) {
        return ("advice_requests", None);
    }
    if varying_operations(evidence, stage).is_some() {
        return ("advice_varying", None);
    }
    // A bundle with the graph shows its gaps already.
    let replay = evidence.replay(stage);
    if replay.is_none() && waits(stage, idle) {
        return ("advice_waits", None);
    }
    let next = replay.is_none().then_some("next");
    match (stage.is_decode(), idle.sources.waits_for_results()) {
        (true, _) => ("advice_decode", next),
        (false, true) if replay.is_none() => ("advice_parts", next),
        (false, _) => ("advice", next),
    }
}
