//! The GEMMs of a stage as rules see them.

use rooflens_schemas::Unit;
use rooflens_sections::shapes_advice;

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome};
use rooflens_analysis::kernels::matmul::Gemm;
use rooflens_analysis::kernels::matmul::roof::Bound;
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_document::{Finding, Inline, Quantity, Query, prose};

/// Rows and columns that all usual tiles but those of 192 and 320 divide.
const ROUND: u64 = 128;

/// A product of known sizes; times are those of an instance, nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) group: &'a Group,
    pub(crate) time: f64,
    /// Least time by rate, bandwidth and the shortest kernel.
    pub(crate) roof: f64,
    /// Time at the bandwidth.
    pub(crate) bytes: f64,
    /// Time beyond that.
    pub(crate) lost: f64,
    /// The part of it that tiles and waves explain.
    pub(crate) quantization: f64,
    gemm: Gemm,
    bound: Bound,
    short: &'a str,
    name: &'a str,
}

/// Products of a stage, with their sums.
pub(crate) struct Products<'a> {
    pub(crate) stage: &'a StageLine,
    pub(crate) all: Vec<Product<'a>>,
    pub(crate) time: f64,
    pub(crate) roof: f64,
    pub(crate) lost: f64,
    pub(crate) evidence: &'a Evidence<'a>,
    of: &'a StageProducts,
}

impl<'a> Product<'a> {
    fn new(evidence: &Evidence<'a>, stage: &'a StageProducts, group: &'a Group) -> Option<Self> {
        let context = evidence.context;
        let per = |sum: f64| stage.per_instance(sum);
        (group.sum.time > 0).then_some(Self {
            group,
            time: per(group.sum.time as f64),
            roof: per(group.sum.least?),
            bytes: per(group.sum.at_bandwidth()),
            lost: per(group.sum.recoverable()?),
            quantization: per(group.quantization().unwrap_or(0.0)),
            gemm: group.gemm()?,
            bound: group.sum.bound()?,
            short: &context.facts.identities[group.kernel.index()].short,
            name: context.session.kernel_name(group.kernel),
        })
    }

    /// Whether its sizes are multiples of what tiles are made of already.
    pub(crate) const fn is_round(&self) -> bool {
        self.gemm.m.is_multiple_of(ROUND) && self.gemm.n.is_multiple_of(ROUND)
    }

    /// Whether its kernel splits K already: its tiles or its name tell.
    pub(crate) fn is_split(&self) -> bool {
        let splits = self.group.tiling.splits.is_some_and(|splits| splits > 1);
        let named = |name: &str| name.to_ascii_lowercase().contains("splitk");
        splits || named(self.short) || named(self.name)
    }

    /// The kernel and its sizes, in words.
    pub(crate) fn words(&self) -> Vec<Inline> {
        let (gemm, kernel) = (self.gemm.to_string(), self.short.to_owned());
        prose![Inline::Strong(gemm), " (", Inline::Code(kernel), ")"]
    }
}

impl<'a> Products<'a> {
    /// Those of its products for which `holds`.
    pub(crate) fn only(&self, holds: impl Fn(&Product<'_>) -> bool) -> Self {
        let all: Vec<Product<'_>> = self.all.iter().filter(|one| holds(one)).copied().collect();
        let sum = |value: fn(&Product<'_>) -> f64| all.iter().map(value).sum::<f64>();
        let (time, roof) = (sum(|one| one.time), sum(|one| one.roof));
        Self {
            time,
            roof,
            lost: sum(|one| one.lost),
            all,
            ..*self
        }
    }

    /// Looks at those that the rate bounds, or that the bandwidth bounds.
    pub(crate) fn bound(
        &self,
        bound: Bound,
        look: impl FnOnce(&Products<'_>) -> Option<Finding>,
    ) -> Look {
        let own = self.only(|one| one.bound == bound);
        match bound {
            _ if !own.all.is_empty() => look(&own).into(),
            Bound::Compute => Look::NotApplicable(words!(self.evidence, "products.none_by_rate")),
            Bound::Memory => Look::NotApplicable(words!(self.evidence, "products.none_by_memory")),
        }
    }

    /// `measured` or `specified`: what their ceilings are.
    pub(crate) fn basis(&self) -> &'static str {
        let is_measured = |one: &&Product<'_>| {
            one.group
                .sum
                .ceiling()
                .is_some_and(|ceiling| ceiling.measured)
        };
        self.evidence
            .text
            .word(match self.all.iter().filter(is_measured).count() {
                0 => "specified",
                measured if measured == self.all.len() => "measured",
                _ => "measured or, without that, specified",
            })
    }

    /// `part` as a share of the stage's GPU time; of the stage time where collectives, which wait, are in the former.
    pub(crate) fn share(&self, part: f64) -> f64 {
        let of = if self.communicates() {
            self.stage.time
        } else {
            self.stage.operation_time
        };
        if of > 0.0 { part / of } else { 0.0 }
    }

    /// The whole of these shares, in words.
    pub(crate) fn whole(&self) -> String {
        match self.communicates() {
            true => words!(self.evidence, "products.stage_time"),
            false => words!(self.evidence, "products.gpu_time"),
        }
    }

    fn communicates(&self) -> bool {
        self.evidence
            .communication(self.stage)
            .is_some_and(|line| line.communication > 0.0)
    }

    /// The product that loses most; of equal ones the first.
    pub(crate) fn worst(&self, lost: impl Fn(&Product<'a>) -> f64) -> Option<Product<'a>> {
        let all = self.all.iter().copied();
        all.reduce(|best, next| {
            if lost(&next) > lost(&best) {
                next
            } else {
                best
            }
        })
    }

    /// A finding that could save at most `saved` nanoseconds of each instance, with the launches of one of them.
    pub(crate) fn saving(&self, worst: &Product<'_>, saved: f64, basis: &str) -> Finding {
        let name = short_name(worst.name);
        let query = || -> Option<Query> { Some(self.stage.window.as_ref()?.with_helpers(name)) };
        Finding {
            evidence: vec![self.of.evidence(self.evidence.session)],
            query: is_plain(name).then(query).flatten(),
            ..self.stage.saving_kernels(saved, basis)
        }
    }
}

/// Looks at the products of each stage; abstains if the sizes of none are known.
pub(crate) fn per_stage(evidence: &Evidence<'_>, look: fn(&Products<'_>) -> Look) -> Outcome {
    let advice = shapes_advice(&evidence.context, evidence.text);
    evidence.each_of_kernels(
        &words!(evidence, "products.needs", advice = advice),
        |stage| {
            let Some(of) = evidence.gemms(stage) else {
                return Look::InsufficientData;
            };
            let all: Vec<Product<'_>> = of
                .groups
                .iter()
                .filter_map(|group| Product::new(evidence, of, group))
                .collect();
            let none = Products {
                stage,
                all,
                time: 0.0,
                roof: 0.0,
                lost: 0.0,
                evidence,
                of,
            };
            let products = none.only(|_| true);
            if products.all.is_empty() {
                Look::InsufficientData
            } else {
                look(&products)
            }
        },
    )
}

/// Whether a name can stand in a query as it is.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// The name of a kernel without scope, arguments and result, as exports have it beside the whole one.
pub(crate) fn short_name(name: &str) -> &str {
    let head = name.split(['<', '(']).next().unwrap_or(name).trim_end();
    head.rsplit([':', ' ']).next().unwrap_or(head)
}

/// Time in words.
pub(crate) fn time(ns: f64) -> Quantity {
    Quantity::new(ns, Unit::Nanoseconds)
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
