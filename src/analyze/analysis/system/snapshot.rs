//! States of GPUs at one moment: what of them is worth a remark.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::Unit;

use super::power::reasons::{REASONS, lowers_clock};
use crate::{Context, Known, Missing};
use rooflens_session::{Arrange, GpuSnapshot, GpuSnapshotId, StrId};
use rooflens_stats::mean;
use rooflens_units::{Ratio, Watts};

/// Share of device memory from which on it is nearly full.
const FULL: Ratio = Ratio(0.95);

/// Power limit ÷ that of the product below which it is a lowered one.
const LOWERED: Ratio = Ratio(0.99);

/// Remarks on the states of GPUs, and sums where there are several of one.
#[derive(Debug)]
pub struct Snapshot {
    /// What stands out, by GPU; nothing where a GPU has several states.
    pub remarks: Vec<(GpuSnapshotId, Remark)>,
    /// Each quantity of a GPU over its states, where a GPU has several.
    pub readings: Vec<Reading>,
    /// Processes by GPU and command, the busiest first.
    pub processes: Vec<Processes>,
}

/// A quantity of a GPU over its states.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// File of the states.
    pub artifact: StrId,
    /// Device index.
    pub device: u32,
    /// What it is.
    pub quantity: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// States that tell it.
    pub count: u64,
    /// Least, in the unit.
    pub min: f64,
    /// Mean, in the unit.
    pub mean: f64,
    /// Most, in the unit.
    pub max: f64,
}

/// Processes of one command on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Processes {
    /// File of the rows.
    pub artifact: StrId,
    /// Device index.
    pub device: u32,
    /// The command.
    pub command: StrId,
    /// Distinct process numbers.
    pub processes: u64,
    /// Rows.
    pub rows: u64,
    /// GPU utilization over the rows that tell it: mean and most.
    pub util: Option<(Ratio, Ratio)>,
}

/// A quantity of a state in its unit, and what people call it.
type Value = (&'static str, Unit, fn(&GpuSnapshot) -> Option<f64>);

const VALUES: [Value; 7] = [
    ("GPU utilization", Unit::Ratio, |gpu| {
        gpu.gpu_util.map(|share| f64::from(share) / 100.0)
    }),
    ("memory utilization", Unit::Ratio, |gpu| {
        gpu.memory_util.map(|share| f64::from(share) / 100.0)
    }),
    ("memory used", Unit::Bytes, |gpu| {
        gpu.memory_used.map(|bytes| bytes as f64)
    }),
    ("power", Unit::Watts, |gpu| {
        gpu.power_mw.map(|power| power as f64 / 1e3)
    }),
    ("temperature", Unit::Celsius, |gpu| {
        gpu.temperature.map(f64::from)
    }),
    ("SM clock", Unit::Hertz, |gpu| {
        gpu.sm_mhz.map(|clock| f64::from(clock) * 1e6)
    }),
    ("memory clock", Unit::Hertz, |gpu| {
        gpu.memory_mhz.map(|clock| f64::from(clock) * 1e6)
    }),
];

/// What stands out in the state of a GPU. A narrow or slow PCIe link does not: links drop while nothing is transferred.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// Reasons that lower the clock are active.
    Throttled(Vec<&'static str>),
    /// Uncorrectable ECC errors since the driver was loaded, and over the life of the board.
    Uncorrectable(Option<u64>, Option<u64>),
    /// Page retirement or row remapping waits for a reset.
    RepairPending,
    /// The power limit, and that of the product, which is higher.
    LoweredLimit(Watts, Watts),
    /// Device memory is nearly full: bytes in use, and of all.
    FullMemory(u64, u64),
    /// Temperature has reached the one from which on clocks are lowered: both in degrees Celsius.
    Hot(u32, u32),
    /// MIG is on: so many slices.
    Mig(usize),
}

/// Looks at each GPU.
pub fn compute(context: &Context<'_>) -> Known<Snapshot> {
    let snapshots = &context.session.gpu_snapshots;
    if snapshots.is_empty() && context.session.process_samples.is_empty() {
        return Err(Missing("missing.snapshot"));
    }
    let (processes, readings) = (processes(context), readings(context));
    if !readings.is_empty() {
        return Ok(Snapshot {
            remarks: Vec::new(),
            readings,
            processes,
        });
    }
    let remarks = snapshots.ids().flat_map(|gpu| {
        of_gpu(context, gpu)
            .into_iter()
            .map(move |remark| (gpu, remark))
    });
    Ok(Snapshot {
        remarks: remarks.collect(),
        readings,
        processes,
    })
}

/// The quantities of all GPUs, if one of them has several states.
fn readings(context: &Context<'_>) -> Vec<Reading> {
    let snapshots = &context.session.gpu_snapshots;
    let mut gpus: BTreeMap<(StrId, u32), Vec<GpuSnapshot>> = BTreeMap::new();
    for row in snapshots.ids().map(|id| snapshots.row(id)) {
        gpus.entry((row.artifact, row.device))
            .or_default()
            .push(row);
    }
    if gpus.values().all(|rows| rows.len() < 2) {
        return Vec::new();
    }
    let of = |((artifact, device), rows): (&(StrId, u32), &Vec<GpuSnapshot>)| {
        let (artifact, device) = (*artifact, *device);
        let reading = |(quantity, unit, value): &Value| {
            let values: Vec<f64> = rows.iter().filter_map(value).collect();
            let (min, max) = range(&values)?;
            let (count, mean) = (values.len() as u64, mean(&values)?);
            Some(Reading {
                artifact,
                device,
                quantity,
                unit: *unit,
                count,
                min,
                mean,
                max,
            })
        };
        VALUES.iter().filter_map(reading).collect::<Vec<Reading>>()
    };
    gpus.iter().flat_map(of).collect()
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(min, max), one| {
        (min.min(*one), max.max(*one))
    }))
}

