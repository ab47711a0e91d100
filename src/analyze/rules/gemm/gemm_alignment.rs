//! GEMMs whose rows are not aligned to 16 bytes.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::products::{self, Product, Products, WIDE};
use crate::rule::{Look, Outcome, Rule, Threshold};
use rooflens_document::Inline;
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "gemm-alignment",
    &[
        Threshold::bytes("thresholds.alignment", WIDE),
        Threshold::ratio("thresholds.gpu_share", SHARE),
    ],
    outcome,
)
.on_kernels();

/// Elements that a padded row is a multiple of: a tile of most kernels, and 16 bytes of every type.
const PADDED: u64 = 64;

/// Share of a stage's GPU time from which on such products are worth a finding.
const SHARE: Ratio = Ratio(0.01);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    products::per_stage(evidence, |products| {
        let is_known = |product: &Product<'_>| product.row.is_some();
        match products.products.iter().any(is_known) {
            true => draft(products).into(),
            false => Look::InsufficientData,
        }
    })
}

fn draft(products: &Products<'_>) -> Option<Draft> {
    let unaligned = products.only(|product| product.is_unaligned());
    let worst = unaligned.worst(|product| product.time)?;
    let (length, alignment) = worst.row?;
    let share = unaligned.share(unaligned.time);
    if share < SHARE {
        return None;
    }
    let arguments = arguments! {
        share = share,
        whole = unaligned.whole(),
        stage = Inline::strong(&unaligned.stage.label),
        worst = worst.words(),
        alignment = alignment,
        length = length.to_string(),
        padded = length.next_multiple_of(PADDED).to_string(),
        basis = unaligned.basis(),
    };
    let finding = unaligned.saving(&worst, |product| product.lost);
    Some(Draft::new(finding, arguments).cause_if(true))
}
