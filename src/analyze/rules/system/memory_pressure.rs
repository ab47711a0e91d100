//! The GPU's memory is nearly full, or the allocator holds much more than it gives out.

use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::memory::allocator::states::Figures;
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "memory-pressure",
    &[
        Threshold::ratio("thresholds.allocated_peak", FULL),
        Threshold::ratio("thresholds.fragmented", FRAGMENTED),
        Threshold::ratio("thresholds.reserved_peak", RESERVED),
    ],
    run,
);

/// Peak of allocated memory ÷ memory of the GPU from which on it is worth a finding.
const FULL: f64 = 0.90;

/// Mean fragmentation from which on it is worth a finding.
const FRAGMENTED: f64 = 0.20;

/// Peak of reserved memory ÷ memory of the GPU below which unused memory is nobody's problem.
const RESERVED: f64 = 0.50;

fn run(evidence: &Evidence<'_>) -> Outcome {
    let context = &evidence.context;
    let devices = context
        .results
        .allocator()
        .map_or(&[][..], |all| &all.devices);
    if devices.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "memory_pressure.needs"));
    }
    let mut all = Vec::new();
    for device in devices {
        let evidence = vec![device.evidence(context.session)];
        for (scope, figures) in device.figures(context) {
            let title = scope
                .stage
                .clone()
                .or(scope.pass.clone())
                .unwrap_or_default();
            let evidence = evidence.clone();
            all.push((
                Finding {
                    title,
                    scope,
                    evidence,
                    ..Finding::default()
                },
                figures,
            ));
        }
    }
    let peaks = all
        .iter()
        .filter_map(|(about, figures)| full(evidence, figures, about));
    // Of the whole pass: stages share the allocator.
    let whole = all.iter().filter(|(about, _)| about.scope.stage.is_none());
    let fragmented = whole.filter_map(|(about, figures)| fragmented(evidence, figures, about));
    Outcome::of(peaks.chain(fragmented).collect())
}

/// `about` has the stage or the pass as its title.
fn full(evidence: &Evidence<'_>, figures: &Figures, about: &Finding) -> Option<Finding> {
    let (peak, memory) = (figures.peak.allocated as f64, evidence.memory_bytes?);
    (peak >= FULL * memory).then(|| Finding {
        severity: Severity::Warning,
        statement: say!(
            evidence,
            "memory_pressure.statement",
            of = Inline::strong(&about.title),
            peak = Quantity::new(peak, Unit::Bytes),
            share = Quantity::ratio(peak / memory),
        ),
        advice: Some(say!(evidence, "memory_pressure.advice")),
        ..about.clone()
    })
}

fn fragmented(evidence: &Evidence<'_>, figures: &Figures, about: &Finding) -> Option<Finding> {
    let reserved = figures
        .peak_reserved
        .map(|bytes| bytes as f64)
        .zip(evidence.memory_bytes);
    let is_large = reserved.is_none_or(|(reserved, memory)| reserved >= RESERVED * memory);
    let share = figures
        .fragmentation
        .filter(|share| *share >= FRAGMENTED && is_large)?;
    Some(Finding {
        title: words!(
            evidence,
            "memory_pressure.title_fragmented",
            of = about.title.as_str()
        ),
        statement: say!(
            evidence,
            "memory_pressure.fragmented",
            of = Inline::strong(&about.title),
            share = Quantity::ratio(share),
        ),
        advice: Some(say!(evidence, "memory_pressure.advice_fragmented")),
        ..about.clone()
    })
}