fn processes(context: &Context<'_>) -> Vec<Processes> {
    let (session, all) = (context.session, &context.session.process_samples);
    let mut groups: BTreeMap<(StrId, u32, StrId), Vec<usize>> = BTreeMap::new();
    for row in 0..all.len() {
        groups
            .entry((all.artifact[row], all.device[row], all.command[row]))
            .or_default()
            .push(row);
    }
    let of = |((artifact, device, command), rows): ((StrId, u32, StrId), Vec<usize>)| {
        let pids: BTreeSet<i64> = rows.iter().map(|row| all.pid[*row]).collect();
        let shares = rows.iter().filter_map(|row| all.gpu_util[*row]);
        let shares: Vec<f64> = shares.map(|share| f64::from(share) / 100.0).collect();
        let most = range(&shares).map(|(_, most)| Ratio(most));
        let util = mean(&shares).map(Ratio).zip(most);
        let (processes, rows) = (pids.len() as u64, rows.len() as u64);
        Processes {
            artifact,
            device,
            command,
            processes,
            rows,
            util,
        }
    };
    let mut processes: Vec<Processes> = groups.into_iter().map(of).collect();
    let busy = |process: &Processes| process.util.map_or(Ratio(-1.0), |(mean, _)| mean);
    processes.arrange_by(|a, b| {
        let name = |process: &Processes| session.text(process.command);
        busy(b)
            .total_cmp(&busy(a))
            .then_with(|| (a.device, name(a)).cmp(&(b.device, name(b))))
    });
    processes
}

