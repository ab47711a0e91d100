//! The figures of a profiled launch, one column each, whichever page or report they were read from.

use rooflens_schemas::Unit;

use crate::counters::ncu::KernelCounters;
use crate::counters::ncu::lookup::{Launch, Source};
use rooflens_units::{Measure, Percent, Ratio};

macro_rules! figures {
    ($($figure:ident: $column:literal, $title:literal, $unit:ident;)*) => {
        /// A figure of a launch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Figure {
            $(#[doc = $title] $figure),*
        }

        impl Figure {
            /// All figures in the order of their columns.
            pub const ALL: &[Self] = &[$(Self::$figure),*];

            /// Name of its column and unit.
            pub const fn column(self) -> (&'static str, Unit) {
                match self { $(Self::$figure => ($column, Unit::$unit)),* }
            }
        }
    };
}

figures! {
    Duration: "duration_ns", "Duration", Nanoseconds;
    Sm: "sm_throughput_percent", "SM", Percent;
    Dram: "dram_throughput_percent", "DRAM", Percent;
    Memory: "memory_throughput_percent", "Memory", Percent;
    L1: "l1_throughput_percent", "L1", Percent;
    L2: "l2_throughput_percent", "L2", Percent;
    MemoryBusy: "memory_busy_percent", "Memory busy", Percent;
    MaxBandwidth: "max_bandwidth_percent", "Max bandwidth", Percent;
    DramRate: "dram_bytes_per_second", "DRAM rate", BytesPerSecond;
    L1Hits: "l1_hit_percent", "L1 hits", Percent;
    L2Hits: "l2_hit_percent", "L2 hits", Percent;
    Achieved: "achieved_occupancy_percent", "Occupancy", Percent;
    Theoretical: "theoretical_occupancy_percent", "Theoretical", Percent;
    Tensor: "tensor_pipe_percent", "Tensor pipe", Percent;
    ActiveWarps: "active_warps_per_scheduler", "Active warps", One;
    EligibleWarps: "eligible_warps_per_scheduler", "Eligible warps", One;
    Issued: "issued_per_cycle", "Issued", One;
    NoEligible: "no_eligible_percent", "No eligible", Percent;
    Waves: "waves", "Waves", One;
    Tail: "tail_percent", "Tail", Percent;
    Registers: "registers_per_thread", "Registers", Count;
    SharedMemory: "shared_memory_per_block_bytes", "Shared memory", Bytes;
    LimitRegisters: "limit_registers_blocks", "Limit: registers", Count;
    LimitSharedMemory: "limit_shared_memory_blocks", "Limit: shared memory", Count;
    LimitWarps: "limit_warps_blocks", "Limit: warps", Count;
    LimitBlocks: "limit_blocks", "Limit: block slots", Count;
    LimitBarriers: "limit_barriers_blocks", "Limit: barriers", Count;
    DramBytes: "dram_bytes", "DRAM bytes", Bytes;
    L2Bytes: "l2_bytes", "L2 bytes", Bytes;
    L1Bytes: "l1_bytes", "L1 bytes", Bytes;
}

/// Figures that shares of the seed's histograms are of, next to duration and DRAM rate: percentages.
pub const PERCENTAGES: [Figure; 11] = [
    Figure::Sm,
    Figure::Memory,
    Figure::Dram,
    Figure::L2,
    Figure::L1,
    Figure::MemoryBusy,
    Figure::MaxBandwidth,
    Figure::L2Hits,
    Figure::L1Hits,
    Figure::Achieved,
    Figure::Theoretical,
];

/// What may limit the resident blocks of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Warps.
    Warps,
    /// Block slots.
    BlockSlots,
    /// Barriers.
    Barriers,
}

impl Limit {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
            Self::Warps => "warps",
            Self::BlockSlots => "block slots",
            Self::Barriers => "barriers",
        }
    }
}

