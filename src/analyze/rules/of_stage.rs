//! What the typed results say of a stage, found by its ids.

use crate::evidence::Evidence;
use crate::stage::{Key, StageLine};
use rooflens_analysis::communication::lines::Line;
use rooflens_analysis::counters::roofline::workload;
use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::kernel_sums::PassKernels;
use rooflens_analysis::kernels::matmul::stages::StageProducts;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::memory::transfers::Place;
use rooflens_analysis::time::graphs::{StageGraph, StageReplays};
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_analysis::utilization::flops_by_source::StageFlops;
use rooflens_analysis::utilization::mfu::StageUtilization;
use rooflens_session::PassId;

impl StageLine {
    /// Whether it is the stage of this summary.
    pub(crate) fn is(&self, summary: &Summary) -> bool {
        is(self.key(), summary)
    }
}

/// Whether a stage is that of this summary.
fn is(stage: Key, summary: &Summary) -> bool {
    stage == (summary.stage, summary.process)
}

impl<'a> Evidence<'a> {
    /// Medians over the instances of a stage.
    pub(crate) fn summary(&self, stage: &StageLine) -> Option<&'a Summary> {
        self.facts.summaries.iter().find(|one| stage.is(one))
    }

    /// GPU operations of a stage by class.
    pub(crate) fn work(&self, stage: Key) -> Option<&'a StageWork> {
        self.results
            .stage_work()
            .ok()?
            .iter()
            .find(|one| is(stage, &one.summary))
    }

    /// Busy time of a stage by group of classes.
    pub(crate) fn stage_time(&self, stage: Key) -> Option<&'a StageTime> {
        self.results
            .stage_times()
            .ok()?
            .of_primary()
            .find(|one| is(stage, &one.summary))
    }

    /// Replays of CUDA graphs in a stage.
    pub(crate) fn replays(&self, stage: &StageLine) -> Option<&'a StageReplays> {
        self.results
            .graphs()
            .ok()?
            .stages
            .iter()
            .find(|one| stage.is(&one.summary))
    }

    /// Whether most operations of a stage are replayed by CUDA graphs.
    pub(crate) fn replays_graphs(&self, stage: &StageLine) -> bool {
        let half = stage.operations * stage.counted / 2.0;
        self.replays(stage)
            .is_some_and(|own| own.figures.operations as f64 >= half)
    }

    /// The CUDA graph with the kernels of a stage that launches them one by one, where replays of it are timed.
    pub(crate) fn replay(&self, stage: &StageLine) -> Option<&'a StageGraph> {
        let graphs = self.results.graphs().ok()?;
        let own = |one: &&StageGraph| one.eager.as_ref().is_some_and(|eager| stage.is(eager));
        graphs
            .by_stage
            .iter()
            .find(own)
            .filter(|graph| graph.figures.time.is_some())
    }

    /// GEMMs of a stage.
    pub(crate) fn gemms(&self, stage: &StageLine) -> Option<&'a StageProducts> {
        self.results
            .gemm()
            .ok()?
            .iter()
            .find(|one| stage.is(&one.summary))
    }

    /// Attention of a stage.
    pub(crate) fn attention(&self, stage: &StageLine) -> Option<&'a StageProducts> {
        self.results
            .attention()
            .ok()?
            .iter()
            .find(|one| stage.is(&one.summary))
    }

    /// FLOPs of a stage by source.
    pub(crate) fn flops(&self, stage: &StageLine) -> Option<&'a StageFlops> {
        self.results
            .flops()
            .ok()?
            .iter()
            .find(|one| stage.is(&one.summary))
    }

    /// MFU and MBU of a stage in its profiled pass.
    pub(crate) fn utilization(&self, stage: &StageLine) -> Option<&'a StageUtilization> {
        let mut all = self.results.utilization().ok()?.stages.iter();
        all.find(|one| {
            one.timed
                .profiled
                .as_ref()
                .is_some_and(|summary| stage.is(summary))
        })
    }

    /// Those of its un-profiled repeats.
    pub(crate) fn unprofiled_utilization(&self, stage: &StageLine) -> Option<&'a StageUtilization> {
        let (pass, name) = (stage.unprofiled_pass.as_ref()?, stage.scope.stage.as_ref()?);
        self.results.utilization().ok()?.unprofiled(pass, name)
    }

    /// The un-profiled repeats of a stage.
    pub(crate) fn unprofiled_series(&self, stage: &StageLine) -> Option<&'a Series> {
        let name = stage.unprofiled.and(stage.scope.stage.as_deref())?;
        self.results.baseline().ok()?.unprofiled(self.session, name)
    }

    /// Copies of a stage; none if it does not copy.
    pub(crate) fn copies(&self, stage: &StageLine) -> Option<&'a Place> {
        let mut all = self.results.transfers().ok()?.places.iter();
        let own = |one: &&Place| one.stage.as_ref().is_some_and(|summary| stage.is(summary));
        all.find(own).filter(|place| !place.directions().is_empty())
    }

    /// Communication of a stage.
    pub(crate) fn communication(&self, stage: &StageLine) -> Option<&'a Line> {
        self.results
            .communication()
            .ok()?
            .of_stage(self.summary(stage)?)
    }

    /// Executed work of a stage, by counters of the profiled launches that stand for it.
    pub(crate) fn executed(&self, stage: &StageLine) -> Option<&'a workload::StageWork> {
        let all = self.results.workload().ok()?.profiled();
        all.iter().find(|one| stage.is(&one.summary))
    }

    /// What figures of the profiled launches of a pass rest on.
    pub(crate) fn profile_evidence(&self, pass: PassId) -> Vec<rooflens_schemas::Evidence> {
        let counters = self.results.counters().into_iter();
        counters
            .map(|counters| counters.evidence(self.session, pass))
            .collect()
    }

    /// Kernels of the primary pass.
    pub(crate) fn kernels(&self) -> Option<&'a PassKernels> {
        let all = self.results.kernels().ok()?;
        all.iter().find(|one| Some(one.pass) == self.primary)
    }
}
