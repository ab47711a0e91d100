//! Upper bounds of gains: how short a stage could be without one overhead. Bounds overlap and are never added up.

#[cfg(test)]
mod tests;

use crate::engine::stage_stats::Summary;
use crate::engine::tiers::Tier;
use crate::kernels::gemm;
use crate::time::idle::{Cause, StageIdle};
use crate::{Context, Known, Missing};
use rooflens_session::{Ns, ProcessId};
use rooflens_units::{Ratio, Time};

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
    /// Time that would vanish of all instances.
    pub gone: Ns,
    /// The time that it is a part of.
    pub of: Ns,
    /// Stage time now.
    pub time: Time,
}

impl Overhead {
    /// What would vanish of a line's time; kernels aside.
    fn of(self, line: &StageIdle) -> Ns {
        match self {
            Self::Launching => line.of(Cause::Launching),
            Self::Host => line.pool.causes.sum(&Cause::HOST),
            // The link still carries them, both directions at once at best.
            Self::Copies => {
                let copies = line.busy_of(Tier::Copy);
                copies.min(line.pool.time - copies / 2)
            }
            Self::Communication => line.busy_of(Tier::Communication),
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
    /// Stage time without it.
    pub fn new_time(&self) -> Time {
        self.time - self.gain()
    }

    /// Time that is gained at most.
    pub fn gain(&self) -> Time {
        if self.of > Ns::ZERO {
            self.time * Ratio::of(self.gone, self.of)
        } else {
            Time::ZERO
        }
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
    let parts = group
        .iter()
        .map(|line| (overhead.of(line), line.pool.time))
        .filter(|(_, time)| *time > Ns::ZERO);
    // Of the GPUs the one that gains least, as a share of its time.
    let least = parts.min_by(|a, b| {
        let part = |part_time: Ns, of: Ns| i128::from(part_time.0) * i128::from(of.0);
        part(a.0, b.1).cmp(&part(b.0, a.1))
    });
    let (gone, of) = least.ok_or(Missing("missing.stage_kernel"))?;
    if matches!(overhead, Overhead::Launching | Overhead::Host) {
        group[0].has_calls()?;
    }
    Ok(UpperBound {
        overhead,
        gone,
        of,
        time: group[0].summary.time,
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
    let (of, time) = (line.pool.time, line.summary.time);
    let gone = (*above * line.instances.len() as f64).round();
    Ok(UpperBound {
        overhead: Overhead::MatrixProducts,
        gone,
        of,
        time,
    })
}
