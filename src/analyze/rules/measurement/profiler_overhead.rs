//! The profiler slows the stage: its times are not those of the workload.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::engine::facts::StageInstance;
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Unit;
use rooflens_session::Ns;
use rooflens_stats::median;

pub(crate) static RULE: Rule = Rule::new(
    "profiler-overhead",
    &[
        Threshold::one("thresholds.overhead", RATIO),
        Threshold::one("thresholds.overhead_warning", WARNING),
        Threshold::ratio("thresholds.set_up", SET_UP),
        Threshold::one("thresholds.slow_step", SLOW),
    ],
    run,
)
.on_measurement();

/// Profiled time of warm iterations ÷ un-profiled stage time from which on it is worth a finding.
const RATIO: f64 = 1.10;

/// Ratio from which on times of the profiled pass must be read with care.
const WARNING: f64 = 1.25;

/// Time outside of launches that an iteration may spend on set-up, of its time, and how many times the median share.
const SET_UP: f64 = 0.10;
const SET_UP_MEDIANS: f64 = 2.0;

/// What set-up looks like.
const SETS_UP: [Cause; 3] = [Cause::FirstUse, Cause::HostCode, Cause::Allocator];

/// Time of a step ÷ median step, or of an iteration ÷ median iteration, above which it is not warm.
const SLOW: f64 = 1.25;

/// Iterations from which on most of them tell what is usual.
const USUAL: usize = 3;

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(&words!(evidence, "profiler_overhead.needs"), |stage| {
        let unprofiled = stage.unprofiled.filter(|time| *time > 0.0);
        let known = unprofiled.zip(evidence.idle(stage.key()));
        let warm = known.map(|(_, line)| warm(evidence, stage, line));
        match (unprofiled, warm.filter(|times| !times.is_empty())) {
            (Some(unprofiled), Some(warm)) => finding(evidence, stage, unprofiled, &warm).into(),
            _ => Look::InsufficientData,
        }
    })
}

/// Times of the iterations that neither set up more than the others nor are slow or hold slow steps, nanoseconds.
fn warm(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> Vec<f64> {
    let facts = evidence.facts;
    let all = &line.instances;
    let set_up = |one: &Parts| one.causes.sum(&SETS_UP) as f64 / one.time.max(1) as f64;
    let usual = median(&all.iter().map(set_up).collect::<Vec<_>>()).unwrap_or(0.0);
    let is_set_up = |one: &Parts| {
        set_up(one) >= SET_UP && (all.len() < USUAL || set_up(one) > SET_UP_MEDIANS * usual)
    };
    let time = |one: &Parts| one.time as f64;
    let typical = median(&all.iter().map(time).collect::<Vec<_>>()).unwrap_or(0.0);
    let is_slow = |one: &Parts| all.len() >= USUAL && time(one) > SLOW * typical;
    let steps = stage.step().and_then(|step| evidence.idle(step.key()));
    let is_slow_step = |step: &&StageInstance| {
        let median = steps.map_or(f64::MAX, |steps| steps.summary.time);
        step.time().is_some_and(|time| time as f64 > SLOW * median)
    };
    let steps = steps
        .into_iter()
        .flat_map(|steps| steps.summary.counted_instances(facts));
    let slow: Vec<Ns> = steps
        .filter(is_slow_step)
        .map(|step| step.host_start)
        .collect();
    let uses = |one: &&StageInstance| one.gpus.contains(&line.gpu);
    let mut instances = line.summary.counted_instances(facts).filter(uses);
    let holds_slow = |one: Option<&StageInstance>| {
        one.is_some_and(|one| {
            slow.iter()
                .any(|at| (one.host_start..one.host_end).contains(at))
        })
    };
    let warm = all.iter().filter(|one| {
        let slow = holds_slow(instances.next());
        !slow && !is_set_up(one) && !is_slow(one)
    });
    warm.map(time).collect()
}

/// What remains of a stage without the profiler, if that is much less, in words: its time, and how long the GPU is busy.
pub(crate) fn without(evidence: &Evidence<'_>, stage: &StageLine, busy: f64) -> Vec<Inline> {
    let much = |time: &f64| *time > 0.0 && stage.time >= RATIO * time;
    stage.unprofiled.filter(much).map_or_else(Vec::new, |time| {
        say!(
            evidence,
            "profiler_overhead.without",
            time = Quantity::new(time, Unit::Nanoseconds),
            busy = Quantity::ratio((busy * stage.time / time).min(1.0)),
        )
    })
}

fn finding(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    unprofiled: f64,
    warm: &[f64],
) -> Option<Finding> {
    let profiled = median(warm)?;
    let ratio = profiled / unprofiled;
    (ratio >= RATIO).then(|| Finding {
        severity: if ratio >= WARNING {
            Severity::Warning
        } else {
            Severity::Note
        },
        statement: say!(
            evidence,
            "profiler_overhead.statement",
            stage = Inline::strong(&stage.label),
            warm = Quantity::count(warm.len() as u64),
            all = Quantity::count(stage.counted as u64),
            time = Quantity::new(profiled, Unit::Nanoseconds),
            pass = Inline::code(&evidence.pass),
            unprofiled = Quantity::new(unprofiled, Unit::Nanoseconds),
            steps = stage
                .steps
                .map(|_| words!(evidence, "profiler_overhead.steps")),
            share = Quantity::ratio(1.0 - unprofiled / profiled),
        ),
        advice: Some(say!(evidence, "profiler_overhead.advice")),
        next: Some(say!(evidence, "profiler_overhead.next")),
        evidence: vec![stage.figures.clone()],
        ..stage.note()
    })
}
