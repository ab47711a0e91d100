//! Bound classes of profiled launches, by two rules.

use std::fmt;

use super::{KernelCounters, Level, Levels, SpeedOfLight};
use crate::Classifier;
use rooflens_units::{Count, Flops, Percent, Ratio};

/// Threads of a warp.
const WARP: u32 = 32;

rooflens_stages::labels! {
    /// What bounds a launch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Bound {
        /// The SM's pipes.
        Compute = "compute-bound",
        /// They too, with hardly a floating-point operation: index arithmetic, conversions.
        Instruction = "instruction-bound",
        /// Device memory.
        Dram = "dram-bound",
        /// The L2 cache.
        L2 = "l2-bound",
        /// The L1 cache.
        L1 = "l1-bound",
        /// Memory, by the seed rule, which looks at DRAM alone.
        Memory = "memory-bound",
        /// Neither: waiting.
        Latency = "latency-bound",
        /// Compute and memory alike.
        Balanced = "balanced",
        /// No counters.
        Unknown = "unknown",
    }
}

/// A class and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The class.
    pub bound: Bound,
    /// The reason; none where the class says it all.
    pub reason: Option<Reason>,
    /// The nearest other class; absent where there are no counters.
    pub next: Option<Next>,
}

/// Why a launch is in its class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Latency: fewer blocks than fit on the GPU at once.
    SmallGrid,
    /// Latency: few resident warps.
    LowOccupancy,
    /// Latency: what most warps wait for, in ncu's words.
    Stall(String),
    /// Latency: no counter tells.
    NotCounted,
    /// Unknown: these counters are missing.
    No(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallGrid => f.write_str("small grid"),
            Self::LowOccupancy => f.write_str("low occupancy"),
            Self::Stall(reason) => write!(f, "stall: {reason}"),
            Self::NotCounted => f.write_str("cause not counted"),
            Self::No(counters) => write!(f, "no {counters}"),
        }
    }
}

/// A class that a launch would be in if a figure differed a little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// Distance to the threshold.
    pub points: Percent,
    /// The class beyond it.
    pub bound: Bound,
}

impl Verdict {
    /// The nearest other class, if it is so near that the class is a matter of chance.
    pub fn borderline(&self) -> Option<Next> {
        self.next.filter(|next| next.points < THRESHOLDS.borderline)
    }
}

/// The numbers that decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Below this maximum of all speed-of-light figures a launch is latency-bound.
    pub busy: Percent,
    /// Lead of compute over memory, or of a memory level over compute, that decides.
    pub lead: Percent,
    /// A level that is no more than this below the highest one, and farther from the SM, bounds in its place.
    pub tie: Percent,
    /// Fewer waves than this are a small grid.
    pub small_grid_waves: Ratio,
    /// Achieved occupancy below this is low.
    pub low_occupancy: Percent,
    /// Floating-point operations per thread instruction below which pipes are busy with something else.
    pub flops_per_instruction: Flops,
    /// Lead that decides in the seed rule.
    pub seed_margin: Percent,
    /// A launch nearer than this to a threshold is borderline.
    pub borderline: Percent,
}

/// The thresholds of this version. 60 % is where ncu's own rule calls a unit well used. What streams through a cache
/// uses it as much as the memory behind it, give or take what is read twice: 5 points.
pub const THRESHOLDS: Thresholds = Thresholds {
    busy: Percent(60.0),
    lead: Percent(10.0),
    tie: Percent(5.0),
    small_grid_waves: Ratio(1.0),
    low_occupancy: Percent(30.0),
    flops_per_instruction: Flops(0.25),
    seed_margin: Percent(5.0),
    borderline: Percent(2.0),
};

impl Thresholds {
    /// The class by one rule.
    pub fn classify(&self, rule: Classifier, kernel: &KernelCounters) -> Verdict {
        match rule {
            Classifier::Rooflens => self.rooflens(kernel),
            Classifier::Seed => self.seed(&kernel.sol),
        }
    }

    fn rooflens(&self, kernel: &KernelCounters) -> Verdict {
        let levels = &kernel.sol.memory;
        let (Some(compute), Some((_, memory)), Some(level)) =
            (kernel.sol.compute, levels.highest(), self.level(levels))
        else {
            return unknown(&kernel.sol);
        };
        let (bound, next) = self.by_lead(levels, compute, level, memory);
        let bound = if bound == Bound::Compute {
            self.pipes(kernel)
        } else {
            bound
        };
        let (highest, latency) = (compute.max(memory), Bound::Latency);
        if highest < self.busy {
            let next = Next {
                points: self.busy - highest,
                bound,
            };
            let reason = self.latency_reason(kernel);
            return Verdict {
                bound: latency,
                reason: Some(reason),
                next: Some(next),
            };
        }
        let idle = Next {
            points: highest - self.busy,
            bound: latency,
        };
        let next = if idle.points < next.points {
            idle
        } else {
            next
        };
        Verdict {
            bound,
            reason: None,
            next: Some(next),
        }
    }

