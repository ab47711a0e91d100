//! What each stage's time is spent on, in one sentence: it opens the verdict page.

use crate::stage::StageLine;
use crate::{
    Evidence, Outcome, Rule, Threshold, gemm::low_mfu, measurement::profiler_overhead,
    time::host_pauses,
};
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Unit;
use rooflens_sections::group_color;

pub(crate) static RULE: Rule = Rule::new(
    "stage-busy",
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.collectives_alone", ALONE),
    ],
    run,
);

/// From this busy share on, the GPU is the limit of a stage.
pub(crate) const BUSY: f64 = 0.90;

/// Below this busy share faster kernels bring little.
const IDLE: f64 = 0.50;

/// Share of the stage time in collectives, or in waiting in them, from which on it is said.
const ALONE: f64 = 0.05;

/// Share of the idle time, or of exposed communication, from which on a part is all of it.
pub(crate) const ALL: f64 = 0.995;

/// Share of the busy time from which on a class is named.
const SHOWN: f64 = 0.05;

/// A share of idle time that is worth a cause.
const NAMED: f64 = 0.01;

fn run(evidence: &Evidence<'_>) -> Outcome {
    if evidence.stages.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "stage_busy.needs"));
    }
    Outcome::of(
        evidence
            .stages
            .iter()
            .map(|stage| statement(evidence, stage))
            .collect(),
    )
}

fn statement(evidence: &Evidence<'_>, stage: &StageLine) -> Finding {
    let (mut statement, advice) = match stage.baseline_busy() >= BUSY {
        true => busy_stage(evidence, stage),
        false => idle_stage(evidence, stage),
    };
    statement.extend(utilization(evidence, stage));
    Finding {
        severity: Severity::Note,
        weight_ns: stage.time * stage.counted,
        statement,
        advice,
        evidence: vec![stage.figures.clone()],
        query: stage.window.as_ref().map(crate::sql::Window::idle),
        ..stage.note()
    }
}

/// What keeps the GPU busy in a stage.
fn busy_stage(evidence: &Evidence<'_>, stage: &StageLine) -> (Vec<Inline>, Option<Vec<Inline>>) {
    let baseline = stage.baseline();
    let mut statement = say!(
        evidence,
        "stage_busy.busy",
        stage = Inline::strong(&stage.label),
        busy = Quantity::ratio(stage.baseline_busy()),
        time = Quantity::new(baseline.unwrap_or(stage.time), Unit::Nanoseconds),
        baseline = baseline.map(|_| ""),
        groups = groups(evidence, stage),
    );
    if baseline.is_none() {
        statement.extend(profiler_overhead::without(
            evidence,
            stage,
            stage.busy_share,
        ));
    }
    let (said, waiting) = collectives(evidence, stage);
    statement.extend(said);
    let advice = match evidence
        .stage_time(stage.key())
        .and_then(StageTime::largest)
    {
        _ if waiting >= ALONE => say!(evidence, "stage_busy.advice_waiting"),
        Some((ClassGroup::Communication, _)) => say!(evidence, "stage_busy.advice_collectives"),
        Some((ClassGroup::Copy, _)) => say!(evidence, "stage_busy.advice_copies"),
        _ => say!(evidence, "stage_busy.advice_kernels"),
    };
    (statement, Some(advice))
}

/// The classes that take most of the busy time, with their shares, in words.
fn groups(evidence: &Evidence<'_>, stage: &StageLine) -> Option<String> {
    let time = evidence.stage_time(stage.key())?;
    let gemms = low_mfu::gemms_of_group(evidence, stage);
    let other = evidence
        .work(stage.key())
        .and_then(|work| work.dominant(ClassGroup::Other));
    let shares = time.parts().into_iter().flat_map(|(group, _)| {
        let (label, share) = (group_color(group).label(), time.share(group));
        match (group, other) {
            (ClassGroup::Gemm, _) => {
                let convolution = KernelClass::Convolution.label();
                vec![(label, share * gemms), (convolution, share * (1.0 - gemms))]
            }
            (ClassGroup::Other, Some(class)) => vec![(class.label(), share)],
            _ => vec![(label, share)],
        }
    });
    low_mfu::listed(
        evidence,
        shares.filter(|(_, share)| *share >= SHOWN),
        Unit::Ratio,
    )
}

/// How long the GPU runs collectives alone, in words; and the share of the stage in which that may be waiting.
fn collectives(evidence: &Evidence<'_>, stage: &StageLine) -> (Vec<Inline>, f64) {
    let line = evidence.communication(stage);
    let Some(line) = line.filter(|line| stage.share(line.exposed) >= ALONE) else {
        return (Vec::new(), 0.0);
    };
    let exposed = line.exposed;
    let waiting = line.wait.map_or(0.0, |wait| wait.min(exposed));
    let is_all = waiting >= ALL * exposed;
    let said = say!(
        evidence,
        "stage_busy.collectives",
        share = Quantity::ratio(stage.share(exposed)),
        waiting = (waiting > 0.0 && !is_all).then(|| Quantity::ratio(waiting / exposed)),
        all = is_all.then_some(""),
    );
    (said, stage.share(waiting))
}

