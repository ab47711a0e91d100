//! How much of the captured time the figures of the first page are about.

use rooflens_analysis::time::account::{Account, Iterations, NodeKind, Phase};
use rooflens_document::{Inline, Quantity};
use rooflens_session::Ns;
use rooflens_units::Ratio;

use crate::evidence::Evidence;

/// Share of the captured time below which coverage is the first caveat; else the page says it last.
const COVERED: Ratio = Ratio(0.9);

/// Share of the captured time that a part needs to be named.
const NAMED: Ratio = Ratio(0.005);

/// What the figures are about.
#[derive(Default)]
pub(super) struct Coverage {
    /// The most important one first.
    pub(super) caveats: Vec<Vec<Inline>>,
    /// The share of the time, where that is nearly all.
    pub(super) line: Option<Vec<Inline>>,
}

/// What the figures are about, where the capture has a timeline.
pub(super) fn coverage(evidence: &Evidence<'_>) -> Coverage {
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
    let sentence = sentence(evidence, account);
    match Ratio::of(account.measured(), account.total()) < COVERED {
        true => {
            caveats.insert(0, sentence);
            Coverage {
                caveats,
                line: None,
            }
        }
        false => Coverage {
            caveats,
            line: Some(sentence),
        },
    }
}

/// The share of the captured time that the figures are about, and where the rest lies.
fn sentence(evidence: &Evidence<'_>, account: &Account) -> Vec<Inline> {
    let total = account.total();
    let part = |is_part: &dyn Fn(Phase) -> bool| {
        let parts = account.of_phases().filter(|(phase, _)| is_part(*phase));
        let share = Ratio::of(parts.map(|(_, time)| time).sum(), total);
        (share >= NAMED).then(|| Quantity::from(share))
    };
    let in_iterations = |kinds: &'static [Iterations]| {
        part(&move |phase| match phase {
            Phase::Stage { iterations, .. } => kinds.contains(&iterations),
            _ => false,
        })
    };
    say!(
        evidence,
        "summary.coverage",
        measured = Quantity::from(Ratio::of(account.measured(), total)),
        total = Quantity::ns(total),
        before = part(&|phase| phase == Phase::BeforeStages),
        between = part(&|phase| matches!(phase, Phase::Between { .. })),
        warmup = in_iterations(&[Iterations::Warmup, Iterations::ColdStart]),
        lengths = in_iterations(&[Iterations::OtherLength]),
        skipped = in_iterations(&[Iterations::NotAnalyzed]),
        after = part(&|phase| phase == Phase::AfterStages)
    )
}

/// Outermost stages that take a notable part of the time and have no measured iteration, with their share.
fn unmeasured(evidence: &Evidence<'_>, account: &Account) -> Vec<String> {
    let total = account.total();
    let mut stages = Vec::new();
    for (index, node) in account.nodes.iter().enumerate() {
        let share = Ratio::of(node.time, total);
        if !matches!(node.kind, NodeKind::Stage(..)) || share < NAMED {
            continue;
        }
        let is_measured = account.children(index).any(|(_, child)| match child.kind {
            NodeKind::Phase(phase) => phase.is_measured(),
            _ => false,
        });
        if !is_measured {
            let name = node.kind.name(evidence.session, evidence.facts);
            stages.push(format!("{name} ({})", Quantity::from(share)));
        }
    }
    stages
}
