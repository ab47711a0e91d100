//! The GPU waits because the host issues work too slowly.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold, time::host_bound, time::host_pauses};
use rooflens_analysis::time::idle::{Cause, Line, Verdict};
use rooflens_document::{Finding, GainKind, Inline, Quantity, Root};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "launch-bound",
    &[Threshold::ratio("thresholds.launching", SHARE)],
    run,
);

/// Idle time while launching ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Launching, SHARE, |stage, line, _| {
        launching(evidence, stage)
            .map(|time| finding(evidence, stage, line, time))
            .into()
    })
}

/// Idle time while launching, if it is worth a finding: as the largest cause, or as one of at least half of the largest
/// where that is not host code whose finding has the same advice.
pub(crate) fn launching(evidence: &Evidence<'_>, stage: &StageLine) -> Option<f64> {
    let line = evidence.idle(stage.key())?;
    let launching = line.of_stage(Cause::Launching).ok()?;
    let (largest, most) = largest(evidence, stage, line)?;
    let is_said = largest == Cause::HostCode && host_bound::is_many(evidence, stage, line);
    let is_large = launching >= most || !is_said && 2.0 * launching >= most;
    (stage.share(launching) >= SHARE && is_large).then_some(launching)
}

/// The cause with most idle time, and that time. Pauses that typical instances do not have are no reason to leave
/// launching alone.
fn largest(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> Option<(Cause, f64)> {
    let causes = line.causes().filter_map(|(cause, time)| {
        let time = match cause {
            Cause::HostCode => host_pauses::host_code(evidence, stage),
            _ => Some(time).filter(|_| !line.spread(&[cause]).is_rare()),
        };
        Some((cause, time?))
    });
    causes.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line, launching: f64) -> Finding {
    let base = match evidence.replay(stage).and_then(|graph| graph.figures.time) {
        Some(replay) => {
            let basis = words!(evidence, "launch_bound.basis_replay");
            let mut found = stage.saving_idle(stage.time - replay, &basis);
            if let Some(gain) = &mut found.gain {
                gain.kind = GainKind::Measured;
            }
            found
        }
        None => {
            let is_largest =
                largest(evidence, stage, line).is_some_and(|(_, most)| most <= launching);
            let (saved, basis) = match is_largest {
                true => (
                    replayed(evidence, stage, line),
                    words!(evidence, "launch_bound.basis"),
                ),
                // Larger causes have findings of their own.
                false => (launching, words!(evidence, "launch_bound.basis_launching")),
            };
            evidence.saving_idle(
                stage,
                line,
                &[Cause::Launching],
                saved.max(launching),
                &basis,
            )
        }
    };
    Finding {
        statement: statement(evidence, stage, line, launching),
        advice: Some(advice(evidence, stage)),
        next: next(evidence, stage),
        root: evidence.platform.pytorch.then(|| Root {
            cause: words!(evidence, "launch_bound.root_cause"),
            action: words!(evidence, "launch_bound.root_action"),
            condition: None,
            passes: 1,
        }),
        evidence: vec![line.evidence(&evidence.context)],
        query: evidence.query(stage, line, Cause::Launching),
        ..base
    }
}

/// Idle time of a typical iteration that is gone when one launch replays all its operations, nanoseconds: the medians of all
/// causes of the host but for synchronizing calls, copies that block, and host code in one place.
fn replayed(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> f64 {
    let time = |cause: Cause| match cause {
        Cause::Sync | Cause::Copy => None,
        Cause::HostCode if !host_bound::is_between(line) => None,
        Cause::HostCode => {
            host_pauses::typical(evidence, stage).or_else(|| line.median_of(cause).ok())
        }
        _ => line.median_of(cause).ok(),
    };
    Cause::HOST.into_iter().filter_map(time).sum()
}

fn statement(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    line: &Line,
    launching: f64,
) -> Vec<Inline> {
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    // The word is kept for stages of which launching takes the largest part.
    let is_bound = line.verdict().0 == Verdict::Launch;
    let (launches, figures) = (line.launches.per_step, &line.launches);
    let operations = launches.is_none().then_some(stage.operations);
    say!(
        evidence,
        "launch_bound.statement",
        bound = is_bound.then(|| Inline::strong(&stage.label)),
        idle = evidence.idles(stage, line, &[Cause::Launching], launching),
        launches = launches.map(|count| Quantity::new(count, Unit::Count)),
        operations = operations.map(|count| Quantity::new(count, Unit::Count)),
        kernel = figures.mean_kernel().map(time),
        call = figures.median_call.map(time),
        sampled = evidence.sampled(line),
    )
}

fn advice(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    if evidence.replays_graphs(stage) {
        return say!(evidence, "launch_bound.advice_graphs");
    }
    if stage.is_decode() {
        return say!(evidence, "launch_bound.advice_decode");
    }
    say!(evidence, "launch_bound.advice")
}

/// What to capture next, unless the bundle holds it.
fn next(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Vec<Inline>> {
    if evidence.replays_graphs(stage) {
        return evidence
            .has_no_samples()
            .then(|| say!(evidence, "launch_bound.next_graphs"));
    }
    // A bundle with the graph shows its gaps already.
    evidence
        .replay(stage)
        .is_none()
        .then(|| say!(evidence, "launch_bound.next"))
}