const LIMITS: [(Figure, Limit); 5] = [
    (Figure::LimitRegisters, Limit::Registers),
    (Figure::LimitSharedMemory, Limit::SharedMemory),
    (Figure::LimitWarps, Limit::Warps),
    (Figure::LimitBlocks, Limit::BlockSlots),
    (Figure::LimitBarriers, Limit::Barriers),
];

/// Half of the last digit of printed waves.
const PRINTED_WAVES: Ratio = Ratio(0.005_001);

/// From this theoretical occupancy on nothing limits.
const FULL: Percent = Percent(99.95);

/// The figures of a launch, or their means over several. Absent: not collected.
#[derive(Clone, Debug)]
pub struct Figures(Vec<Option<f64>>);

impl Figures {
    /// A figure.
    pub const fn get(&self, figure: Figure) -> Option<f64> {
        self.0.as_slice()[figure as usize]
    }

    /// The figures of a launch with so many blocks.
    pub fn of(launch: &Launch<'_>, kernel: &KernelCounters, blocks: u64) -> Self {
        let values = Figure::ALL
            .iter()
            .map(|figure| read(*figure, launch, kernel))
            .collect();
        let mut figures = Self(values);
        let waves = kernel
            .waves
            .map(|printed| figures.exact(launch, blocks, printed));
        figures.0[Figure::Waves as usize] = waves.map(|waves| waves.0);
        figures.0[Figure::Tail as usize] = waves.map(|waves| tail(waves).0);
        figures
    }

    /// Waves with all digits: pages print two, and 1.004 waves are two waves where 1.00 is one.
    fn exact(&self, launch: &Launch<'_>, blocks: u64, printed: Ratio) -> Ratio {
        let sms = launch.first(
            "SM",
            &[("", "launch__sm_count"), ("Launch Statistics", "# SMs")],
        );
        let least = self
            .limits()
            .into_iter()
            .map(|(_, blocks)| blocks)
            .reduce(f64::min);
        let waves = sms
            .zip(least)
            .map(|(sms, least)| Ratio(blocks as f64 / (sms * least)));
        waves
            .filter(|waves| (*waves - printed).abs() <= PRINTED_WAVES)
            .unwrap_or(printed)
    }

    /// Means by weight; a figure that some member lacks is the mean of the others.
    pub fn mean(members: &[(f64, &Self)]) -> Self {
        let mean = |figure: &Figure| {
            let (mut sum, mut weights) = (0.0, 0.0);
            for (weight, figures) in members {
                if let Some(value) = figures.get(*figure) {
                    sum += weight * value;
                    weights += weight;
                }
            }
            (weights > 0.0).then(|| sum / weights)
        };
        Self(Figure::ALL.iter().map(mean).collect())
    }

    /// What keeps further blocks off an SM: the least of the limits; nothing at full occupancy.
    pub fn limiters(&self) -> Option<Vec<Limit>> {
        if self
            .get(Figure::Theoretical)
            .is_some_and(|percent| percent >= FULL.0)
        {
            return Some(Vec::new());
        }
        let limits = self.limits();
        let least = limits.iter().map(|(_, blocks)| *blocks).reduce(f64::min)?;
        let least = limits.into_iter().filter(|(_, blocks)| *blocks == least);
        Some(least.map(|(limit, _)| limit).collect())
    }

    /// The same in words.
    pub fn limiter(&self) -> Option<String> {
        let limits: Vec<&str> = self.limiters()?.into_iter().map(Limit::label).collect();
        Some(if limits.is_empty() {
            "none".to_owned()
        } else {
            limits.join(", ")
        })
    }

    /// The limits, resource and blocks an SM.
    pub fn limits(&self) -> Vec<(Limit, f64)> {
        LIMITS
            .iter()
            .filter_map(|(figure, limit)| Some((*limit, self.get(*figure)?)))
            .collect()
    }
}

fn number(measure: Option<impl Measure>) -> Option<f64> {
    measure.map(Measure::number)
}

