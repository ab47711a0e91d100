//! The GPU waits between the stages: data loaders, schedulers, logging.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Lost, UNLIMITED};
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use crate::stage::{Workload, workload};
use crate::time::sync_bound;
use rooflens_analysis::time::idle::between::{Between, HostPlace, Pair};
use rooflens_analysis::time::idle::sources::Sources;
use rooflens_analysis::time::idle::{Activity, Cause};
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::StageKind;
use rooflens_session::{Arrange, CopyKind, Ns, ProcessId, Session, StrId};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "between-stages",
    &[
        Threshold::ratio("thresholds.between_idle", SHARE),
        Threshold::count("thresholds.between_times", TIMES),
    ],
    outcome,
)
.general();

/// Idle time between stages ÷ run from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.05);

/// Times that two stages follow one another from which on what lies between them is a loop, and no set-up.
const TIMES: u64 = 3;

/// Share of the time between two stages from which on a range tells what the host does in it.
const COVERED: Ratio = Ratio(0.5);

/// The same from which on the range is all of it.
const WHOLE: Ratio = Ratio(0.9);

/// Time in stages ÷ idle time between them from which on code can run while the GPU works.
const HIDES: Ratio = Ratio(0.5);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let betweens = match evidence.results.idle() {
        Ok(idle) if !idle.between.is_empty() => &idle.between,
        _ => return Outcome::INSUFFICIENT_DATA,
    };
    if !betweens
        .iter()
        .any(|between| between.pairs.iter().any(is_loop))
    {
        let times = Quantity::count(TIMES);
        return Outcome::NotApplicable(words!(evidence, "between_stages.no_loop", times = times));
    }
    let drafts = betweens
        .iter()
        .flat_map(|between| drafts(evidence, between));
    match Outcome::of_drafts(drafts) {
        Outcome::Passed(_)
            if betweens
                .iter()
                .any(|between| is_after_waits(evidence, between)) =>
        {
            let rule = evidence.text.rule("sync-bound");
            Outcome::NotApplicable(words!(evidence, "findings.said_by", rule = rule))
        }
        outcome => outcome,
    }
}

fn is_loop(pair: &Pair) -> bool {
    pair.windows() as u64 >= TIMES
}

/// Whether the code before the first operation of a stage of this kind is the user's.
fn is_of_user(kind: StageKind, cause: Cause) -> bool {
    kind == StageKind::Other && cause == Cause::HostCode
}

/// A draft for each place of the host: what it does in the range of a stage is that of the stage, and lies between none.
fn drafts(evidence: &Evidence<'_>, between: &Between) -> Vec<Draft> {
    let run = evidence.loop_of(between.summary.process);
    let mut places: BTreeMap<HostPlace, Vec<&Pair>> = BTreeMap::new();
    for pair in between.pairs.iter().filter(|pair| is_loop(pair)) {
        let place = pair.host_place(evidence.facts);
        places.entry(place).or_default().push(pair);
    }
    let once = once(places.values().flatten());
    let mut drafts = Vec::new();
    for (place, mut pairs) in places {
        let rest = |pair: &Pair| rest(pair, after_waits(evidence, between, pair));
        pairs.arrange_by_key(|pair| std::cmp::Reverse(rest(pair)));
        let idle: Time = pairs.iter().map(|pair| rest(pair).time()).sum();
        let idle = match place {
            HostPlace::Outside => idle.min(outside(evidence, between.summary.process)),
            HostPlace::Last(_) | HostPlace::Next(_) => idle,
        };
        if idle >= run * SHARE && run.is_positive() {
            drafts.push(draft(evidence, between, place, &pairs, idle));
        }
    }
    if drafts.is_empty() && once.time() >= run * SHARE && once > Ns::ZERO {
        drafts.push(draft_once(evidence, between, once));
    }
    drafts
}

