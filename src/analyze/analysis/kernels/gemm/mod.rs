//! GEMMs: GEMMs by stage, kernel, grid and sizes, with tiles, waves and the time above the roofline.

mod logged;
pub mod tiles;

use std::collections::BTreeMap;

use super::matmul::roof::{Bound, Ceilings, Roof};
use super::matmul::stages::{Group, MatrixLaunch, StageProducts, of_class};
use super::matmul::{Product, Shape};
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

    /// Alignment in bytes of the rows that are read and written whole, K and N; 16 at most.
    pub fn alignment(&self) -> Option<i64> {
        let gemm = self.gemm()?;
        let size = element_bytes(self.product?.operand)?;
        let aligned = |length: u64| {
            [16_u32, 8, 4, 2, 1]
                .into_iter()
                .find(|bytes| (length as f64 * size).0 % f64::from(*bytes) == 0.0)
                .unwrap_or(1)
        };
        Some(i64::from(aligned(gemm.n).min(aligned(gemm.k))))
    }
}

/// Time of a stage's GEMMs above their roofline per counted instance: stage and process of each, of the primary pass.
pub fn above_roofline(context: &Context<'_>) -> Vec<(usize, ProcessId, Time)> {
    let primary = context.facts.primary_pass(context.session);
    let stages = context.results.gemm().into_iter().flatten();
    let stage_gemms = |stage: &StageProducts| {
        let lost = stage.per_instance(stage.recoverable()?);
        Some((stage.summary.stage, stage.summary.process, lost))
    };
    stages
        .filter(|stage| Some(stage.pass) == primary)
        .filter_map(stage_gemms)
        .collect()
}
