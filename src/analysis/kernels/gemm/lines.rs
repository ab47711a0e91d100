//! Matrix products by stage, kernel, grid and sizes.

use super::tiles::{Launch, Tiling, blocks_per_sm};
use crate::analysis::Context;
use crate::analysis::engine::classify::KernelIdentity;
use crate::analysis::engine::stage_stats::Summary;
use crate::analysis::kernels::matmul::launches;
use crate::analysis::kernels::matmul::roof::{Bound, Ceilings, Roof, Sum};
use crate::analysis::kernels::matmul::{Gemm, Product, Shape};
use crate::analysis::utilization::model_flops::element_bytes;
use crate::hardware::Gpu;
use crate::model::{Dim3, KernelId, Ns, PassId, Session};

/// The products of one stage, of one process.
pub(super) struct StageGemms<'a> {
    pub(super) summary: &'a Summary,
    pub(super) instances: usize,
    /// Busy time; less than `total` where operations overlap.
    pub(super) busy: Ns,
    /// Time of all GPU operations, of products, and of products whose sizes are known, over all counted instances.
    pub(super) total: Ns,
    pub(super) gemm: Ns,
    pub(super) known: Ns,
    /// By what is lost, descending.
    pub(super) lines: Vec<Line>,
}

impl StageGemms<'_> {
    /// What bounds its products.
    pub(super) fn roofs(&self) -> impl Iterator<Item = &Roof> {
        self.lines.iter().filter_map(|line| line.sum.roof.as_ref())
    }
}

/// Launches of one kernel with one grid and one size.
pub(super) struct Line {
    pub(super) kernel: KernelId,
    pub(super) grid: Dim3,
    pub(super) product: Option<(Gemm, Product)>,
    pub(super) sum: Sum,
    pub(super) tiling: Tiling,
}

impl Line {
    /// The part of the time beyond the least that tiles and waves explain, of products that the rate bounds.
    pub(super) fn quantization(&self) -> Option<f64> {
        let lost = self.sum.recoverable()?;
        if self.sum.bound()? == Bound::Memory {
            return Some(0.0);
        }
        let full = self.tiling.tile_efficiency? * self.tiling.wave_efficiency().unwrap_or(1.0);
        let least = self.sum.least?;
        (full > 0.0).then(|| (least / full - least).clamp(0.0, lost))
    }

    /// Alignment in bytes of the rows that are read and written whole, K and N; 16 at most.
    pub(super) fn alignment(&self) -> Option<i64> {
        let (gemm, product) = self.product?;
        let size = element_bytes(product.operand)?;
        let aligned = |length: u64| {
            [16_u32, 8, 4, 2, 1]
                .into_iter()
                .find(|bytes| (length as f64 * size) % f64::from(*bytes) == 0.0)
                .unwrap_or(1)
        };
        Some(i64::from(aligned(gemm.n).min(aligned(gemm.k))))
    }
}

/// The products of all outermost stages of a pass.
pub(super) fn of_stages<'a>(context: &Context<'a>, pass: PassId) -> Vec<StageGemms<'a>> {
    let ceilings = Ceilings::of(context, pass);
    let of_pass = context
        .results
        .gemm()
        .into_iter()
        .flatten()
        .filter(|stage| stage.pass(context.facts) == pass);
    of_pass.map(|stage| of_stage(context, &ceilings, stage)).collect()
}

fn of_stage<'a>(
    context: &Context<'a>,
    ceilings: &Ceilings<'_>,
    stage: &'a launches::StageGemms,
) -> StageGemms<'a> {
    let groups = stage.groups.iter();
    let mut lines: Vec<Line> = groups.map(|group| line(context, ceilings, group)).collect();
    lines.sort_by(|a, b| {
        let lost = |line: &Line| line.sum.recoverable().unwrap_or(-1.0);
        let key = |line: &Line| (line.kernel, line.grid, line.product.map(|product| product.1));
        lost(b)
            .total_cmp(&lost(a))
            .then(b.sum.time.cmp(&a.sum.time))
            .then_with(|| key(a).cmp(&key(b)))
    });
    let time = |known: bool| {
        let some = lines.iter().filter(|line| !known || line.product.is_some());
        some.fold(0, |sum: Ns, line| sum.saturating_add(line.sum.time))
    };
    StageGemms {
        summary: &stage.summary,
        instances: stage.instances,
        busy: stage.busy,
        total: stage.total,
        gemm: time(false),
        known: time(true),
        lines,
    }
}

fn line(context: &Context<'_>, ceilings: &Ceilings<'_>, group: &launches::Group) -> Line {
    let session = context.session;
    let launches::Group { kernel, grid, row, .. } = *group;
    let identity = &context.facts.identities[kernel.index()];
    let gemm = group.product.and_then(|product| match product.shape {
        Shape::Gemm(gemm) => Some((gemm, product)),
        _ => None,
    });
    let roof = gemm.map(|(_, product)| Roof::of(&product, identity, ceilings));
    let tiling = gemm.map(|(gemm, _)| {
        let launch = Launch {
            name: session.kernel_name(kernel),
            library: identity.library,
            tile: identity.tile,
            grid,
            slots: slots(session, ceilings.gpu, row),
        };
        Tiling::of(launch, gemm)
    });
    let mut sum = Sum::default();
    sum.add(group.launches, group.time, group.helpers, roof);
    Line { kernel, grid, product: gemm, sum, tiling: tiling.unwrap_or_default() }
}

/// Blocks of a launch that run at a time on its GPU.
fn slots(session: &Session, gpu: Option<&Gpu>, row: usize) -> Option<u64> {
    let (launches, gpus) = (&session.launches, &session.gpus);
    let at = launches.gpu[row].index();
    let sms = gpus.sm_count.get(at).copied().flatten().or(gpu.map(|gpu| gpu.sm_count))?;
    let capability = gpus.compute_capability.get(at).copied().flatten()?;
    let threads = launches.block[row].volume();
    let blocks =
        blocks_per_sm(capability, threads, launches.registers[row], launches.shared_bytes[row])?;
    u64::from(sms).checked_mul(blocks)
}

/// What a kernel's name tells.
pub(super) fn identity<'a>(context: &Context<'a>, line: &Line) -> &'a KernelIdentity {
    &context.facts.identities[line.kernel.index()]
}
