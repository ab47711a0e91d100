//! The profiler slows the stage: its times are not those of the workload.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::{SLOWED, StageLine};
use rooflens_analysis::engine::stage_stats::median_time;
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_session::Ns;
use rooflens_stats::median;
use rooflens_units::{Count, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "profiler-overhead",
    &[
        Threshold::number("thresholds.overhead", SLOWED.0),
        Threshold::number("thresholds.overhead_warning", WARNING.0),
        Threshold::ratio("thresholds.set_up", SET_UP),
        Threshold::number("thresholds.slow_step", SLOW.0),
    ],
    outcome,
)
.on_measurement();

/// Ratio from which on times of the profiled pass must be read with care.
const WARNING: Ratio = Ratio(1.25);

/// Time outside of launches that an iteration may spend on set-up, of its time, and how many times the median share.
const SET_UP: Ratio = Ratio(0.10);
const SET_UP_MEDIANS: Ratio = Ratio(2.0);

/// What set-up looks like.
const SETS_UP: [Cause; 3] = [Cause::FirstUse, Cause::HostCode, Cause::Allocator];

/// Time of a step ÷ median step, or of an iteration ÷ median iteration, above which it is not warm.
const SLOW: Ratio = Ratio(1.25);

/// Difference of the warm median from that of all iterations up to which both are alike.
const ALIKE: Ratio = Ratio(0.05);

/// Iterations from which on most of them tell what is usual.
const USUAL: usize = 3;

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        let unprofiled = stage.unprofiled.filter(|time| *time > Time::ZERO);
        let (Some(unprofiled), Some(idle)) = (unprofiled, evidence.idle(stage.key())) else {
            return Look::InsufficientData;
        };
        let warm = warm(evidence, stage, idle);
        match median_time(warm.iter().copied()) {
            Some(profiled) => draft(evidence, stage, unprofiled, (profiled, warm.len())).into(),
            None => Look::InsufficientData,
        }
    })
}

fn set_up(parts: &Parts) -> Ratio {
    Ratio::of(parts.causes.sum(&SETS_UP), parts.time.max(Ns(1)))
}

/// Times of the iterations that neither set up more than the others nor are slow or hold slow steps.
fn warm(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Vec<Ns> {
    let iterations = &idle.instances;
    let is_usual = iterations.len() >= USUAL;
    let set_ups: Vec<f64> = iterations.iter().map(|parts| set_up(parts).0).collect();
    let usual_set_up = Ratio(median(&set_ups).unwrap_or(0.0));
    let times = iterations.iter().map(|parts| parts.time);
    let typical = median_time(times).unwrap_or_default();
    let slow_steps = slow_steps(evidence, stage);
    let mut instances = idle
        .summary
        .counted_instances(evidence.facts)
        .filter(|instance| instance.gpus.contains(&idle.gpu));
    let mut warm = Vec::new();
    for iteration in iterations {
        let holds_slow = instances.next().is_some_and(|instance| {
            let range = instance.host_start..instance.host_end;
            slow_steps.iter().any(|start| range.contains(start))
        });
        let set_up = set_up(iteration);
        let is_set_up = set_up >= SET_UP && (!is_usual || set_up > usual_set_up * SET_UP_MEDIANS);
        let is_slow = is_usual && iteration.time.time() > typical * SLOW;
        if !holds_slow && !is_set_up && !is_slow {
            warm.push(iteration.time);
        }
    }
    warm
}

/// Warm iterations of a stage, where their median is another than that of all.
pub(crate) fn only_warm(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Count> {
    let warm = warm(evidence, stage, evidence.idle(stage.key())?);
    let time = median_time(warm.iter().copied())?;
    (!is_alike(stage, time)).then_some(Count(warm.len() as f64))
}

/// Whether the median of warm iterations is that of all iterations, which tables show.
fn is_alike(stage: &StageLine, warm: Time) -> bool {
    (stage.time - warm).abs() <= warm * ALIKE
}

/// Starts of the steps of a stage that are much longer than the median step.
fn slow_steps(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Ns> {
    let mut starts = Vec::new();
    let Some(steps) = stage.step().and_then(|step| evidence.idle(step.key())) else {
        return starts;
    };
    for step in steps.summary.counted_instances(evidence.facts) {
        if let Some(time) = step.time()
            && time.time() > steps.summary.time * SLOW
        {
            starts.push(step.host_start);
        }
    }
    starts
}

fn draft(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    unprofiled: Time,
    (warm_time, warm): (Time, usize),
) -> Option<Draft> {
    // The median of all iterations, unless set-up is part of it.
    let series = evidence.unprofiled_series(stage);
    // The unprofiled time of two levels is their mean, and so is that of the stage.
    let has_levels = series.is_some_and(|series| series.levels.is_some());
    let (profiled, warm) = match has_levels || is_alike(stage, warm_time) {
        true => (stage.time, None),
        false => (warm_time, Some(Quantity::count(warm as u64))),
    };
    let ratio = Ratio::of(profiled, unprofiled);
    if ratio < SLOWED {
        return None;
    }
    let finding = Finding {
        severity: if ratio >= WARNING {
            Severity::Warning
        } else {
            Severity::Note
        },
        ..stage.note_on_figures()
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        warm = warm,
        all = stage.counted,
        time = profiled,
        pass = Inline::code(&evidence.pass),
        unprofiled = unprofiled,
        steps = stage.steps.map(|_| words!(evidence, "profiler_overhead.steps")),
        share = Ratio::of(unprofiled, profiled).rest(),
    };
    Some(Draft::new(finding, arguments))
}
