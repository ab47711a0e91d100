//! Attention kernels by stage, kernel and sizes; the keys of a decode loop grow and are a range.

use std::collections::BTreeMap;

use crate::analysis::Context;
use crate::analysis::classify::KernelClass;
use crate::analysis::products::launches::{MatrixLaunch, StageWork, Work};
use crate::analysis::products::roof::{Bound, Roof, gpu};
use crate::analysis::products::{Attention, Product, Shape, Source};
use crate::analysis::summary::Summary;
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
    pub(super) launches: u64,
    pub(super) time: Ns,
    pub(super) helpers: Ns,
    /// Of all launches.
    pub(super) flops: f64,
    pub(super) flops_full: f64,
    pub(super) bytes: Option<f64>,
    /// The least time of all launches, nanoseconds.
    pub(super) roof: Option<f64>,
    /// At the rate, and at the bandwidth.
    pub(super) times: (f64, f64),
    pub(super) rate: Option<f64>,
    pub(super) bandwidth: Option<f64>,
}

impl Line {
    /// Per second, of something that all launches do.
    pub(super) fn per_second(&self, amount: f64) -> Option<f64> {
        (self.product.is_some() && self.time > 0).then(|| amount / self.time as f64 * 1e9)
    }

    pub(super) fn of_peak(&self) -> Option<f64> {
        Some(self.per_second(self.flops)? / self.rate?)
    }

    pub(super) fn of_bandwidth(&self) -> Option<f64> {
        Some(self.per_second(self.bytes?)? / self.bandwidth?)
    }

    pub(super) fn recoverable(&self) -> Option<f64> {
        self.roof.map(|roof| (self.time as f64 - roof).max(0.0))
    }

    pub(super) fn bound(&self) -> Option<Bound> {
        self.roof?;
        Some(if self.times.0 >= self.times.1 { Bound::Compute } else { Bound::Memory })
    }

    fn add(&mut self, launch: &MatrixLaunch, roof: Option<(Roof, f64, u64)>) {
        self.launches += 1;
        self.time = self.time.saturating_add(launch.time);
        self.helpers = self.helpers.saturating_add(launch.helpers);
        let Some((roof, full, keys)) = roof else { return };
        self.keys = (self.keys.0.min(keys), self.keys.1.max(keys));
        self.flops += roof.flops;
        self.flops_full += full;
        self.bytes = self.bytes.zip(roof.bytes).map(|(sum, bytes)| sum + bytes);
        self.roof = self.roof.zip(roof.time()).map(|(sum, time)| sum + time);
        if let Some((rate, bandwidth)) = roof.times() {
            self.times = (self.times.0 + rate, self.times.1 + bandwidth);
        }
        (self.rate, self.bandwidth) = (roof.rate, roof.bandwidth);
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
    let pass = summary.stage(context.facts).pass;
    let gpu = gpu(context, pass);
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
        let roof = product.map(|(attention, product)| {
            (Roof::of(&product, identity, gpu), attention.flops_full(), attention.keys)
        });
        let known = roof.is_some();
        let line = groups.entry((launch.kernel, alike)).or_insert_with(|| Line {
            kernel: launch.kernel,
            product,
            keys: (u64::MAX, 0),
            launches: 0,
            time: 0,
            helpers: 0,
            flops: 0.0,
            flops_full: 0.0,
            bytes: known.then_some(0.0),
            roof: known.then_some(0.0),
            times: (0.0, 0.0),
            rate: None,
            bandwidth: None,
        });
        // Of several sources the least sure one stands for all.
        if let (Some((_, known)), Some((_, product))) = (&mut line.product, &product) {
            known.source = known.source.max(product.source);
        }
        line.add(launch, roof);
    }
    let mut lines: Vec<Line> = groups.into_values().collect();
    // Groups are in the order of their keys, which decides between equal times.
    lines.sort_by_key(|line| std::cmp::Reverse(line.time));
    StageAttention {
        summary: summary.clone(),
        instances: work.instances,
        total: work.total,
        time: lines.iter().fold(0, |sum: Ns, line| sum.saturating_add(line.time)),
        lines,
    }
}
