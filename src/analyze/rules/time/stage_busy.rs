//! What each stage's time is spent on, in one sentence: it opens the verdict page.

use crate::classes;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::pauses;
use crate::rule::{Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::{ALL, BUSY, StageLine};
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::time::idle::{Activity, Cause, StageIdle};
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_document::{Finding, Inline};
use rooflens_sections::group_color;
use rooflens_units::{Count, Ratio, Time};

/// Id of the rule.
pub(crate) const ID: &str = "stage-busy";

pub(crate) static RULE: Rule = Rule::new(
    ID,
    &[
        Threshold::ratio("thresholds.busy", BUSY),
        Threshold::ratio("thresholds.collectives_alone", ALONE),
    ],
    outcome,
);

/// Below this busy share faster kernels bring little.
const IDLE: Ratio = Ratio(0.50);

/// Share of the stage time in collectives, or in waiting in them, from which on it is said.
const ALONE: Ratio = Ratio(0.05);

/// Share of the busy time from which on a class is named.
const SHOWN: Ratio = Ratio(0.05);

/// A share of idle time that is worth a cause.
const NAMED: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if evidence.stages.is_empty() {
        return Outcome::INSUFFICIENT_DATA;
    }
    Outcome::of_drafts(evidence.stages.iter().map(|stage| draft(evidence, stage)))
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine) -> Draft {
    let finding = Finding {
        weight_ns: stage.time * stage.counted,
        query: stage.window.as_ref().map(Window::idle),
        ..stage.note_on_figures()
    };
    let draft = match stage.reference_busy() >= BUSY {
        true => busy_stage(evidence, stage, finding),
        false => idle_stage(evidence, stage, finding),
    };
    draft.also(utilization(evidence, stage))
}

/// What keeps the GPU busy in a stage.
fn busy_stage(evidence: &Evidence<'_>, stage: &StageLine, finding: Finding) -> Draft {
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        busy = stage.reference_busy(),
        time = stage.reference(),
        baseline = stage.unprofiled.map(|_| ""),
        groups = groups(evidence, stage),
    };
    let (collectives, waiting) = collectives(evidence, stage);
    let largest = evidence
        .stage_time(stage.key())
        .and_then(StageTime::largest);
    let advice = match largest {
        _ if waiting >= ALONE => "advice_waiting",
        Some((ClassGroup::Communication, _)) => "advice_collectives",
        Some((ClassGroup::Copy, _)) => "advice_copies",
        _ => "advice_kernels",
    };
    Draft::new(finding, arguments)
        .statement("busy")
        .advice(advice)
        .also(collectives)
}

/// The classes that take most of the busy time, with their shares, in words.
fn groups(evidence: &Evidence<'_>, stage: &StageLine) -> Option<String> {
    let time = evidence.stage_time(stage.key())?;
    let gemms = classes::gemms_of_group(evidence, stage);
    let work = evidence.work(stage.key());
    let other = work.and_then(|work| work.dominant(ClassGroup::Other));
    let mut shares = Vec::new();
    for (group, _) in time.parts() {
        let (label, share) = (group_color(group).label(), time.share(group));
        match (group, other) {
            (ClassGroup::Gemm, _) => {
                shares.push((label, share * gemms));
                shares.push((KernelClass::Convolution.label(), share * gemms.rest()));
            }
            (ClassGroup::Other, Some(class)) => {
                let part = classes::part(evidence, stage.key(), group, class);
                shares.push((class.label(), share * part));
            }
            _ => shares.push((label, share)),
        }
    }
    shares.retain(|(_, share)| *share >= SHOWN);
    let shares = shares
        .into_iter()
        .map(|(label, share)| (label, share.into()));
    classes::listed(evidence, shares.collect())
}

