//! What Nsight Compute counted for each profiled launch, in base units, whichever page it was read from.

pub mod bound;
pub mod flops;

pub(crate) mod lookup;
pub(crate) mod stall;
mod traffic;

use std::collections::BTreeMap;

use self::flops::Flops;
use self::lookup::{Launch, Lookup};
pub use self::stall::Stall;
use crate::analysis::engine::classify::{self, KernelIdentity};
use crate::findings::chart::Color;
use crate::model::{PassId, ProfileId, Session};

/// A profiled launch with the counters that analyses use. Absent: not collected.
#[derive(Clone, Debug)]
pub struct KernelCounters {
    /// The launch.
    pub profile: ProfileId,
    /// What its name tells.
    pub identity: KernelIdentity,
    /// Duration under the profiler, seconds.
    pub seconds: Option<f64>,
    /// Executed floating-point operations.
    pub flops: Flops,
    /// Bytes moved at each memory level.
    pub bytes: Levels,
    /// Peak bandwidth of each memory level at the clocks of the launch, bytes per second.
    pub peak_bandwidth: Levels,
    /// Speed-of-light figures.
    pub sol: SpeedOfLight,
    /// Mean resident warps while an SM is active, percent of the maximum.
    pub achieved_occupancy: Option<f64>,
    /// Occupancy that registers, shared memory and block size allow, percent.
    pub theoretical_occupancy: Option<f64>,
    /// Blocks of the grid over blocks that fit on the GPU at once.
    pub waves: Option<f64>,
    /// Registers a thread.
    pub registers: Option<f64>,
    /// Hits of L1 sectors, percent.
    pub l1_hit_rate: Option<f64>,
    /// Hits of L2 sectors, percent.
    pub l2_hit_rate: Option<f64>,
    /// The reason for which warps waited most.
    pub top_stall: Option<Stall>,
}

/// A memory level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Device memory.
    Dram,
    /// L2 cache.
    L2,
    /// L1 cache.
    L1,
}

impl Level {
    /// All levels, from the memory to the SM.
    pub const ALL: [Self; 3] = [Self::Dram, Self::L2, Self::L1];

    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::L2 => "L2",
            Self::L1 => "L1",
        }
    }

    /// Colour group in charts.
    pub const fn color(self) -> Color {
        match self {
            Self::Dram => Color::Dram,
            Self::L2 => Color::L2,
            Self::L1 => Color::L1,
        }
    }
}

/// One number a memory level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// Device memory.
    pub dram: Option<f64>,
    /// L2 cache.
    pub l2: Option<f64>,
    /// L1 cache.
    pub l1: Option<f64>,
}

impl Levels {
    /// The number of a level.
    pub const fn get(&self, level: Level) -> Option<f64> {
        match level {
            Level::Dram => self.dram,
            Level::L2 => self.l2,
            Level::L1 => self.l1,
        }
    }

    /// The level with the highest number; of equal ones the one nearest to the memory.
    pub fn highest(&self) -> Option<(Level, f64)> {
        let present = Level::ALL.iter().filter_map(|level| Some((*level, self.get(*level)?)));
        present.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// How bytes are counted, for the method appendix.
pub use self::traffic::BYTES_METHOD;

/// Throughputs as percent of what the unit sustains at peak over the launch's whole duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpeedOfLight {
    /// SM pipes: the busiest one.
    pub compute: Option<f64>,
    /// Memory levels.
    pub memory: Levels,
}

impl KernelCounters {
    /// The counters of all profiled launches, in the order of their rows.
    pub fn all(session: &Session) -> Vec<Self> {
        let lookup = Lookup::new(session);
        let one = |profile: ProfileId| {
            let name = session.text(session.kernel_profiles.name[profile.index()]);
            Self::read(&lookup.launch(profile), profile, classify::identify(name))
        };
        session.kernel_profiles.ids().map(one).collect()
    }

    /// The counters by pass, both in the order of their rows. Passes without launches have none.
    pub fn by_pass(session: &Session) -> Vec<(PassId, Vec<Self>)> {
        let mut passes = BTreeMap::<PassId, Vec<Self>>::new();
        for kernel in Self::all(session) {
            let pass = session.kernel_profiles.pass[kernel.profile.index()];
            passes.entry(pass).or_default().push(kernel);
        }
        passes.into_iter().collect()
    }

    /// The counters of one launch.
    pub(crate) fn read(launch: &Launch<'_>, profile: ProfileId, identity: KernelIdentity) -> Self {
        let percent = |sources: &[_]| launch.first("%", sources);
        let seconds = traffic::seconds(launch);
        Self {
            profile,
            flops: flops::count(launch, seconds, identity.tensor_cores),
            bytes: traffic::bytes(launch, seconds),
            peak_bandwidth: traffic::peak_bandwidth(launch),
            sol: traffic::speed_of_light(launch),
            achieved_occupancy: percent(&[
                ("", "sm__warps_active.avg.pct_of_peak_sustained_active"),
                ("Occupancy", "Achieved Occupancy"),
            ]),
            theoretical_occupancy: percent(&[
                ("", "sm__maximum_warps_per_active_cycle_pct"),
                ("Occupancy", "Theoretical Occupancy"),
            ]),
            waves: launch.first(
                "",
                &[("", "launch__waves_per_multiprocessor"), ("Launch Statistics", "Waves Per SM")],
            ),
            registers: launch.first(
                "register/thread",
                &[
                    ("", "launch__registers_per_thread"),
                    ("Launch Statistics", "Registers Per Thread"),
                ],
            ),
            l1_hit_rate: percent(&[
                ("", "l1tex__t_sector_hit_rate.pct"),
                ("Memory Workload Analysis", "L1/TEX Hit Rate"),
            ]),
            l2_hit_rate: percent(&[
                ("", "lts__t_sector_hit_rate.pct"),
                ("Memory Workload Analysis", "L2 Hit Rate"),
            ]),
            top_stall: stall::top(launch),
            identity,
            seconds,
        }
    }

    /// Operations per byte at a memory level; absent where either is not counted or no byte moved.
    pub fn intensity(&self, level: Level) -> Option<f64> {
        let bytes = self.bytes.get(level).filter(|bytes| *bytes > 0.0)?;
        Some(self.flops.total()? / bytes)
    }

    /// Bytes per second of device memory.
    pub fn dram_rate(&self) -> Option<f64> {
        Some(self.bytes.dram? / self.seconds.filter(|seconds| *seconds > 0.0)?)
    }
}

#[cfg(test)]
pub(crate) mod tests;
