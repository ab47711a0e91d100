//! Some instances of a stage hold long pauses of the host that its typical instance does not have.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known;
use crate::pauses::{self, INSTANCES, Pauses, RULE as ID, SHARE, loader_root};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::operators::first_calls::FirstCalls;
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::idle::longest::{LongGap, ended_by};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity, Root, Severity};
use rooflens_schemas::ranges::DATA_LOADER;
use rooflens_session::{Arrange, Ns, StrId};
use rooflens_units::{Count, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    ID,
    &[
        Threshold::ratio("thresholds.pauses", SHARE),
        Threshold::number("thresholds.typical_instances", INSTANCES.0),
    ],
    outcome,
)
.general();

/// Part of the names of PyTorch's operators for attention by cuDNN.
const CUDNN_ATTENTION: &str = "_cudnn_attention";

/// Part of the short names of its kernels.
const CUDNN_KERNEL: &str = "cuDNN sdpa";

/// Share of the time of the longest stalls from which on those that end with one kernel are reported.
const HALF: Ratio = Ratio(0.50);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| {
        if pauses::typical(evidence, stage).is_none() {
            return Look::InsufficientData;
        }
        if known::prepares_mostly(evidence, stage) {
            return Look::suppressed_by(evidence, "new-shapes");
        }
        let pauses = pauses::pauses(evidence, stage);
        pauses.map(|pauses| draft(evidence, stage, &pauses)).into()
    })
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> Draft {
    let typical = match stage.counted < INSTANCES {
        true => words!(evidence, "host_pauses.steps"),
        false => words!(evidence, "host_pauses.instance"),
    };
    let ended = ended(evidence, stage, pauses.captured());
    let main = ended.as_ref().filter(|ended| ended.share >= HALF);
    let known = main
        .and_then(|main| known_cause(evidence, main))
        .or_else(|| by_plans(evidence, stage, pauses))
        .or_else(|| by_name(evidence, stage, main?));
    let gain = Gain {
        saved_ns: pauses.beyond,
        of_ns: stage.of_loop,
        of: words!(evidence, "findings.measured_loop", label = None::<String>),
        basis: String::new(),
        kind: GainKind::Stalls,
    };
    // What has ended recurs in no later iteration.
    let last = pauses::last(evidence, stage);
    let finding = Finding {
        severity: Severity::of_share(gain.share()),
        weight_ns: pauses.beyond,
        gain: Some(gain).filter(|gain| gain.share() >= SHARE),
        ..stage.note()
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        time = pauses.captured(),
        count = stage.counted,
        last = last,
        first = (known.is_none() && pauses::are_in_first(evidence, stage)).then_some(""),
        typical = typical,
        longest = Quantity::ns(pauses.longest),
        ended = ended.map(|ended| ended.words),
        profiled = Some(pauses.profiled).filter(|time| time.is_positive() && last.is_none()),
    };
    let mut draft = Draft::new(finding, arguments).basis(basis(evidence, stage, pauses));
    if let Some(known) = known {
        draft = draft
            .also(known.statement)
            .advice(known.advice)
            .known_cause(Some(known.root));
        if known.is_traced {
            draft = draft.next("next_root");
        }
    }
    draft
        .also(pauses::also_faster(evidence, stage))
        .also(pauses::also_cold(evidence, stage).unwrap_or_default())
}

