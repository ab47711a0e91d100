//! Upper bounds of gains: how short a stage could be without one overhead. Bounds overlap and are never added up.

#[cfg(test)]
mod tests;

use crate::engine::stage_stats::Summary;
use crate::engine::tiers::Tier;
use crate::kernels::gemm;
use crate::time::idle::line::Parts;
use crate::time::idle::{Cause, StageIdle};
use crate::{Context, Known, Missing};
use rooflens_session::{Ns, ProcessId};
use rooflens_units::Time;

rooflens_stages::labels! {
    /// An overhead whose removal is bounded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Overhead {
        /// Gaps in which the host launches.
        Launching,
        /// Gaps for which the host had not issued the next operation.
        Host,
        /// Copies that no kernel hides.
        Copies,
        /// Collectives that no kernel hides.
        Communication,
        /// Time of GEMMs above their roofline.
        MatrixProducts,
    }
}

/// The bounds of all stages.
pub struct UpperBounds {
    /// One a stage and process, in the reading order of idle time.
    pub stages: Vec<StageBounds>,
}

/// The bounds of a stage as one process ran it.
pub struct StageBounds {
    /// The stage.
    pub summary: Summary,
    /// In the order of [`Overhead::ALL`].
    pub bounds: [Known<UpperBound>; Overhead::ALL.len()],
}

/// An upper bound of what can be gained: of the GPU that gains least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpperBound {
    /// The removed overhead.
    pub overhead: Overhead,
    /// Stage time now.
    pub time: Time,
    /// Stage time without it.
    pub new_time: Time,
}

impl Overhead {
    /// What would vanish of an instance; kernels aside.
    fn of(self, parts: &Parts) -> Ns {
        match self {
            Self::Launching => parts.causes.of(Cause::Launching),
            Self::Host => parts.causes.sum(&Cause::HOST),
            // The link still carries them, both directions at once at best.
            Self::Copies => {
                let copies = parts.busy[Tier::Copy as usize];
                copies.min(parts.time - copies / 2)
            }
            Self::Communication => parts.busy[Tier::Communication as usize],
            Self::MatrixProducts => Ns::ZERO,
        }
    }
}

impl UpperBounds {
    /// Those of a stage (an index into the facts' stages) as a process ran it.
    pub fn of(&self, stage: usize, process: ProcessId) -> Option<&StageBounds> {
        let mut stages = self.stages.iter();
        stages.find(|bounds| bounds.summary.stage == stage && bounds.summary.process == process)
    }
}

impl StageBounds {
    /// The bound if that were away.
    ///
    /// # Errors
    /// What is missing to know it.
    pub const fn get(&self, overhead: Overhead) -> &Known<UpperBound> {
        &self.bounds[overhead as usize]
    }

    /// The bounds that are known.
    pub fn known(&self) -> impl Iterator<Item = &UpperBound> {
        self.bounds.iter().flatten()
    }
}

impl StageBounds {
    /// One bound of a stage of the first process.
    pub fn made(stage: usize, bound: UpperBound) -> Self {
        let bound_of = |overhead| {
            if overhead == bound.overhead {
                Ok(bound)
            } else {
                Err(Missing("missing.not_computed"))
            }
        };
        let summary = Summary {
            stage,
            ..Summary::default()
        };
        Self {
            summary,
            bounds: Overhead::ALL.map(bound_of),
        }
    }
}

impl UpperBound {
    /// Time that is gained at most.
    pub fn gain(&self) -> Time {
        self.time - self.new_time
    }
}

/// Bounds the gains of all stages with idle time.
pub fn compute(context: &Context<'_>) -> Known<UpperBounds> {
    let (lines, ..) = context.results.idle()?.ordered(context);
    let products = gemm::above_roofline(context);
    // One group a stage and process: a stage is as slow as its slowest GPU.
    let same = |a: &&StageIdle, b: &&StageIdle| {
        (a.summary.stage, a.summary.process) == (b.summary.stage, b.summary.process)
    };
    let of_group = |group: &[&StageIdle]| {
        let bounds = Overhead::ALL.map(|overhead| match overhead {
            Overhead::MatrixProducts => of_products(&products, group),
            _ => bound(group, overhead),
        });
        StageBounds {
            summary: group[0].summary.clone(),
            bounds,
        }
    };
    Ok(UpperBounds {
        stages: lines.chunk_by(same).map(of_group).collect(),
    })
}

fn bound(group: &[&StageIdle], overhead: Overhead) -> Known<UpperBound> {
    if matches!(overhead, Overhead::Launching | Overhead::Host) {
        group[0].has_calls()?;
    }
    let time = group[0].time;
    // A stage is as slow as its slowest GPU.
    let without = |line: &&StageIdle| line.without(|parts| overhead.of(parts)).min(time);
    let new_time = group.iter().map(without).reduce(Time::max);
    Ok(UpperBound {
        overhead,
        time,
        new_time: new_time.ok_or(Missing("missing.stage_kernel"))?,
    })
}

/// The bound by GEMMs, of a stage on one GPU: of several, products would have to be distinguished by GPU.
fn of_products(products: &[(usize, ProcessId, Time)], group: &[&StageIdle]) -> Known<UpperBound> {
    let product = |line: &StageIdle| {
        let key = (line.summary.stage, line.summary.process);
        products
            .iter()
            .find(|key_time| (key_time.0, key_time.1) == key)
    };
    let ([line], Some((.., above))) = (group, product(group[0])) else {
        return Err(Missing("missing.product_sizes"));
    };
    Ok(UpperBound {
        overhead: Overhead::MatrixProducts,
        time: line.time,
        new_time: (line.time - *above).max(Time::ZERO),
    })
}
