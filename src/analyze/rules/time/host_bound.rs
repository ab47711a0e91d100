//! The GPU waits for host code between CUDA calls: framework, Python, input and output.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Place};
use crate::launching::{is_many, leaves_host_code, waits};
use crate::pauses;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::{StageLine, Workload, workload};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::time::idle::line::OCCURS;
use rooflens_analysis::time::idle::{Activity, Cause, Source, StageIdle};
use rooflens_document::{Finding, Inline};
use rooflens_schemas::ranges::DATA_LOADER;
use rooflens_session::{CopyKind, Ns, StrId};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "host-bound",
    &[Threshold::ratio("thresholds.host_code", SHARE)],
    outcome,
)
.general();

/// Idle time in host code, in the operating system and without a CPU ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.05);

/// Part of the host code of the longest gaps in the data loader from which on it is the cause.
const LOADER: Ratio = Ratio(0.5);

/// Part of the host code in which compiled functions are entered, from which on that is the cause.
const ENTERS: Ratio = Ratio(0.5);

/// Part of the host code from which on a loader, a range or a function is all of it.
const WHOLE: Ratio = Ratio(0.9);

/// Calls of the operating system that are named, and their least share of the time in such calls.
const SHOWN_CALLS: usize = 3;
const CALL_SHARE: Ratio = Ratio(0.1);

/// The causes of idle time that it sums.
const CAUSES: [Cause; 3] = [Cause::HostCode, Cause::Os, Cause::OffCpu];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::HostCode, SHARE, |stage, idle, code| {
        let prepares = known::prepares_mostly(evidence, stage);
        let is_apart = prepares && is_apart(evidence, stage, idle);
        match draft(evidence, (stage, idle), is_apart) {
            Some(_) if evidence.nan_checks(stage).is_some() => {
                Look::suppressed_by(evidence, "nan-checks")
            }
            Some(_) if prepares && !is_apart => Look::suppressed_by(evidence, "new-shapes"),
            Some(draft) => draft.into(),
            None if stage.share(code) >= SHARE => Look::suppressed_by(evidence, pauses::RULE),
            None => Look::Passed,
        }
    })
}

/// A finding about all host code, or about what lies in a range apart from the preparation of kernels.
fn draft(
    evidence: &Evidence<'_>,
    (stage, idle): (&StageLine, &StageIdle),
    is_apart: bool,
) -> Option<Draft> {
    let code = match is_apart {
        true => idle.scaled(idle.sources.time(Activity::HostCode)),
        // Pauses that typical instances do not have are another rule's.
        false => pauses::host_code(evidence, stage)?,
    };
    let system = idle.rest_of_stage(Cause::Os).unwrap_or_default();
    let off_cpu = idle.rest_of_stage(Cause::OffCpu).unwrap_or_default();
    let saved = (code + system + off_cpu).min(most(stage, idle));
    let share = stage.share(saved);
    if share < SHARE {
        return None;
    }
    let part = |time: Time| Some(Ratio::of(time, saved)).filter(|share| *share >= OCCURS);
    // Where it is in no call of CUDA, it computes or waits.
    let is_code = !is_blocked(idle);
    let loader = in_loader(evidence, idle).filter(|share| is_code && *share >= LOADER);
    let place = is_code.then(|| place(evidence, stage, idle)).flatten();
    let is_launched = is_code && is_many(evidence, stage, idle);
    let is_entry = is_code && !is_launched && loader.is_none();
    let entry = entry(evidence, stage, idle).filter(|_| is_entry);
    let arguments = arguments! {
        idle = idles(evidence, (stage, idle), saved, is_apart),
        does = match is_code {
            true => words!(evidence, "host_bound.works"),
            false => words!(evidence, "host_bound.waits"),
        },
        system = part(system),
        calls = os_calls(evidence, idle),
        off_cpu = part(off_cpu),
        loader = loader,
        entry = entry,
        place = place.map(|place| Inline::code(evidence.session.text(place.source.name()))),
        caller = place
            .and_then(|place| caller(evidence, place.source))
            .map(|name| Inline::code(evidence.session.text(name))),
        covers = place.map(|place| place.share),
        sampled = evidence.sampled(idle),
    };
    // The action names a part: it saves no more than that.
    let place_share = place.filter(|_| !is_launched).map(|place| place.share);
    let named = loader.or(entry).or(place_share);
    let saved = saved * named.filter(|share| *share < WHOLE).unwrap_or(Ratio::ONE);
    let bound = (saved, stage.unprofiled_idle(saved));
    let finding = Finding {
        query: evidence.query(stage, idle, Cause::HostCode),
        ..evidence.saving_idle_within(stage, idle, &CAUSES, bound)
    };
    let migrations = evidence.copies(stage).filter(|copies| {
        let to_host = copies.exposed(Some(CopyKind::MigrateToHost));
        is_code && to_host.is_positive()
    });
    if let Some(copies) = migrations {
        let finding = stage.with_migrations(finding, copies);
        let draft = Draft::new(finding, arguments);
        let draft = draft.root("root_cause_managed", "root_action_managed");
        return Some(draft.only_if("root_if_managed").advice("advice_managed"));
    }
    let draft = Draft::new(finding, arguments).next(next(evidence));
    if loader.is_some() {
        let cause = words!(evidence, "host_bound.root_cause_loader", loader = loader);
        let root = pauses::loader_root(evidence, cause);
        let advice = say!(evidence, "host_pauses.advice_loader");
        return Some(draft.advice(advice).known_cause(Some(root)));
    }
    if entry.is_some() {
        let draft = draft.root("root_cause_entry", "root_action_entry");
        return Some(draft.only_if("root_if_entry").advice("advice_entry"));
    }
    let draft = match place {
        Some(_) if !is_launched => draft.root("root_cause_place", "root_action_place"),
        _ if !is_code => draft
            .root("root_cause_blocked", "root_action_blocked")
            .only_if("root_if_blocked"),
        _ if is_launched && waits(evidence, stage) => draft.root("root_cause", "root_action_waits"),
        _ if is_code && leaves_host_code(evidence, stage) => {
            draft.root("root_cause", "root_action_steps")
        }
        _ if is_code && loads(idle) => draft
            .root("root_cause_loading", "root_action_loading")
            .only_if("root_if_loading"),
        _ if is_code && is_of_copies(evidence, stage) => {
            draft.root("root_cause_copies", "root_action_copies")
        }
        _ => draft.cause_if(is_launched),
    };
    Some(advised(
        evidence,
        (stage, idle),
        draft,
        [code, system, off_cpu],
    ))
}

