//! The profiler slows the stage: its times are not those of the workload.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::{SLOWED, StageLine};
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_session::Ns;
use rooflens_stats::median;
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "profiler-overhead",
    &[
        Threshold::number("thresholds.overhead", SLOWED),
        Threshold::number("thresholds.overhead_warning", WARNING),
        Threshold::ratio("thresholds.set_up", SET_UP),
        Threshold::number("thresholds.slow_step", SLOW),
    ],
    outcome,
)
.on_measurement();

/// Ratio from which on times of the profiled pass must be read with care.
const WARNING: f64 = 1.25;

/// Time outside of launches that an iteration may spend on set-up, of its time, and how many times the median share.
const SET_UP: Ratio = Ratio(0.10);
const SET_UP_MEDIANS: f64 = 2.0;

/// What set-up looks like.
const SETS_UP: [Cause; 3] = [Cause::FirstUse, Cause::HostCode, Cause::Allocator];

/// Time of a step ÷ median step, or of an iteration ÷ median iteration, above which it is not warm.
const SLOW: f64 = 1.25;

/// Iterations from which on most of them tell what is usual.
const USUAL: usize = 3;

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        let unprofiled = stage.unprofiled.filter(|time| *time > Time::ZERO);
        let (Some(unprofiled), Some(idle)) = (unprofiled, evidence.idle(stage.key())) else {
            return Look::InsufficientData;
        };
        let warm = warm(evidence, stage, idle);
        match median(&warm) {
            Some(profiled) => draft(evidence, stage, unprofiled, Time(profiled), warm.len()).into(),
            None => Look::InsufficientData,
        }
    })
}

fn set_up(parts: &Parts) -> f64 {
    parts.causes.sum(&SETS_UP).time() / parts.time.max(Ns(1)).time()
}

fn time(parts: &Parts) -> f64 {
    parts.time.time().0
}

/// Times of the iterations that neither set up more than the others nor are slow or hold slow steps, nanoseconds.
fn warm(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Vec<f64> {
    let iterations = &idle.instances;
    let is_usual = iterations.len() >= USUAL;
    let set_ups: Vec<f64> = iterations.iter().map(set_up).collect();
    let times: Vec<f64> = iterations.iter().map(time).collect();
    let usual_set_up = median(&set_ups).unwrap_or(0.0);
    let typical = median(&times).unwrap_or(0.0);
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
        let is_set_up = set_up >= SET_UP.0 && (!is_usual || set_up > SET_UP_MEDIANS * usual_set_up);
        let is_slow = is_usual && time(iteration) > SLOW * typical;
        if !holds_slow && !is_set_up && !is_slow {
            warm.push(time(iteration));
        }
    }
    warm
}

/// Starts of the steps of a stage that are much longer than the median step.
fn slow_steps(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Ns> {
    let mut starts = Vec::new();
    let Some(steps) = stage.step().and_then(|step| evidence.idle(step.key())) else {
        return starts;
    };
    for step in steps.summary.counted_instances(evidence.facts) {
        if let Some(time) = step.time()
            && time.time().0 > SLOW * steps.summary.time
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
    profiled: Time,
    warm: usize,
) -> Option<Draft> {
    let ratio = profiled / unprofiled;
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
        warm = Quantity::count(warm as u64),
        all = stage.counted,
        time = profiled,
        pass = Inline::code(&evidence.pass),
        unprofiled = unprofiled,
        steps = stage.steps.map(|_| words!(evidence, "profiler_overhead.steps")),
        share = Ratio::of(unprofiled, profiled).rest(),
    };
    Some(Draft::new(finding, arguments))
}
