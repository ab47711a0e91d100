//! Results of one stage.

use std::collections::{BTreeMap, BTreeSet};

use crate::evidence::Evidence;
use crate::stage::{Key, StageLine};
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::counters::limits::KernelLimits;
use rooflens_analysis::counters::roofline::workload;
use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::kernel_sums::PassKernels;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::operators::chains::{self, Chains};
use rooflens_analysis::time::graphs::{StageGraph, StageReplays};
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_session::{PassId, ThreadId};
use rooflens_units::{Ratio, Time};

/// Checks for NaN of an iteration from which on each operator is checked, and not a loss or a norm.
pub(crate) const NAN_CHECKS: u64 = 16;

/// Whether a kernel compares two tensors: a value that is not itself is NaN. A comparison with a number is no check.
pub(crate) fn is_nan_comparison(name: &str) -> bool {
    name.contains("CompareEqFunctor") && name.contains("BinaryFunctor")
}

/// Whether a kernel makes one flag of those of all values.
pub(crate) fn is_nan_flag(name: &str) -> bool {
    name.contains("or_kernel_cuda")
}

fn most_frequent(threads: impl Iterator<Item = ThreadId>) -> Option<ThreadId> {
    let mut counts: BTreeMap<ThreadId, usize> = BTreeMap::new();
    for thread in threads {
        *counts.entry(thread).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(thread, _)| thread)
}

impl StageLine {
    /// Whether it is the stage of this summary.
    pub(crate) fn is(&self, summary: &Summary) -> bool {
        is(self.key(), summary)
    }
}

/// Whether a stage of a process is that of a summary.
pub(crate) fn is(stage: Key, summary: &Summary) -> bool {
    stage == (summary.stage, summary.process)
}

