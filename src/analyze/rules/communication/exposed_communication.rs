//! Collectives run while nothing is computed.

use std::collections::BTreeSet;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::{ALL, StageLine};
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_document::{Finding, Inline, Part};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "exposed-communication",
    &[Threshold::ratio("thresholds.exposed_collectives", SHARE)],
    outcome,
);

/// Exposed communication ÷ stage time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| match evidence.communication(stage) {
        Some(line) => draft(evidence, stage, line).into(),
        // What traces kernels traces collectives: there are none.
        None if evidence.shows_operations(stage) => {
            Look::NotApplicable(words!(evidence, "exposed_communication.no_collective"))
        }
        None => Look::InsufficientData,
    })
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, line: &RankTimes) -> Option<Draft> {
    let exposed = line.exposed;
    let share = stage.share(exposed);
    if share < SHARE {
        return None;
    }
    let wait = line.wait.map(|wait| wait.min(exposed));
    let of_exposed = wait.map(|wait| match exposed > Time::ZERO {
        true => Ratio::of(wait, exposed),
        false => Ratio::ZERO,
    });
    let is_all = of_exposed.is_some_and(|part| part >= ALL);
    let is_waiting = wait.is_some_and(|wait| wait > exposed / 2.0);
    let is_ddp = wraps(evidence, &["DistributedDataParallel"]);
    let is_fsdp = wraps(evidence, &["FullyShardedDataParallel", "FSDP"]);
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        share = share,
        wait = of_exposed.filter(|_| !is_all),
        all = is_all.then_some(""),
        ddp = is_ddp.then_some(""),
        fsdp = is_fsdp.then_some(""),
    };
    let saved = evidence
        .gain(Overhead::Communication, stage)
        .unwrap_or(exposed);
    // Only work of the stage can hide collectives.
    let saved = saved.min((line.compute - (line.communication - line.exposed)).max(Time::ZERO));
    // Hiding a wait moves it: what equal work would bring is the straggler's finding.
    let finding = match is_waiting {
        true => stage.note(),
        false => stage.saving_behind_host(saved),
    };
    let gain = finding.gain.as_ref();
    let finding = Finding {
        parts: gain
            .map(|gain| (Part::Communication, gain.saved_ns))
            .into_iter()
            .collect(),
        evidence: vec![line.evidence(evidence.session)],
        query: stage.window.as_ref().map(Window::exposed),
        ..finding
    };
    let draft = Draft::new(finding, arguments);
    Some(if is_waiting {
        draft.advice("advice_wait")
    } else {
        draft
    })
}

/// Whether ranges or operators of the bundle name such a wrapper.
fn wraps(evidence: &Evidence<'_>, wrappers: &[&str]) -> bool {
    let session = evidence.session;
    let names = session.ranges.name.iter().chain(&session.operators.name);
    let distinct: BTreeSet<_> = names.collect();
    for id in distinct {
        let name = session.text(*id);
        if wrappers.iter().any(|wrapper| name.contains(wrapper)) {
            return true;
        }
    }
    false
}