/// What the stages of a process leave of the measured loop, where they were timed without a profiler: those times hold all
/// that the host does in their ranges.
fn outside(evidence: &Evidence<'_>, process: ProcessId) -> Time {
    let mut outside = evidence.loop_of(process);
    for stage in evidence
        .stages
        .iter()
        .filter(|stage| stage.process == process)
    {
        if stage.unprofiled.is_none() {
            return UNLIMITED;
        }
        outside -= stage.total();
    }
    outside.max(Time::ZERO)
}

/// Idle time that occurs once.
fn once<'p>(pairs: impl IntoIterator<Item = &'p &'p Pair>) -> Ns {
    pairs.into_iter().filter_map(|pair| pair.once()).sum()
}

/// The finding about pairs, of which that with most idle time comes first.
fn draft(
    evidence: &Evidence<'_>,
    between: &Between,
    host: HostPlace,
    pairs: &[&Pair],
    idle: Time,
) -> Draft {
    let context = &evidence.context;
    let run = evidence.loop_of(between.summary.process);
    // Profiled time of the profiled loop.
    let captured = pairs
        .iter()
        .map(|pair| rest(pair, after_waits(evidence, between, pair)));
    let captured = captured.sum::<Ns>();
    let (session, stages) = (evidence.session, &evidence.facts.stages);
    let (pair, once) = (pairs[0], once(pairs));
    let label = between.label(context);
    let whose = Some(label.as_str()).filter(|label| !label.is_empty());
    let sources: Vec<&Sources> = pairs.iter().map(|pair| &pair.sources).collect();
    let named = named(pair);
    let place = place(evidence, pair, &sources, idle);
    let cause = pair.causes.main();
    let (of_host, is_next) = match host {
        HostPlace::Outside => (None, false),
        HostPlace::Last(stage) => (Some(stage), false),
        HostPlace::Next(stage) => (Some(stage), true),
    };
    let stage = of_host.and_then(|stage| {
        let key = (stage, between.summary.process);
        evidence.stages.iter().find(|line| line.key() == key)
    });
    let in_stage = Ratio::of(pair.in_place(host), pair.idle());
    let arguments = arguments! {
        label = whose,
        share = Ratio::of(captured, between.run),
        run = Quantity::ns(between.run),
        after = Inline::strong(&stages[pair.from].name),
        before = Inline::strong(&stages[pair.to].name),
        median = pair.median().filter(|_| named == Ns::ZERO),
        count = Quantity::count(pair.windows() as u64),
        cause = (named == Ns::ZERO).then(|| Inline::strong(evidence.text.word(cause.label()))),
        place = place.map(|(name, _)| Inline::code(session.text(name))),
        covers = place.map(|(_, covered)| covered),
        inside = stage.map(|_| in_stage),
        host = of_host.map(|stage| Inline::strong(&stages[stage].name)),
        once = (once > Ns::ZERO).then(|| Quantity::ns(once)),
        hides = (run - idle >= idle * HIDES).then_some(""),
    };
    let data_wait = data_wait(session, &sources, idle);
    let is_launching = launches(pairs);
    let is_part = place.is_some_and(|(_, covered)| covered < WHOLE);
    // An action on a part saves no more than that.
    let idle = match place {
        Some((_, covered)) if is_part && !is_launching && data_wait.is_none() => idle * covered,
        _ => idle,
    };
    let finding = match stage {
        Some(stage) if stage.unprofiled.is_some() => {
            saving_in_range(evidence, stage, idle, data_wait.is_some())
        }
        _ => Finding {
            scope: stage.map_or_else(|| between.scope(context), |stage| stage.scope.clone()),
            title: stage.map_or(&label, |stage| &stage.label).clone(),
            ..evidence.saving_of_loop(run, whose, idle)
        },
    };
    let finding = Finding {
        evidence: vec![between.evidence(context)],
        ..finding
    };
    let draft = Draft::new(finding, arguments).next(place.is_none().then_some("next"));
    if is_launching {
        let root = launching_root(evidence);
        return draft.advice("advice_launching").known_cause(Some(root));
    }
    let draft = match (data_wait, of_host) {
        (Some(name), _) => draft.known_cause(Some(data_root(evidence, name))),
        _ if is_part => draft.root("root_cause_part", "root_action"),
        _ if place.is_some() => draft.cause_if(true),
        (None, None) if cause == Cause::Sync => draft.root("root_cause_wait", "root_action_wait"),
        (None, None) => draft,
        (None, Some(_)) if !is_next => draft.root("root_cause_behind", "root_action_behind"),
        // Code of the user, not of PyTorch's backward.
        (None, Some(stage)) if is_of_user(stages[stage].kind, cause) => {
            let draft = draft.root("root_cause_inside", "root_action_inside");
            draft.only_if("root_if_inside")
        }
        (None, Some(_)) => draft.root("root_cause_inside", "root_action_shorten"),
    };
    let of_code = match of_host {
        Some(_) => Workload::Unknown,
        None => workload(stages[pair.to].kind),
    };
    draft.advice(advice(cause, of_code))
}

