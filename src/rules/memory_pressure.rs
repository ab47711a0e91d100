//! The GPU's memory is nearly full, or the allocator holds much more than it gives out.

use super::{Outcome, Results, Rule, Threshold};
use rooflens_analysis::memory::allocator::states::Figures;
use rooflens_findings::{Inline, Observation, Quantity, Severity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "memory-pressure",
    thresholds: &[
        Threshold::ratio("thresholds.allocated_peak", FULL),
        Threshold::ratio("thresholds.fragmented", FRAGMENTED),
        Threshold::ratio("thresholds.reserved_peak", RESERVED),
    ],
    run,
};

/// Peak of allocated memory ÷ memory of the GPU from which on it is worth a finding.
const FULL: f64 = 0.90;

/// Mean fragmentation from which on it is worth a finding.
const FRAGMENTED: f64 = 0.20;

/// Peak of reserved memory ÷ memory of the GPU below which unused memory is nobody's problem.
const RESERVED: f64 = 0.50;

fn run(results: &Results<'_>) -> Outcome {
    let context = &results.context;
    let devices = context.results.allocator().map_or(&[][..], |all| &all.devices);
    if devices.is_empty() {
        return Outcome::lacks("allocator events (PyTorch profiler with profile_memory=True)");
    }
    let memory = results.memory_bytes;
    let mut all = Vec::new();
    for device in devices {
        let evidence = vec![device.evidence(context.session)];
        for (scope, figures) in device.figures(context) {
            let title = scope.stage.clone().or(scope.pass.clone()).unwrap_or_default();
            let evidence = evidence.clone();
            all.push((Observation { title, scope, evidence, ..Observation::default() }, figures));
        }
    }
    let peaks = all.iter().filter_map(|(about, figures)| full(figures, memory?, about));
    // Of the whole pass: stages share the allocator.
    let whole = all.iter().filter(|(about, _)| about.scope.stage.is_none());
    let fragmented = whole.filter_map(|(about, figures)| fragmented(figures, memory, about));
    Outcome::of(peaks.chain(fragmented).collect())
}

/// `about` has the stage or the pass as its title.
fn full(figures: &Figures, memory: f64, about: &Observation) -> Option<Observation> {
    let peak = figures.peak.allocated as f64;
    (peak >= FULL * memory).then(|| Observation {
        severity: Severity::Warning,
        statement: prose![
            "At its peak ",
            Inline::Strong(about.title.clone()),
            " has ",
            Quantity::new(peak, Unit::Bytes),
            " allocated, ",
            Quantity::ratio(peak / memory),
            " of the GPU's memory."
        ],
        advice: Some(prose![
            "Leave room before raising batch or lengths: quantize weights or cache, recompute activations, or shard."
        ]),
        ..about.clone()
    })
}

fn fragmented(figures: &Figures, memory: Option<f64>, about: &Observation) -> Option<Observation> {
    let reserved = figures.peak_reserved.map(|bytes| bytes as f64);
    let is_large = reserved.zip(memory).is_none_or(|(reserved, all)| reserved >= RESERVED * all);
    let share = figures.fragmentation.filter(|share| *share >= FRAGMENTED && is_large)?;
    Some(Observation {
        title: format!("{}, fragmented", about.title),
        statement: prose![
            "In ",
            Inline::Strong(about.title.clone()),
            " ",
            Quantity::ratio(share),
            " of the memory that the allocator reserved is not in use, on average."
        ],
        advice: Some(prose![
            "Set ",
            Inline::Code("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".to_owned()),
            ", and warm up with the largest sizes."
        ]),
        ..about.clone()
    })
}
