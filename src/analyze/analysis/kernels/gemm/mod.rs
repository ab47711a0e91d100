//! GEMMs: GEMMs by stage, kernel, grid and sizes, with tiles, waves and the time above the roofline.

mod logged;
pub mod repeated;
pub mod tiles;

use std::collections::BTreeMap;

use super::matmul::roof::{Bound, Ceilings, Roof};
use super::matmul::stages::{Group, MatrixLaunch, StageProducts, of_class};
use super::matmul::{Gemm, Product, Shape};
use crate::engine::classify::KernelClass;
use crate::{Context, Known};
use rooflens_hardware::Gpu;
use rooflens_hardware::element_bytes;
use rooflens_session::{Arrange, Dim3, KernelId, Ns, ProcessId, Session};
use rooflens_units::{Ratio, Time};
use tiles::{Launch, Tiling, blocks_per_sm};

pub use logged::{LoggedGemm, compute as logged};

/// The GEMMs of each outermost stage, the primary pass first; never missing, but empty without such kernels.
pub fn compute(context: &Context<'_>) -> Known<Vec<StageProducts>> {
    of_class(context, KernelClass::Gemm, |ceilings, launches| {
        groups(context, ceilings, launches)
    })
}

fn groups(context: &Context<'_>, ceilings: &Ceilings<'_>, launches: &[MatrixLaunch]) -> Vec<Group> {
    let mut same: BTreeMap<(KernelId, Dim3, Option<Product>), (u64, MatrixLaunch)> =
        BTreeMap::new();
    for launch in launches {
        let key = (launch.kernel, launch.grid, launch.product);
        let none = (
            0,
            MatrixLaunch {
                time: Ns::ZERO,
                helpers: Ns::ZERO,
                ..*launch
            },
        );
        let (count, sum) = same.entry(key).or_insert(none);
        *count += 1;
        sum.time = sum.time.saturating_add(launch.time);
        sum.helpers = sum.helpers.saturating_add(launch.helpers);
    }
    let mut groups: Vec<Group> = same
        .into_values()
        .map(|(count, sum)| group(context, ceilings, count, &sum))
        .collect();
    groups.arrange_by(|a, b| {
        let lost = |group: &Group| group.sum.recoverable().unwrap_or(Time(-1.0));
        let key = |group: &Group| (group.kernel, group.grid, group.product);
        lost(b)
            .total_cmp(&lost(a))
            .then(b.sum.time.cmp(&a.sum.time))
            .then_with(|| key(a).cmp(&key(b)))
    });
    groups
}

/// Launches that all compute the same; their times are summed in `sum`.
fn group(context: &Context<'_>, ceilings: &Ceilings<'_>, count: u64, sum: &MatrixLaunch) -> Group {
    let identity = &context.facts.identities[sum.kernel.index()];
    let mut group = Group::like(sum);
    group.product = group
        .product
        .filter(|product| matches!(product.shape, Shape::Gemm(_)));
    let roof = group
        .product
        .map(|product| Roof::of(&product, identity, ceilings));
    group.sum.add(count, sum.time, sum.helpers, roof);
    if let Some(gemm) = group.gemm() {
        let launch = Launch {
            name: context.session.kernel_name(sum.kernel),
            library: identity.library,
            tile: identity.tile,
            grid: sum.grid,
            slots: slots(context.session, ceilings.gpu, sum.row),
        };
        group.tiling = Tiling::of(launch, gemm);
    }
    group
}

/// Blocks of a launch that run at a time on its GPU.
pub fn slots(session: &Session, gpu: Option<&Gpu>, row: usize) -> Option<u64> {
    let (launches, gpus) = (&session.launches, &session.gpus);
    let gpu_index = launches.gpu[row].index();
    let sms = gpus
        .sm_count
        .get(gpu_index)
        .copied()
        .flatten()
        .or(gpu.map(|gpu| gpu.sm_count))?;
    let capability = gpus.compute_capability.get(gpu_index).copied().flatten()?;
    let threads = launches.block[row].volume();
    let blocks = blocks_per_sm(
        capability,
        threads,
        launches.registers[row],
        launches.shared_bytes[row],
    )?;
    u64::from(sms).checked_mul(blocks)
}

