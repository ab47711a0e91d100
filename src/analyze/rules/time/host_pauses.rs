//! Some instances of a stage hold long pauses of the host that its typical instance does not have.

use std::collections::BTreeMap;

use crate::stage::StageLine;
use crate::{
    Evidence, Look, Outcome, Rule, Threshold, measurement::repeat_outliers,
    measurement::uneven_pace,
};
use rooflens_analysis::operators::first_calls::FirstCalls;
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::longest::{LongGap, ended_by};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity, Root, Severity};
use rooflens_schemas::Unit;
use rooflens_schemas::ranges::DATA_LOADER;
use rooflens_session::{Arrange, Ns, StrId};

pub(crate) static RULE: Rule = Rule::new(
    "host-pauses",
    &[
        Threshold::ratio("thresholds.pauses", SHARE),
        Threshold::one("thresholds.typical_instances", INSTANCES),
    ],
    run,
);

/// Idle time in host code that typical instances do not have ÷ time of all iterations from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// Part of the names of PyTorch's operators for attention by cuDNN.
const CUDNN_ATTENTION: &str = "_cudnn_attention";

/// Part of the short names of its kernels.
const CUDNN_KERNEL: &str = "cuDNN sdpa";

/// Share of the time of the longest stalls from which on those that end with one kernel are told.
const HALF: f64 = 0.50;

/// Instances below which the median one is as likely as not one with pauses.
const INSTANCES: f64 = 3.0;

/// Pauses of a stage.
struct Pauses {
    /// Idle time in host code of a typical instance, nanoseconds.
    typical: f64,
    /// What each counted instance has beyond it, summed.
    beyond: f64,
    /// The longest time in a gap, nanoseconds.
    longest: Ns,
}

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(&words!(evidence, "host_pauses.needs"), |stage| {
        if typical(evidence, stage).is_none() {
            return Look::InsufficientData;
        }
        pauses(evidence, stage)
            .map(|pauses| finding(evidence, stage, &pauses))
            .into()
    })
}

/// Idle time in host code of a typical instance: the median; of few instances, as many steps of median.
pub(crate) fn typical(evidence: &Evidence<'_>, stage: &StageLine) -> Option<f64> {
    let of = |key| evidence.idle(key)?.median_of(Cause::HostCode).ok();
    match stage.counted >= INSTANCES {
        true => of(stage.key()),
        false => of(stage.step()?.key())
            .zip(stage.steps)
            .map(|(step, steps)| step * steps),
    }
}

