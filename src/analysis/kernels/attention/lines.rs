//! Attention kernels by stage, kernel and sizes; the keys of a decode loop grow and are a range.

use std::collections::BTreeMap;

use crate::analysis::Context;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::stage_stats::Summary;
use crate::analysis::kernels::matmul::launches::{StageWork, Work};
use crate::analysis::kernels::matmul::roof::{Ceilings, Roof, Sum};
use crate::analysis::kernels::matmul::{Attention, Product, Shape, Source};
use crate::model::{KernelId, Ns};

/// The attention of one stage, of one process.
pub(super) struct StageAttention {
    pub(super) summary: Summary,
    pub(super) instances: usize,
    pub(super) total: Ns,
    pub(super) time: Ns,
    /// By time, descending.
    pub(super) lines: Vec<Line>,
}

/// Launches of one kernel with the same sizes but for the number of keys.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) kernel: KernelId,
    /// What the first of them computes.
    pub(super) product: Option<(Attention, Product)>,
    /// Fewest and most keys.
    pub(super) keys: (u64, u64),
    pub(super) sum: Sum,
    /// Operations of all pairs of query and key.
    pub(super) flops_full: f64,
    /// Specified bandwidth of the GPU.
    bandwidth: Option<f64>,
}

impl Line {
    /// Share of the specified bandwidth.
    pub(super) fn of_bandwidth(&self) -> Option<f64> {
        Some(self.sum.per_second(self.sum.bytes)? / self.bandwidth?)
    }
}

/// The attention of all outermost stages of a pass.
pub(super) fn of_stages(
    context: &Context<'_>,
    work: &Work,
    summaries: &[Summary],
) -> Vec<StageAttention> {
    let outermost = summaries.iter().filter(|line| line.is_outermost(context.facts));
    let all = outermost.map(|summary| {
        of_stage(context, summary, &work.of(context, summary, KernelClass::Attention))
    });
    all.filter(|stage| stage.time > 0).collect()
}

fn of_stage(context: &Context<'_>, summary: &Summary, work: &StageWork) -> StageAttention {
    let ceilings = Ceilings::of(context, summary.stage(context.facts).pass);
    let mut groups: BTreeMap<(KernelId, Option<Product>), Line> = BTreeMap::new();
    for launch in &work.launches {
        let product = launch.product.and_then(|product| match product.shape {
            Shape::Attention(attention) => Some((attention, product)),
            _ => None,
        });
        let alike = product.map(|(attention, product)| {
            // Only decode steps, of one query, differ in keys alone.
            let keys = if attention.queries == 1 { 0 } else { attention.keys };
            let shape = Shape::Attention(Attention { keys, ..attention });
            Product { shape, source: Source::Operator, ..product }
        });
        let identity = &context.facts.identities[launch.kernel.index()];
        let roof = product.map(|(_, product)| Roof::of(&product, identity, &ceilings));
        let line = groups.entry((launch.kernel, alike)).or_insert_with(|| Line {
            kernel: launch.kernel,
            product,
            keys: (u64::MAX, 0),
            sum: Sum::default(),
            flops_full: 0.0,
            bandwidth: ceilings.gpu.map(|gpu| gpu.memory_bandwidth),
        });
        line.sum.add(1, launch.time, launch.helpers, roof);
        if let Some((attention, product)) = product {
            line.keys = (line.keys.0.min(attention.keys), line.keys.1.max(attention.keys));
            line.flops_full += attention.flops_full();
            // Of several sources the least sure one stands for all.
            if let Some((_, known)) = &mut line.product {
                known.source = known.source.max(product.source);
            }
        }
    }
    let mut lines: Vec<Line> = groups.into_values().collect();
    // Groups are in the order of their keys, which decides between equal times.
    lines.sort_by_key(|line| std::cmp::Reverse(line.sum.time));
    StageAttention {
        summary: summary.clone(),
        instances: work.instances,
        total: work.total,
        time: lines.iter().fold(0, |sum: Ns, line| sum.saturating_add(line.sum.time)),
        lines,
    }
}