impl Group {
    /// The part of the time above the roofline that tile and wave quantization explain, of GEMMs that the rate bounds.
    pub fn quantization(&self) -> Option<Time> {
        let lost = self.sum.recoverable()?;
        if self.sum.bound()? == Bound::Memory {
            return Some(Time::ZERO);
        }
        let waves = self.tiling.wave_efficiency().unwrap_or(Ratio::ONE);
        let full = self.tiling.tile_efficiency? * waves;
        let least = self.sum.least?;
        full.is_positive()
            .then(|| (least / full.0 - least).clamp(Time::ZERO, lost))
    }

    /// Lengths of the rows in memory that operands and output have, elements: by the layout of BLAS at the end of the
    /// kernel's name, such as `nt`, where the first letter is that of our right operand; without it those of operands
    /// that are not transposed. Source: the parameters of `cublasGemmEx`, with rows and columns exchanged.
    pub fn rows(&self, name: &str) -> Option<[u64; 3]> {
        let Gemm { m, n, k, .. } = self.gemm()?;
        let layout = name.rsplit(' ').next().unwrap_or_default();
        let left = if layout.ends_with('t') { m } else { k };
        let right = if layout.starts_with('t') { k } else { n };
        Some(match layout {
            "nn" | "nt" | "tn" | "tt" => [left, right, n],
            _ => [k, n, n],
        })
    }

    /// Alignment in bytes of a row of so many elements; 16 at most.
    pub fn alignment_of(&self, length: u64) -> Option<i64> {
        let size = element_bytes(self.product?.operand)?;
        let divides = |bytes: &u32| (length as f64 * size).0 % f64::from(*bytes) == 0.0;
        let alignment = [16_u32, 8, 4, 2].into_iter().find(divides);
        Some(i64::from(alignment.unwrap_or(1)))
    }

    /// The row of the least alignment, and that alignment in bytes.
    pub fn least_aligned(&self, name: &str) -> Option<(u64, i64)> {
        let rows = self.rows(name)?.into_iter();
        let rows = rows.map(|length| Some((length, self.alignment_of(length)?)));
        rows.collect::<Option<Vec<_>>>()?
            .into_iter()
            .min_by_key(|(_, alignment)| *alignment)
    }
}

/// Time of a stage's GEMMs above their roofline per counted instance: stage and process of each, of the pass that shows kernels.
pub fn above_roofline(context: &Context<'_>) -> Vec<(usize, ProcessId, Time)> {
    let pass = context.facts.kernel_pass(context.session);
    let stages = context.results.gemm().into_iter().flatten();
    let stage_gemms = |stage: &StageProducts| {
        let lost = stage.per_instance(stage.recoverable()?);
        Some((stage.summary.stage, stage.summary.process, lost))
    };
    stages
        .filter(|stage| Some(stage.pass) == pass)
        .filter_map(stage_gemms)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matmul::Source;

    /// The least aligned row of a bf16 GEMM by a kernel of this name.
    fn row([m, n, k]: [u64; 3], name: &str) -> Option<(u64, i64)> {
        let product = Product {
            shape: Shape::Gemm(Gemm { m, n, k, batch: 1 }),
            operand: "bf16",
            output: "bf16",
            source: Source::Operator,
            main: true,
        };
        let group = Group {
            product: Some(product),
            ..Group::default()
        };
        group.least_aligned(name)
    }

    #[test]
    fn rows_in_memory_follow_the_layout() {
        // 50257 elements are 100 514 bytes, 2 past a multiple of 16.
        let logits = [8192, 50257, 1024];
        assert_eq!(
            row(logits, "cutlass s1688gemm 128x128 tn"),
            Some((50257, 2))
        );
        // The gradient of the weights reads that of the logits by columns.
        let weights = [50257, 1024, 8192];
        assert_eq!(
            row(weights, "cutlass s1688gemm 128x256 nt"),
            Some((50257, 2))
        );
        assert_eq!(
            row(weights, "cutlass s1688gemm 128x256 nn"),
            Some((8192, 16))
        );
        assert_eq!(row(weights, "gemm"), Some((8192, 16)));
        assert_eq!(row([8, 12, 64], "gemm"), Some((12, 8)));
    }
}
