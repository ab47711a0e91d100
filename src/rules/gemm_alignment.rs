//! Matrix products whose rows are not aligned to 16 bytes.

use super::products::{self, Product, Sums};
use super::stage::StageLine;
use super::{Look, Outcome, Results, Rule, Threshold};
use crate::findings::{Inline, Observation, Quantity};
use crate::prose;
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "gemm-alignment",
    title: "Unaligned matrix products",
    thresholds: &[
        Threshold { of: "alignment of rows, less than", value: Quantity::new(BYTES, Unit::Bytes) },
        Threshold::ratio("share of the GPU time of a stage, at least", SHARE),
    ],
    run,
};

/// Alignment that wide loads and the tensor memory accelerator ask for: 8 elements of 16 bits.
const BYTES: f64 = 16.0;

/// Share of a stage's GPU time from which on such products are worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |results, stage, all| -> Look {
        match all.iter().any(|one| one.row.number("alignment_bytes").is_some()) {
            true => finding(results, stage, all).into(),
            false => Look::Lacks,
        }
    })
}

fn finding(results: &Results<'_>, stage: &StageLine, all: &[Product<'_>]) -> Option<Observation> {
    let is_unaligned =
        |one: &&Product<'_>| one.row.number("alignment_bytes").is_some_and(|bytes| bytes < BYTES);
    let unaligned: Vec<Product<'_>> = all.iter().filter(is_unaligned).copied().collect();
    let sums = Sums::of(results, stage, &unaligned);
    let worst = products::worst(&unaligned, |one| one.time)?;
    if sums.share(sums.time) < SHARE {
        return None;
    }
    let mut statement = prose![
        "Matrix products with rows that are not aligned to 16 bytes take ",
        Quantity::ratio(sums.share(sums.time)),
        " of the GPU time of ",
        Inline::Strong(stage.label.clone()),
        "; the largest is "
    ];
    statement.extend(worst.words());
    statement.extend(prose![
        ", aligned to ",
        Quantity::new(worst.row.sum("alignment_bytes"), Unit::Bytes),
        "."
    ]);
    Some(Observation {
        statement,
        advice: Some(prose![
            "Pad N and K to multiples of 16 bytes (8 elements of 16 bits, 4 of 32), better of 128: vocabulary, heads, experts, classes."
        ]),
        evidence: products::evidence(results, stage),
        query: products::query(stage, &worst),
        ..stage.saving(
            sums.lost,
            &format!(
                "Σ time − time at the roofline over these products, by {} ceilings",
                products::basis(&unaligned)
            ),
        )
    })
}
