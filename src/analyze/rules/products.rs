//! The GEMMs of a stage as rules see them.

use std::collections::BTreeMap;

use rooflens_sections::shapes_advice;

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Outcome};
use crate::stage::StageLine;
use rooflens_analysis::kernels::matmul::Gemm;
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_document::{Finding, Inline, Part, prose};
use rooflens_units::{Bytes, Ns, Ratio, Time};

/// Rows and columns that all usual tiles but those of 192 and 320 divide.
const ROUND: u64 = 128;

/// Alignment that wide loads and the tensor memory accelerator ask for: 8 elements of 16 bits.
pub(crate) const WIDE: Bytes = Bytes(16.0);

/// A product of known sizes; times are those of an instance.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) group: &'a Group,
    pub(crate) time: Time,
    /// Least time by rate, bandwidth and the shortest kernel.
    pub(crate) roof: Time,
    /// Time at the bandwidth.
    pub(crate) at_bandwidth: Time,
    /// Time beyond the roof.
    pub(crate) lost: Time,
    /// The part of it that tiles and waves explain.
    pub(crate) quantization: Time,
    /// The row with the least alignment, elements, and that alignment.
    pub(crate) row: Option<(u64, Bytes)>,
    gemm: Gemm,
    bound: Bound,
    short: &'a str,
    name: &'a str,
}

/// Products of a stage, with their sums.
pub(crate) struct Products<'a> {
    pub(crate) stage: &'a StageLine,
    pub(crate) products: Vec<Product<'a>>,
    pub(crate) time: Time,
    pub(crate) roof: Time,
    pub(crate) lost: Time,
    pub(crate) evidence: &'a Evidence<'a>,
    of_stage: &'a StageProducts,
}

impl<'a> Product<'a> {
    fn new(evidence: &Evidence<'a>, stage: &'a StageProducts, group: &'a Group) -> Option<Self> {
        if group.sum.time <= Ns::ZERO {
            return None;
        }
        let per_instance = |sum: Time| stage.per_instance(sum);
        let short = &evidence.facts.identities[group.kernel.index()].short;
        let row = group.least_aligned(short);
        Some(Self {
            group,
            time: per_instance(group.sum.time.time()),
            roof: per_instance(group.sum.least?),
            at_bandwidth: per_instance(group.sum.at_bandwidth()),
            lost: per_instance(group.sum.recoverable()?),
            quantization: per_instance(group.quantization().unwrap_or_default()),
            gemm: group.gemm()?,
            bound: group.sum.bound()?,
            short,
            row: row.map(|(length, alignment)| (length, Bytes(alignment as f64))),
            name: evidence.session.kernel_name(group.kernel),
        })
    }

    /// Whether its sizes are multiples of what tiles are made of already.
    pub(crate) const fn is_round(&self) -> bool {
        self.gemm.m.is_multiple_of(ROUND) && self.gemm.n.is_multiple_of(ROUND)
    }

    /// Whether its rows rule out wide loads.
    pub(crate) fn is_unaligned(&self) -> bool {
        self.row.is_some_and(|(_, alignment)| alignment < WIDE)
    }

    /// Whether its kernel splits K already: its tiles or its name tell.
    pub(crate) fn is_split(&self) -> bool {
        let splits = self.group.tiling.splits.is_some_and(|splits| splits > 1);
        splits || names_split(self.short) || names_split(self.name)
    }

    /// The kernel and its sizes, in words.
    pub(crate) fn words(&self) -> Vec<Inline> {
        let (gemm, kernel) = (self.gemm.to_string(), self.short.to_owned());
        prose![Inline::Strong(gemm), " (", Inline::Code(kernel), ")"]
    }

    fn is_measured(&self) -> bool {
        self.group.sum.has_measured_ceiling() == Some(true)
    }
}

fn names_split(name: &str) -> bool {
    name.to_ascii_lowercase().contains("splitk")
}