impl<'a> Evidence<'a> {
    /// Medians over the instances of a stage.
    pub(crate) fn summary(&self, stage: &StageLine) -> Option<&'a Summary> {
        let mut summaries = self.facts.summaries.iter();
        summaries.find(|summary| stage.is(summary))
    }

    /// The groups of kernels of a stage, whose pass may be another one: by its name.
    pub(crate) fn place<'c>(
        &self,
        chains: &'c Chains,
        stage: &StageLine,
    ) -> Option<&'c chains::Place> {
        let of_rank = |place: &&chains::Place| {
            let summary = place.stage.as_ref();
            summary.is_some_and(|summary| stage.is(summary))
        };
        let of_name = |place: &&chains::Place| {
            let summary = place.stage.as_ref();
            let name = summary.map(|summary| summary.stage(self.facts).name.as_str());
            name.is_some() && name == stage.scope.stage.as_deref()
        };
        let mut places = chains.places.iter();
        places
            .clone()
            .find(of_rank)
            .or_else(|| places.find(of_name))
    }

    /// The calls of the model in each measured iteration of a stage, rows of `model_calls` in order.
    pub(crate) fn model_calls(&self, stage: &StageLine) -> Vec<Vec<usize>> {
        let calls = &self.session.model_calls;
        let mut rows: Vec<usize> = (0..calls.len()).collect();
        rows.sort_unstable_by_key(|row| (calls.thread[*row], calls.start[*row], *row));
        let before = |thread, time| {
            rows.partition_point(|row| (calls.thread[*row], calls.start[*row]) < (thread, time))
        };
        let summary = self.summary(stage).into_iter();
        let instances = summary.flat_map(|summary| summary.counted_instances(self.facts));
        let mut of_instances = Vec::new();
        for instance in instances {
            let Some(thread) = instance.thread else {
                continue;
            };
            let (first, end) = (
                before(thread, instance.host_start),
                before(thread, instance.host_end),
            );
            of_instances.push(rows[first..end].to_vec());
        }
        of_instances
    }

    /// Times of the measured iterations of a stage.
    pub(crate) fn iterations(&self, stage: &StageLine) -> Vec<Time> {
        let summary = self.summary(stage).into_iter();
        let instances = summary.flat_map(|summary| summary.counted_instances(self.facts));
        instances
            .filter_map(|instance| Some(instance.time()?.time()))
            .collect()
    }

    /// GPU operations of a stage by class.
    pub(crate) fn work(&self, stage: Key) -> Option<&'a StageWork> {
        let mut work = self.results.stage_work().ok()?.iter();
        work.find(|work| is(stage, &work.summary))
    }

    /// Time from the first launch of an iteration to its last, under the profiler, without waits of the host.
    pub(crate) fn launching(&self, stage: &StageLine) -> Option<Time> {
        self.idle(stage.key())?.launches.span
    }

    /// Launches of the kernels with such names.
    pub(crate) fn launches(&self, work: &StageWork, is: impl Fn(&str) -> bool) -> u64 {
        let named = work.kernels.iter();
        let named = named.filter(|(kernel, ..)| is(self.session.kernel_name(*kernel)));
        named.map(|(_, launches, _)| launches).sum()
    }

    /// Checks for NaN in an iteration of a stage that trains, each a comparison of a tensor with itself and a reduction to one
    /// flag; none where they are few.
    pub(crate) fn nan_checks(&self, stage: &StageLine) -> Option<f64> {
        let work = self
            .work(stage.key())
            .filter(|_| stage.kind.is_training())?;
        let comparisons = self.launches(work, is_nan_comparison);
        let checks = comparisons.min(self.launches(work, is_nan_flag));
        let checks = work.per_instance(checks as f64);
        (checks >= NAN_CHECKS as f64 && !self.checks_itself(work.pass)).then_some(checks)
    }

    /// Whether the thread with most ranges issues the checks for NaN of a pass: the program's own code. Anomaly detection
    /// runs on the thread of the backward pass.
    fn checks_itself(&self, pass: PassId) -> bool {
        let (launches, calls) = (&self.session.launches, &self.session.api_calls);
        let ranges = &self.session.ranges;
        let is_flag = |row: &usize| {
            let name = self.session.kernel_name(launches.kernel[*row]);
            launches.pass[*row] == pass && is_nan_flag(name)
        };
        let flags = (0..launches.len()).filter(is_flag);
        let flags: BTreeSet<i64> = flags.filter_map(|row| launches.correlation[row]).collect();
        let issues_flag = |row: &usize| {
            let correlation = calls.correlation[*row];
            calls.pass[*row] == pass && correlation.is_some_and(|call| flags.contains(&call))
        };
        let issuing = (0..calls.len()).filter(issues_flag);
        let issuing = most_frequent(issuing.map(|row| calls.thread[row]));
        let of_pass = (0..ranges.len()).filter(|row| ranges.pass[*row] == pass);
        issuing.is_some() && issuing == most_frequent(of_pass.map(|row| ranges.thread[row]))
    }

    /// Whether names alone show groups of kernels: no operators with sizes were recorded.
    pub(crate) fn has_only_names(&self) -> bool {
        self.results.chains().map_or(true, |chains| chains.by_names)
    }

    /// Busy time of a stage by group of classes.
    pub(crate) fn stage_time(&self, stage: Key) -> Option<&'a StageTime> {
        let mut times = self.results.stage_times().ok()?.stages.iter();
        times.find(|time| is(stage, &time.summary))
    }

    /// Replays of CUDA graphs in a stage.
    pub(crate) fn replays(&self, stage: &StageLine) -> Option<&'a StageReplays> {
        let mut replays = self.results.graphs().ok()?.stages.iter();
        replays.find(|replays| stage.is(&replays.summary))
    }

    /// The share of the operations of a stage that CUDA graphs replay.
    pub(crate) fn replayed_share(&self, stage: &StageLine) -> Ratio {
        let operations = (stage.operations.0 * stage.counted.0).max(1.0);
        let replays = self.replays(stage);
        let replayed = replays.map_or(0.0, |replays| replays.figures.operations as f64);
        Ratio(replayed / operations).min(Ratio::ONE)
    }

    /// Whether most operations of a stage are replayed by CUDA graphs.
    pub(crate) fn replays_graphs(&self, stage: &StageLine) -> bool {
        self.replays(stage).is_some() && self.replayed_share(stage) >= Ratio(0.5)
    }

    /// The CUDA graph with the kernels of a stage that launches them one by one, where replays of it are timed.
    pub(crate) fn replay(&self, stage: &StageLine) -> Option<&'a StageGraph> {
        for graph in &self.results.graphs().ok()?.by_stage {
            if let Some(eager) = &graph.eager
                && stage.is(eager)
            {
                return Some(graph).filter(|graph| graph.figures.time.is_some());
            }
        }
        None
    }

    /// The other stage of the program that replays this graph.
    pub(crate) fn replayed_in(&self, stage: &StageLine) -> Option<&'a str> {
        let replaying = self.replay(stage)?.stage?;
        let name = self.facts.stages[replaying].name.as_str();
        (replaying != stage.stage).then_some(name)
    }

    /// GEMMs of a stage.
    pub(crate) fn gemms(&self, stage: &StageLine) -> Option<&'a StageProducts> {
        let mut products = self.results.gemm().ok()?.iter();
        products.find(|products| stage.is(&products.summary))
    }

    /// The least time of the kernels of a stage.
    pub(crate) fn limits(&self, stage: &StageLine) -> Option<&'a KernelLimits> {
        let mut stages = self.results.limits().ok()?.stages.iter();
        let (_, limits) = stages.find(|(summary, _)| stage.is(summary))?;
        Some(limits)
    }

    /// Attention of a stage.
    pub(crate) fn attention(&self, stage: &StageLine) -> Option<&'a StageProducts> {
        let mut products = self.results.attention().ok()?.iter();
        products.find(|products| stage.is(&products.summary))
    }

    /// FLOPs of a stage by source.
    pub(crate) fn flops(&self, stage: &StageLine) -> Option<&'a StageFlops> {
        let mut flops = self.results.flops().ok()?.iter();
        flops.find(|flops| stage.is(&flops.summary))
    }

    /// MFU and MBU of a stage in its profiled pass.
    pub(crate) fn utilization(&self, stage: &StageLine) -> Option<&'a StageUtilization> {
        for utilization in &self.results.utilization().ok()?.stages {
            if let Some(summary) = &utilization.timed.profiled
                && stage.is(summary)
            {
                return Some(utilization);
            }
        }
        None
    }

    /// MFU and MBU of its unprofiled repeats.
    pub(crate) fn unprofiled_utilization(&self, stage: &StageLine) -> Option<&'a StageUtilization> {
        let series = self.unprofiled_series(stage)?;
        self.results
            .utilization()
            .ok()?
            .unprofiled(self.session, series)
    }

    /// The unprofiled repeats of a stage whose times compare with those of the pass.
    pub(crate) fn unprofiled_series(&self, stage: &StageLine) -> Option<&'a Series> {
        stage.unprofiled.and_then(|_| self.repeats(stage))
    }

    /// The unprofiled repeats of a stage, also of loops of unknown length.
    pub(crate) fn repeats(&self, stage: &StageLine) -> Option<&'a Series> {
        let name = stage.scope.stage.as_deref();
        let name = name.filter(|_| stage.scope.rank.is_none())?;
        self.results.baseline().ok()?.unprofiled(self.session, name)
    }

    /// Copies of a stage; none if it does not copy.
    pub(crate) fn copies(&self, stage: &StageLine) -> Option<&'a Place> {
        for place in &self.results.transfers().ok()?.places {
            if let Some(summary) = &place.stage
                && stage.is(summary)
            {
                return Some(place).filter(|place| !place.directions().is_empty());
            }
        }
        None
    }

    /// Communication of a stage.
    pub(crate) fn communication(&self, stage: &StageLine) -> Option<&'a RankTimes> {
        let communication = self.results.communication().ok()?;
        communication.of_stage(self.summary(stage)?)
    }

    /// Executed work of a stage, by counters of the profiled launches that represent it.
    pub(crate) fn executed(&self, stage: &StageLine) -> Option<&'a workload::StageWork> {
        let mut work = self.results.workload().ok()?.profiled().iter();
        work.find(|work| stage.is(&work.summary))
    }

    /// What figures of the profiled launches of a pass rest on.
    pub(crate) fn profile_evidence(&self, pass: PassId) -> Vec<rooflens_schemas::Evidence> {
        match self.results.counters() {
            Ok(counters) => vec![counters.evidence(self.session, pass)],
            Err(_) => Vec::new(),
        }
    }

    /// Kernels of the pass that shows them.
    pub(crate) fn kernels(&self) -> Option<&'a PassKernels> {
        let mut passes = self.results.kernels().ok()?.iter();
        passes.find(|kernels| Some(kernels.pass) == self.kernel_pass)
    }
}