fn pauses(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Pauses> {
    let line = evidence.idle(stage.key())?;
    let typical = typical(evidence, stage)?;
    // An iteration with less takes nothing from what another has more.
    let more = |one: &Parts| (one.causes.of(Cause::HostCode) as f64 - typical).max(0.0);
    let beyond: f64 = line.instances.iter().map(more).sum();
    let longest = line.gaps[Cause::HostCode as usize].longest;
    let holds = beyond > 0.0 && beyond >= SHARE * measured(evidence, stage);
    holds.then_some(Pauses {
        typical,
        beyond,
        longest,
    })
}

/// Time of all iterations of all stages of the rank that count, nanoseconds, the stalls within them.
fn measured(evidence: &Evidence<'_>, stage: &StageLine) -> f64 {
    let own = evidence
        .stages
        .iter()
        .filter(|one| one.scope.rank == stage.scope.rank);
    own.filter_map(|one| Some(evidence.idle(one.key())?.pool.time as f64))
        .sum()
}

/// Whether such pauses are most of the idle time in host code.
pub(crate) fn prevail(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let all = evidence
        .idle(stage.key())
        .map_or(0, |line| line.of(Cause::HostCode));
    pauses(evidence, stage).is_some_and(|pauses| pauses.beyond >= all as f64 / 2.0)
}

/// Whether a stage has such pauses.
pub(crate) fn hold(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    pauses(evidence, stage).is_some()
}

/// Idle time in host code of an instance: without the pauses, where typical instances have none.
pub(crate) fn host_code(evidence: &Evidence<'_>, stage: &StageLine) -> Option<f64> {
    let pooled = evidence.idle(stage.key())?.of_stage(Cause::HostCode).ok()?;
    Some(pauses(evidence, stage).map_or(pooled, |pauses| pauses.typical.min(pooled)))
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> Finding {
    let typical = match stage.counted < INSTANCES {
        true => words!(evidence, "host_pauses.steps"),
        false => words!(evidence, "host_pauses.instance"),
    };
    let ended = ended(evidence, stage, pauses.beyond);
    let main = ended.as_ref().filter(|ended| ended.share >= HALF);
    let root = main.and_then(|main| {
        let known = by_loader(evidence, main).or_else(|| root(evidence, &main.kernel));
        known.or_else(|| by_name(evidence, stage, main))
    });
    let mut statement = say!(
        evidence,
        "host_pauses.statement",
        stage = Inline::strong(&stage.label),
        time = Quantity::new(pauses.beyond, Unit::Nanoseconds),
        count = Quantity::count(stage.counted as u64),
        typical = typical,
        longest = Quantity::ns(pauses.longest),
        ended = ended.map(|ended| ended.said),
    );
    statement.extend(
        root.as_ref()
            .map_or_else(Vec::new, |root| root.statement.clone()),
    );
    statement.extend(uneven_pace::also(evidence, stage));
    statement.extend(repeat_outliers::also(evidence, stage));
    let gain = Gain {
        saved_ns: pauses.beyond,
        of_ns: measured(evidence, stage),
        of: words!(evidence, "host_pauses.of"),
        basis: basis(evidence, stage, pauses),
        kind: GainKind::Stalls,
    };
    Finding {
        severity: Severity::of_share(gain.share()),
        weight_ns: pauses.beyond,
        gain: Some(gain),
        statement,
        advice: Some(match &root {
            Some(root) => root.advice.clone(),
            None => say!(evidence, "host_pauses.advice"),
        }),
        next: Some(match root.as_ref().is_some_and(|root| root.is_traced) {
            true => say!(evidence, "host_pauses.next_root"),
            false => say!(evidence, "host_pauses.next"),
        }),
        root: root.map(|root| root.summary),
        ..stage.note()
    }
}

/// The formula of the loss with its numbers.
fn basis(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> String {
    let steps = stage.steps.filter(|_| stage.counted < INSTANCES);
    let count = Quantity::count(stage.counted as u64);
    let typical = Quantity::new(pauses.typical / steps.unwrap_or(1.0), Unit::Nanoseconds);
    let Some(steps) = steps else {
        return words!(
            evidence,
            "host_pauses.basis",
            count = count,
            typical = typical
        );
    };
    let steps = Quantity::new(steps, Unit::Count);
    words!(
        evidence,
        "host_pauses.basis_steps",
        steps = steps,
        count = count,
        typical = typical
    )
}

/// The work that most of the time of the longest stalls ends with.
struct Ended {
    kernel: String,
    /// Share of that time.
    share: f64,
    /// Number of these stalls, where all lie in a range of PyTorch's data loader.
    in_loader: Option<u64>,
    said: Vec<Inline>,
}

/// The work that the longest stalls end with, by their time in host code: of as many stalls as the loss holds.
fn ended(evidence: &Evidence<'_>, stage: &StageLine, loss: f64) -> Option<Ended> {
    let session = evidence.session;
    let longest = evidence
        .idle(stage.key())
        .map_or(&[][..], |line| &line.longest);
    let mut stalls: Vec<(Ns, &LongGap)> = longest
        .iter()
        .map(|one| (one.gap.times.of(Cause::HostCode), one))
        .collect();
    stalls.retain(|(_, one)| one.gap.times.main() == Cause::HostCode);
    // A stable sort: of equal times the longer gap first.
    stalls.arrange_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut enders: BTreeMap<String, Ender> = BTreeMap::new();
    let mut left = loss;
    for (time, gap) in stalls {
        left -= time as f64;
        if left < 0.0 {
            break;
        }
        let ender = enders
            .entry(ended_by(&evidence.context, gap.gap.op))
            .or_default();
        ender.count += 1;
        ender.time += time;
        ender.ranges.extend(gap.ranges.last());
    }
    let listed: u64 = enders.values().map(|ender| ender.count).sum();
    let whole: Ns = enders.values().map(|ender| ender.time).sum();
    let kinds = Quantity::count(enders.len() as u64);
    let (kernel, most) = enders.into_iter().max_by_key(|(_, ender)| ender.time)?;
    // A range is named where all of these stalls lie in it.
    let range = most.ranges.first().filter(|one| {
        most.ranges.len() as u64 == most.count && most.ranges.iter().all(|range| range == *one)
    });
    let share = most.time as f64 / whole.max(1) as f64;
    let (listed, whole) = (Quantity::count(listed), Quantity::ns(whole));
    if share < HALF {
        let said = say!(
            evidence,
            "host_pauses.ended_mixed",
            listed = listed,
            whole = whole,
            kinds = kinds
        );
        return Some(Ended {
            kernel,
            share,
            in_loader: None,
            said,
        });
    }
    let said = say!(
        evidence,
        "host_pauses.ended",
        listed = listed,
        whole = whole,
        share = Quantity::ratio(share),
        count = Quantity::count(most.count),
        kernel = Inline::code(kernel.as_str()),
        range = range.map(|range| Inline::code(session.text(*range))),
    );
    let loads = range.is_some_and(|range| session.text(*range).starts_with(DATA_LOADER));
    Some(Ended {
        kernel,
        share,
        in_loader: loads.then_some(most.count),
        said,
    })
}

/// What is known of the cause of the stalls.
struct Known {
    /// Whether a trace of operators shows it.
    is_traced: bool,
    statement: Vec<Inline>,
    advice: Vec<Inline>,
    summary: Root,
}

/// The operator that launches this kernel and is slow on first calls with new shapes, if there is one.
fn root(evidence: &Evidence<'_>, kernel: &str) -> Option<Known> {
    let (session, facts) = (evidence.session, evidence.facts);
    let launches = |one: &&FirstCalls| {
        one.kernels
            .iter()
            .any(|kernel_id| facts.identities[kernel_id.index()].short == kernel)
    };
    let first = evidence
        .results
        .operators()
        .ok()?
        .first_calls
        .iter()
        .find(launches)?;
    let operator = session.text(first.operator);
    let count = |count: i64| Quantity::new(count as f64, Unit::Count);
    let (low, high) = first
        .sizes
        .map(|(low, high)| (count(low), count(high)))
        .unzip();
    let (least, most) = (first.slow.iter().min()?, first.slow.iter().max()?);
    let (least, most) = (Quantity::ns(*least), Quantity::ns(*most));
    let named = || Inline::code(operator);
    let statement = say!(
        evidence,
        "host_pauses.first_calls",
        pass = Inline::code(session.pass_name(first.pass)),
        count = Quantity::count(first.slow.len() as u64),
        operator = named(),
        low = low,
        high = high,
        least = least,
        most = most,
        calls = Quantity::count(first.calls as u64),
        typical = Quantity::new(first.typical, Unit::Nanoseconds),
    );
    if operator.contains(CUDNN_ATTENTION) {
        let cause = words!(
            evidence,
            "host_pauses.root_cause_cudnn",
            operator = named(),
            low = low,
            high = high,
            least = least,
            most = most,
        );
        let summary = Root {
            cause,
            action: words!(evidence, "host_pauses.root_action_cudnn"),
            condition: Some(words!(evidence, "host_pauses.root_if_cudnn")),
            passes: 2,
        };
        return Some(Known {
            is_traced: true,
            statement,
            advice: say!(evidence, "host_pauses.advice_cudnn"),
            summary,
        });
    }
    let cause = words!(
        evidence,
        "host_pauses.root_cause",
        operator = named(),
        low = low,
        high = high,
        least = least,
        most = most,
    );
    let action = words!(evidence, "host_pauses.root_action", operator = named());
    let advice = say!(evidence, "host_pauses.advice_shapes", operator = named());
    let summary = Root {
        cause,
        action,
        condition: None,
        passes: 2,
    };
    Some(Known {
        is_traced: true,
        statement,
        advice,
        summary,
    })
}

/// What the name of the kernel alone lets expect: decoding with attention by cuDNN plans anew for each number of keys.
fn by_name(evidence: &Evidence<'_>, stage: &StageLine, main: &Ended) -> Option<Known> {
    (stage.is_decode() && main.kernel.contains(CUDNN_KERNEL)).then(|| Known {
        is_traced: false,
        statement: say!(evidence, "host_pauses.by_name"),
        advice: say!(evidence, "host_pauses.advice_cudnn"),
        summary: Root {
            cause: words!(
                evidence,
                "host_pauses.root_cause_name",
                share = Quantity::ratio(main.share),
                kernel = Inline::code(main.kernel.as_str()),
            ),
            action: words!(evidence, "host_pauses.root_action_cudnn"),
            condition: Some(words!(evidence, "host_pauses.root_if_cudnn")),
            passes: 1,
        },
    })
}

/// The range says it: the loop waits for the next batch.
fn by_loader(evidence: &Evidence<'_>, main: &Ended) -> Option<Known> {
    let count = Quantity::count(main.in_loader?);
    Some(Known {
        is_traced: false,
        statement: say!(evidence, "host_pauses.loader"),
        advice: say!(evidence, "host_pauses.advice_loader"),
        summary: loader_root(
            evidence,
            words!(evidence, "host_pauses.root_cause_loader", count = count),
        ),
    })
}

/// What to do about a wait for the data loader.
pub(crate) fn loader_root(evidence: &Evidence<'_>, cause: String) -> Root {
    Root {
        cause,
        action: words!(evidence, "host_pauses.root_action_loader"),
        condition: Some(words!(evidence, "host_pauses.root_if_loader")),
        passes: 1,
    }
}

/// The stalls that end with the same work.
#[derive(Default)]
struct Ender {
    count: u64,
    time: Ns,
    /// The innermost range of each that has one.
    ranges: Vec<StrId>,
}