impl<'a> Products<'a> {
    /// Those of its products for which `holds`.
    pub(crate) fn only(&self, holds: impl Fn(&Product<'_>) -> bool) -> Self {
        let mut products = self.products.clone();
        products.retain(holds);
        Self {
            time: products.iter().map(|product| product.time).sum(),
            roof: products.iter().map(|product| product.roof).sum(),
            lost: products.iter().map(|product| product.lost).sum(),
            products,
            ..*self
        }
    }

    /// Looks at those that the rate bounds, or that the bandwidth bounds.
    pub(crate) fn bound(
        &self,
        bound: Bound,
        look: impl FnOnce(&Products<'_>) -> Option<Draft>,
    ) -> Look {
        let bounded = self.only(|product| product.bound == bound);
        match bound {
            _ if !bounded.products.is_empty() => look(&bounded).into(),
            Bound::Compute => Look::NotApplicable(words!(self.evidence, "products.none_by_rate")),
            Bound::Memory => Look::NotApplicable(words!(self.evidence, "products.none_by_memory")),
        }
    }

    /// `measured` or `specified`: what their ceilings are.
    pub(crate) fn basis(&self) -> &'static str {
        let measured = self.products.iter().filter(|product| product.is_measured());
        let basis = match measured.count() {
            0 => "specified",
            measured if measured == self.products.len() => "measured",
            _ => "measured or, without that, specified",
        };
        self.evidence.text.word(basis)
    }

    /// `part` as a share of the stage's GPU time; of the stage time where collectives, which wait, are in the former.
    pub(crate) fn share(&self, part: Time) -> Ratio {
        let whole = match self.communicates() {
            true => self.stage.time,
            false => self.stage.operation_time,
        };
        if whole > Time::ZERO {
            Ratio::of(part, whole)
        } else {
            Ratio::ZERO
        }
    }

    /// The whole of these shares, in words.
    pub(crate) fn whole(&self) -> String {
        match self.communicates() {
            true => words!(self.evidence, "products.stage_time"),
            false => words!(self.evidence, "products.gpu_time"),
        }
    }

    fn communicates(&self) -> bool {
        let communication = self.evidence.communication(self.stage);
        communication.is_some_and(|line| line.communication > Time::ZERO)
    }

    /// The product with the most of a time; of equal ones the first.
    pub(crate) fn worst(&self, time: impl Fn(&Product<'a>) -> Time) -> Option<Product<'a>> {
        let mut worst: Option<Product<'a>> = None;
        for product in &self.products {
            if worst.is_none_or(|worst| time(product) > time(&worst)) {
                worst = Some(*product);
            }
        }
        worst
    }

    /// A finding that could save at most `saved` of each product, with the launches of one product.
    pub(crate) fn saving(
        &self,
        worst: &Product<'_>,
        saved: impl Fn(&Product<'_>) -> Time,
    ) -> Finding {
        let name = short_name(worst.name);
        let window = self.stage.window.as_ref().filter(|_| is_plain(name));
        let mut parts = BTreeMap::<Part, Time>::new();
        for product in &self.products {
            let kernel = Part::Kernel(product.group.kernel.0);
            *parts.entry(kernel).or_default() += saved(product);
        }
        let whole = parts.values().copied().sum();
        Finding {
            parts: parts.into_iter().collect(),
            evidence: vec![self.of_stage.evidence(self.evidence.session)],
            query: window.map(|window| window.with_helpers(name)),
            ..self.stage.saving_kernels(whole)
        }
    }
}

/// The outcome over the products of each stage with known sizes.
pub(crate) fn per_stage(evidence: &Evidence<'_>, look: fn(&Products<'_>) -> Look) -> Outcome {
    let outcome = evidence.each_of_kernels(|stage| {
        let Some(of_stage) = evidence.gemms(stage) else {
            return Look::InsufficientData;
        };
        let mut products = Vec::new();
        for group in &of_stage.groups {
            products.extend(Product::new(evidence, of_stage, group));
        }
        if products.is_empty() {
            return Look::InsufficientData;
        }
        let unsummed = Products {
            stage,
            products,
            time: Time::ZERO,
            roof: Time::ZERO,
            lost: Time::ZERO,
            evidence,
            of_stage,
        };
        look(&unsummed.only(|_| true))
    });
    let advice = shapes_advice(&evidence.context, evidence.text);
    let gpu = evidence.memory.is_none().then_some("");
    outcome.or_needs(words!(
        evidence,
        "products.needs",
        gpu = gpu,
        advice = advice
    ))
}

/// Whether a name can stand in a query as it is.
pub(crate) fn is_plain(name: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    !name.is_empty() && name.chars().all(is_word)
}

/// The name of a kernel without scope, arguments and result, as exports have it next to the whole one.
pub(crate) fn short_name(name: &str) -> &str {
    let head = name.split(['<', '(']).next().unwrap_or(name).trim_end();
    head.rsplit([':', ' ']).next().unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn a_short_name_is_that_of_the_function() {
        assert_eq!(short_name("nvjet_sm90_tst_64x8"), "nvjet_sm90_tst_64x8");
        assert_eq!(
            short_name("void cutlass::Kernel2<cutlass_80_simt>(T1::Params)"),
            "Kernel2"
        );
        assert_eq!(
            short_name("void gemv2T_kernel_val<int, float>(a::b)"),
            "gemv2T_kernel_val"
        );
    }
}