fn of_gpu(context: &Context<'_>, id: GpuSnapshotId) -> Vec<Remark> {
    let gpu = context.session.gpu_snapshots.row(id);
    let mask = gpu.throttle_reasons.unwrap_or(0);
    let lowering = REASONS
        .iter()
        .filter(|reason| reason.lowers_clock && mask & reason.bit != 0);
    let throttled = lowers_clock(mask).then(|| lowering.map(|reason| reason.name).collect());
    let errors = |count: Option<u64>| count.filter(|count| *count > 0);
    let (now, ever) = (
        errors(gpu.ecc_uncorrectable),
        errors(gpu.ecc_uncorrectable_total),
    );
    let watts = |milli: u64| Watts(milli as f64 / 1e3);
    let limits = gpu
        .power_limit_mw
        .zip(gpu.power_default_mw)
        .map(|(own, all)| (watts(own), watts(all)));
    let memory = gpu.memory_used.zip(gpu.memory_total);
    let heat = gpu.temperature.zip(gpu.slowdown_temperature);
    let mig = &context.session.mig_devices;
    let slices = (0..mig.len())
        .filter(|row| (mig.artifact[*row], mig.device[*row]) == (gpu.artifact, gpu.device));
    [
        throttled.map(Remark::Throttled),
        (now.is_some() || ever.is_some()).then_some(Remark::Uncorrectable(now, ever)),
        gpu.repair_pending
            .filter(|pending| *pending)
            .map(|_| Remark::RepairPending),
        limits
            .filter(|(own, product)| *own < *product * LOWERED)
            .map(|(own, product)| Remark::LoweredLimit(own, product)),
        memory
            .filter(|(used, total)| *used as f64 >= FULL.0 * *total as f64 && *total > 0)
            .map(|(used, total)| Remark::FullMemory(used, total)),
        heat.filter(|(now, slow)| now >= slow && *slow > 0)
            .map(|(now, slow)| Remark::Hot(now, slow)),
        gpu.mig
            .filter(|on| *on)
            .map(|_| Remark::Mig(slices.count())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, Options, Results};
    use rooflens_hardware::Hardware;
    use rooflens_session::Session;

    fn remarks(change: impl Fn(&mut GpuSnapshot)) -> Vec<Remark> {
        let mut session = Session::default();
        let artifact = session.intern("a.xml");
        let mut row = snapshot(artifact);
        change(&mut row);
        session.gpu_snapshots.push(row);
        let (facts, hardware, options) = (
            Facts::new(&session),
            Hardware::builtin(),
            Options::default(),
        );
        let results = Results::some(
            &Context::new(&session, &facts, &hardware, &options),
            &["snapshot"],
        );
        let found = results.snapshot().expect("a snapshot");
        found
            .remarks
            .iter()
            .map(|(_, remark)| remark.clone())
            .collect()
    }

    fn snapshot(artifact: rooflens_session::StrId) -> GpuSnapshot {
        GpuSnapshot {
            power_limit_mw: Some(300_000),
            power_default_mw: Some(300_000),
            temperature: Some(60),
            slowdown_temperature: Some(89),
            memory_used: Some(90),
            memory_total: Some(100),
            throttle_reasons: Some(0x1),
            ecc_corrected: Some(5),
            ecc_uncorrectable: Some(0),
            ecc_uncorrectable_total: Some(0),
            repair_pending: Some(false),
            pcie_generation: Some(1),
            pcie_generation_max: Some(4),
            pcie_width: Some(8),
            pcie_width_max: Some(16),
            mig: Some(false),
            ..GpuSnapshot::of(artifact, 0)
        }
    }

    #[test]
    fn readings_of_a_gpu_are_summed_up() {
        let mut session = Session::default();
        let artifact = session.intern("dmon.txt");
        for (device, milliwatts, util) in [
            (0, 70_000, 10),
            (1, 50_000, 0),
            (0, 90_000, 60),
            (0, 80_000, 50),
        ] {
            let of = GpuSnapshot::of(artifact, device);
            let (power_mw, gpu_util) = (Some(milliwatts), Some(util));
            session.gpu_snapshots.push(GpuSnapshot {
                power_mw,
                gpu_util,
                ..of
            });
        }
        let [python] = ["python"].map(|name| session.intern(name));
        for (pid, gpu_util) in [(1, Some(20)), (2, Some(40)), (1, None)] {
            session
                .process_samples
                .push(rooflens_session::ProcessSample {
                    artifact,
                    device: 0,
                    pid,
                    command: python,
                    gpu_util,
                    memory_util: None,
                });
        }
        let (facts, hardware, options) = (
            Facts::new(&session),
            Hardware::builtin(),
            Options::default(),
        );
        let results = Results::some(
            &Context::new(&session, &facts, &hardware, &options),
            &["snapshot"],
        );
        let found = results.snapshot().expect("readings");
        let of = |device: u32, quantity: &str| {
            let own = |one: &&Reading| (one.device, one.quantity) == (device, quantity);
            found
                .readings
                .iter()
                .find(own)
                .map(|one| (one.count, one.min, one.mean, one.max))
        };
        assert_eq!(of(0, "power"), Some((3, 70.0, 80.0, 90.0)));
        let (count, min, mean, max) = of(0, "GPU utilization").expect("readings");
        assert_eq!((count, min, max), (3, 0.1, 0.6));
        assert!((mean - 0.4).abs() < 1e-12, "{mean}");
        assert_eq!(of(1, "power"), Some((1, 50.0, 50.0, 50.0)));
        assert_eq!(of(0, "temperature"), None);
        let process = &found.processes[0];
        let (mean, most) = process.util.expect("readings");
        assert_eq!((process.processes, process.rows), (2, 3));
        assert_eq!(most, Ratio(0.4));
        assert!((mean.0 - 0.3).abs() < 1e-12, "{mean:?}");
    }

    #[test]
    fn a_calm_gpu_has_no_remark_and_others_have_theirs() {
        assert_eq!(remarks(|_| ()), []);
        assert_eq!(
            remarks(|gpu| gpu.throttle_reasons = Some(0x1 | 0x4 | 0x40)),
            [Remark::Throttled(vec![
                "sw_power_cap",
                "hw_thermal_slowdown"
            ])]
        );
        assert_eq!(
            remarks(|gpu| gpu.ecc_uncorrectable_total = Some(2)),
            [Remark::Uncorrectable(None, Some(2))]
        );
        assert_eq!(
            remarks(|gpu| gpu.power_limit_mw = Some(250_000)),
            [Remark::LoweredLimit(Watts(250.0), Watts(300.0))]
        );
        assert_eq!(
            remarks(|gpu| gpu.memory_used = Some(95)),
            [Remark::FullMemory(95, 100)]
        );
        assert_eq!(
            remarks(|gpu| gpu.temperature = Some(89)),
            [Remark::Hot(89, 89)]
        );
        assert_eq!(
            remarks(|gpu| gpu.repair_pending = Some(true)),
            [Remark::RepairPending]
        );
        assert_eq!(remarks(|gpu| gpu.mig = Some(true)), [Remark::Mig(0)]);
    }
}
