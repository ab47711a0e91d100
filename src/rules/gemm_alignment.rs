//! Matrix products whose rows are not aligned to 16 bytes.

use super::products::{self, Products};
use super::{Look, Outcome, Results, Rule, Threshold};
use rooflens_findings::{Inline, Observation, Quantity, prose};
use rooflens_schemas::Unit;

pub(super) static RULE: Rule = Rule {
    id: "gemm-alignment",
    thresholds: &[
        Threshold { key: "thresholds.alignment", value: Quantity::new(BYTES, Unit::Bytes) },
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    run,
};

/// Alignment that wide loads and the tensor memory accelerator ask for: 8 elements of 16 bits.
const BYTES: f64 = 16.0;

/// Share of a stage's GPU time from which on such products are worth a finding.
const SHARE: f64 = 0.01;

fn run(results: &Results<'_>) -> Outcome {
    products::per_stage(results, |products| {
        match products.all.iter().any(|one| one.group.alignment().is_some()) {
            true => finding(products).into(),
            false => Look::Lacks,
        }
    })
}

fn finding(products: &Products<'_>) -> Option<Observation> {
    let unaligned =
        products.only(|one| one.group.alignment().is_some_and(|bytes| (bytes as f64) < BYTES));
    let worst = unaligned.worst(|one| one.time)?;
    if unaligned.share(unaligned.time) < SHARE {
        return None;
    }
    let mut statement = prose![
        "Matrix products with rows that are not aligned to 16 bytes take ",
        Quantity::ratio(unaligned.share(unaligned.time)),
        " of the GPU time of ",
        Inline::Strong(unaligned.stage.label.clone()),
        "; the largest is "
    ];
    statement.extend(worst.words());
    statement.extend(prose![
        ", aligned to ",
        Quantity::new(worst.group.alignment().unwrap_or_default() as f64, Unit::Bytes),
        "."
    ]);
    Some(Observation {
        statement,
        advice: Some(prose![
            "Pad N and K to multiples of 16 bytes (8 elements of 16 bits, 4 of 32), better of 128: vocabulary, heads, experts, classes."
        ]),
        ..unaligned.saving(
            &worst,
            unaligned.lost,
            &format!(
                "Σ time − time at the roofline over these products, by {} ceilings",
                unaligned.basis()
            ),
        )
    })
}
