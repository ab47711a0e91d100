//! The timeline: what the GPU does over time, how much of it is in use, and instances of stages close up.

mod bands;
pub mod bins;
pub mod iterations;
pub mod overview;
pub mod sampled;
#[cfg(test)]
mod tests;
pub mod zoom;

use crate::system::power;
use crate::{Context, Known};
use rooflens_session::{GpuId, PassId};

use iterations::Iteration;
use overview::Overview;
use sampled::{Counter, GpuCounters};
use zoom::Zoom;

/// Passes over time.
#[derive(Default)]
pub struct Timeline {
    /// The primary pass, and the first other one with samples if it has none.
    pub passes: Vec<Overview>,
    /// Median instances of the stages of the primary pass with the most time.
    pub zooms: Vec<Zoom>,
    /// Iterations of the run's stages with all their operations.
    pub iterations: Vec<Iteration>,
    /// Sampled counters, by (pass, GPU).
    pub counters: Vec<GpuCounters>,
}

/// Passes that are shown.
const MAX_PASSES: usize = 2;

impl Timeline {
    /// The sampled counters of a GPU.
    pub fn counters_of(&self, pass: PassId, gpu: GpuId) -> Option<&GpuCounters> {
        self.counters
            .iter()
            .find(|samples| (samples.pass, samples.gpu) == (pass, gpu))
    }

    /// Whether several GPUs of a pass were sampled.
    pub fn samples_several(&self, pass: PassId) -> bool {
        self.counters
            .iter()
            .filter(|samples| samples.pass == pass)
            .count()
            > 1
    }

    /// Mean of a counter in a stage (an index into `Facts::stages`) of which one GPU was sampled.
    pub fn mean(&self, stage: usize, counter: Counter) -> Option<f64> {
        let mut of_pass = self
            .counters
            .iter()
            .filter_map(|gpu| Some((gpu, gpu.stages.iter().find(|sums| sums.stage == stage)?)));
        let (gpu, sums) = of_pass.next()?;
        sums.mean(counter)
            .filter(|_| !self.samples_several(gpu.pass))
    }
}

/// Cuts the passes into stretches; never missing, but empty without operations that last.
pub fn compute(context: &Context<'_>) -> Known<Timeline> {
    let counters = sampled::counters(context);
    let passes = shown_passes(context, &counters).into_iter();
    let passes: Vec<Overview> = passes
        .filter_map(|pass| overview::of_pass(context, pass))
        .collect();
    let zooms = passes
        .first()
        .map_or_else(Vec::new, |primary| zoom::find(context, primary));
    Ok(Timeline {
        passes,
        zooms,
        iterations: iterations::find(context),
        counters,
    })
}

/// The primary pass, and of the others the first with samples that it lacks.
fn shown_passes(context: &Context<'_>, counters: &[GpuCounters]) -> Vec<PassId> {
    let (session, table) = (context.session, &context.facts.ops);
    let Some(primary) = context.facts.primary_pass(session) else {
        return Vec::new();
    };
    let nvml = |pass: PassId| {
        let origin = session.passes.utc_origin[pass.index()]?;
        let ops = context.facts.ops_of(pass);
        let window = (
            table.start[ops.clone().next()?],
            ops.map(|row| table.end[row]).max()?,
        );
        let devices = power::sampled(context);
        Some(
            devices
                .iter()
                .any(|device| device.within(origin, window).len() > 1),
        )
    };
    let sampled =
        |pass| nvml(pass) == Some(true) || counters.iter().any(|samples| samples.pass == pass);
    let mut passes = vec![primary];
    if !sampled(primary) {
        let secondary = session
            .passes
            .ids()
            .filter(|pass| *pass != primary && sampled(*pass));
        passes.extend(secondary.take(MAX_PASSES - 1));
    }
    passes
}
