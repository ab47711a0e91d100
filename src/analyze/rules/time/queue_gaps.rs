//! Gaps between operations that were issued in time: the GPU itself takes them, one after the other.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_document::{Finding, Quantity, Root};
use rooflens_schemas::Unit;
use rooflens_session::Ns;

pub(crate) static RULE: Rule = Rule::new(
    "queue-gaps",
    &[
        Threshold::ratio("thresholds.queue_gaps", SHARE),
        Threshold::ns("thresholds.held_up", HELD_UP),
    ],
    run,
);

/// Idle time of cause *queue, latency* ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.10;

/// Length of the gaps, on the mean or of those with half of their time, nanoseconds, from which on something else than
/// the launch of queued work, which takes microseconds, holds the GPU or the stream. A time slice of one of several
/// processes is about 2 ms long.
const HELD_UP: Ns = 100_000;

/// Share of the idle time of graphs from which on it is advised what shortens the part between replays.
const WORTH_SAYING: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Queue, SHARE, |stage, line, idle| {
        finding(evidence, stage, line, idle).into()
    })
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line, saved: f64) -> Option<Finding> {
    if stage.share(saved) < SHARE {
        return None;
    }
    let (gaps, time) = (line.gaps[Cause::Queue as usize].gaps, line.of(Cause::Queue));
    let mean = (gaps > 0).then(|| time as f64 / gaps as f64);
    let is_replayed = evidence.replays_graphs(stage);
    let long = line
        .histogram
        .used()
        .filter(|(shortest, ..)| *shortest >= HELD_UP);
    let held_up: Ns = long.map(|(.., bin)| bin.times.of(Cause::Queue)).sum();
    let is_long = mean.is_some_and(|mean| mean >= HELD_UP as f64) || held_up > time / 2;
    let is_held_up = !is_replayed && is_long;
    let root = |cause, action, condition| {
        Some(Root {
            cause,
            action,
            condition,
            passes: 1,
        })
    };
    let (which, mut advice, root) = match (is_replayed, is_held_up) {
        (true, _) => (
            words!(evidence, "queue_gaps.replayed"),
            say!(evidence, "queue_gaps.advice_graph"),
            root(
                words!(evidence, "queue_gaps.root_cause"),
                words!(evidence, "queue_gaps.root_action"),
                None,
            ),
        ),
        (false, true) => (
            words!(evidence, "queue_gaps.issued"),
            say!(evidence, "queue_gaps.advice_held_up"),
            root(
                words!(evidence, "queue_gaps.held_up_cause"),
                words!(evidence, "queue_gaps.held_up_action"),
                Some(words!(evidence, "queue_gaps.held_up_condition")),
            ),
        ),
        (false, false) => (
            words!(evidence, "queue_gaps.issued"),
            say!(evidence, "queue_gaps.advice"),
            None,
        ),
    };
    let replays = is_replayed.then(|| evidence.replays(stage)).flatten();
    // Of graphs traced as a whole it is not known what is idle inside.
    let replays = replays.filter(|own| !own.whole && own.figures.gaps > 0);
    let figures = replays.map(|own| &own.figures);
    let inside = figures.map(|own| (own.gpu_time - own.busy).max(0));
    let between = figures.map(|own| own.gap_idle_total);
    let all = inside.unwrap_or(0).saturating_add(between.unwrap_or(0)) as f64;
    if between.is_some_and(|between| between as f64 >= WORTH_SAYING * all && between > 0) {
        advice.extend(say!(evidence, "queue_gaps.advice_between"));
    }
    let basis = words!(evidence, "queue_gaps.basis");
    Some(Finding {
        root,
        statement: say!(
            evidence,
            "queue_gaps.statement",
            idle = evidence.idles(stage, line, &[Cause::Queue], saved),
            which = which,
            gaps = Quantity::count(gaps),
            mean = mean.map(|mean| Quantity::new(mean, Unit::Nanoseconds)),
            inside = inside.map(Quantity::ns),
            between = between.map(Quantity::ns),
            betweens = figures.map(|own| Quantity::count(own.gaps as u64)),
        ),
        advice: Some(advice),
        evidence: vec![line.evidence(&evidence.context)],
        query: evidence.query(stage, line, Cause::Queue),
        ..evidence.saving_idle(stage, line, &[Cause::Queue], saved, &basis)
    })
}