/// How long the GPU runs collectives alone, in words; and the share of the stage in which that may be waiting.
fn collectives(evidence: &Evidence<'_>, stage: &StageLine) -> (Vec<Inline>, Ratio) {
    let Some(line) = evidence.communication(stage) else {
        return (Vec::new(), Ratio::ZERO);
    };
    let exposed = line.exposed;
    if stage.share(exposed) < ALONE {
        return (Vec::new(), Ratio::ZERO);
    }
    let waiting = line.wait.map_or(Time::ZERO, |wait| wait.min(exposed));
    let is_all = waiting >= exposed * ALL;
    let is_part = waiting > Time::ZERO && !is_all;
    let words = say!(
        evidence,
        "stage_busy.collectives",
        share = stage.share(exposed),
        waiting = is_part.then(|| Ratio::of(waiting, exposed)),
        all = is_all.then_some(""),
    );
    (words, stage.share(waiting))
}

/// Why the GPU idles in a stage.
struct Why {
    /// The largest cause that most iterations have, and its time.
    main: Option<(Cause, Time)>,
    /// Whether a larger one is of few iterations.
    has_rarer: bool,
}

/// What few iterations have is detected by the rule of the cause; of the baseline's median it says nothing.
fn why(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Why {
    let recurring = |cause: Cause, time: Time| match cause {
        Cause::HostCode if stage.unprofiled.is_some() => {
            pauses::host_code(evidence, stage).unwrap_or(time)
        }
        _ => time,
    };
    let mut main: Option<(Cause, Time)> = None;
    for (cause, time) in idle.causes() {
        let time = recurring(cause, time);
        let is_common = cause != Cause::OtherWork && !idle.spread(&[cause]).is_rare();
        if is_common && main.is_none_or(|(_, most)| time > most) {
            main = Some((cause, time));
        }
    }
    let mut has_rarer = false;
    for (cause, time) in idle.causes() {
        let is_larger = main.is_none_or(|(_, most)| time > most);
        let is_rare = recurring(cause, time) != time || idle.spread(&[cause]).is_rare();
        has_rarer |= is_larger && is_rare;
    }
    Why { main, has_rarer }
}

/// How long the GPU is idle in a stage, without a profiler where that was measured, and mostly why.
fn idle_stage(evidence: &Evidence<'_>, stage: &StageLine, finding: Finding) -> Draft {
    let idle = evidence.idle(stage.key());
    let why = match idle {
        Some(idle) => why(evidence, stage, idle),
        None => Why {
            main: None,
            has_rarer: false,
        },
    };
    // Of a profiled time it may be more than all idle time without the profiler.
    let whole = stage.reference_busy().rest();
    let others = idle.map_or(Ratio::ZERO, |idle| idle.other_work().min(whole));
    // Its range holds idle time before its first and after its last operation, too.
    let profiled = stage.time + evidence.around_operations(stage) / stage.counted.0;
    let profiled = match stage.unprofiled {
        Some(_) => profiled,
        None => stage.time,
    };
    let of_profiled = |time: Time| Ratio::of(time, profiled.max(Time(1.0)));
    let is_named = |time: Time| (NAMED..=whole).contains(&of_profiled(time));
    let by_cause = why
        .main
        .map(|(cause, time)| (because(evidence, stage, cause), time));
    let main = idle.and_then(|idle| activity(evidence, stage, idle));
    let is_larger = |main: &(String, Time)| {
        let cause = by_cause.as_ref();
        cause.is_none_or(|(_, time)| main.1 > *time)
    };
    let main = main.filter(is_larger).or(by_cause);
    let around = around(evidence, stage).filter(|_| stage.unprofiled.is_some());
    let is_shorter = |around: &(String, Time)| main.as_ref().is_none_or(|main| around.1 > main.1);
    let around = around.filter(is_shorter);
    let has_rarer = why.has_rarer && around.is_none();
    let main = around.or(main);
    let named = main.filter(|(_, time)| is_named(*time));
    let (cause, named) = named.unzip();
    // A cause of all profiled idle time is one of a part, where the GPU is idle for longer without the profiler.
    let idle_time = (profiled - stage.busy).max(stage.reference() * whole);
    let part = named.filter(|time| *time < idle_time * ALL);
    let steps = stage.steps.filter(|_| stage.is_decode());
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        idle = whole - others,
        others = (others > Ratio::ZERO).then_some(others),
        time = stage.reference(),
        steps = steps,
        baseline = stage.unprofiled.map(|_| ""),
        share = part.map(of_profiled),
        count = stage.counted,
        why = cause.as_deref(),
        apart = has_rarer.then_some(""),
        sole = cause.as_deref().filter(|_| part.is_none()),
        operations = Some(stage.operations).filter(|operations| cause.is_none() && *operations > Count(1.0)),
        mean = stage.mean_operation(),
    };
    // Where causes are known, the rules of each cause advise.
    let advice = match stage.busy_share < IDLE {
        _ if why.main.is_some() => None,
        true => Some("advice_idle"),
        false => Some("advice_both"),
    };
    Draft::new(finding, arguments)
        .statement("idle")
        .advice(advice)
        .also(collectives(evidence, stage).0)
}