/// How long the GPU is idle for it, in words.
fn idles(
    evidence: &Evidence<'_>,
    (stage, idle): (&StageLine, &StageIdle),
    saved: Time,
    is_apart: bool,
) -> Vec<Inline> {
    let label = Inline::strong(&stage.label);
    let share = stage.share(saved);
    match pauses::hold(evidence, stage) {
        _ if is_apart => say!(
            evidence,
            "host_bound.without_preparation",
            stage = label,
            share = share
        ),
        true => say!(
            evidence,
            "host_bound.without_pauses",
            stage = label,
            share = share
        ),
        false => evidence.idles(stage, idle, &CAUSES, saved),
    }
}

/// The draft with advice on what most of this time is: code, calls of the system, or time on no CPU.
fn advised(
    evidence: &Evidence<'_>,
    (stage, idle): (&StageLine, &StageIdle),
    draft: Draft,
    [code, system, off_cpu]: [Time; 3],
) -> Draft {
    let is_training = workload(stage.kind) == Workload::Training;
    if system > code.max(off_cpu) {
        draft.advice(if is_training {
            "advice_system"
        } else {
            "advice_system_other"
        })
    } else if off_cpu > code {
        draft.advice("advice_off_cpu")
    } else {
        draft.advice(advice(evidence, stage, idle))
    }
}

