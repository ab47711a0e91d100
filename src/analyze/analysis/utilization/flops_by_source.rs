//! FLOPs of each stage from all sources side by side, and the time that they would take at the peaks.

use std::collections::BTreeMap;

use super::Unavailable;
use super::mfu::hfu;
use crate::counters::roofline::workload::StageWork;
use crate::engine::classify::KernelClass;
use crate::engine::facts::OpIndex;
use crate::engine::measured_peaks::gpu_name;
use crate::engine::sm_clock::Clocks;
use crate::engine::stage_stats::Summary;
use crate::kernels::matmul::roof::dtype;
use crate::kernels::matmul::{Product, Products, Source};
use crate::{Context, Known};
use rooflens_hardware::Gpu;
use rooflens_session::{Ns, PassId};
use rooflens_units::{Flops, Hertz, Ratio, Time};

/// FLOPs of a stage, of one process.
#[derive(Clone, Debug)]
pub struct StageFlops {
    /// Pass.
    pub pass: PassId,
    /// The stage.
    pub summary: Summary,
    /// What its kernels add up to.
    pub sums: FlopSums,
    /// Mean SM clock, and where it is from.
    pub clock: Option<(Hertz, &'static str)>,
    /// Σ FLOPs ÷ specified dense rate over dtypes.
    pub ideal_time: Result<Time, Unavailable>,
    /// Ideal time ÷ stage time.
    pub utilization: Result<Ratio, Unavailable>,
    /// MFU at the peak of the measured clock.
    pub clock_normalized: Result<Ratio, Unavailable>,
    /// Model FLOPs, causal and with full attention.
    pub model: Option<(Flops, Flops)>,
    /// Model FLOPs utilization.
    pub mfu: Result<Ratio, Unavailable>,
    /// Model bandwidth utilization.
    pub mbu: Option<Ratio>,
    /// FLOPs by counters.
    pub executed: Option<Flops>,
    /// Hardware FLOPs utilization, by counters.
    pub hfu: Option<Ratio>,
}

/// FLOPs of a stage's kernels by source, per counted instance, and the time of the kernels over all of them.
#[derive(Clone, Debug, Default)]
pub struct FlopSums {
    /// By operators' shapes, under the mask and of all pairs; none if no kernel has its sizes from one.
    pub operators: Option<(Flops, Flops)>,
    /// By the cuBLASLt log, of GEMMs alone.
    pub logged: Option<Flops>,
    /// By all sources together, by dtype of the peak.
    pub by_dtype: BTreeMap<&'static str, Flops>,
    /// By all sources together, of all pairs of attention.
    pub full: Flops,
    /// Time of all operations.
    pub total: Ns,
    /// That of operations whose FLOPs are known.
    pub known: Ns,
    /// That of matrix kernels.
    pub matrix: Ns,
    /// That of matrix kernels whose FLOPs are known.
    pub matrix_known: Ns,
    /// That of operations whose FLOPs are not known, by class.
    pub unknown: BTreeMap<KernelClass, Ns>,
    /// GEMM kernels of which the log knows the sizes, and all of known sizes.
    pub log_matched: (u64, u64),
}

/// All stages of all passes with GPU work, the primary pass first; empty if the FLOPs of none are known.
pub fn compute(context: &Context<'_>) -> Known<Vec<StageFlops>> {
    let facts = context.facts;
    let (products, work) = (context.results.matmul()?, context.results.stage_work()?);
    let executed = context
        .results
        .workload()
        .map_or(&[][..], |workload| &workload.stages);
    let mut stages = Vec::new();
    for pass in facts.primary_first(context.session) {
        let clocks = Clocks::of(context, pass, None);
        for work in work.iter().filter(|work| work.pass == pass) {
            let sums = FlopSums::of(context, products, &work.summary);
            stages.push(stage(
                context,
                &work.summary,
                sums,
                clocks.as_ref(),
                executed,
            ));
        }
    }
    let has_flops = stages
        .iter()
        .any(|stage: &StageFlops| stage.sums.flops().is_some());
    Ok(if has_flops { stages } else { Vec::new() })
}

fn stage(
    context: &Context<'_>,
    summary: &Summary,
    sums: FlopSums,
    clocks: Option<&Clocks>,
    executed: &[StageWork],
) -> StageFlops {
    let (session, facts) = (context.session, context.facts);
    let pass = summary.stage(facts).pass;
    let gpu = context.gpu_spec(&gpu_name(session, Some(pass)));
    let times = summary
        .counted_instances(facts)
        .filter_map(|instance| instance.projection);
    let clock = clocks.and_then(|clocks| Some((clocks.mean(times)?, clocks.source)));
    let stages = context
        .results
        .utilization()
        .map_or(&[][..], |utilization| &utilization.stages);
    let stage_utilization = stages.iter().find(|one| one.timed.is_of(summary));
    let mfu = stage_utilization.map_or(Err(Unavailable::NoFormula), |stage_utilization| {
        stage_utilization.mfu()
    });
    let key = (summary.stage, summary.process);
    let executed = executed
        .iter()
        .find(|stage_flops| (stage_flops.summary.stage, stage_flops.summary.process) == key);
    let ideal_time = sums.ideal_time(gpu);
    let utilization = match &ideal_time {
        _ if summary.time <= Time::ZERO => Err(Unavailable::NoTime),
        Ok(ideal) => Unavailable::unless_possible(Ratio(*ideal / summary.time)),
        Err(reason) => Err(reason.clone()),
    };
    StageFlops {
        pass,
        summary: summary.clone(),
        sums,
        clock,
        ideal_time,
        utilization,
        clock_normalized: clock_normalized(&mfu, clock, gpu),
        model: stage_utilization
            .and_then(|stage_utilization| stage_utilization.work.as_ref().ok())
            .map(|w| (w.flops, w.flops_full)),
        mfu,
        mbu: stage_utilization.and_then(|stage_utilization| stage_utilization.mbu().ok()),
        executed: executed.and_then(StageWork::executed_flops),
        hfu: executed.and_then(|stage| Some(hfu(context, stage).ok()?.share)),
    }
}

fn clock_normalized(
    mfu: &Result<Ratio, Unavailable>,
    clock: Option<(Hertz, &'static str)>,
    gpu: Option<&Gpu>,
) -> Result<Ratio, Unavailable> {
    let mfu = mfu.clone()?;
    let (clock, _) = clock.ok_or(Unavailable::NoClock)?;
    let boost = gpu
        .map(|gpu| gpu.boost_hz)
        .filter(Hertz::is_positive)
        .ok_or(Unavailable::NoGpu)?;
    Unavailable::unless_possible(Ratio(boost * mfu / clock))
}

impl FlopSums {
    fn of(context: &Context<'_>, products: &Products, summary: &Summary) -> Self {
        let mut sums = Self::default();
        for op in summary
            .counted_instances(context.facts)
            .flat_map(|instance| &instance.ops)
        {
            sums.add(context, products, *op);
        }
        let instances = summary.counted.max(1) as f64;
        sums.operators = sums
            .operators
            .map(|(flops, full)| (flops / instances, full / instances));
        sums.logged = sums.logged.map(|flops| flops / instances);
        sums.by_dtype
            .values_mut()
            .for_each(|flops| *flops = *flops / instances);
        sums.full = sums.full / instances;
        sums
    }

    fn add(&mut self, context: &Context<'_>, products: &Products, op: OpIndex) {
        let (session, facts) = (context.session, context.facts);
        let row = op as usize;
        let time = facts.ops.end[row].saturating_sub(facts.ops.start[row]);
        self.total = self.total.saturating_add(time);
        let identity = facts
            .kernel(session, op)
            .map(|kernel| &facts.identities[kernel.index()]);
        let class = identity.map_or(KernelClass::Copy, |identity| identity.class);
        let matrix = if class.is_matrix_work() {
            time
        } else {
            Ns::ZERO
        };
        self.matrix = self.matrix.saturating_add(matrix);
        let Some(product) = products.get(op) else {
            let sum = self.unknown.entry(class).or_default();
            *sum = sum.saturating_add(time);
            return;
        };
        self.known = self.known.saturating_add(time);
        self.matrix_known = self.matrix_known.saturating_add(matrix);
        let logged = products.logged(op);
        if product.main && class == KernelClass::Gemm {
            self.log_matched.1 += 1;
            self.log_matched.0 += u64::from(logged.is_some());
        }
        if let Some(logged) = logged.filter(|logged| logged.main) {
            *self.logged.get_or_insert(Flops::ZERO) += logged.shape.flops();
        }
        if let Some(identity) = identity.filter(|_| product.main) {
            self.count(product, dtype(identity, product));
        }
    }

    fn count(&mut self, product: &Product, dtype: &'static str) {
        let (flops, full) = (product.shape.flops(), product.shape.flops_full());
        *self.by_dtype.entry(dtype).or_default() += flops;
        self.full += full;
        if matches!(
            product.source,
            Source::Operator | Source::SameOrder | Source::Aligned
        ) {
            let sum = self.operators.get_or_insert_default();
            *sum = (sum.0 + flops, sum.1 + full);
        }
    }

    /// FLOPs by all sources together.
    pub fn flops(&self) -> Option<Flops> {
        (!self.by_dtype.is_empty()).then(|| self.by_dtype.values().sum())
    }

    /// Share of the GPU time of which the FLOPs are known.
    pub fn coverage(&self) -> Option<Ratio> {
        (self.total > Ns::ZERO).then(|| Ratio::of(self.known, self.total))
    }

    /// Σ FLOPs ÷ peak over dtypes.
    fn ideal_time(&self, gpu: Option<&Gpu>) -> Result<Time, Unavailable> {
        if self.by_dtype.is_empty() {
            return Err(Unavailable::NoSizes);
        }
        let gpu = gpu.ok_or(Unavailable::NoGpu)?;
        let mut sum = Time::ZERO;
        for (dtype, flops) in &self.by_dtype {
            let no_peak = || Unavailable::NoPeak {
                dtype: (*dtype).to_owned(),
                gpu: gpu.name.clone(),
            };
            let peak = gpu.peak(dtype).ok_or_else(no_peak)?;
            sum += (*flops / peak.dense).time();
        }
        Ok(sum)
    }
}