/// Why the GPU is idle, in words; of recurring causes alone where there is a baseline, or of stalls, too.
fn because(evidence: &Evidence<'_>, stage: &StageLine, cause: Cause) -> String {
    let has_stalls = || stage.unprofiled.is_none() && pauses::prevail(evidence, stage);
    match cause {
        Cause::Queue if evidence.replays_graphs(stage) => words!(evidence, "stage_busy.replayed"),
        Cause::HostCode if has_stalls() => words!(evidence, "stage_busy.pauses"),
        _ => evidence.text.word(cause.label()).to_owned(),
    }
}

/// What the host does for most of the idle time of an iteration, where that has a name.
fn activity(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: &StageIdle,
) -> Option<(String, Time)> {
    let whole = idle.pool.time.time();
    let share = |time: Time| stage.time * Ratio::of(time, whole);
    if known::prepares_mostly(evidence, stage) {
        let preparation = known::preparation(evidence, stage)?;
        let others = preparation.others.map_or(Time::ZERO, |others| others.idle);
        let activity = match others >= preparation.all.idle * NAMED {
            true => Activity::NewShape,
            false => Activity::KernelPlans,
        };
        let word = evidence.text.word(activity.label());
        return Some((word.to_owned(), share(preparation.all.idle)));
    }
    let mut activities = idle.sources.activities.iter();
    let main = activities.find(|idle| idle.activity.is_named())?;
    let word = evidence.text.word(main.activity.label());
    let is_common = 2 * main.windows() >= idle.sources.windows;
    is_common.then(|| (word.to_owned(), share(main.time().time())))
}

/// What the host mostly does in the range of a stage while the GPU has run its last operation, or not yet its first one.
fn around(evidence: &Evidence<'_>, stage: &StageLine) -> Option<(String, Time)> {
    let pair = evidence.around(stage).max_by_key(|pair| pair.idle())?;
    let cause = pair.causes.main();
    let mut activities = pair.sources.activities.iter();
    let named = activities.find(|idle| idle.activity.is_named());
    let named = named.filter(|named| named.time() > pair.idle() / 2);
    let (label, time) = match named {
        Some(named) => (named.activity.label(), named.time()),
        None => (cause.label(), pair.causes.of(cause)),
    };
    let word = evidence.text.word(label).to_owned();
    Some((word, time.time() / pair.windows() as f64))
}

/// MFU and MBU, where they are known: without a profiler, if that was measured.
fn utilization(evidence: &Evidence<'_>, stage: &StageLine) -> Vec<Inline> {
    let profiled = evidence.utilization(stage);
    let unprofiled = evidence.unprofiled_utilization(stage);
    let best = |value: fn(&StageUtilization) -> Result<Ratio, Unavailable>| {
        if let Some(value) = unprofiled.and_then(|utilization| value(utilization).ok()) {
            let how = words!(evidence, "stage_busy.unprofiled");
            return Some((value, Some(how)));
        }
        Some((value(profiled?).ok()?, None))
    };
    if let (Some((mbu, how)), true) = (best(StageUtilization::mbu), stage.is_decode()) {
        return say!(evidence, "stage_busy.mbu", mbu = mbu, how = how);
    }
    let Some((mfu, how)) = best(StageUtilization::mfu) else {
        return Vec::new();
    };
    let busy = profiled.and_then(|utilization| utilization.kernel_time_mfu().ok());
    say!(
        evidence,
        "stage_busy.mfu",
        mfu = mfu,
        how = how,
        busy = busy
    )
}