/// What to capture next: a bundle with samples names the code already, if they are enough.
fn next(evidence: &Evidence<'_>) -> Option<&'static str> {
    match evidence.session.os_calls.is_empty() {
        _ if !evidence.has_no_samples() => None,
        true => Some("next"),
        false => Some("next_code"),
    }
}

/// Whether the host is in the operating system or without a CPU for more of that idle time than it computes.
pub(crate) fn is_blocked(idle: &StageIdle) -> bool {
    let blocked = idle.of(Cause::Os) + idle.of(Cause::OffCpu);
    blocked > idle.of(Cause::HostCode)
}

/// What the host can be late for, at most: without a profiler, the gaps that streams need between operations are no wait for
/// the CPU.
fn most(stage: &StageLine, idle: &StageIdle) -> Time {
    match stage.unprofiled {
        Some(_) => (stage.idle() - idle.least_idle()).max(Time::ZERO),
        None => stage.time,
    }
}

/// The calls of the operating system with most of that idle time.
fn os_calls(evidence: &Evidence<'_>, idle: &StageIdle) -> Option<Vec<Inline>> {
    let whole = idle.of(Cause::Os).time();
    let mut names = Vec::new();
    for (name, time) in &idle.os_calls {
        if time.time() >= whole * CALL_SHARE && names.len() < SHOWN_CALLS {
            names.push(vec![Inline::code(evidence.session.text(*name))]);
        }
    }
    let comma = Inline::Text(evidence.text.comma().to_owned());
    (!names.is_empty()).then(|| names.join(&comma))
}

/// The range, operator or function with most of the host code of a stage: of its pass, or of another one with it.
fn place(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Option<Place> {
    let of_stage = |name| evidence.session.text(name) == evidence.facts.stages[stage.stage].name;
    let passes = std::iter::once(idle).chain(known::others(evidence, stage));
    let mut places = passes.filter_map(|idle| known::place(&[&idle.sources], &CAUSES, of_stage));
    places.next()
}

/// Whether most of the host code of a stage lies in a range that prepares no kernels.
fn is_apart(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> bool {
    let Some(place) = place(evidence, stage, idle) else {
        return false;
    };
    let prepared = known::SHAPES
        .iter()
        .filter_map(|activity| idle.sources.of(*activity));
    let mut sources = prepared.flat_map(|prepared| &prepared.sources);
    matches!(place.source, Source::Range(_))
        && !sources.any(|source| source.path.contains(&place.source))
}

/// Operators of PyTorch that check the guards of a compiled function and enter it.
const ENTRIES: [&str; 4] = [
    "TorchDynamo Cache Lookup",
    "Torch-Compiled Region",
    "CompiledFunction",
    "## Call CompiledFxGraph",
];

/// The part of the host code of a stage in which compiled functions are entered, where it is most of it: in its pass, or in
/// another one that recorded operators.
fn entry(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Option<Ratio> {
    let is_entry = |source: &Source| {
        let is_operator = matches!(source, Source::Operator(_));
        let name = evidence.session.text(source.name());
        is_operator && ENTRIES.iter().any(|entry| name.starts_with(entry))
    };
    let share = |idle: &StageIdle| {
        let code = idle.sources.of(Activity::HostCode)?;
        let (mut of_entries, mut whole) = (Ns::ZERO, Ns::ZERO);
        for source in &code.sources {
            whole += source.time;
            if source.path.iter().any(is_entry) {
                of_entries += source.time;
            }
        }
        Some(Ratio::of(of_entries.time(), whole.max(Ns(1)).time()))
    };
    let passes = std::iter::once(idle).chain(known::others(evidence, stage));
    let mut shares = passes.filter_map(share);
    shares.find(|share| *share >= ENTERS)
}

/// The function of Python that calls an operator, where a pass recorded stacks.
fn caller(evidence: &Evidence<'_>, place: Source) -> Option<StrId> {
    match place {
        Source::Operator(name) => evidence.session.caller(name),
        _ => None,
    }
}

/// Whether most of the host code of the longest gaps comes right before code is loaded: it makes that code.
fn loads(idle: &StageIdle) -> bool {
    let (mut code, mut loading) = (Ns::ZERO, Ns::ZERO);
    for gap in &idle.longest {
        let times = &gap.gap.times;
        code += times.of(Cause::HostCode);
        if times.of(Cause::FirstUse) > Ns::ZERO {
            loading += times.of(Cause::HostCode);
        }
    }
    loading > code / 2
}

/// Whether most operations of a stage are copies.
fn is_of_copies(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let work = evidence.work(stage.key());
    work.is_some_and(|work| 2 * work.classes[KernelClass::Copy as usize].0 > work.operations())
}

/// The part of the host code of the longest gaps in which the loop waits for PyTorch's data loader.
fn in_loader(evidence: &Evidence<'_>, idle: &StageIdle) -> Option<Ratio> {
    let (mut code, mut of_loader) = (Time::ZERO, Time::ZERO);
    for gap in &idle.longest {
        let time = gap.gap.times.of(Cause::HostCode).time();
        code += time;
        if let Some(range) = gap.ranges.last()
            && evidence.session.text(*range).starts_with(DATA_LOADER)
        {
            of_loader += time;
        }
    }
    (code > Time::ZERO).then(|| Ratio::of(of_loader, code))
}

/// What such a program does on the CPU; and where PyTorch launches many operations one by one, what does without.
fn advice(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> Vec<Inline> {
    let mut text = match workload(stage.kind) {
        Workload::Training => say!(evidence, "host_bound.advice_training"),
        Workload::Inference => say!(evidence, "host_bound.advice_inference"),
        Workload::Unknown => say!(evidence, "host_bound.advice"),
    };
    if is_many(evidence, stage, idle) {
        let operations = stage.operations;
        text.extend(say!(
            evidence,
            "host_bound.advice_launches",
            operations = operations
        ));
    }
    text
}
