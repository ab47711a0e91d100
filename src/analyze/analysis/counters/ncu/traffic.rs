//! Duration, bytes moved, and speed-of-light figures.

use super::lookup::{Launch, Source};
use super::{Levels, SpeedOfLight};
use rooflens_units::{Bytes, BytesPerSecond, Percent, Seconds};

/// Section of the speed-of-light figures; its name grew over ncu's versions.
const SOL: &str = "GPU Speed Of Light";

/// Section of the memory figures.
const MEMORY: &str = "Memory Workload Analysis";

/// Size of a sector of L1 and L2.
const SECTOR: Bytes = Bytes(32.0);

/// Size of what L1 writes back to the registers in a cycle.
const WRITEBACK: Bytes = Bytes(128.0);

/// Copies into shared memory that do not pass the registers.
const PAST_REGISTERS: [&str; 2] = [
    "smsp__inst_executed_op_tma_ld.sum",
    "smsp__inst_executed_op_ldgsts.sum",
];

/// Duration of a launch.
pub(super) fn seconds(launch: &Launch<'_>) -> Option<Seconds> {
    let stated = launch.first(
        "s",
        &[
            ("", "gpu__time_duration.sum"),
            ("", "gpu__time_duration.avg"),
            (SOL, "Duration"),
        ],
    );
    if let Some(stated) = stated {
        return Some(Seconds(stated));
    }
    let cycles = launch.id("cycle", "sm__cycles_elapsed.avg")?;
    let rate = launch.id("Hz", "sm__cycles_elapsed.avg.per_second")?;
    (rate > 0.0).then_some(Seconds(cycles / rate))
}

/// Bytes at each memory level; from a rate and the duration where only a rate was collected.
pub(super) fn bytes(launch: &Launch<'_>, seconds: Option<Seconds>) -> Levels<Bytes> {
    let byte = |metric| launch.id("byte", metric).map(Bytes);
    let read_write = || Some(byte("dram__bytes_read.sum")? + byte("dram__bytes_write.sum")?);
    let by_rate = || {
        let sources = [
            ("", "dram__bytes.sum.per_second"),
            (MEMORY, "Memory Throughput"),
        ];
        Some(BytesPerSecond(launch.first("byte/s", &sources)?) * seconds?)
    };
    let sectors = |metric| Some(launch.id("sector", metric)? * SECTOR);
    let executed = |metric| launch.id("inst", metric).is_some_and(|count| count > 0.0);
    let past_registers = PAST_REGISTERS.into_iter().any(executed);
    let writeback = |metric| {
        let cycles = launch.id("cycle", metric).filter(|_| !past_registers);
        cycles.map(|cycles| cycles * WRITEBACK)
    };
    Levels {
        dram: read_write()
            .or_else(|| byte("dram__bytes.sum"))
            .or_else(by_rate),
        l2: byte("lts__t_bytes.sum").or_else(|| sectors("lts__t_sectors.sum")),
        l1: byte("l1tex__t_bytes.sum")
            .or_else(|| sectors("l1tex__t_sectors.sum"))
            .or_else(|| writeback("l1tex__lsu_writeback_active_mem_lgds.sum"))
            .or_else(|| writeback("l1tex__lsu_writeback_active_mem_lg.sum")),
    }
}

/// Peak bytes per cycle × clock of each memory level, as ncu's roofline takes them.
pub(super) fn peak_bandwidth(launch: &Launch<'_>) -> Levels<BytesPerSecond> {
    let peak = |unit, per_cycle, clock| {
        let bytes = launch.id(unit, per_cycle)?;
        Some(BytesPerSecond(bytes * launch.id("Hz", clock)?))
    };
    Levels {
        dram: peak(
            "byte/cycle",
            "dram__bytes.sum.peak_sustained",
            "dram__cycles_elapsed.avg.per_second",
        ),
        l2: peak(
            "byte",
            "derived__lts__lts2xbar_bytes.sum.peak_sustained",
            "lts__cycles_elapsed.avg.per_second",
        ),
        l1: peak(
            "",
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",
            "l1tex__cycles_elapsed.avg.per_second",
        ),
    }
}

/// Sources of ncu's Memory Throughput, in percent.
pub(super) const MEMORY_THROUGHPUT: [Source; 2] = [
    (
        "",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    (SOL, "Memory Throughput"),
];

/// Speed-of-light figures, all over elapsed time.
pub(super) fn speed_of_light(launch: &Launch<'_>) -> SpeedOfLight {
    let percent = |sources: &[_]| launch.first("%", sources).map(Percent);
    SpeedOfLight {
        compute: percent(&[
            ("", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
            (SOL, "Compute (SM) Throughput"),
        ]),
        memory: Levels {
            dram: percent(&[
                ("", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
                ("", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
                (SOL, "DRAM Throughput"),
            ]),
            l2: percent(&[
                ("", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
                (SOL, "L2 Cache Throughput"),
            ]),
            l1: l1_throughput(launch).map(Percent),
        },
        memory_throughput: percent(&MEMORY_THROUGHPUT),
    }
}

/// L1 over elapsed time. The details page gives it over the time in which SMs were active, which
/// for a launch of one block says nothing about the GPU (it reaches 200 %): scaled by active ÷ elapsed cycles.
fn l1_throughput(launch: &Launch<'_>) -> Option<f64> {
    let elapsed = launch.id("%", "l1tex__throughput.avg.pct_of_peak_sustained_elapsed");
    elapsed.or_else(|| {
        let active = launch.first(
            "%",
            &[
                ("", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
                (SOL, "L1/TEX Cache Throughput"),
            ],
        )?;
        let active_cycles = launch.first(
            "cycle",
            &[("", "sm__cycles_active.avg"), (SOL, "SM Active Cycles")],
        )?;
        let elapsed_cycles = launch.first(
            "cycle",
            &[("", "gpc__cycles_elapsed.max"), (SOL, "Elapsed Cycles")],
        )?;
        (elapsed_cycles > 0.0).then(|| active * active_cycles / elapsed_cycles)
    })
}
