//! The GPU's memory is nearly full, or the allocator holds much more than it gives out.

use super::{Outcome, Results, Rule, Threshold, ids};
use crate::findings::{Inline, Observation, Quantity, Severity};
use crate::prose;
use rooflens_schemas::{Metric, Unit};

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
    if results.all(ids::MEMORY_PEAK_ALLOCATED).next().is_none() {
        return Outcome::lacks("allocator events (PyTorch profiler with profile_memory=True)");
    }
    let peaks = results.all(ids::MEMORY_PEAK_ALLOCATED).filter_map(|metric| full(results, metric));
    // Of the whole pass: stages share the allocator.
    let whole =
        results.all(ids::MEMORY_FRAGMENTATION).filter(|metric| metric.scope.stage.is_none());
    let fragmented = whole.filter(|metric| is_large(results, metric)).filter_map(fragmented);
    Outcome::of(peaks.chain(fragmented).collect())
}

fn is_large(results: &Results<'_>, metric: &Metric) -> bool {
    let reserved = results.number(ids::MEMORY_PEAK_RESERVED, &metric.scope);
    reserved.zip(results.memory_bytes).is_none_or(|(reserved, all)| reserved >= RESERVED * all)
}

fn full(results: &Results<'_>, metric: &Metric) -> Option<Observation> {
    let (peak, memory) = (metric.value.number()?, results.memory_bytes?);
    (peak >= FULL * memory).then(|| Observation {
        title: about(metric),
        severity: Severity::Warning,
        statement: prose![
            "At its peak ",
            Inline::Strong(about(metric)),
            " has ",
            Quantity::new(peak, Unit::Bytes),
            " allocated, ",
            Quantity::ratio(peak / memory),
            " of the GPU's memory."
        ],
        advice: Some(prose![
            "Leave room before raising batch or lengths: quantize weights or cache, recompute activations, or shard."
        ]),
        ..base(metric)
    })
}

fn fragmented(metric: &Metric) -> Option<Observation> {
    let share = metric.value.number().filter(|share| *share >= FRAGMENTED)?;
    Some(Observation {
        title: format!("{}, fragmented", about(metric)),
        statement: prose![
            "In ",
            Inline::Strong(about(metric)),
            " ",
            Quantity::ratio(share),
            " of the memory that the allocator reserved is not in use, on average."
        ],
        advice: Some(prose![
            "Set ",
            Inline::Code("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True".to_owned()),
            ", and warm up with the largest sizes."
        ]),
        ..base(metric)
    })
}

fn base(metric: &Metric) -> Observation {
    Observation {
        scope: metric.scope.clone(),
        evidence: metric.evidence.clone(),
        ..Observation::default()
    }
}

/// The stage of a metric, or its pass.
fn about(metric: &Metric) -> String {
    metric.scope.stage.clone().or(metric.scope.pass.clone()).unwrap_or_default()
}
