//! The GPU waits for host code between CUDA calls: framework, Python, input and output.

use crate::stage::{StageLine, Workload, workload};
use crate::{Evidence, Look, Outcome, Rule, Threshold, time::host_pauses, time::short_kernels};
use rooflens_analysis::time::idle::line::OCCURS;
use rooflens_analysis::time::idle::longest::LongGap;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::Unit;
use rooflens_schemas::ranges::DATA_LOADER;

pub(crate) static RULE: Rule = Rule::new(
    "host-bound",
    &[Threshold::ratio("thresholds.host_code", SHARE)],
    run,
);

/// Idle time in host code, in the operating system and without a CPU ÷ stage time from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// Gaps with host code in an iteration from which on it lies between launches: fewer are single pieces of work, such as
/// the preparation of a batch, which no graph removes.
const BETWEEN: f64 = 5.0;

/// Part of the host code of the longest gaps in the data loader from which on it is the cause.
const LOADER: f64 = 0.5;

/// Calls of the operating system that are named, and their least share of the time in such calls.
const SHOWN_CALLS: usize = 3;
const CALL_SHARE: f64 = 0.1;

/// What these are.
const CAUSES: [Cause; 3] = [Cause::HostCode, Cause::Os, Cause::OffCpu];

fn run(evidence: &Evidence<'_>) -> Outcome {
    evidence.per_cause(Cause::HostCode, SHARE, |stage, line, code| {
        match finding(evidence, stage, line) {
            Some(found) => Look::found(found),
            None if stage.share(code) >= SHARE => Look::said_by(evidence, &host_pauses::RULE),
            None => Look::Passed,
        }
    })
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> Option<Finding> {
    // Pauses that typical instances do not have are another rule's.
    let code = host_pauses::host_code(evidence, stage)?;
    let [system, off_cpu] =
        [Cause::Os, Cause::OffCpu].map(|cause| line.of_stage(cause).unwrap_or(0.0));
    let saved = code + system + off_cpu;
    if stage.share(saved) < SHARE {
        return None;
    }
    let idle = match host_pauses::hold(evidence, stage) {
        true => say!(
            evidence,
            "host_bound.without_pauses",
            stage = Inline::strong(&stage.label),
            share = Quantity::ratio(stage.share(saved)),
        ),
        false => evidence.idles(stage, line, &CAUSES, saved),
    };
    let basis = words!(evidence, "host_bound.basis");
    let part = |time: f64| {
        Some(time / saved)
            .filter(|share| *share >= OCCURS)
            .map(Quantity::ratio)
    };
    // Where it is in no call of CUDA, it computes or waits.
    let is_code = code >= system + off_cpu;
    let loader = in_loader(evidence, line).filter(|share| is_code && *share >= LOADER);
    let advice = if loader.is_some() {
        say!(evidence, "host_pauses.advice_loader")
    } else if system > code.max(off_cpu) {
        match workload(stage.kind) {
            Workload::Training => say!(evidence, "host_bound.advice_system"),
            _ => say!(evidence, "host_bound.advice_system_other"),
        }
    } else if off_cpu > code {
        say!(evidence, "host_bound.advice_off_cpu")
    } else {
        advice(evidence, stage, line)
    };
    Some(Finding {
        statement: say!(
            evidence,
            "host_bound.statement",
            idle = idle,
            does = match is_code {
                true => words!(evidence, "host_bound.works"),
                false => words!(evidence, "host_bound.waits"),
            },
            system = part(system),
            calls = os_calls(evidence, line),
            off_cpu = part(off_cpu),
            loader = loader.map(Quantity::ratio),
            sampled = evidence.sampled(line),
        ),
        advice: Some(advice),
        root: match loader {
            Some(_) => {
                let cause = words!(evidence, "host_bound.root_cause_loader");
                Some(host_pauses::loader_root(evidence, cause))
            }
            None => (is_code && is_many(evidence, stage, line)).then(|| Root {
                cause: words!(evidence, "host_bound.root_cause"),
                action: words!(evidence, "host_bound.root_action"),
                condition: None,
                passes: 1,
            }),
        },
        // A bundle with samples names the code already, if they are enough.
        next: evidence
            .has_no_samples()
            .then(|| match evidence.session.os_calls.is_empty() {
                true => say!(evidence, "host_bound.next"),
                false => say!(evidence, "host_bound.next_code"),
            }),
        evidence: vec![line.evidence(&evidence.context)],
        query: evidence.query(stage, line, Cause::HostCode),
        ..evidence.saving_idle(stage, line, &CAUSES, saved, &basis)
    })
}

/// The calls of the operating system with most of that idle time.
fn os_calls(evidence: &Evidence<'_>, line: &Line) -> Option<Vec<Inline>> {
    let all = line.of(Cause::Os) as f64;
    let most = line
        .os_calls
        .iter()
        .filter(|(_, time)| *time as f64 >= CALL_SHARE * all);
    let names = most
        .take(SHOWN_CALLS)
        .map(|(name, _)| evidence.session.text(*name));
    let names: Vec<Inline> = names
        .flat_map(|name| {
            [
                Inline::Text(evidence.text.comma().to_owned()),
                Inline::code(name),
            ]
        })
        .skip(1)
        .collect();
    (!names.is_empty()).then_some(names)
}

/// The part of the host code of the longest gaps in which the loop waits for PyTorch's data loader.
fn in_loader(evidence: &Evidence<'_>, line: &Line) -> Option<f64> {
    let session = evidence.session;
    let code = |gap: &LongGap| gap.gap.times.of(Cause::HostCode) as f64;
    let all: f64 = line.longest.iter().map(code).sum();
    let of_loader = |gap: &&LongGap| {
        gap.ranges
            .last()
            .is_some_and(|range| session.text(*range).starts_with(DATA_LOADER))
    };
    let own: f64 = line.longest.iter().filter(of_loader).map(code).sum();
    (all > 0.0).then_some(own / all)
}

/// Whether host code lies between launches rather than in one place.
pub(crate) fn is_between(line: &Line) -> bool {
    line.gaps_per_instance(Cause::HostCode) >= BETWEEN
}

/// Whether PyTorch launches many operations one by one, with host code between them.
pub(crate) fn is_many(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> bool {
    let is_many = stage.operations >= short_kernels::MANY && !evidence.replays_graphs(stage);
    evidence.platform.pytorch && is_many && is_between(line)
}

/// What such a program does on the CPU; and where PyTorch launches many operations one by one, what does without.
fn advice(evidence: &Evidence<'_>, stage: &StageLine, line: &Line) -> Vec<Inline> {
    let mut text = match workload(stage.kind) {
        Workload::Training => say!(evidence, "host_bound.advice_training"),
        Workload::Inference => say!(evidence, "host_bound.advice_inference"),
        Workload::Unknown => say!(evidence, "host_bound.advice"),
    };
    if is_many(evidence, stage, line) {
        let operations = Quantity::new(stage.operations, Unit::Count);
        text.extend(say!(
            evidence,
            "host_bound.advice_launches",
            operations = operations
        ));
    }
    text
}
