//! The matrix products of a stage as rules see them.

use rooflens_schemas::{Evidence, Unit};

use super::results::Row;
use super::stage::StageLine;
use super::{Outcome, Results, ids, profiled};
use crate::findings::{Inline, Observation, Quantity, Query};
use crate::prose;

/// What rules about products lack.
const NEEDS: &str = "sizes of matrix products: a PyTorch trace with record_shapes=True, a cuBLASLt log, or config.json, \
     and a known GPU";

/// A product of known sizes.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub(super) row: Row<'a>,
    /// Time of an instance, nanoseconds.
    pub(super) time: f64,
    /// Least time by rate and bandwidth, nanoseconds.
    pub(super) roof: f64,
    /// Time beyond that, nanoseconds.
    pub(super) lost: f64,
}

impl Product<'_> {
    /// Whether the rate bounds it and not the bandwidth.
    pub(super) fn is_compute(&self) -> bool {
        self.row.text("bound") == "compute"
    }

    /// The kernel and its sizes, in words.
    pub(super) fn words(&self) -> Vec<Inline> {
        prose![
            Inline::Strong(self.row.text("shape").to_owned()),
            " (",
            Inline::Code(self.row.text("kernel").to_owned()),
            ")"
        ]
    }
}

/// Looks at the products of each stage; abstains if the sizes of none are known.
pub(super) fn per_stage(
    results: &Results<'_>,
    look: fn(&Results<'_>, &StageLine, &[Product<'_>]) -> Option<Observation>,
) -> Outcome {
    let (mut known, mut found) = (false, Vec::new());
    for stage in &results.stages {
        let products = of_stage(results, stage);
        known |= !products.is_empty();
        found.extend(look(results, stage, &products));
    }
    if known { Outcome::of(found) } else { Outcome::lacks(NEEDS) }
}

fn of_stage<'a>(results: &Results<'a>, stage: &StageLine) -> Vec<Product<'a>> {
    let product = |row: Row<'a>| {
        let (time, roof) = (row.number("time_ns")?, row.number("roof_ns")?);
        let lost = row.number("recoverable_ns").unwrap_or_else(|| (time - roof).max(0.0));
        (time > 0.0).then_some(Product { row, time, roof, lost })
    };
    results.of_stage(ids::GEMMS, stage).filter_map(product).collect()
}

/// Sums over products.
pub(super) struct Sums {
    pub(super) time: f64,
    pub(super) roof: f64,
    pub(super) lost: f64,
    /// GPU time of the stage.
    pub(super) of: f64,
}

impl Sums {
    pub(super) fn of(results: &Results<'_>, stage: &StageLine, some: &[Product<'_>]) -> Self {
        let sum = |value: fn(&Product<'_>) -> f64| some.iter().map(value).sum::<f64>();
        Self {
            time: sum(|one| one.time),
            roof: sum(|one| one.roof),
            lost: sum(|one| one.lost),
            of: profiled::gpu_time(results, stage),
        }
    }

    /// `part` as a share of the stage's GPU time.
    pub(super) fn share(&self, part: f64) -> f64 {
        if self.of > 0.0 { part / self.of } else { 0.0 }
    }
}

/// The product that loses most; of equal ones the first.
pub(super) fn worst<'a>(
    some: &[Product<'a>],
    lost: impl Fn(&Product<'a>) -> f64,
) -> Option<Product<'a>> {
    some.iter().copied().reduce(|best, next| if lost(&next) > lost(&best) { next } else { best })
}

/// The launches of a product's kernel.
pub(super) fn query(stage: &StageLine, product: &Product<'_>) -> Option<Query> {
    let name = short_name(product.row.text("name"));
    let plain = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    (plain && !name.is_empty()).then(|| stage.window.as_ref().map(|w| w.kernels(name))).flatten()
}

/// The name of a kernel without scope, arguments and result, as exports have it beside the whole one.
fn short_name(name: &str) -> &str {
    let head = name.split(['<', '(']).next().unwrap_or(name).trim_end();
    head.rsplit([':', ' ']).next().unwrap_or(head)
}

/// The artifact of the stage, with what the figures of products rest on.
pub(super) fn evidence(results: &Results<'_>, stage: &StageLine) -> Vec<Evidence> {
    let own = results.evidence(ids::GEMM_RECOVERABLE, &stage.scope);
    if own.is_empty() { vec![stage.evidence()] } else { own }
}

/// Time in words.
pub(super) fn time(ns: f64) -> Quantity {
    Quantity::new(ns, Unit::Nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn a_short_name_is_that_of_the_function() {
        assert_eq!(short_name("nvjet_sm90_tst_64x8"), "nvjet_sm90_tst_64x8");
        assert_eq!(short_name("void cutlass::Kernel2<cutlass_80_simt>(T1::Params)"), "Kernel2");
        assert_eq!(short_name("void gemv2T_kernel_val<int, float>(a::b)"), "gemv2T_kernel_val");
    }
}
