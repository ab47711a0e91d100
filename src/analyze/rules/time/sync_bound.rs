//! The GPU runs dry while the host waits for it.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Lost};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::time::idle::sources::MUCH_DATA;
use rooflens_analysis::time::idle::{Activity, Cause, StageIdle};
use rooflens_analysis::time::sync::PassSync;
use rooflens_document::{Finding, Inline};
use rooflens_schemas::marks;
use rooflens_session::{CopyKind, StrId};
use rooflens_stats::median;
use rooflens_units::{Ns, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "sync-bound",
    &[Threshold::ratio("thresholds.synchronizing", SHARE)],
    outcome,
);

/// Idle time in and after synchronizing calls and blocking copies ÷ stage time from which on it is worth a finding.
pub(crate) const SHARE: Ratio = Ratio(0.02);

/// The causes of idle time in these calls.
const CAUSES: [Cause; 2] = [Cause::Sync, Cause::Copy];

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let outcome = evidence.each_stage(|stage| {
        let Some(idle) = evidence.idle(stage.key()) else {
            return Look::InsufficientData;
        };
        if idle.has_calls().is_err() {
            return Look::InsufficientData;
        }
        let lost = Lost::of(&idle.sources, &known::WAITS);
        match lost.idle >= idle.pool.time.time() * SHARE && lost.idle > Time::ZERO {
            true if evidence.nan_checks(stage).is_some() => {
                Look::suppressed_by(evidence, "nan-checks")
            }
            true if known::prepares_mostly(evidence, stage) => {
                Look::suppressed_by(evidence, "new-shapes")
            }
            true => draft(evidence, stage, idle, lost).into(),
            false if idle.share(idle.of(Cause::Unknown)) >= SHARE => Look::InsufficientData,
            false => Look::Passed,
        }
    });
    outcome.or_needs(words!(evidence, "findings.needs_idle"))
}

/// Whether the waits of a stage are a loop, which one operation on all elements replaces.
pub(crate) fn is_loop(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle) -> bool {
    !keeps_host(name(evidence, stage, idle).map(Wait::of), idle)
}

