//! Gaps between operations that were issued in time: the GPU itself takes them, one after the other.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::launching;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_session::Ns;
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "queue-gaps",
    &[
        Threshold::ratio("thresholds.queue_gaps", SHARE),
        Threshold::ns("thresholds.held_up", HELD_UP),
    ],
    outcome,
)
.general();

/// Idle time of cause *queue, latency* ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.10);

/// Length of the gaps, on the mean or of those with half of their time, from which on something else than the launch of
/// queued work, which takes microseconds, holds the GPU or the stream. A time slice of one of several processes is about
/// 2 ms long.
const HELD_UP: Ns = Ns(100_000);

/// Share of the idle time of graphs from which on it is advised what shortens the part between replays.
const WORTH_SAYING: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::Queue, SHARE, |stage, idle, time| {
        match stage.share(time.min(stage.waits)) >= SHARE {
            true => draft(evidence, stage, idle, time).into(),
            false => Look::Passed,
        }
    })
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle, saved: Time) -> Draft {
    let gaps = idle.gaps[Cause::Queue as usize].gaps;
    let is_replayed = evidence.replays_graphs(stage);
    // Of graphs traced as a whole it is not known what is idle inside.
    let replays = evidence.replays(stage).filter(|_| is_replayed);
    let replays = replays.filter(|replays| !replays.whole && replays.figures.gaps > 0);
    let figures = replays.map(|replays| &replays.figures);
    let inside = figures.map(|figures| (figures.gpu_time - figures.busy).max(Ns::ZERO));
    let between = figures.map(|figures| figures.gap_idle_total);
    let arguments = arguments! {
        idle = evidence.idles(stage, idle, &[Cause::Queue], saved),
        which = match is_replayed {
            true => words!(evidence, "queue_gaps.replayed"),
            false => words!(evidence, "queue_gaps.issued"),
        },
        gaps = Quantity::count(gaps),
        mean = mean_gap(idle),
        inside = inside.map(Quantity::ns),
        between = between.map(Quantity::ns),
        betweens = figures.map(|figures| Quantity::count(figures.gaps as u64)),
    };
    let finding = Finding {
        query: evidence.query(stage, idle, Cause::Queue),
        ..evidence.saving_idle(stage, idle, &[Cause::Queue], saved)
    };
    let draft = Draft::new(finding, arguments);
    if is_replayed {
        return draft
            .advice(advice_on_graphs(evidence, inside, between))
            .cause_if(true);
    }
    match is_held_up(idle) {
        true => draft.advice("advice_held_up").known_cause(Some(Root {
            cause: words!(evidence, "queue_gaps.held_up_cause"),
            action: words!(evidence, "queue_gaps.held_up_action"),
            condition: Some(words!(evidence, "queue_gaps.held_up_condition")),
            passes: 1,
        })),
        false if launching::waits(evidence, stage) => {
            draft.root("root_cause_waits", "root_action_waits")
        }
        false => draft,
    }
}

fn mean_gap(idle: &StageIdle) -> Option<Time> {
    let gaps = idle.gaps[Cause::Queue as usize].gaps;
    (gaps > 0).then(|| idle.of(Cause::Queue).time() / gaps as f64)
}

/// Whether the gaps are long, on the mean or for half of their time.
fn is_held_up(idle: &StageIdle) -> bool {
    let mut held_up: Ns = Ns::ZERO;
    for (shortest, _, bin) in idle.histogram.used() {
        if shortest >= HELD_UP {
            held_up += bin.times.of(Cause::Queue);
        }
    }
    let is_long = mean_gap(idle).is_some_and(|mean| mean >= HELD_UP.time());
    is_long || held_up > idle.of(Cause::Queue) / 2
}

fn advice_on_graphs(
    evidence: &Evidence<'_>,
    inside: Option<Ns>,
    between: Option<Ns>,
) -> Vec<Inline> {
    let mut advice = say!(evidence, "queue_gaps.advice_graph");
    let between = between.unwrap_or(Ns::ZERO);
    let whole = inside.unwrap_or(Ns::ZERO).saturating_add(between).time();
    if between > Ns::ZERO && between.time() >= whole * WORTH_SAYING {
        advice.extend(say!(evidence, "queue_gaps.advice_between"));
    }
    advice
}
