//! The matrix products of a stage as rules see them.

use rooflens_schemas::{Evidence, Unit};

use super::results::Row;
use super::stage::StageLine;
use super::{Look, Outcome, Results, ids, profiled};
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

impl<'a> Product<'a> {
    fn new(row: Row<'a>) -> Option<Self> {
        let (time, roof) = (row.number("time_ns")?, row.number("roof_ns")?);
        let lost = row.number("recoverable_ns").unwrap_or_else(|| (time - roof).max(0.0));
        (time > 0.0).then_some(Self { row, time, roof, lost })
    }
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
pub(super) fn per_stage<L: Into<Look>>(
    results: &Results<'_>,
    look: fn(&Results<'_>, &StageLine, &[Product<'_>]) -> L,
) -> Outcome {
    results.each_stage(NEEDS, |stage| {
        let rows = results.of_stage(ids::GEMMS, stage);
        let products: Vec<Product<'_>> = rows.filter_map(Product::new).collect();
        if products.is_empty() { Look::Lacks } else { look(results, stage, &products).into() }
    })
}

/// Looks at the products of each stage that the rate bounds, or that the bandwidth bounds.
pub(super) fn bound(
    all: &[Product<'_>],
    by_rate: bool,
    look: impl FnOnce(&[Product<'_>]) -> Option<Observation>,
) -> Look {
    let own: Vec<Product<'_>> =
        all.iter().filter(|one| one.is_compute() == by_rate).copied().collect();
    match own.is_empty() {
        true if by_rate => Look::Nothing("memory bounds all matrix products".to_owned()),
        true => Look::Nothing("the rate bounds all matrix products".to_owned()),
        false => look(&own).into(),
    }
}

/// `measured` or `specified`: what the ceilings of products are.
pub(super) fn basis(some: &[Product<'_>]) -> &'static str {
    match some.iter().filter(|one| one.row.text("ceiling") == "measured").count() {
        0 => "specified",
        measured if measured == some.len() => "measured",
        _ => "measured or, without that, specified",
    }
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
    is_plain(name).then(|| stage.window.as_ref().map(|window| window.kernels(name))).flatten()
}

/// Whether a name can stand in a query as it is.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// The name of a kernel without scope, arguments and result, as exports have it beside the whole one.
pub(super) fn short_name(name: &str) -> &str {
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