/// The range, operator or function with most of this idle time, and its part of it.
fn place(
    evidence: &Evidence<'_>,
    pair: &Pair,
    sources: &[&Sources],
    idle: Time,
) -> Option<(StrId, Ratio)> {
    let (session, stages) = (evidence.session, &evidence.facts.stages);
    let is_stage = |name| {
        let name = session.text(name);
        let mut of_stages = evidence.stages.iter();
        of_stages.any(|stage| stages[stage.stage].name == name)
    };
    // Code of a small part of the time is not what the GPU waits for.
    let place = known::place(sources, &Cause::HOST, is_stage)
        .filter(|place| Ratio::of(place.time.time(), idle) >= COVERED)
        .map(|place| (place.source.name(), place.share));
    let range = pair.range(session).filter(|_| named(pair) == Ns::ZERO);
    place.or(range).filter(|(_, share)| *share >= COVERED)
}

/// What idle time in the range of a stage costs it: its unprofiled time holds what the host does before and after its
/// operations. Of `of_copied_data` if the host works on data that it waited for.
fn saving_in_range(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    idle: Time,
    of_copied_data: bool,
) -> Finding {
    let longer = evidence.longer_unprofiled(stage);
    let idle = idle / stage.counted.0 * longer;
    // The rest of the idle time is launches after the copy.
    let is_most = of_copied_data && idle >= stage.idle() * known::MOST;
    let idle = if is_most { stage.idle() } else { idle };
    let finding = stage.saving_of_range(idle);
    match evidence.copies(stage).filter(|_| of_copied_data) {
        // Work on the GPU has the result to copy, not its data.
        Some(copies) => {
            let copied = copies.exposed(Some(CopyKind::DeviceToHost));
            stage.with_copies(finding, copied)
        }
        None => finding,
    }
}

/// The wait for data after which the host works for most of the idle time.
fn data_wait(session: &Session, sources: &[&Sources], idle: Time) -> Option<StrId> {
    let waits = known::times_by_name(session, sources, &[Activity::Synchronization], |source| {
        source.cause == Cause::HostCode
    });
    let (name, time) = *waits.first()?;
    let is_most = Ratio::of(time.time(), idle) >= COVERED;
    (is_most && sync_bound::reads_data(session.text(name))).then_some(name)
}

/// Idle time that nothing else explains: it has no name, does not happen once, and waits before it do not cause it.
fn rest(pair: &Pair, after_waits: Ns) -> Ns {
    let unnamed = pair.idle() - named(pair) - pair.once().unwrap_or_default();
    unnamed.min(pair.idle() - after_waits).max(Ns::ZERO)
}