/// What waits, by a mark or operator.
fn name<'a>(evidence: &Evidence<'a>, stage: &StageLine, idle: &StageIdle) -> Option<&'a str> {
    let names = known::names_of_stage(evidence, stage, idle, &known::WAITS);
    let waits: usize = idle.sources.waits.iter().sum();
    // Without marks and operators the kernel that counts elements says it.
    let counts = idle.sources.sizes > 0 && 2 * idle.sources.sizes >= waits;
    let name = names.first().map(|name| evidence.session.text(*name));
    name.or(counts.then_some(NONZERO))
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, idle: &StageIdle, mut lost: Lost) -> Draft {
    let session = evidence.session;
    let sync = evidence.results.sync().ok();
    let of_stage = sync.and_then(|sync| sync.of_stage(stage.stage, stage.process));
    let name = name(evidence, stage, idle);
    let (call, around) = of_stage
        .and_then(|(pass, _)| longest(evidence, pass))
        .unzip();
    let in_calls = idle.pool.causes.sum(&CAUSES).time();
    let calls = of_stage.map(|(_, sync)| sync.calls);
    let wait = name.map(Wait::of);
    let mut sites = known::times_by_name(session, &[&idle.sources], &known::WAITS, |_| true);
    // A loop of reads: of one name, or of several of which none has most of the time.
    let has_reads = wait.is_none() && !sites.is_empty() || wait == Some(Wait::Value);
    let is_loop = has_reads && is_repeated(idle);
    // The host computes after the wait as before: what it saves is the wait.
    let waits = match stage.unprofiled {
        Some(_) => known::sooner(evidence, stage),
        None => stage.waits,
    } * stage.counted;
    // Where it works for most of that time, its launches are what the GPU waits for.
    let launches = is_loop && waits < lost.idle * LAUNCHES.rest();
    if !launches && (is_loop || wait == Some(Wait::Value)) {
        lost.most = waits;
    }
    if !launches && wait == Some(Wait::Value) {
        // The copy to the host goes with its read; what it reads is computed as before.
        lost.issued = lost.issued.min(copies(evidence, stage));
    }
    let is_wait = keeps_host(wait, idle) && !launches;
    if is_wait {
        lost.most = lost.most.min(stage.waits * stage.counted);
        lost.issued = Time::ZERO;
    }
    let mut loss = known::loss_of_stage(evidence, (stage, idle), lost, &known::WAITS);
    loss.finding.is_wait = is_wait;
    let is_loop_of_data = wait == Some(Wait::Data) && is_batchable(evidence, idle);
    let works = reads_much(evidence, stage) && works_on_data(idle);
    let moves_data = is_loop_of_data && (works || !computes_between_reads(evidence, stage));
    if launches || moves_data {
        // A loop that copies data leaves an empty queue to all that follows.
        let others = match moves_data {
            true => Time::ZERO,
            false => idle_without_waits(evidence, stage),
        };
        bound_loop(
            &mut loss.finding,
            stage,
            others,
            lost.issued / stage.counted,
        );
    }
    if let Some(copies) = evidence.copies(stage).filter(|_| moves_data) {
        let copied = stage.within_copies(copies, copies.exposed(Some(CopyKind::DeviceToHost)));
        loss.finding = stage.with_copies(loss.finding, copied);
    }
    // A loop goes with all its reads; other advice is about what waits in one way.
    if let Some(wait) = wait.filter(|_| !launches) {
        sites.retain(|(site, _)| Wait::of(session.text(*site)) == wait);
    }
    let parts = parts(evidence, &sites);
    match (sites.is_empty(), wait) {
        // Operators of another pass.
        (true, Some(wait)) => loss
            .names
            .retain(|name| Wait::of(session.text(*name)) == wait),
        _ => loss.names = sites.into_iter().map(|(site, _)| site).collect(),
    }
    let name = loss
        .listed(evidence)
        .or_else(|| name.map(|name| vec![Inline::code(name)]));
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        within = Ratio::of(in_calls, lost.idle).min(Ratio::ONE),
        calls = calls,
        call = call.filter(|_| wait.is_none()),
        around = around.flatten().filter(|_| wait.is_none()),
        sites = parts.or_else(|| name.clone()),
        name = name,
    };
    let draft = Draft::new(loss.finding, arguments);
    let kind = match wait {
        Some(wait @ (Wait::Mask | Wait::Size)) => Kind::Wait(wait),
        _ if launches => Kind::Launches,
        _ if moves_data => Kind::Moves,
        _ if is_loop_of_data => Kind::Batch,
        Some(wait) => Kind::Wait(wait),
        None if marks_calls(evidence, stage) => Kind::Operators,
        None => Kind::Wait(Wait::All),
    };
    advised(draft, kind)
}

/// What to do about waits.
#[derive(Clone, Copy)]
enum Kind {
    /// One of a kind.
    Wait(Wait),
    /// A loop of launches and reads.
    Launches,
    /// A loop that copies data, and works on it on the CPU.
    Moves,
    /// A loop over elements.
    Batch,
    /// Waits within operators.
    Operators,
}

fn advised(draft: Draft, kind: Kind) -> Draft {
    match kind {
        Kind::Wait(Wait::Mask) => draft
            .root("root_cause_mask", "root_action_mask")
            .advice("advice_size"),
        Kind::Wait(Wait::Size) => draft
            .root("root_cause_size", "root_action_size")
            .advice("advice_size"),
        Kind::Launches => draft
            .root("root_cause_launches", "root_action_launches")
            .only_if("root_if_launches")
            .basis("basis_launches")
            .advice("advice_launches"),
        Kind::Wait(Wait::Value) => draft
            .root("root_cause_value", "root_action_value")
            .advice("advice_value"),
        Kind::Moves => draft
            .root("root_cause_data", "root_action_data")
            .basis("basis_data")
            .advice("advice_data"),
        Kind::Batch => draft
            .root("root_cause_batch", "root_action_batch")
            .only_if("root_if_batch")
            .advice("advice_batch"),
        Kind::Wait(Wait::Data) => draft
            .root("root_cause_data", "root_action_data")
            .advice("advice_data"),
        Kind::Operators => draft
            .root("root_cause_operators", "root_action_operators")
            .only_if("root_if_operators")
            .advice("advice_operators"),
        Kind::Wait(Wait::All) => draft,
    }
}

