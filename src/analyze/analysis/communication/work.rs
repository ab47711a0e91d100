//! What a rank computes in a stage against another one: sizes of GEMMs where they are known, and operations.

use super::calls::Run;
use super::lines::RankTimes;
use crate::Context;
use crate::kernels::matmul::Gemm;
use crate::kernels::matmul::stages::StageProducts;
use rooflens_session::Ns;
use rooflens_units::{Count, Flops, Ratio};

/// Part of the GEMM time of both ranks whose sizes must be known for their work to be compared.
const KNOWN: Ratio = Ratio(0.9);

/// Difference of ratios below which rows explain the work.
const SAME: Ratio = Ratio(0.02);

/// The work of a rank in a stage against that of another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkDifference {
    /// FLOPs of its GEMMs ÷ those of the other; absent where the sizes of too many are not known.
    pub flops: Option<Ratio>,
    /// Rows M of the GEMMs of equal N and K with the most time, here and there: if they are as different as the FLOPs.
    pub rows: Option<(u64, u64)>,
    /// GPU operations of an instance, here and there.
    pub operations: (Count, Count),
}

impl WorkDifference {
    /// Compares the work of two lines of a run; none for the whole pass.
    pub(super) fn of(
        context: &Context<'_>,
        run: &Run,
        own: &RankTimes,
        other: &RankTimes,
    ) -> Option<Self> {
        let process = |line: &RankTimes| run.members[line.member].process;
        let operations = |line: &RankTimes| {
            let stage = line.stage?;
            let mut summaries = context.facts.summaries.iter();
            let summary = summaries
                .find(|summary| (summary.stage, summary.process) == (stage, process(line)))?;
            Some(summary.operations)
        };
        let products = |line: &RankTimes| {
            let mut stages = context.results.gemm().ok()?.iter();
            let of_line = |products: &&StageProducts| {
                (Some(products.summary.stage), products.summary.process)
                    == (line.stage, process(line))
            };
            stages
                .find(of_line)
                .filter(|products| products.shape_coverage() >= KNOWN)
        };
        let operations = (operations(own)?, operations(other)?);
        let products = products(own).zip(products(other));
        let flops = products.map(|(own, other)| Ratio(flops(own) / flops(other)));
        let flops = flops.filter(|ratio| ratio.is_finite());
        let rows = products
            .zip(flops)
            .and_then(|((own, other), flops)| rows(own, other, flops));
        Some(Self {
            flops,
            rows,
            operations,
        })
    }

    /// How much more it computes, as a share of the other's work, if that is known to be more than nothing.
    pub fn more(&self) -> Option<Ratio> {
        self.flops
            .map(|flops| flops - Ratio::ONE)
            .filter(|more| *more > SAME)
    }

    /// Whether both are known to compute the same.
    pub fn is_equal(&self) -> bool {
        self.flops
            .is_some_and(|flops| (flops - Ratio::ONE).abs() <= SAME)
    }

    /// Operations here and there, if their numbers differ and sizes do not tell.
    pub fn more_operations(&self) -> Option<(Count, Count)> {
        let (own, other) = self.operations;
        let is_more = own > other * (1.0 + SAME.0) && other.is_positive();
        (self.flops.is_none() && is_more).then_some((own, other))
    }
}

fn flops(products: &StageProducts) -> Flops {
    let groups = products.groups.iter();
    products.per_instance(groups.filter_map(|group| group.sum.flops).sum())
}

/// Rows of GEMMs of equal N and K: those with the most time whose ratio is that of the FLOPs.
fn rows(own: &StageProducts, other: &StageProducts, flops: Ratio) -> Option<(u64, u64)> {
    let sizes = |products: &StageProducts| -> Vec<(Gemm, Ns)> {
        let groups = products.groups.iter();
        groups
            .filter_map(|group| Some((group.gemm()?, group.sum.time)))
            .collect()
    };
    let (own, other) = (sizes(own), sizes(other));
    let pairs = own.iter().flat_map(|(gemm, time)| {
        let same =
            |partner: &Gemm| (partner.n, partner.k, partner.batch) == (gemm.n, gemm.k, gemm.batch);
        let fits = move |partner: &Gemm| {
            let rows = Ratio(gemm.m as f64 / partner.m as f64);
            (rows / flops - 1.0).abs() <= SAME.0
        };
        let partners = other
            .iter()
            .map(|(partner, _)| partner)
            .filter(move |partner| same(partner) && fits(partner));
        partners.map(move |partner| (*time, (gemm.m, partner.m)))
    });
    let pairs = pairs.filter(|(_, (own, other))| own != other);
    pairs.max_by_key(|(time, _)| *time).map(|(_, rows)| rows)
}