/// The formula of the loss with its numbers.
fn basis(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> String {
    let count = stage.counted;
    match stage.steps {
        Some(steps) if count < INSTANCES => {
            let typical = pauses.typical / steps;
            words!(
                evidence,
                "host_pauses.basis_steps",
                steps = steps,
                count = count,
                typical = typical
            )
        }
        _ => words!(
            evidence,
            "host_pauses.basis",
            count = count,
            typical = pauses.typical
        ),
    }
}

/// The work that most of the time of the longest stalls ends with.
struct Ended {
    kernel: String,
    /// Share of that time.
    share: Ratio,
    /// Number of these stalls, where all lie in a range of PyTorch's data loader.
    in_loader: Option<u64>,
    words: Vec<Inline>,
}

/// The stalls that end with the same work.
#[derive(Default)]
struct Stalls {
    count: u64,
    time: Ns,
    /// The innermost range of each that has one.
    ranges: Vec<StrId>,
}

impl Stalls {
    /// The range in which all of them lie.
    fn range(&self) -> Option<StrId> {
        let first = self.ranges.first()?;
        let is_shared = self.ranges.iter().all(|range| range == first);
        (is_shared && self.ranges.len() as u64 == self.count).then_some(*first)
    }
}

/// The longest stalls in host code, by the work that they end with: as many stalls as the loss holds.
fn stalls_by_end(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    loss: Time,
) -> BTreeMap<String, Stalls> {
    let mut stalls: Vec<(Ns, &LongGap)> = Vec::new();
    for gap in evidence
        .idle(stage.key())
        .into_iter()
        .flat_map(|idle| &idle.longest)
    {
        if gap.gap.times.main() == Cause::HostCode {
            stalls.push((gap.gap.times.of(Cause::HostCode), gap));
        }
    }
    // A stable sort: of equal times the longer gap first.
    stalls.arrange_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut by_end: BTreeMap<String, Stalls> = BTreeMap::new();
    let mut left = loss;
    for (time, gap) in stalls {
        // The last one lies in the loss for the most part.
        if left < time.time() / 2.0 {
            break;
        }
        left -= time.time();
        let end = ended_by(&evidence.context, gap.gap.op);
        let stalls = by_end.entry(end).or_default();
        stalls.count += 1;
        stalls.time += time;
        stalls.ranges.extend(gap.ranges.last());
    }
    by_end
}

/// The work that the longest stalls end with, by their time in host code.
fn ended(evidence: &Evidence<'_>, stage: &StageLine, loss: Time) -> Option<Ended> {
    let session = evidence.session;
    let by_end = stalls_by_end(evidence, stage, loss);
    let listed: u64 = by_end.values().map(|stalls| stalls.count).sum();
    let whole: Ns = by_end.values().map(|stalls| stalls.time).sum();
    let kinds = Quantity::count(by_end.len() as u64);
    let (kernel, most) = by_end.into_iter().max_by_key(|(_, stalls)| stalls.time)?;
    let share = Ratio(most.time.time() / whole.max(Ns(1)).time());
    let (listed, whole) = (Quantity::count(listed), Quantity::ns(whole));
    if share < HALF {
        let words = say!(
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
            words,
        });
    }
    let range = most.range().map(|range| session.text(range));
    let words = say!(
        evidence,
        "host_pauses.ended",
        listed = listed,
        whole = whole,
        share = share,
        count = Quantity::count(most.count),
        kernel = Inline::code(kernel.as_str()),
        range = range.map(Inline::code),
    );
    let loads = range.is_some_and(|range| range.starts_with(DATA_LOADER));
    Some(Ended {
        kernel,
        share,
        in_loader: loads.then_some(most.count),
        words,
    })
}

/// The cause of the stalls in words.
struct Known {
    /// Whether a trace of operators shows it.
    is_traced: bool,
    statement: Vec<Inline>,
    advice: Vec<Inline>,
    root: Root,
}

fn known_cause(evidence: &Evidence<'_>, main: &Ended) -> Option<Known> {
    if let Some(count) = main.in_loader {
        return Some(by_loader(evidence, count));
    }
    by_first_calls(evidence, first_calls(evidence, &main.kernel)?)
}

/// The operator that launches this kernel and is slow on first calls with new shapes, if there is one.
fn first_calls<'a>(evidence: &Evidence<'a>, kernel: &str) -> Option<&'a FirstCalls> {
    let identities = &evidence.facts.identities;
    let launches = |calls: &&FirstCalls| {
        calls
            .kernels
            .iter()
            .any(|id| identities[id.index()].short == kernel)
    };
    evidence
        .results
        .operators()
        .ok()?
        .first_calls
        .iter()
        .find(launches)
}

