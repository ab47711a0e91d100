//! The GPU waits for memory to be allocated or freed.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::memory::allocator::Allocator;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "allocator-stalls",
    &[
        Threshold::ratio("thresholds.allocator_idle", SHARE),
        Threshold::ratio("thresholds.allocator_calls", HOST),
        Threshold::ratio("thresholds.allocator_busy", BUSY),
    ],
    outcome,
);

/// Idle time within calls that allocate ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.01);

/// Time in such calls ÷ time of the stage's ranges on the host from which on they are worth a note.
const HOST: Ratio = Ratio(0.01);

/// Busy share from which on the host may take its time: the GPU has work.
const BUSY: Ratio = Ratio(0.9);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let by_cause = evidence.per_cause(Cause::Allocator, SHARE, |stage, idle, saved| {
        let is_large = stage.share(saved) >= SHARE;
        match is_large {
            true if known::empties_cache(evidence) => Look::suppressed_by(evidence, "empty-cache"),
            true if known::prepares_mostly(evidence, stage) => {
                Look::suppressed_by(evidence, "new-shapes")
            }
            // What a program allocates in a single iteration is no stall of a loop.
            _ if is_single(idle) => Look::Passed,
            _ => is_large.then(|| draft(evidence, stage, idle, saved)).into(),
        }
    });
    let Ok(allocator) = evidence.results.allocator() else {
        return by_cause;
    };
    if allocator.calls.rows.is_empty() {
        return by_cause;
    }
    let stages = evidence.stages.iter();
    let noted = stages.filter_map(|stage| calls(evidence, stage, allocator));
    match (by_cause, Outcome::of_drafts(noted)) {
        (Outcome::InsufficientData(_) | Outcome::Passed(_), noted @ Outcome::Found(_)) => noted,
        (by_cause, _) => by_cause,
    }
}

/// Whether a single iteration of several waits.
fn is_single(idle: &StageIdle) -> bool {
    let spread = idle.spread(&[Cause::Allocator]);
    spread.instances == 1 && spread.of > 1
}

/// Calls that take the host's time, whether or not the GPU waits for them.
fn calls(evidence: &Evidence<'_>, stage: &StageLine, allocator: &Allocator) -> Option<Draft> {
    let (number, time) = allocator.calls.counted(stage.stage, stage.process);
    let time = time.time();
    let host = evidence.summary(stage)?.host * stage.counted;
    let is_small = time <= Time::ZERO || time < host * HOST || stage.busy_share >= BUSY;
    if is_small || evidence.idle(stage.key()).is_some_and(is_single) {
        return None;
    }
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        count = Quantity::count(number),
        iterations = Quantity::count(stage.counted.0 as u64),
        share = Ratio::of(time, host),
    };
    let draft = Draft::new(stage.note_on_figures(), arguments);
    Some(draft.statement("calls").advice("calls_advice").next(None))
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle, saved: Time) -> Draft {
    // A call that frees memory waits until the GPU is idle, and the queue fills again after it.
    let late = idle.scaled(idle.pool.causes.sum(&Cause::HOST) + idle.pool.latency);
    let is_most = saved >= late * known::MOST;
    let bound = if is_most { late } else { saved };
    let mut finding = Finding {
        query: evidence.query(stage, idle, Cause::Allocator),
        ..evidence.saving_idle(stage, idle, &[Cause::Allocator], bound)
    };
    if let Some(gain) = &mut finding.gain
        && bound > saved
    {
        gain.basis
            .insert_str(0, &words!(evidence, "known.extended"));
    }
    let idles = evidence.idles(stage, idle, &[Cause::Allocator], saved);
    let draft = Draft::new(finding, arguments! { idle = idles });
    match evidence.platform.pytorch {
        true => draft.root("root_cause", "root_action"),
        false => draft,
    }
}
