//! Memory-bound attention that reads more than it must.

use crate::profiled::{self, Profiled};
use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::matmul::stages::Group;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "attention-cache",
    &[
        Threshold::ratio("thresholds.l2_hits", HITS),
        Threshold::ratio("thresholds.gpu_share", SHARE),
        Threshold::one("thresholds.dram_excess", EXCESS),
    ],
    run,
);

/// L2 hit rate below which it is low.
const HITS: f64 = 0.50;

/// Share of a stage's GPU time from which on it is worth a finding.
const SHARE: f64 = 0.05;

/// DRAM bytes ÷ bytes that must move from which on misses cost. A decode step reads its cache once: it cannot hit.
const EXCESS: f64 = 1.20;

fn run(evidence: &Evidence<'_>) -> Outcome {
    match profiled::per_stage(evidence, look) {
        Outcome::InsufficientData(_) => Outcome::lacks(&words!(evidence, "attention_cache.needs")),
        other => other,
    }
}

fn look(evidence: &Evidence<'_>, stage: &StageLine, all: &[Profiled<'_>]) -> Look {
    let attention = || {
        all.iter()
            .filter(|one| one.launch.identity.class == KernelClass::Attention)
    };
    if attention().next().is_none() {
        return Look::InsufficientData;
    }
    let misses = |one: &&Profiled<'_>| {
        one.verdict.bound == Bound::Dram
            && one
                .launch
                .l2_hit_rate
                .is_some_and(|hits| hits < 100.0 * HITS)
    };
    let Some(one) = attention().find(misses).filter(|one| one.share >= SHARE) else {
        return Look::Passed;
    };
    // Without sizes the bytes that must move are not known, and nothing can be said of the misses.
    match least_bytes(evidence, stage, one).zip(one.launch.bytes.dram) {
        None => Look::InsufficientData,
        Some((least, moved)) if moved < EXCESS * least => Look::Passed,
        Some((least, moved)) => Look::found(finding(evidence, stage, one, least, moved)),
    }
}

fn finding(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    one: &Profiled<'_>,
    least: f64,
    moved: f64,
) -> Finding {
    let hits = one.launch.l2_hit_rate.unwrap_or_default() / 100.0;
    let bytes = |value| Quantity::new(value, Unit::Bytes);
    Finding {
        statement: say!(
            evidence,
            "attention_cache.statement",
            stage = Inline::strong(&stage.label),
            kernel = one.name(),
            share = Quantity::ratio(one.share),
            hits = Quantity::ratio(hits),
            moved = bytes(moved),
            least = bytes(least),
        ),
        advice: Some(say!(evidence, "attention_cache.advice")),
        next: Some(say!(evidence, "attention_cache.next")),
        evidence: profiled::evidence(evidence, stage, std::slice::from_ref(one)),
        ..stage.saving_kernels(
            one.share * stage.operation_time * (1.0 - least / moved),
            &words!(evidence, "attention_cache.basis"),
        )
    }
}

/// Bytes that a launch of a kernel must move, by its sizes.
fn least_bytes(evidence: &Evidence<'_>, stage: &StageLine, one: &Profiled<'_>) -> Option<f64> {
    let attention = evidence.attention(stage)?;
    let own = |group: &&Group| Some(group.kernel) == one.kernel;
    let sum = &attention.groups.iter().find(own)?.sum;
    let bytes = attention.per_instance(sum.bytes?);
    Some(bytes / attention.per_instance(sum.launches as f64)).filter(|bytes| *bytes > 0.0)
}
