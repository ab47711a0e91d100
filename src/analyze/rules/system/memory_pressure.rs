//! The GPU's memory is nearly full, or the allocator holds much more than it gives out.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use rooflens_analysis::memory::allocator::states::Figures;
use rooflens_document::{Finding, Inline, Severity};
use rooflens_units::{Bytes, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "memory-pressure",
    &[
        Threshold::ratio("thresholds.allocated_peak", FULL),
        Threshold::ratio("thresholds.fragmented", FRAGMENTED),
        Threshold::ratio("thresholds.reserved_peak", RESERVED),
    ],
    outcome,
);

/// Peak of allocated memory ÷ memory of the GPU from which on it is worth a finding.
const FULL: Ratio = Ratio(0.90);

/// Mean fragmentation from which on it is worth a finding.
const FRAGMENTED: Ratio = Ratio(0.20);

/// Peak of reserved memory ÷ memory of the GPU below which unused memory is nobody's problem.
const RESERVED: Ratio = Ratio(0.50);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let devices = match evidence.results.allocator() {
        Ok(allocator) if !allocator.devices.is_empty() => &allocator.devices,
        _ => return Outcome::INSUFFICIENT_DATA,
    };
    let (mut peaks, mut fragments) = (Vec::new(), Vec::new());
    for device in devices {
        for (scope, figures) in device.figures(&evidence.context) {
            let name = scope.stage.clone().or(scope.pass.clone());
            let note = Finding {
                title: name.unwrap_or_default(),
                scope,
                evidence: vec![device.evidence(evidence.session)],
                ..Finding::default()
            };
            peaks.extend(full(evidence, figures, &note));
            // Of the whole pass: stages share the allocator.
            if note.scope.stage.is_none() {
                fragments.extend(fragmented(evidence, figures, note));
            }
        }
    }
    peaks.extend(fragments);
    Outcome::of_drafts(peaks)
}

/// `note` has the stage or the pass as its title.
fn full(evidence: &Evidence<'_>, figures: &Figures, note: &Finding) -> Option<Draft> {
    let (peak, memory) = (Bytes(figures.peak.allocated as f64), evidence.memory?);
    if peak < memory * FULL {
        return None;
    }
    let finding = Finding {
        severity: Severity::Warning,
        ..note.clone()
    };
    let arguments = arguments! {
        of = Inline::strong(&note.title),
        peak = peak,
        share = Ratio::of(peak, memory),
    };
    Some(Draft::new(finding, arguments))
}

fn fragmented(evidence: &Evidence<'_>, figures: &Figures, note: Finding) -> Option<Draft> {
    let share = figures.fragmentation?;
    let reserved = figures.peak_reserved.map(|bytes| Bytes(bytes as f64));
    let is_small = match (reserved, evidence.memory) {
        (Some(reserved), Some(memory)) => reserved < memory * RESERVED,
        _ => false,
    };
    if share < FRAGMENTED || is_small {
        return None;
    }
    let name = note.title.as_str();
    let arguments = arguments! { of = Inline::strong(name), share = share };
    let title = words!(evidence, "memory_pressure.title_fragmented", of = name);
    let draft = Draft::new(Finding { title, ..note }, arguments);
    Some(draft.statement("fragmented").advice("advice_fragmented"))
}