/// Idle time that waits in the stage before cause: without them the host would be ahead of the GPU. What is more than these
/// waits cost in the stage itself is no mere consequence.
fn after_waits(evidence: &Evidence<'_>, between: &Between, pair: &Pair) -> Ns {
    let key = (pair.from, between.summary.process);
    let mut stages = evidence.stages.iter();
    let (Some(stage), Some(idle)) = (stages.find(|stage| stage.key() == key), evidence.idle(key))
    else {
        return Ns::ZERO;
    };
    let lost = Lost::of(&idle.sources, &known::WAITS).idle;
    let waits = known::synchronizing(evidence, stage).round();
    let hidden = pair.hidden(waits, sync_bound::is_loop(evidence, stage, idle));
    match lost >= idle.pool.time.time() * sync_bound::SHARE && lost >= hidden.time() {
        true => hidden,
        false => Ns::ZERO,
    }
}

/// Whether waits in stages cause enough of the idle time between them for a finding.
fn is_after_waits(evidence: &Evidence<'_>, between: &Between) -> bool {
    let loops = between.pairs.iter().filter(|pair| is_loop(pair));
    let rests = loops.map(|pair| rest(pair, Ns::ZERO).time());
    let idle: Time = rests.sum();
    idle >= evidence.loop_of(between.summary.process) * SHARE
}

/// Idle time with a name, which has a finding of its own. Waits have one within stages alone.
fn named(pair: &Pair) -> Ns {
    let waits: Ns = known::WAITS
        .iter()
        .map(|wait| pair.sources.time(*wait))
        .sum();
    (pair.sources.named() - waits).max(Ns::ZERO)
}

/// Whether the host does little but launch between stages: for twice as long as anything else, without what it does once.
fn launches(loops: &[&Pair]) -> bool {
    let (mut launching, mut others) = (Ns::ZERO, Ns::ZERO);
    for pair in loops {
        let of_pair = pair.causes.of(Cause::Launching);
        let host = pair.causes.sum(&Cause::HOST);
        launching += of_pair;
        others += (host - of_pair - pair.once().unwrap_or_default()).max(Ns::ZERO);
    }
    launching > Ns::ZERO && launching >= others * 2
}

fn launching_root(evidence: &Evidence<'_>) -> Root {
    Root {
        cause: words!(evidence, "between_stages.root_cause_launching"),
        action: words!(evidence, "between_stages.root_action_launching"),
        condition: Some(words!(evidence, "between_stages.root_if_launching")),
        passes: 1,
    }
}

/// The host works on what it copied from the GPU, in the stage that ends: the GPU has nothing to do until the next one.
fn data_root(evidence: &Evidence<'_>, wait: StrId) -> Root {
    let name = || Inline::code(evidence.session.text(wait));
    Root {
        cause: words!(evidence, "between_stages.root_cause_data", name = name()),
        action: words!(evidence, "between_stages.root_action_data", name = name()),
        condition: Some(words!(evidence, "between_stages.root_if_data")),
        passes: 1,
    }
}

/// A note on idle time that occurs once.
fn draft_once(evidence: &Evidence<'_>, between: &Between, once: Ns) -> Draft {
    let label = between.label(&evidence.context);
    let finding = Finding {
        scope: between.scope(&evidence.context),
        evidence: vec![between.evidence(&evidence.context)],
        title: label.clone(),
        ..Finding::default()
    };
    let whose = Some(label).filter(|label| !label.is_empty());
    let arguments = arguments! { label = whose, once = Quantity::ns(once) };
    let draft = Draft::new(finding, arguments).statement("statement_once");
    draft.advice("advice_once").next(None)
}

/// The key of the advice.
const fn advice(cause: Cause, workload: Workload) -> &'static str {
    match (cause, workload) {
        (Cause::Sync | Cause::Copy, _) => "advice_wait",
        (Cause::Communication, _) => "advice_ranks",
        (Cause::Os | Cause::OffCpu, Workload::Training) => "advice_os_training",
        (Cause::Os | Cause::OffCpu, _) => "advice_os",
        (_, Workload::Training) => "advice_host_training",
        (_, Workload::Inference) => "advice_host_inference",
        (_, Workload::Unknown) => "advice_host",
    }
}
