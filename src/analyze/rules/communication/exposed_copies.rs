//! Copies run while no kernel does.

use crate::communication::PAGEABLE;
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::sql::Window;
use crate::stage::StageLine;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_document::{Finding, Inline, Part};
use rooflens_session::CopyKind;
use rooflens_units::{Count, Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "exposed-copies",
    &[Threshold::ratio("thresholds.exposed_copies", SHARE)],
    outcome,
);

/// Exposed copies ÷ stage time from which on they are worth a finding.
const SHARE: Ratio = Ratio(0.05);

/// Kernels without copies next to them ÷ exposed copies from which on the kernels are worth hiding copies behind.
const HIDING: Ratio = Ratio(0.10);

/// The same from which on the action is to overlap both.
const HIDES: Ratio = Ratio(0.5);

/// Exposed copies of both directions ÷ their union up to which they run one after the other.
const SERIAL: Ratio = Ratio(1.05);

/// Exposed copies of one direction ÷ all from which on there is something for the other to run next to.
const EACH: Ratio = Ratio(0.20);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    evidence.each_stage(|stage| match evidence.copies(stage) {
        Some(copies) => look(evidence, stage, copies),
        // What traces operations traces copies: there are none.
        None if evidence.shows_operations(stage) => Look::Passed,
        None => Look::InsufficientData,
    })
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, copies: &Place) -> Look {
    let exposed = copies.exposed(None);
    if stage.share(exposed) >= SHARE {
        return draft(evidence, stage, copies, exposed).into();
    }
    // Few iterations have the copies, where the median one is clear of them and all together are not.
    let mean = copies.sums.exposed.time() / stage.counted.max(Count(1.0));
    let share = stage.share(mean);
    match share >= SHARE {
        true => Look::Suppressed(words!(evidence, "exposed_copies.few", share = share)),
        false => Look::Passed,
    }
}

fn draft(evidence: &Evidence<'_>, stage: &StageLine, copies: &Place, exposed: Time) -> Draft {
    // Time in which kernels run without copies next to them and could hide some.
    let kernels = copies.others;
    let saved = evidence.gain(Overhead::Copies, stage).unwrap_or(exposed);
    let finding = Finding {
        evidence: vec![copies.evidence(evidence.session)],
        query: stage.window.as_ref().and_then(Window::copies),
        parts: vec![(Part::Copies, saved)],
        ..stage.saving(saved)
    };
    let [to, from] = directions(copies);
    let has_both = to.min(from) >= exposed * EACH && to + from <= exposed * SERIAL;
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        share = stage.share(exposed),
        bytes = copies.bytes(None),
        kernels = stage.share(kernels),
        exposed = exposed,
    };
    let is_pinned_cause = evidence.platform.pytorch && is_pageable(copies);
    let draft = Draft::new(finding, arguments).advice(advice(evidence, copies, kernels));
    match is_pinned_cause {
        true if from > to => draft.root("root_cause", "root_action_back"),
        true => draft.cause_if(true),
        false if is_managed(copies) => draft.root("root_cause_managed", "root_action_managed"),
        false if is_on_gpu(copies) => draft
            .root("root_cause_on_gpu", "root_action_on_gpu")
            .only_if("root_if_on_gpu"),
        // The bound is that of both directions at once, next to kernels.
        false if kernels < exposed * HIDES && has_both => draft
            .root("root_cause_few", "root_action_both")
            .only_if("root_if_both"),
        // What runs for too short a time hides little.
        false if kernels < exposed * HIDES => draft
            .root("root_cause_few", "root_action_few")
            .only_if("root_if_few"),
        false => draft.cause_if(false),
    }
}

/// Exposed time of copies to the GPU and from it.
fn directions(copies: &Place) -> [Time; 2] {
    [CopyKind::HostToDevice, CopyKind::DeviceToHost].map(|kind| copies.exposed(Some(kind)))
}

/// Whether most of the exposed time is between host and GPU, and bytes there are known to be pageable.
fn is_pageable(copies: &Place) -> bool {
    let [to, from] = directions(copies);
    let share = copies.pageable_share();
    to + from >= copies.exposed(None) / 2.0 && share.is_some_and(|share| share >= PAGEABLE)
}

/// Whether most of the exposed time is migrations of managed memory.
fn is_managed(copies: &Place) -> bool {
    let migrations = [CopyKind::MigrateToDevice, CopyKind::MigrateToHost];
    let managed: Time = migrations
        .iter()
        .map(|kind| copies.exposed(Some(*kind)))
        .sum();
    managed >= copies.exposed(None) / 2.0
}

/// Whether most of the exposed time is copies within GPU memory, which compute nothing, or between GPUs.
fn is_on_gpu(copies: &Place) -> bool {
    let [to, from] = directions(copies);
    to + from < copies.exposed(None) / 2.0
}

/// What the figures leave to try.
fn advice(evidence: &Evidence<'_>, copies: &Place, kernels: Time) -> Vec<Inline> {
    let exposed = copies.exposed(None);
    let [to, from] = directions(copies);
    if is_managed(copies) {
        return say!(evidence, "exposed_copies.advice_managed");
    }
    if is_on_gpu(copies) {
        return say!(evidence, "exposed_copies.advice_on_gpu");
    }
    let mut text = Vec::new();
    if kernels >= exposed * HIDING {
        text.extend(say!(evidence, "exposed_copies.advice_stream"));
    }
    if to.min(from) >= exposed * EACH {
        text.extend(say!(evidence, "exposed_copies.advice_directions"));
    }
    let pageable = copies.pageable_share();
    if pageable.is_none_or(|share| share >= PAGEABLE) {
        text.extend(say!(
            evidence,
            "exposed_copies.advice_pinned",
            pageable = pageable
        ));
    }
    text.extend(say!(evidence, "exposed_copies.advice"));
    text
}
