//! What Nsight Compute counted for each profiled launch, in base units, whichever page it was read from.

pub mod bound;
pub mod flops;
pub mod lookup;
pub mod stall;
mod traffic;

use std::collections::BTreeMap;

use self::flops::FlopCount;
use self::lookup::{Launch, Lookup, Source};
pub use self::stall::Stall;
use crate::engine::classify::{self, KernelIdentity};
use crate::{Context, Known, Missing};
use rooflens_schemas::Evidence;
use rooflens_session::{Dim3, PassId, ProfileId, Session, StrId};
use rooflens_units::{
    Bytes, BytesPerSecond, Count, FlopsPerByte, FlopsPerSecond, Percent, Ratio, Seconds,
};

/// The counters of all profiled launches.
pub struct Counters {
    /// The launches, in the order of their rows.
    pub launches: Vec<KernelCounters>,
    /// All metrics of them.
    pub lookup: Lookup,
}

/// Reads the counters of all profiled launches.
pub fn compute(context: &Context<'_>) -> Known<Counters> {
    let session = context.session;
    if session.kernel_profiles.is_empty() {
        return Err(Missing("missing.ncu"));
    }
    let lookup = Lookup::new(session);
    let identities = classify::by_name(session);
    let launch_of = |profile: ProfileId| {
        let identity = identities[&session.kernel_profiles.name[profile.index()]].clone();
        KernelCounters::read(session, &lookup.launch(session, profile), profile, identity)
    };
    Ok(Counters {
        launches: session.kernel_profiles.ids().map(launch_of).collect(),
        lookup,
    })
}

impl Counters {
    /// One launch.
    pub fn launch(&self, profile: ProfileId) -> &KernelCounters {
        &self.launches[profile.index()]
    }

    /// The launches by pass, both in the order of their rows. Passes without launches have none.
    pub fn by_pass(&self) -> BTreeMap<PassId, Vec<&KernelCounters>> {
        let mut passes = BTreeMap::<PassId, Vec<&KernelCounters>>::new();
        for kernel in &self.launches {
            passes.entry(kernel.pass).or_default().push(kernel);
        }
        passes
    }

    /// What figures of a pass rest on.
    pub fn evidence(&self, session: &Session, pass: PassId) -> Evidence {
        let launches = self
            .launches
            .iter()
            .filter(|launch| launch.pass == pass)
            .count();
        session.evidence(pass, "kernel_profiles", launches as u64)
    }
}

/// A profiled launch with the counters that analyses use. Absent: not collected.
#[derive(Clone, Debug)]
pub struct KernelCounters {
    /// The launch.
    pub profile: ProfileId,
    /// Its pass.
    pub pass: PassId,
    /// The kernel's whole name.
    pub name: StrId,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// What its name tells.
    pub identity: KernelIdentity,
    /// Duration under the profiler.
    pub seconds: Option<Seconds>,
    /// Executed floating-point operations.
    pub flops: FlopCount,
    /// Executed instructions of warps.
    pub instructions: Option<Count>,
    /// Bytes moved at each memory level.
    pub bytes: Levels<Bytes>,
    /// Peak bandwidth of each memory level at the clocks of the launch.
    pub peak_bandwidth: Levels<BytesPerSecond>,
    /// Speed-of-light figures.
    pub sol: SpeedOfLight,
    /// Mean resident warps while an SM is active, of the maximum.
    pub achieved_occupancy: Option<Percent>,
    /// Occupancy that registers, shared memory and block size allow.
    pub theoretical_occupancy: Option<Percent>,
    /// Blocks of the grid over blocks that fit on the GPU at once.
    pub waves: Option<Ratio>,
    /// Registers a thread.
    pub registers: Option<Count>,
    /// Hits of L1 sectors.
    pub l1_hit_rate: Option<Percent>,
    /// Hits of L2 sectors.
    pub l2_hit_rate: Option<Percent>,
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
}

/// A quantity of each memory level; absent: not collected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels<T> {
    /// Device memory.
    pub dram: Option<T>,
    /// L2 cache.
    pub l2: Option<T>,
    /// L1 cache.
    pub l1: Option<T>,
}

