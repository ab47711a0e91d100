//! The GPU's memory is nearly full, or the allocator holds much more than it gives out.

use super::{Outcome, Results, Rule, Threshold};
use crate::analysis::memory::allocator::DeviceMemory;
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Scope, Unit};

pub(super) static RULE: Rule = Rule {
    id: "memory-pressure",
    title: "Memory nearly full",
    thresholds: &[
        Threshold::ratio("peak of allocated memory, of the GPU's, at least", FULL),
        Threshold::ratio("reserved but not allocated, on average, at least", FRAGMENTED),
        Threshold::ratio("peak of reserved memory, of the GPU's, for that, at least", RESERVED),
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
    let base = |scope: Scope, device: &DeviceMemory| Observation {
        title: scope.stage.clone().or(scope.pass.clone()).unwrap_or_default(),
        evidence: vec![device.evidence(context.session)],
        scope,
        ..Observation::default()
    };
    let memory = results.memory_bytes;
    let figures = devices.iter().flat_map(|device| {
        device.figures(context).into_iter().map(move |(scope, figures)| (device, scope, figures))
    });
    let peaks = figures.filter_map(|(device, scope, figures)| {
        full(figures.peak.allocated as f64, memory?, base(scope, device))
    });
    // Of the whole pass: stages share the allocator.
    let whole = devices.iter().filter_map(|device| {
        let (scope, figures) = device.figures(context).into_iter().next()?;
        let is_small = figures
            .peak_reserved
            .zip(memory)
            .is_some_and(|(reserved, all)| (reserved as f64) < RESERVED * all);
        let share = figures.fragmentation.filter(|share| *share >= FRAGMENTED && !is_small)?;
        Some(fragmented(share, base(scope, device)))
    });
    Outcome::of(peaks.chain(whole).collect())
}

/// `base` is titled with the stage or the pass that it is about.
fn full(peak: f64, memory: f64, base: Observation) -> Option<Observation> {
    (peak >= FULL * memory).then(|| Observation {
        severity: Severity::Warning,
        statement: prose![
            "At its peak ",
            Inline::Strong(base.title.clone()),
            " has ",
            Quantity::new(peak, Unit::Bytes),
            " allocated, ",
            Quantity::ratio(peak / memory),
            " of the GPU's memory."
        ],
        advice: Some(prose![
            "Leave room before raising batch or lengths: quantize weights or cache, recompute activations, or shard."
        ]),
        ..base
    })
}

fn fragmented(share: f64, base: Observation) -> Observation {
    Observation {
        title: format!("{}, fragmented", base.title),
        statement: prose![
            "In ",
            Inline::Strong(base.title),
            " ",
            Quantity::ratio(share),
            " of the memory that the allocator reserved is not in use, on average."
        ],
        advice: Some(prose![
            "Set ",
            Inline::Code("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".to_owned()),
            ", and warm up with the largest sizes."
        ]),
        ..base
    }
}
