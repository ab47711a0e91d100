//! Matrix products by stage, kernel, grid and sizes.

use std::collections::BTreeMap;

use super::tiles::{Launch, Tiling, blocks_per_sm};
use crate::analysis::Context;
use crate::analysis::classify::{KernelClass, KernelIdentity};
use crate::analysis::flops::element_bytes;
use crate::analysis::products::launches::{MatrixLaunch, StageWork, Work};
use crate::analysis::products::roof::{Bound, Roof, gpu};
use crate::analysis::products::{Gemm, Product, Shape};
use crate::analysis::summary::Summary;
use crate::hardware::Gpu;
use crate::model::{Dim3, KernelId, Ns, Session};

/// The products of one stage, of one process.
pub(super) struct StageGemms {
    pub(super) summary: Summary,
    pub(super) instances: usize,
    /// Time of all GPU operations, of products, and of products whose sizes are known, over all counted instances.
    pub(super) total: Ns,
    pub(super) gemm: Ns,
    pub(super) known: Ns,
    /// By what is lost, descending.
    pub(super) lines: Vec<Line>,
}

/// Launches of one kernel with one grid and one size.
pub(super) struct Line {
    pub(super) kernel: KernelId,
    pub(super) grid: Dim3,
    pub(super) product: Option<(Gemm, Product)>,
    pub(super) launches: u64,
    pub(super) time: Ns,
    pub(super) helpers: Ns,
    pub(super) roof: Roof,
    pub(super) tiling: Tiling,
}

impl Line {
    /// Operations of all launches.
    pub(super) fn flops(&self) -> Option<f64> {
        self.product.map(|_| self.roof.flops * self.launches as f64)
    }

    /// Operations per second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.flops().filter(|_| self.time > 0).map(|flops| flops / self.time as f64 * 1e9)
    }

    /// Share of the specified rate.
    pub(super) fn of_peak(&self) -> Option<f64> {
        Some(self.rate()? / self.roof.rate?)
    }

    /// The least time of all launches, nanoseconds.
    pub(super) fn roof_time(&self) -> Option<f64> {
        self.product?;
        self.roof.time().map(|time| time * self.launches as f64)
    }

    /// Time beyond the least, nanoseconds.
    pub(super) fn recoverable(&self) -> Option<f64> {
        self.roof_time().map(|roof| (self.time as f64 - roof).max(0.0))
    }

    /// The part of it that tiles and waves explain, of products that the rate bounds.
    pub(super) fn quantization(&self) -> Option<f64> {
        let lost = self.recoverable()?;
        if self.roof.bound()? == Bound::Memory {
            return Some(0.0);
        }
        let full = self.tiling.tile_efficiency? * self.tiling.wave_efficiency().unwrap_or(1.0);
        let roof = self.roof_time()?;
        (full > 0.0).then(|| (roof / full - roof).clamp(0.0, lost))
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
pub(super) fn of_stages(
    context: &Context<'_>,
    work: &Work,
    summaries: &[Summary],
) -> Vec<StageGemms> {
    let outermost = summaries.iter().filter(|line| line.is_outermost(context.facts));
    let all = outermost
        .map(|summary| of_stage(context, summary, &work.of(context, summary, KernelClass::Gemm)));
    all.filter(|stage| stage.gemm > 0).collect()
}

fn of_stage(context: &Context<'_>, summary: &Summary, work: &StageWork) -> StageGemms {
    let session = context.session;
    let pass = summary.stage(context.facts).pass;
    let gpu = gpu(context, pass);
    let mut groups: BTreeMap<(KernelId, Dim3, Option<Product>), Vec<&MatrixLaunch>> =
        BTreeMap::new();
    for launch in &work.launches {
        let grid = session.launches.grid[launch.row];
        groups.entry((launch.kernel, grid, launch.product)).or_default().push(launch);
    }
    let lines = groups.into_iter().map(|((kernel, grid, product), launches)| {
        line(context, gpu, (kernel, grid, product), &launches)
    });
    let mut lines: Vec<Line> = lines.collect();
    lines.sort_by(|a, b| {
        let lost = |line: &Line| line.recoverable().unwrap_or(-1.0);
        lost(b).total_cmp(&lost(a)).then(b.time.cmp(&a.time)).then_with(|| {
            (a.kernel, a.grid, a.product.map(|p| p.1)).cmp(&(
                b.kernel,
                b.grid,
                b.product.map(|p| p.1),
            ))
        })
    });
    let time = |known: bool| {
        let some = lines.iter().filter(|line| !known || line.product.is_some());
        some.fold(0, |sum: Ns, line| sum.saturating_add(line.time))
    };
    StageGemms {
        summary: summary.clone(),
        instances: work.instances,
        total: work.total,
        gemm: time(false),
        known: time(true),
        lines,
    }
}

fn line(
    context: &Context<'_>,
    gpu: Option<&Gpu>,
    (kernel, grid, product): (KernelId, Dim3, Option<Product>),
    launches: &[&MatrixLaunch],
) -> Line {
    let session = context.session;
    let identity = &context.facts.identities[kernel.index()];
    let sum = |value: fn(&MatrixLaunch) -> Ns| {
        launches.iter().fold(0, |sum: Ns, launch| sum.saturating_add(value(launch)))
    };
    let gemm = product.and_then(|product| match product.shape {
        Shape::Gemm(gemm) => Some((gemm, product)),
        _ => None,
    });
    let roof = gemm.map(|(_, product)| Roof::of(&product, identity, gpu)).unwrap_or_default();
    let tiling = gemm.zip(launches.first()).map(|((gemm, _), first)| {
        let launch = Launch {
            name: session.kernel_name(kernel),
            library: identity.library,
            tile: identity.tile,
            grid,
            slots: slots(session, gpu, first.row),
        };
        Tiling::of(launch, gemm)
    });
    Line {
        kernel,
        grid,
        product: gemm,
        launches: launches.len() as u64,
        time: sum(|launch| launch.time),
        helpers: sum(|launch| launch.helpers),
        roof,
        tiling: tiling.unwrap_or_default(),
    }
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
