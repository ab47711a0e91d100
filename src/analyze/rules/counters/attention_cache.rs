//! Memory-bound attention that reads more than it must.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::profiled::{self, Profiled};
use crate::rule::{Look, Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_document::{Finding, Inline};
use rooflens_units::{Bytes, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "attention-cache",
    &[
        Threshold::ratio("thresholds.l2_hits", HITS),
        Threshold::ratio("thresholds.gpu_share", SHARE),
        Threshold::number("thresholds.dram_excess", EXCESS.0),
    ],
    outcome,
)
.on_kernels();

/// L2 hit rate below which it is low.
const HITS: Ratio = Ratio(0.50);

/// Share of a stage's GPU time from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.05);

/// DRAM bytes ÷ bytes that must move from which on misses cost. A decode step reads its cache once: it cannot hit.
const EXCESS: Ratio = Ratio(1.20);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    profiled::per_stage(evidence, look)
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, profiled: &[Profiled<'_>]) -> Look {
    let mut attention = profiled.to_vec();
    attention.retain(|kernel| kernel.launch.identity.class == KernelClass::Attention);
    if attention.is_empty() {
        return Look::InsufficientData;
    }
    let Some(kernel) = attention.iter().find(|kernel| misses(kernel)) else {
        return Look::Passed;
    };
    if kernel.share < SHARE {
        return Look::Passed;
    }
    // Without sizes the bytes that must move are not known, and nothing can be said of the misses.
    match (
        least_bytes(evidence, stage, kernel),
        kernel.launch.bytes.dram,
    ) {
        (Some(least), Some(moved)) if moved < least * EXCESS => Look::Passed,
        (Some(least), Some(moved)) => draft(evidence, stage, kernel, least, moved).into(),
        _ => Look::InsufficientData,
    }
}

fn misses(kernel: &Profiled<'_>) -> bool {
    let hits = kernel.launch.l2_hit_rate;
    kernel.verdict.bound == Bound::Dram && hits.is_some_and(|hits| hits.0 < 100.0 * HITS.0)
}

fn draft(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    kernel: &Profiled<'_>,
    least: Bytes,
    moved: Bytes,
) -> Draft {
    let saved = stage.operation_time * kernel.share * Ratio::of(least, moved).rest();
    let finding = Finding {
        evidence: profiled::evidence(evidence, stage, std::slice::from_ref(kernel)),
        ..stage.saving_kernels(saved)
    };
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        kernel = kernel.name(),
        share = kernel.share,
        hits = Ratio(kernel.launch.l2_hit_rate.unwrap_or_default().0 / 100.0),
        moved = moved,
        least = least,
    };
    Draft::new(finding, arguments)
}

/// Bytes that a launch of a kernel must move, by its sizes.
fn least_bytes(evidence: &Evidence<'_>, stage: &StageLine, kernel: &Profiled<'_>) -> Option<Bytes> {
    let attention = evidence.attention(stage)?;
    let mut groups = attention.groups.iter();
    let sum = &groups
        .find(|group| Some(group.kernel) == kernel.kernel)?
        .sum;
    let bytes = attention.per_instance(sum.bytes?);
    let per_launch = bytes / attention.per_instance(sum.launches as f64);
    (per_launch > Bytes::ZERO).then_some(per_launch)
}