/// Time of copies in a stage.
fn copies(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    let work = evidence.work(stage.key());
    work.map_or(Time::ZERO, |work| work.time(KernelClass::Copy).time())
}

/// The calls with most of the idle time, each with its part of it.
fn parts(evidence: &Evidence<'_>, sites: &[(StrId, Ns)]) -> Option<Vec<Inline>> {
    let all: Ns = sites.iter().map(|(_, time)| *time).sum();
    let mut parts = Vec::new();
    for (site, time) in sites.iter().take(known::SHOWN) {
        let share = (*time < all).then(|| Ratio::of(*time, all));
        let site = Inline::code(evidence.session.text(*site));
        parts.push(say!(
            evidence,
            "sync_bound.site",
            site = site,
            share = share
        ));
    }
    let comma = Inline::from(evidence.text.comma());
    (!parts.is_empty()).then(|| parts.join(&comma))
}

/// Whether the capture program marked waiting calls of Python in the pass of a stage: a wait without a mark is then within an
/// operator.
fn marks_calls(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let (session, ranges) = (evidence.session, &evidence.session.ranges);
    let pass = evidence.facts.stages[stage.stage].pass;
    let is_mark = |row: usize| {
        ranges.pass[row] == pass
            && session.text(ranges.domain[row]) == marks::DOMAIN
            && session.text(ranges.name[row]).contains(" at ")
    };
    (0..ranges.len()).any(is_mark)
}

/// Sets the bound of a loop: its operations, and all idle time of an iteration but that of `others`. One call on a batch
/// launches next to nothing.
fn bound_loop(finding: &mut Finding, stage: &StageLine, others: Time, issued: Time) {
    let idle = stage.time - stage.busy - others;
    let most = stage.unprofiled_idle(idle) + issued;
    let all = stage.saving_idle_within(idle + issued, most);
    if let (Some(gain), Some(most)) = (&mut finding.gain, all.gain)
        && gain.kind == most.kind
    {
        gain.saved_ns = most.saved_ns;
        finding.weight_ns = all.weight_ns;
        finding.severity = all.severity;
    }
}

/// Profiled idle time of an iteration in nested stages that do not wait: the loop is in none of them.
fn idle_without_waits(evidence: &Evidence<'_>, stage: &StageLine) -> Time {
    let mut idle_time = Time::ZERO;
    for nested in &stage.nested {
        let is_within = evidence.facts.stages[nested.stage].parent == Some(stage.stage);
        if let Some(idle) = evidence.idle(nested.key()).filter(|_| is_within) {
            let waits = Lost::of(&idle.sources, &known::WAITS).idle;
            if waits < idle.pool.time.time() * SHARE {
                idle_time += idle.idle().time() / stage.counted;
            }
        }
    }
    idle_time
}

/// Share of the idle time after waits from which on the host spends it with its own work.
const LAUNCHES: Ratio = Ratio(0.5);

/// Waits of an iteration from which on they are a loop, which one operation on all elements replaces.
const LOOP: f64 = 3.0;

/// Whether the call with most of the idle time is in a loop: it waits several times an iteration by itself.
fn is_batchable(evidence: &Evidence<'_>, idle: &StageIdle) -> bool {
    let waits = [Activity::Synchronization];
    let calls = known::times_by_name(evidence.session, &[&idle.sources], &waits, |_| true);
    let call = calls.first().map(|(name, _)| *name);
    let of_waits = idle.sources.of(Activity::Synchronization).into_iter();
    let sources = of_waits.flat_map(|idle| &idle.sources);
    let of_call = sources.filter(|source| call.is_some() && source.subject == call);
    let gaps = of_call.map(|source| source.gaps).max();
    gaps.is_some_and(|gaps| gaps as f64 >= LOOP * idle.sources.windows as f64)
}

/// Whether copies to the host are so large that the code after them works on their data.
fn reads_much(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let (mut count, mut bytes) = (0, 0);
    for (kind, sum) in evidence
        .copies(stage)
        .into_iter()
        .flat_map(|copies| &copies.sums.kinds)
    {
        if kind.0 == CopyKind::DeviceToHost {
            count += sum.count;
            bytes += sum.bytes;
        }
    }
    bytes as f64 >= MUCH_DATA.0 * count.max(1) as f64
}

