//! The GPU waits between the stages: data loaders, schedulers, logging.

use rooflens_schemas::Unit;

use crate::stage::{Workload, workload};
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_document::{Finding, Gain, GainKind, Inline, Quantity, Severity};

pub(crate) static RULE: Rule = Rule::new(
    "between-stages",
    &[
        Threshold::ratio("thresholds.between_idle", SHARE),
        Threshold {
            key: "thresholds.between_times",
            value: Quantity::count(TIMES),
        },
    ],
    run,
);

/// Idle time between stages ÷ run from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// Times that two stages follow one another from which on what lies between them is a loop, and no set-up.
const TIMES: u64 = 3;

/// Share of the time between two stages from which on a range tells what the host does in it.
const COVERED: f64 = 0.5;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let all = evidence
        .results
        .idle()
        .map_or(&[][..], |idle| &idle.between);
    if all.is_empty() {
        return Outcome::lacks(&words!(evidence, "between_stages.needs"));
    }
    if !all.iter().any(|one| one.pairs.iter().any(is_loop)) {
        let times = Quantity::count(TIMES);
        return Outcome::NotApplicable(words!(evidence, "between_stages.no_loop", times = times));
    }
    Outcome::joined(
        evidence.text,
        all.iter()
            .filter_map(|one| finding(evidence, one))
            .collect(),
    )
}

fn is_loop(pair: &Pair) -> bool {
    pair.windows() as u64 >= TIMES
}

fn finding(evidence: &Evidence<'_>, between: &Between) -> Option<Finding> {
    let (context, run) = (&evidence.context, between.run as f64);
    let (session, stages) = (context.session, &context.facts.stages);
    let pairs = || between.pairs.iter().filter(|pair| is_loop(pair));
    let idle: f64 = pairs().map(|pair| pair.idle() as f64).sum();
    let (pair, of_run) = (pairs().next()?, idle / run);
    if of_run.is_nan() || of_run < SHARE {
        return None;
    }
    let label = between.label(context);
    let whose = Some(label.as_str()).filter(|label| !label.is_empty());
    let range = pair.range(session).filter(|(_, share)| *share >= COVERED);
    let statement = say!(
        evidence,
        "between_stages.statement",
        label = whose,
        share = Quantity::ratio(of_run),
        run = Quantity::new(run, Unit::Nanoseconds),
        after = Inline::strong(&stages[pair.after].name),
        before = Inline::strong(&stages[pair.before].name),
        median = Quantity::new(pair.median()?, Unit::Nanoseconds),
        count = Quantity::count(pair.windows() as u64),
        cause = Inline::strong(evidence.text.word(pair.causes.main().label())),
        range = range.map(|(name, _)| Inline::code(session.text(name))),
        covers = range.map(|(_, covers)| Quantity::ratio(covers)),
    );
    let gain = Gain {
        saved_ns: idle,
        of_ns: run,
        of: words!(evidence, "between_stages.run", label = whose),
        basis: words!(evidence, "between_stages.basis"),
        kind: GainKind::Run,
    };
    Some(Finding {
        title: label,
        scope: between.scope(context),
        severity: Severity::of_share(gain.share()),
        weight_ns: idle,
        gain: Some(gain),
        statement,
        advice: Some(advice(
            evidence,
            pair.causes.main(),
            workload(stages[pair.before].kind),
        )),
        next: range
            .is_none()
            .then(|| say!(evidence, "between_stages.next")),
        evidence: vec![between.evidence(context)],
        ..Finding::default()
    })
}

fn advice(evidence: &Evidence<'_>, cause: Cause, workload: Workload) -> Vec<Inline> {
    match (cause, workload) {
        (Cause::Sync | Cause::Copy, _) => say!(evidence, "between_stages.advice_wait"),
        (Cause::Communication, _) => say!(evidence, "between_stages.advice_ranks"),
        (Cause::Os | Cause::OffCpu, Workload::Training) => {
            say!(evidence, "between_stages.advice_os_training")
        }
        (Cause::Os | Cause::OffCpu, _) => say!(evidence, "between_stages.advice_os"),
        (_, Workload::Training) => say!(evidence, "between_stages.advice_host_training"),
        (_, Workload::Inference) => say!(evidence, "between_stages.advice_host_inference"),
        (_, Workload::Unknown) => say!(evidence, "between_stages.advice_host"),
    }
}
