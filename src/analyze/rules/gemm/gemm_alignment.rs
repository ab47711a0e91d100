//! Matrix products whose rows are not aligned to 16 bytes.

use crate::products::{self, Products};
use crate::{Evidence, Look, Outcome, Rule, Threshold};
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Unit;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-alignment",
    &[
        Threshold {
            key: "thresholds.alignment",
            value: Quantity::new(BYTES, Unit::Bytes),
        },
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    run,
);

/// Alignment that wide loads and the tensor memory accelerator ask for: 8 elements of 16 bits.
const BYTES: f64 = 16.0;

/// Share of a stage's GPU time from which on such products are worth a finding.
const SHARE: f64 = 0.01;

fn run(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| {
        match products
            .all
            .iter()
            .any(|one| one.group.alignment().is_some())
        {
            true => finding(products).into(),
            false => Look::InsufficientData,
        }
    })
}

fn finding(products: &Products<'_>) -> Option<Finding> {
    let unaligned = products.only(|one| {
        one.group
            .alignment()
            .is_some_and(|bytes| (bytes as f64) < BYTES)
    });
    let worst = unaligned.worst(|one| one.time)?;
    if unaligned.share(unaligned.time) < SHARE {
        return None;
    }
    let alignment = worst.group.alignment().unwrap_or_default() as f64;
    let evidence = unaligned.evidence;
    Some(Finding {
        statement: say!(
            evidence,
            "gemm_alignment.statement",
            share = Quantity::ratio(unaligned.share(unaligned.time)),
            whole = unaligned.whole(),
            stage = Inline::strong(&unaligned.stage.label),
            worst = worst.words(),
            alignment = Quantity::new(alignment, Unit::Bytes),
        ),
        advice: Some(say!(evidence, "gemm_alignment.advice")),
        ..unaligned.saving(
            &worst,
            unaligned.lost,
            &words!(evidence, "gemm_alignment.basis", basis = unaligned.basis()),
        )
    })
}