/// How long the GPU is idle in a stage, without a profiler where that was measured, and mostly why.
fn idle_stage(evidence: &Evidence<'_>, stage: &StageLine) -> (Vec<Inline>, Option<Vec<Inline>>) {
    let idle = 1.0 - stage.busy_share;
    let baseline = stage.baseline();
    // What few iterations have is told by the rule of the cause; of the baseline's median it says nothing.
    let recurring = |(cause, time): (Cause, f64)| match cause {
        Cause::HostCode if baseline.is_some() => (
            cause,
            host_pauses::host_code(evidence, stage).unwrap_or(time),
        ),
        _ => (cause, time),
    };
    let common = |line: &'_ Line| -> Vec<(Cause, f64)> {
        let idle = line
            .causes()
            .filter(|(cause, _)| *cause != Cause::OtherWork);
        let all = idle.map(recurring);
        all.filter(|(cause, _)| !line.spread(&[*cause]).is_rare())
            .collect()
    };
    let line = evidence.idle(stage.key());
    let causes = line.map_or_else(Vec::new, common).into_iter();
    let cause = causes.reduce(|best, next| if next.1 > best.1 { next } else { best });
    let rare = line.is_some_and(|line| {
        let more = |(_, time): (Cause, f64)| cause.is_none_or(|(_, least)| time > least);
        let is_rare = |one: (Cause, f64)| recurring(one) != one || line.spread(&[one.0]).is_rare();
        line.causes().any(|one| more(one) && is_rare(one))
    });
    // Of a profiled time it may be more than all idle time without the profiler.
    let whole = 1.0 - stage.baseline_busy();
    let others = line.map_or(0.0, Line::other_work).min(whole);
    let named = cause.filter(|(_, time)| (NAMED..=whole).contains(&stage.share(*time)));
    let why = named.map(|(cause, _)| because(evidence, stage, cause, baseline.is_some()));
    let part = named
        .map(|(_, time)| time)
        .filter(|time| *time < ALL * idle * stage.time);
    let mean = stage.operation_time / stage.operations.max(1.0);
    let mut statement = say!(
        evidence,
        "stage_busy.idle",
        stage = Inline::strong(&stage.label),
        idle = Quantity::ratio(whole - others),
        others = (others > 0.0).then(|| Quantity::ratio(others)),
        time = Quantity::new(baseline.unwrap_or(stage.time), Unit::Nanoseconds),
        steps = stage
            .steps
            .filter(|_| stage.is_decode())
            .map(|steps| Quantity::new(steps, Unit::Count)),
        baseline = baseline.map(|_| ""),
        share = part.map(|time| Quantity::ratio(stage.share(time))),
        count = Quantity::count(stage.counted as u64),
        why = why.as_deref(),
        apart = rare.then_some(""),
        sole = why.as_deref().filter(|_| part.is_none()),
        operations = why
            .is_none()
            .then(|| Quantity::new(stage.operations, Unit::Count)),
        mean = Quantity::new(mean, Unit::Nanoseconds),
    );
    statement.extend(collectives(evidence, stage).0);
    // Where causes are known, the rules of each cause advise.
    let advice = cause.is_none().then(|| match stage.busy_share < IDLE {
        true => say!(evidence, "stage_busy.advice_idle"),
        false => say!(evidence, "stage_busy.advice_both"),
    });
    (statement, advice)
}

/// Why the GPU is idle, in words; of recurring causes alone, or of stalls, too.
fn because(evidence: &Evidence<'_>, stage: &StageLine, cause: Cause, recurring: bool) -> String {
    match cause {
        Cause::Queue if evidence.replays_graphs(stage) => words!(evidence, "stage_busy.replayed"),
        Cause::HostCode if !recurring && host_pauses::prevail(evidence, stage) => {
            words!(evidence, "stage_busy.pauses")
        }
        _ => evidence.text.word(cause.label()).to_owned(),
    }
}

/// MFU and MBU, where they are known: without a profiler, if that was measured.
fn utilization(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let (profiled, unprofiled) = (
        evidence.utilization(stage),
        evidence.unprofiled_utilization(stage),
    );
    let best = |value: fn(&StageUtilization) -> Result<f64, Unavailable>| {
        let known = |one: Option<&StageUtilization>| value(one?).ok().map(Quantity::ratio);
        let how = || words!(evidence, "stage_busy.unprofiled");
        let unprofiled = known(unprofiled).map(|value| (value, Some(how())));
        unprofiled.or_else(|| Some((known(profiled)?, None)))
    };
    if let (Some((mbu, how)), true) = (best(StageUtilization::mbu), stage.is_decode()) {
        return say!(evidence, "stage_busy.mbu", mbu = mbu, how = how);
    }
    let Some((mfu, how)) = best(StageUtilization::mfu) else {
        return Vec::new();
    };
    let busy = profiled
        .and_then(|own| own.kernel_time_mfu().ok())
        .map(Quantity::ratio);
    say!(
        evidence,
        "stage_busy.mfu",
        mfu = mfu,
        how = how,
        busy = busy
    )
}
