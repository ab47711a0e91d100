//! How much of the captured time the figures of the first page are about.

use std::collections::BTreeMap;

use rooflens_analysis::time::account::{Account, Iterations, NodeKind, Phase, Work};
use rooflens_document::{Arg, Inline, Quantity};
use rooflens_session::{CopyKind, Ns};
use rooflens_units::Ratio;

use crate::evidence::Evidence;

/// Share of the captured time that an excluded part needs to be named.
const LARGE: Ratio = Ratio(0.02);

/// The same of a stage without figures.
const NAMED: Ratio = Ratio(0.005);

/// Share of the time of all operations from which on operations outside of the figures are named.
const HOLDS: Ratio = Ratio(0.5);

/// The words of time between stages.
const BETWEEN: &str = "summary.coverage_between";

/// What the figures are about.
#[derive(Default)]
pub(super) struct Coverage {
    /// Stages without figures.
    pub(super) caveats: Vec<Vec<Inline>>,
    /// The share of the time.
    pub(super) line: Option<Vec<Inline>>,
    /// Whether it is so low that it is the first caveat.
    pub(super) is_low: bool,
}

/// Share of the captured time below which it is the first caveat.
const LOW: Ratio = Ratio(0.9);

/// What the figures are about, where the capture has a timeline. Those of the loop hold the time between iterations.
pub(super) fn coverage(evidence: &Evidence<'_>, is_loop: bool) -> Coverage {
    let Ok(idle) = evidence.results.idle() else {
        return Coverage::default();
    };
    let account = &idle.account;
    if account.total() == Ns::ZERO {
        return Coverage::default();
    }
    let mut caveats = Vec::new();
    let unmeasured = unmeasured(evidence, account);
    if !unmeasured.is_empty() {
        let stages = unmeasured.join(evidence.text.comma());
        let count = Quantity::count(unmeasured.len() as u64);
        caveats.push(say!(
            evidence,
            "summary.unmeasured",
            stages = stages,
            count = count
        ));
    }
    let is_covered = |phase: Phase| phase.is_measured() || is_loop && phase.is_between_measured();
    let covered = account.of_phases().filter(|(phase, _)| is_covered(*phase));
    let in_ranges = in_ranges(evidence);
    let is_large = !is_loop && in_ranges.time() >= account.total().time() * LARGE;
    let in_ranges = if is_large { in_ranges } else { Ns::ZERO };
    let covered = covered.map(|(_, time)| time).sum::<Ns>() + in_ranges;
    Coverage {
        caveats,
        line: Some(sentence(evidence, account, (covered, in_ranges), is_loop)),
        is_low: Ratio::of(covered, account.total()) < LOW,
    }
}

/// Idle time in the ranges of stages before their first and after their last operations, which their unprofiled times hold.
fn in_ranges(evidence: &Evidence<'_>) -> Ns {
    let timed = evidence
        .stages
        .iter()
        .filter(|stage| stage.unprofiled.is_some());
    timed
        .map(|stage| evidence.around_operations(stage).round())
        .sum()
}

