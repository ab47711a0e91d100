//! Copies run while no kernel does.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold, communication::pageable_copies};
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::time::upper_bounds::Overhead;
use rooflens_document::{Finding, Inline, Quantity, Root};
use rooflens_schemas::Unit;
use rooflens_session::CopyKind;

pub(crate) static RULE: Rule = Rule::new(
    "exposed-copies",
    &[Threshold::ratio("thresholds.exposed_copies", SHARE)],
    run,
);

/// Exposed copies ÷ stage time from which on they are worth a finding.
const SHARE: f64 = 0.05;

/// Kernels without copies beside them ÷ exposed copies from which on the kernels are worth hiding copies behind.
const HIDING: f64 = 0.10;

/// Exposed copies of one direction ÷ all from which on there is something for the other to run beside.
const EACH: f64 = 0.20;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let needs = &words!(evidence, "exposed_copies.needs");
    evidence.each_stage(needs, |stage| match evidence.copies(stage) {
        Some(copies) => match finding(evidence, stage, copies) {
            Some(found) => Look::found(found),
            None => in_few(evidence, stage, copies).map_or(Look::Passed, Look::Suppressed),
        },
        // What traces operations traces copies: there are none.
        None if evidence.shows_operations(stage) => Look::Passed,
        None => Look::InsufficientData,
    })
}

/// That few iterations have the copies, where the median one is clear of them and all together are not.
fn in_few(evidence: &Evidence<'_>, stage: &StageLine, copies: &Place) -> Option<String> {
    let share = stage.share(copies.sums.exposed as f64 / stage.counted.max(1.0));
    let share = (share >= SHARE).then(|| Quantity::ratio(share))?;
    Some(words!(evidence, "exposed_copies.few", share = share))
}

fn finding(evidence: &Evidence<'_>, stage: &StageLine, copies: &Place) -> Option<Finding> {
    let exposed = copies.exposed(None);
    if stage.share(exposed) < SHARE {
        return None;
    }
    let kernels = kernels(stage, copies);
    let statement = say!(
        evidence,
        "exposed_copies.statement",
        stage = Inline::strong(&stage.label),
        share = Quantity::ratio(stage.share(exposed)),
        bytes = Quantity::new(copies.bytes(None), Unit::Bytes),
        kernels = Quantity::ratio(stage.share(kernels)),
    );
    let saved = evidence.gain(Overhead::Copies, stage).unwrap_or(exposed);
    Some(Finding {
        statement,
        advice: Some(advice(evidence, copies, kernels)),
        root: (evidence.platform.pytorch && is_pageable(copies)).then(|| Root {
            cause: words!(evidence, "exposed_copies.root_cause"),
            action: words!(evidence, "exposed_copies.root_action"),
            condition: None,
            passes: 1,
        }),
        evidence: vec![copies.evidence(evidence.session)],
        query: stage.window.as_ref().and_then(crate::sql::Window::copies),
        ..stage.saving(saved, &words!(evidence, "exposed_copies.basis"))
    })
}

/// Time in which kernels run without copies beside them and could hide some.
fn kernels(stage: &StageLine, copies: &Place) -> f64 {
    (stage.busy_share * stage.time - copies.union()).max(0.0)
}

/// Exposed time of copies to the GPU and from it.
fn directions(copies: &Place) -> [f64; 2] {
    [CopyKind::HostToDevice, CopyKind::DeviceToHost].map(|kind| copies.exposed(Some(kind)))
}

/// Whether most of the exposed time is between host and GPU, and bytes there are known to be pageable.
fn is_pageable(copies: &Place) -> bool {
    let [to, from] = directions(copies);
    to + from >= copies.exposed(None) / 2.0
        && copies
            .pageable_share()
            .is_some_and(|share| share >= pageable_copies::SHARE)
}

/// What the figures leave to try.
fn advice(evidence: &Evidence<'_>, copies: &Place, kernels: f64) -> Vec<Inline> {
    let exposed = copies.exposed(None);
    let [to, from] = directions(copies);
    let managed =
        [CopyKind::MigrateToDevice, CopyKind::MigrateToHost].map(|kind| copies.exposed(Some(kind)));
    if managed.iter().sum::<f64>() >= exposed / 2.0 {
        return say!(evidence, "exposed_copies.advice_managed");
    }
    if to + from < exposed / 2.0 {
        return say!(evidence, "exposed_copies.advice_on_gpu");
    }
    let mut text = Vec::new();
    if kernels >= HIDING * exposed {
        text.extend(say!(evidence, "exposed_copies.advice_stream"));
    }
    if to.min(from) >= EACH * exposed {
        text.extend(say!(evidence, "exposed_copies.advice_directions"));
    }
    if copies
        .pageable_share()
        .is_none_or(|share| share >= pageable_copies::SHARE)
    {
        let pageable = copies.pageable_share().map(Quantity::ratio);
        text.extend(say!(
            evidence,
            "exposed_copies.advice_pinned",
            pageable = pageable
        ));
    }
    text.extend(say!(evidence, "exposed_copies.advice"));
    text
}
