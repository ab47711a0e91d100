//! GEMMs whose rows are not aligned to 16 bytes.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::products::{self, Product, Products};
use crate::rule::{Look, Outcome, Rule, Threshold};
use rooflens_document::Inline;
use rooflens_units::{Bytes, Ratio};

pub(crate) static RULE: Rule = Rule::new(
    "gemm-alignment",
    &[
        Threshold::bytes("thresholds.alignment", WIDE),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    outcome,
);

/// Alignment that wide loads and the tensor memory accelerator ask for: 8 elements of 16 bits.
const WIDE: Bytes = Bytes(16.0);

/// Share of a stage's GPU time from which on such products are worth a finding.
const SHARE: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| {
        let is_known = |product: &Product<'_>| product.group.alignment().is_some();
        match products.products.iter().any(is_known) {
            true => draft(products).into(),
            false => Look::InsufficientData,
        }
    })
}

fn alignment(product: &Product<'_>) -> Option<Bytes> {
    product.group.alignment().map(|bytes| Bytes(bytes as f64))
}

fn draft(products: &Products<'_>) -> Option<Draft> {
    let unaligned = products.only(|product| alignment(product).is_some_and(|bytes| bytes < WIDE));
    let worst = unaligned.worst(|product| product.time)?;
    let share = unaligned.share(unaligned.time);
    if share < SHARE {
        return None;
    }
    let arguments = arguments! {
        share = share,
        whole = unaligned.whole(),
        stage = Inline::strong(&unaligned.stage.label),
        worst = worst.words(),
        alignment = alignment(&worst).unwrap_or_default(),
        basis = unaligned.basis(),
    };
    Some(Draft::new(
        unaligned.saving(&worst, unaligned.lost),
        arguments,
    ))
}