    /// What keeps the pipes busy: floating-point work, unless it is counted and little.
    fn pipes(&self, kernel: &KernelCounters) -> Bound {
        let (Some(flops), Some(warps)) = (kernel.flops.total(), kernel.instructions) else {
            return Bound::Compute;
        };
        let threads: Count = warps * f64::from(WARP);
        if flops < self.flops_per_instruction * threads {
            Bound::Instruction
        } else {
            Bound::Compute
        }
    }

    /// The level that bounds: of those about as high as the highest the farthest from the SM, where the data are from.
    fn level(&self, levels: &Levels<Percent>) -> Option<Level> {
        let (_, highest) = levels.highest()?;
        let ties = |level: &Level| {
            levels
                .get(*level)
                .is_some_and(|value| highest - value <= self.tie)
        };
        Level::ALL.into_iter().find(ties)
    }

    /// The level that would bound instead, and by how much a figure would have to differ.
    fn next_level(&self, levels: &Levels<Percent>, level: Level, highest: Percent) -> Option<Next> {
        // A farther one that comes near enough to the highest, or a nearer one that leads by more than a tie.
        let level_value = levels.get(level)?;
        let distance = |lower: Level| {
            let value = levels.get(lower)?;
            let points = match lower < level {
                true => highest - value - self.tie,
                false => level_value + self.tie - value,
            };
            Some(Next {
                points,
                bound: of_level(lower),
            })
        };
        let levels_below = Level::ALL.into_iter().filter(|below| *below != level);
        levels_below
            .filter_map(distance)
            .min_by(|a, b| a.points.total_cmp(&b.points))
    }

    /// The class of a busy launch, and the nearest other one.
    fn by_lead(
        &self,
        levels: &Levels<Percent>,
        compute: Percent,
        level: Level,
        memory: Percent,
    ) -> (Bound, Next) {
        let lead = compute - memory;
        if lead >= self.lead {
            return (
                Bound::Compute,
                Next {
                    points: lead - self.lead,
                    bound: Bound::Balanced,
                },
            );
        }
        if -lead >= self.lead {
            let balanced = Next {
                points: -lead - self.lead,
                bound: Bound::Balanced,
            };
            let next = self.next_level(levels, level, memory);
            let next = next
                .filter(|next| next.points < balanced.points)
                .unwrap_or(balanced);
            return (of_level(level), next);
        }
        let to_compute = Next {
            points: self.lead - lead,
            bound: Bound::Compute,
        };
        let to_memory = Next {
            points: self.lead + lead,
            bound: of_level(level),
        };
        let next = if to_memory.points < to_compute.points {
            to_memory
        } else {
            to_compute
        };
        (Bound::Balanced, next)
    }

    fn latency_reason(&self, kernel: &KernelCounters) -> Reason {
        if kernel
            .waves
            .is_some_and(|waves| waves < self.small_grid_waves)
        {
            Reason::SmallGrid
        } else if kernel
            .achieved_occupancy
            .is_some_and(|percent| percent < self.low_occupancy)
        {
            Reason::LowOccupancy
        } else {
            let stall = kernel.top_stall.as_ref();
            stall.map_or(Reason::NotCounted, |stall| {
                Reason::Stall(stall.reason.clone())
            })
        }
    }

    fn seed(&self, sol: &SpeedOfLight) -> Verdict {
        let (Some(compute), Some(dram)) = (sol.compute, sol.memory.dram) else {
            return unknown(sol);
        };
        let lead = compute - dram;
        let (bound, points, next) = if lead > self.seed_margin {
            (Bound::Compute, lead - self.seed_margin, Bound::Balanced)
        } else if lead < -self.seed_margin {
            (Bound::Memory, -lead - self.seed_margin, Bound::Balanced)
        } else if lead < Percent::ZERO {
            (Bound::Balanced, self.seed_margin + lead, Bound::Memory)
        } else {
            (Bound::Balanced, self.seed_margin - lead, Bound::Compute)
        };
        Verdict {
            bound,
            reason: None,
            next: Some(Next {
                points,
                bound: next,
            }),
        }
    }
}

const fn of_level(level: Level) -> Bound {
    match level {
        Level::Dram => Bound::Dram,
        Level::L2 => Bound::L2,
        Level::L1 => Bound::L1,
    }
}

fn unknown(sol: &SpeedOfLight) -> Verdict {
    let missing = match (sol.compute, sol.memory.highest()) {
        (None, None) => "speed-of-light counters",
        (None, Some(_)) => "compute throughput",
        (Some(_), _) => "memory throughput",
    };
    Verdict {
        bound: Bound::Unknown,
        reason: Some(Reason::No(missing)),
        next: None,
    }
}