impl<T: Copy + PartialOrd> Levels<T> {
    /// The number of a level.
    pub const fn get(&self, level: Level) -> Option<T> {
        match level {
            Level::Dram => self.dram,
            Level::L2 => self.l2,
            Level::L1 => self.l1,
        }
    }

    /// The level with the highest number; of equal ones the one nearest to the memory.
    pub fn highest(&self) -> Option<(Level, T)> {
        let present = Level::ALL
            .iter()
            .filter_map(|level| Some((*level, self.get(*level)?)));
        present.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// Throughputs as shares of what the unit sustains at peak over the launch's whole duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpeedOfLight {
    /// SM pipes: the busiest one.
    pub compute: Option<Percent>,
    /// Memory levels.
    pub memory: Levels<Percent>,
    /// ncu's Memory Throughput; parts of the levels, such as the tag stage of L1, do not count for it.
    pub memory_throughput: Option<Percent>,
}

/// Sources of the executed instructions of warps.
const INSTRUCTIONS: [Source; 3] = [
    ("", "smsp__inst_executed.sum"),
    ("", "inst_executed"),
    ("Instruction Statistics", "Executed Instructions"),
];

impl KernelCounters {
    /// The counters of one launch.
    fn read(
        session: &Session,
        launch: &Launch<'_>,
        profile: ProfileId,
        identity: KernelIdentity,
    ) -> Self {
        let row = session.kernel_profiles.row(profile);
        let printed =
            |unit, raw, section, metric| launch.first(unit, &[("", raw), (section, metric)]);
        let (occupancy, statistics) = ("Occupancy", "Launch Statistics");
        let (active, possible) = (
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            "sm__maximum_warps_per_active_cycle_pct",
        );
        let (waves, registers) = (
            "launch__waves_per_multiprocessor",
            "launch__registers_per_thread",
        );
        let percent = |raw, section, metric| printed("%", raw, section, metric).map(Percent);
        let traffic = "Memory Workload Analysis";
        let seconds = traffic::seconds(launch);
        Self {
            profile,
            pass: row.pass,
            name: row.name,
            grid: row.grid,
            block: row.block,
            flops: flops::count(launch, seconds, identity.tensor_cores),
            instructions: launch.first("inst", &INSTRUCTIONS).map(Count),
            bytes: traffic::bytes(launch, seconds),
            peak_bandwidth: traffic::peak_bandwidth(launch),
            sol: traffic::speed_of_light(launch),
            achieved_occupancy: percent(active, occupancy, "Achieved Occupancy"),
            theoretical_occupancy: percent(possible, occupancy, "Theoretical Occupancy"),
            waves: printed("", waves, statistics, "Waves Per SM").map(Ratio),
            registers: printed(
                "register/thread",
                registers,
                statistics,
                "Registers Per Thread",
            )
            .map(Count),
            l1_hit_rate: percent("l1tex__t_sector_hit_rate.pct", traffic, "L1/TEX Hit Rate"),
            l2_hit_rate: percent("lts__t_sector_hit_rate.pct", traffic, "L2 Hit Rate"),
            top_stall: stall::top(launch),
            identity,
            seconds,
        }
    }

    /// Operations per byte at a memory level; absent where either is not counted or no byte moved.
    pub fn intensity(&self, level: Level) -> Option<FlopsPerByte> {
        let bytes = self.bytes.get(level).filter(Bytes::is_positive)?;
        Some(self.flops.total()? / bytes)
    }

    /// Operations per second.
    pub fn flop_rate(&self) -> Option<FlopsPerSecond> {
        let rate = self.flops.total()? / self.seconds?;
        Some(rate).filter(|rate| rate.is_finite())
    }

    /// Bytes per second of device memory.
    pub fn dram_rate(&self) -> Option<BytesPerSecond> {
        Some(self.bytes.dram? / self.seconds.filter(Seconds::is_positive)?)
    }
}

#[cfg(test)]
mod tests;