/// Whether the CPU computes for most of the time after these waits: it works on what it reads.
fn works_on_data(idle: &StageIdle) -> bool {
    let waits = idle.sources.of(Activity::Synchronization);
    let sources = waits.into_iter().flat_map(|idle| &idle.sources);
    let (mut code, mut whole) = (Ns::ZERO, Ns::ZERO);
    for source in sources {
        whole += source.time;
        code += match source.cause {
            Cause::HostCode => source.time,
            _ => Ns::ZERO,
        };
    }
    code > whole / 2
}

/// Whether kernels run between most copies to the host that follow each other in an iteration: a loop over tensors that are
/// there already issues no work for an element.
fn computes_between_reads(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let (ops, copies) = (&evidence.facts.ops, &evidence.session.copies);
    let summary = evidence.summary(stage).into_iter();
    let instances = summary.flat_map(|summary| summary.counted_instances(evidence.facts));
    let (mut pairs, mut computing) = (0_usize, 0_usize);
    for instance in instances {
        let (mut has_read, mut computes) = (false, false);
        for op in &instance.ops {
            match ops.source[*op as usize] {
                OpSource::Copy(copy) if copies.kind[copy.index()] == CopyKind::DeviceToHost => {
                    pairs += usize::from(has_read);
                    computing += usize::from(has_read && computes);
                    (has_read, computes) = (true, false);
                }
                OpSource::Copy(_) => {}
                OpSource::Launch(_) | OpSource::Graph(_) => computes = true,
            }
        }
    }
    2 * computing >= pairs
}

/// Whether a typical iteration waits in a loop.
fn is_repeated(idle: &StageIdle) -> bool {
    let waits = idle.sources.waits.iter();
    let waits: Vec<f64> = waits.map(|waits| *waits as f64).collect();
    median(&waits).is_some_and(|waits| waits >= LOOP)
}

/// Whether the host works as long as before without the waits: unless it works on what it waits for, or in a loop.
fn keeps_host(wait: Option<Wait>, idle: &StageIdle) -> bool {
    match wait {
        Some(Wait::Data) => false,
        Some(Wait::Mask | Wait::Size | Wait::Value) => !is_repeated(idle),
        Some(Wait::All) | None => true,
    }
}

/// Whether a mark or operator is a wait for a tensor, which the host then works on.
pub(super) fn reads_data(name: &str) -> bool {
    Wait::of(name) == Wait::Data
}

/// What PyTorch calls that waits for the number of elements.
const NONZERO: &str = "nonzero";

/// What the host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// How many elements a boolean mask picks as index.
    Mask,
    /// How many elements meet a condition: the size of a tensor depends on it.
    Size,
    /// One value.
    Value,
    /// A tensor.
    Data,
    /// All work.
    All,
}

impl Wait {
    /// By the name of a mark such as `item at train.py:7`, or of an operator.
    fn of(name: &str) -> Self {
        let name = name.split_once(" at ").map_or(name, |(name, _)| name);
        match name.strip_prefix("aten::").unwrap_or(name) {
            "index" | "index_put_" | "index_put" => Self::Mask,
            "nonzero" | "masked_select" => Self::Size,
            "cpu" | "tolist" => Self::Data,
            name if name.contains("synchronize") => Self::All,
            _ => Self::Value,
        }
    }
}

/// The call in whose gaps within stages a pass is idle longest before it returns, and where it is.
fn longest(evidence: &Evidence<'_>, pass: &PassSync) -> Option<(Inline, Option<Inline>)> {
    let session = evidence.session;
    let place = pass
        .places
        .iter()
        .max_by_key(|place| place.sum.in_stage_calls)?;
    if place.sum.in_stage_calls <= Ns::ZERO {
        return None;
    }
    let around = match place.operator_name(session) {
        Some(operator) => Some(operator.to_owned()),
        None => place.path(session),
    };
    Some((
        Inline::code(session.text(place.call)),
        around.map(Inline::Code),
    ))
}