/// The share of the captured time that the figures are about, of which some lies between operations of stages; and what
/// the rest is.
fn sentence(
    evidence: &Evidence<'_>,
    account: &Account,
    (covered, in_ranges): (Ns, Ns),
    is_loop: bool,
) -> Vec<Inline> {
    let total = account.total();
    let mut parts = Vec::new();
    let mut rest = Ratio::of(total - covered, total);
    let mut add = |key: &str, is_part: &dyn Fn(Phase) -> bool| {
        let of_part = account.of_phases().filter(|(phase, _)| is_part(*phase));
        let mut time: Ns = of_part.map(|(_, time)| time).sum();
        if key == BETWEEN {
            time = (time - in_ranges).max(Ns::ZERO);
        }
        let share = Ratio::of(time, total);
        if share >= LARGE {
            rest = Ratio(rest.0 - share.0);
            let share = [("share", Arg::from(share))];
            parts.push(evidence.text.line(key, &share));
        }
    };
    let is_of = |phase, kinds: &[Iterations]| match phase {
        Phase::Stage { iterations, .. } => kinds.contains(&iterations),
        _ => false,
    };
    add("summary.coverage_before", &|phase| {
        phase == Phase::BeforeStages
    });
    add(BETWEEN, &|phase| {
        matches!(phase, Phase::Between { .. }) && !(is_loop && phase.is_between_measured())
    });
    add("summary.coverage_warmup", &|phase| {
        is_of(phase, &[Iterations::Warmup, Iterations::ColdStart])
    });
    add("summary.coverage_lengths", &|phase| {
        is_of(phase, &[Iterations::OtherLength])
    });
    add("summary.coverage_earlier", &|phase| {
        is_of(phase, &[Iterations::EarlierLevel])
    });
    add("summary.coverage_skipped", &|phase| {
        is_of(phase, &[Iterations::NotAnalyzed])
    });
    add("summary.coverage_after", &|phase| {
        phase == Phase::AfterStages
    });
    if rest >= NAMED {
        parts.push(words!(evidence, "summary.coverage_rest", share = rest));
    }
    let (largest, busy) = outside(evidence, account, is_loop);
    say!(
        evidence,
        "summary.coverage",
        measured = Quantity::from(Ratio::of(covered, total)),
        total = Quantity::ns(total),
        parts = (!parts.is_empty()).then(|| parts.join(evidence.text.comma())),
        largest = largest.as_ref().map(|(work, _)| Inline::code(work)),
        time = largest.as_ref().map(|(_, time)| Quantity::ns(*time)),
        share = largest.as_ref().map(|(_, time)| Ratio::of(*time, busy)),
    )
}

/// The operations with most time outside of stages, or of the loop, where that is notable, and the time of all operations.
fn outside(
    evidence: &Evidence<'_>,
    account: &Account,
    is_loop: bool,
) -> (Option<(String, Ns)>, Ns) {
    let mut times = BTreeMap::<Work, Ns>::new();
    let (mut busy, mut part) = (Ns::ZERO, Phase::AfterStages);
    for node in &account.nodes {
        match node.kind {
            NodeKind::Phase(phase) => part = phase,
            NodeKind::Work(work) => {
                busy += node.time;
                // A program loads its data before the first step.
                let upload = (Phase::BeforeStages, Work::Copy(CopyKind::HostToDevice));
                let is_inside =
                    matches!(part, Phase::Stage { .. }) || is_loop && part.is_between_measured();
                if !is_inside && (part, work) != upload {
                    *times.entry(work).or_default() += node.time;
                }
            }
            _ => {}
        }
    }
    let largest = times.into_iter().max_by_key(|(_, time)| *time);
    let largest = largest.filter(|(_, time)| time.time() >= busy.time() * HOLDS);
    let name = |work| NodeKind::Work(work).name(evidence.session, evidence.facts);
    (largest.map(|(work, time)| (name(work), time)), busy)
}

/// Outermost stages that take a notable part of the time and have no measured iteration, with their share.
fn unmeasured(evidence: &Evidence<'_>, account: &Account) -> Vec<String> {
    let total = account.total();
    let mut stages = Vec::new();
    for node in &account.nodes {
        let share = Ratio::of(node.time, total);
        let NodeKind::Stage(stage, process) = node.kind else {
            continue;
        };
        // Iterations inside another stage have figures, too.
        let mut summaries = evidence.facts.run_summaries();
        let is_measured = summaries.any(|summary| {
            (summary.stage, summary.process) == (stage, process) && summary.counted > 0
        });
        if share >= NAMED && !is_measured {
            let name = node.kind.name(evidence.session, evidence.facts);
            stages.push(format!("{name} ({})", Quantity::from(share)));
        }
    }
    stages
}