fn read(figure: Figure, launch: &Launch<'_>, kernel: &KernelCounters) -> Option<f64> {
    match figure {
        Figure::Duration => kernel.seconds.map(|seconds| seconds.time().0),
        Figure::Sm => number(kernel.sol.compute),
        Figure::Dram => number(kernel.sol.memory.dram),
        Figure::L1 => number(kernel.sol.memory.l1),
        Figure::L2 => number(kernel.sol.memory.l2),
        Figure::DramRate => number(kernel.dram_rate()),
        Figure::L1Hits => number(kernel.l1_hit_rate),
        Figure::L2Hits => number(kernel.l2_hit_rate),
        Figure::Achieved => number(kernel.achieved_occupancy),
        Figure::Theoretical => number(kernel.theoretical_occupancy),
        Figure::Registers => number(kernel.registers),
        Figure::DramBytes => number(kernel.bytes.dram),
        Figure::L2Bytes => number(kernel.bytes.l2),
        Figure::L1Bytes => number(kernel.bytes.l1),
        collected => {
            let (_, unit, sources) = SOURCES.iter().find(|(figure, ..)| *figure == collected)?;
            launch.first(unit, sources)
        }
    }
}

/// Block slots of all waves that stay empty because the last wave is not full. Printed waves of 0
/// are fewer than can be printed.
pub fn tail(waves: Ratio) -> Percent {
    if waves.is_positive() {
        Percent((1.0 - waves.0 / waves.0.ceil()) * 100.0)
    } else {
        Percent(100.0)
    }
}

/// The raw page has no sections.
const RAW: &str = "";
const OCCUPANCY: &str = "Occupancy";
const SPEED: &str = "GPU Speed Of Light";
const TRAFFIC: &str = "Memory Workload Analysis";
const SCHEDULER: &str = "Scheduler Statistics";

macro_rules! sources {
    ($($figure:ident $unit:literal $($section:ident $metric:literal),+;)*) => {
        /// Unit and sources of the figures that other analyses do not read.
        const SOURCES: &[(Figure, &str, &[Source])] =
            &[$((Figure::$figure, $unit, &[$(($section, $metric)),+])),*];
    };
}

sources! {
    Memory "%" RAW "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", SPEED "Memory Throughput";
    MemoryBusy "%" RAW "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed", TRAFFIC "Mem Busy";
    MaxBandwidth "%" RAW "gpu__compute_memory_request_throughput.avg.pct_of_peak_sustained_elapsed", TRAFFIC "Max Bandwidth";
    Tensor "%" RAW "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        RAW "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
        RAW "sm__inst_executed_pipe_tensor.sum.pct_of_peak_sustained_active";
    ActiveWarps "warp" RAW "smsp__warps_active.avg.per_cycle_active", SCHEDULER "Active Warps Per Scheduler";
    EligibleWarps "warp" RAW "smsp__warps_eligible.avg.per_cycle_active", SCHEDULER "Eligible Warps Per Scheduler";
    Issued "" RAW "smsp__issue_active.avg.per_cycle_active", SCHEDULER "Issued Warp Per Scheduler";
    NoEligible "%" RAW "smsp__issue_inst0.avg.pct_of_peak_sustained_active", SCHEDULER "No Eligible";
    SharedMemory "byte/block" RAW "launch__shared_mem_per_block";
    LimitRegisters "block" RAW "launch__occupancy_limit_registers", OCCUPANCY "Block Limit Registers";
    LimitSharedMemory "block" RAW "launch__occupancy_limit_shared_mem", OCCUPANCY "Block Limit Shared Mem";
    LimitWarps "block" RAW "launch__occupancy_limit_warps", OCCUPANCY "Block Limit Warps";
    LimitBlocks "block" RAW "launch__occupancy_limit_blocks", OCCUPANCY "Block Limit SM";
    LimitBarriers "block" RAW "launch__occupancy_limit_barriers", OCCUPANCY "Block Limit Barriers";
}