fn by_first_calls(evidence: &Evidence<'_>, first: &FirstCalls) -> Option<Known> {
    let session = evidence.session;
    let operator = session.text(first.operator);
    let named = Inline::code(operator);
    let (low, high) = first.sizes.unzip();
    let [low, high] = [low, high].map(|size| size.map(|size| Count(size as f64)));
    let least = Quantity::ns(*first.slow.iter().min()?);
    let most = Quantity::ns(*first.slow.iter().max()?);
    let statement = say!(
        evidence,
        "host_pauses.first_calls",
        pass = Inline::code(session.pass_name(first.pass)),
        count = Quantity::count(first.slow.len() as u64),
        operator = named.clone(),
        low = low,
        high = high,
        least = least,
        most = most,
        calls = Quantity::count(first.calls as u64),
        typical = first.typical,
    );
    let is_cudnn = operator.contains(CUDNN_ATTENTION);
    let (cause, action, advice) = match is_cudnn {
        true => (
            words!(
                evidence,
                "host_pauses.root_cause_cudnn",
                operator = named,
                low = low,
                high = high,
                least = least,
                most = most,
            ),
            words!(evidence, "host_pauses.root_action_cudnn"),
            say!(evidence, "host_pauses.advice_cudnn"),
        ),
        false => (
            words!(
                evidence,
                "host_pauses.root_cause",
                operator = named.clone(),
                low = low,
                high = high,
                least = least,
                most = most,
            ),
            words!(
                evidence,
                "host_pauses.root_action",
                operator = named.clone()
            ),
            say!(evidence, "host_pauses.advice_shapes", operator = named),
        ),
    };
    let condition = is_cudnn.then(|| words!(evidence, "host_pauses.root_if_cudnn"));
    let root = Root {
        cause,
        action,
        condition,
        passes: 2,
    };
    Some(Known {
        is_traced: true,
        statement,
        advice,
        root,
    })
}

/// What calls and marks of new shapes in the stalls say: the host plans and loads kernels.
fn by_plans(evidence: &Evidence<'_>, stage: &StageLine, pauses: &Pauses) -> Option<Known> {
    let lost = pauses::plans(evidence, stage, pauses)?;
    let statement = say!(
        evidence,
        "host_pauses.plans",
        count = Quantity::count(lost.windows as u64),
        time = lost.idle,
    );
    let plans_attention = known::plans_attention(evidence, stage);
    let cause = match plans_attention {
        true => words!(evidence, "host_pauses.root_cause_plans"),
        false => words!(evidence, "host_pauses.root_cause_shapes"),
    };
    let action = match (plans_attention, stage.is_decode()) {
        (true, true) => words!(evidence, "host_pauses.root_action_cudnn"),
        (true, false) => words!(evidence, "host_pauses.root_action_plans"),
        (false, _) => words!(evidence, "host_pauses.root_action_shapes"),
    };
    let root = Root {
        cause,
        action,
        condition: Some(words!(evidence, "host_pauses.root_if_shapes")),
        passes: 1,
    };
    Some(Known {
        is_traced: false,
        statement,
        advice: say!(evidence, "host_pauses.advice_plans"),
        root,
    })
}

/// What the name of the kernel alone lets expect: decoding with attention by cuDNN plans anew for each number of keys.
fn by_name(evidence: &Evidence<'_>, stage: &StageLine, main: &Ended) -> Option<Known> {
    if !stage.is_decode() || !main.kernel.contains(CUDNN_KERNEL) {
        return None;
    }
    let kernel = Inline::code(main.kernel.as_str());
    let share = main.share;
    Some(Known {
        is_traced: false,
        statement: say!(evidence, "host_pauses.by_name"),
        advice: say!(evidence, "host_pauses.advice_cudnn"),
        root: Root {
            cause: words!(
                evidence,
                "host_pauses.root_cause_name",
                share = share,
                kernel = kernel
            ),
            action: words!(evidence, "host_pauses.root_action_cudnn"),
            condition: Some(words!(evidence, "host_pauses.root_if_cudnn")),
            passes: 1,
        },
    })
}

/// The range says it: the loop waits for the next batch.
fn by_loader(evidence: &Evidence<'_>, count: u64) -> Known {
    let count = Quantity::count(count);
    let cause = words!(evidence, "host_pauses.root_cause_loader", count = count);
    Known {
        is_traced: false,
        statement: say!(evidence, "host_pauses.loader"),
        advice: say!(evidence, "host_pauses.advice_loader"),
        root: loader_root(evidence, cause),
    }
}
