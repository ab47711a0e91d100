//! The FLOPs of one stage from each source.

use std::collections::BTreeMap;

use crate::analysis::Context;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::facts::OpIndex;
use crate::analysis::engine::sm_clock::Clocks;
use crate::analysis::engine::stage_stats::Summary;
use crate::analysis::kernels::matmul::roof::dtype;
use crate::analysis::kernels::matmul::{Product, Source};
use crate::analysis::utilization::mfu::timed::gpu_name;
use crate::hardware::Gpu;
use crate::model::Ns;

/// FLOPs of a stage; sums are per counted instance.
pub(super) struct StageFlops {
    pub(super) summary: Summary,
    pub(super) instances: usize,
    /// By operators' shapes, under the mask and of all pairs; none if no kernel has its sizes from one.
    pub(super) operators: Option<(f64, f64)>,
    /// By the cuBLASLt log, of matrix products alone.
    pub(super) logged: Option<f64>,
    /// By all sources together, by dtype of the peak.
    pub(super) by_dtype: BTreeMap<&'static str, f64>,
    /// Of all pairs of attention.
    pub(super) full: f64,
    /// Time of operations whose FLOPs are known, of all matrix kernels, and of all operations, over all instances.
    pub(super) known: Ns,
    pub(super) matrix: Ns,
    pub(super) matrix_known: Ns,
    pub(super) total: Ns,
    /// Time of operations whose FLOPs are not known, by class, descending.
    pub(super) unknown: Vec<(KernelClass, Ns)>,
    /// Kernels of matrix products of which the log knows the sizes, and all of them.
    pub(super) log_matched: (u64, u64),
    /// Mean SM clock in hertz, and where it is from.
    pub(super) clock: Option<(f64, &'static str)>,
}

/// What is added up over operations.
#[derive(Default)]
struct Sums {
    operators: Option<(f64, f64)>,
    logged: Option<f64>,
    by_dtype: BTreeMap<&'static str, f64>,
    full: f64,
    known: Ns,
    matrix: Ns,
    matrix_known: Ns,
    total: Ns,
    unknown: BTreeMap<KernelClass, Ns>,
    log_matched: (u64, u64),
}

impl Sums {
    fn add(&mut self, context: &Context<'_>, op: OpIndex) {
        let (session, facts) = (context.session, context.facts);
        let row = op as usize;
        let time = facts.ops.end[row].saturating_sub(facts.ops.start[row]);
        self.total = self.total.saturating_add(time);
        let kernel = facts.kernel(session, op);
        let identity = kernel.map(|kernel| &facts.identities[kernel.index()]);
        let class = identity.map_or(KernelClass::Copy, |identity| identity.class);
        let products = context.results.matmul().ok();
        let product = products.and_then(|products| products.get(op));
        if class.is_matrix_work() {
            self.matrix = self.matrix.saturating_add(time);
        }
        let Some(product) = product else {
            let sum = self.unknown.entry(class).or_default();
            *sum = sum.saturating_add(time);
            return;
        };
        self.known = self.known.saturating_add(time);
        if class.is_matrix_work() {
            self.matrix_known = self.matrix_known.saturating_add(time);
        }
        let logged = products.and_then(|products| products.logged(op));
        if product.main && class == KernelClass::Gemm {
            self.log_matched.1 += 1;
            self.log_matched.0 += u64::from(logged.is_some());
        }
        if let Some(logged) = logged.filter(|logged| logged.main) {
            *self.logged.get_or_insert(0.0) += logged.shape.flops();
        }
        if let Some(identity) = identity.filter(|_| product.main) {
            self.count(product, dtype(identity, product));
        }
    }

    fn count(&mut self, product: &Product, dtype: &'static str) {
        let (flops, full) = (product.shape.flops(), product.shape.flops_full());
        *self.by_dtype.entry(dtype).or_default() += flops;
        self.full += full;
        if matches!(product.source, Source::Operator | Source::SameOrder | Source::Aligned) {
            let sum = self.operators.get_or_insert((0.0, 0.0));
            *sum = (sum.0 + flops, sum.1 + full);
        }
    }
}

impl StageFlops {
    /// The FLOPs of a line.
    pub(super) fn of(context: &Context<'_>, summary: &Summary, clocks: Option<&Clocks>) -> Self {
        let mut sums = Sums::default();
        let mut instances = 0;
        for instance in summary.counted_instances(context.facts) {
            instances += 1;
            instance.ops.iter().for_each(|op| sums.add(context, *op));
        }
        let per = |value: f64| value / f64::from(instances.max(1));
        let mut unknown: Vec<(KernelClass, Ns)> = sums.unknown.into_iter().collect();
        unknown.sort_by_key(|(class, time)| (std::cmp::Reverse(*time), *class));
        let counted = summary.counted_instances(context.facts);
        let times = counted.filter_map(|one| one.projection);
        let clock = clocks.and_then(|clocks| Some((clocks.mean(times)?, clocks.source)));
        Self {
            summary: summary.clone(),
            instances: instances as usize,
            operators: sums.operators.map(|(masked, full)| (per(masked), per(full))),
            logged: sums.logged.map(per),
            by_dtype: sums.by_dtype.into_iter().map(|(dtype, sum)| (dtype, per(sum))).collect(),
            full: per(sums.full),
            known: sums.known,
            matrix: sums.matrix,
            matrix_known: sums.matrix_known,
            total: sums.total,
            unknown,
            log_matched: sums.log_matched,
            clock,
        }
    }

    /// The GPU that the stage ran on.
    pub(super) fn gpu<'a>(&self, context: &Context<'a>) -> Option<&'a Gpu> {
        context.gpu_spec(&gpu_name(context.session, Some(self.summary.stage(context.facts).pass)))
    }

    /// FLOPs by all sources together.
    pub(super) fn flops(&self) -> Option<f64> {
        (!self.by_dtype.is_empty()).then(|| self.by_dtype.values().sum())
    }

    /// Share of the GPU time of which the FLOPs are known.
    pub(super) fn coverage(&self) -> f64 {
        if self.total > 0 { self.known as f64 / self.total as f64 } else { 0.0 }
    }

    /// Σ FLOPs ÷ peak over dtypes, nanoseconds.
    pub(super) fn ideal_time(&self, context: &Context<'_>) -> Result<f64, String> {
        if self.by_dtype.is_empty() {
            return Err("the sizes of no matrix kernel are known".to_owned());
        }
        let gpu = self.gpu(context).ok_or("no peak for this GPU")?;
        let mut sum = 0.0;
        for (dtype, flops) in &self.by_dtype {
            let peak = gpu.peak(dtype).ok_or_else(|| match *dtype {
                "" => "the type of some products is not known".to_owned(),
                dtype => format!("no {dtype} peak for {}", gpu.name),
            })?;
            sum += flops / peak.dense * 1e9;
        }
        Ok(sum)
    }
}
