//! States of GPUs at one moment: what of them is worth a remark.

use super::power::reasons::{REASONS, lowers_clock};
use crate::{Context, Known, Missing};
use rooflens_model::GpuSnapshotId;

/// Share of device memory from which on it is nearly full.
const FULL: f64 = 0.95;

/// Power limit ÷ that of the product below which it is a lowered one.
const LOWERED: f64 = 0.99;

/// Remarks on the states of GPUs.
#[derive(Debug)]
pub struct Snapshot {
    /// What stands out, by GPU.
    pub remarks: Vec<(GpuSnapshotId, Remark)>,
}

/// What stands out in the state of a GPU. A narrow or slow PCIe link does not: links drop while nothing is transferred.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// Reasons that lower the clock are active.
    Throttled(Vec<&'static str>),
    /// Uncorrectable ECC errors since the driver was loaded, and over the life of the board.
    Uncorrectable(Option<u64>, Option<u64>),
    /// Page retirement or row remapping waits for a reset.
    RepairPending,
    /// The power limit is below the product's: both in watts.
    LoweredLimit(f64, f64),
    /// Device memory is nearly full: bytes in use, and of all.
    FullMemory(u64, u64),
    /// Temperature has reached the one from which on clocks are lowered: both in degrees Celsius.
    Hot(u32, u32),
    /// MIG is on: so many slices.
    Mig(usize),
}

/// Looks at each GPU.
pub fn compute(context: &Context<'_>) -> Known<Snapshot> {
    let all = &context.session.gpu_snapshots;
    if all.is_empty() {
        return Err(Missing("missing.snapshot"));
    }
    let remarks =
        all.ids().flat_map(|gpu| of_gpu(context, gpu).into_iter().map(move |one| (gpu, one)));
    Ok(Snapshot { remarks: remarks.collect() })
}

fn of_gpu(context: &Context<'_>, id: GpuSnapshotId) -> Vec<Remark> {
    let gpu = context.session.gpu_snapshots.row(id);
    let mask = gpu.throttle_reasons.unwrap_or(0);
    let lowering = REASONS.iter().filter(|reason| reason.lowers_clock && mask & reason.bit != 0);
    let throttled = lowers_clock(mask).then(|| lowering.map(|reason| reason.name).collect());
    let errors = |count: Option<u64>| count.filter(|count| *count > 0);
    let (now, ever) = (errors(gpu.ecc_uncorrectable), errors(gpu.ecc_uncorrectable_total));
    let watts = |milli: u64| milli as f64 / 1e3;
    let limits =
        gpu.power_limit_mw.zip(gpu.power_default_mw).map(|(own, all)| (watts(own), watts(all)));
    let memory = gpu.memory_used.zip(gpu.memory_total);
    let heat = gpu.temperature.zip(gpu.slowdown_temperature);
    let mig = &context.session.mig_devices;
    let slices = (0..mig.len())
        .filter(|row| (mig.artifact[*row], mig.device[*row]) == (gpu.artifact, gpu.device));
    [
        throttled.map(Remark::Throttled),
        (now.is_some() || ever.is_some()).then_some(Remark::Uncorrectable(now, ever)),
        gpu.repair_pending.filter(|pending| *pending).map(|_| Remark::RepairPending),
        limits
            .filter(|(own, product)| own < &(product * LOWERED))
            .map(|(own, product)| Remark::LoweredLimit(own, product)),
        memory
            .filter(|(used, total)| *used as f64 >= FULL * *total as f64 && *total > 0)
            .map(|(used, total)| Remark::FullMemory(used, total)),
        heat.filter(|(now, slow)| now >= slow && *slow > 0)
            .map(|(now, slow)| Remark::Hot(now, slow)),
        gpu.mig.filter(|on| *on).map(|_| Remark::Mig(slices.count())),
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
    use rooflens_model::{GpuSnapshot, Session};

    fn remarks(change: impl Fn(&mut GpuSnapshot)) -> Vec<Remark> {
        let mut session = Session::default();
        let artifact = session.intern("a.xml");
        let mut row = snapshot(artifact);
        change(&mut row);
        session.gpu_snapshots.push(row);
        let (facts, hardware, options) =
            (Facts::new(&session), Hardware::builtin(), Options::default());
        let results =
            Results::some(&Context::new(&session, &facts, &hardware, &options), &["snapshot"]);
        let found = results.snapshot().expect("a snapshot");
        found.remarks.iter().map(|(_, remark)| remark.clone()).collect()
    }

    fn snapshot(artifact: rooflens_model::StrId) -> GpuSnapshot {
        GpuSnapshot {
            artifact,
            time: None,
            device: 0,
            name: None,
            driver: None,
            cuda: None,
            performance_state: None,
            sm_mhz: None,
            sm_max_mhz: None,
            memory_mhz: None,
            memory_max_mhz: None,
            power_mw: None,
            power_limit_mw: Some(300_000),
            power_default_mw: Some(300_000),
            temperature: Some(60),
            slowdown_temperature: Some(89),
            memory_used: Some(90),
            memory_total: Some(100),
            gpu_util: None,
            memory_util: None,
            throttle_reasons: Some(0x1),
            ecc: Some(true),
            ecc_corrected: Some(5),
            ecc_uncorrectable: Some(0),
            ecc_uncorrectable_total: Some(0),
            repair_pending: Some(false),
            pcie_generation: Some(1),
            pcie_generation_max: Some(4),
            pcie_width: Some(8),
            pcie_width_max: Some(16),
            mig: Some(false),
            processes: Some(0),
        }
    }

    #[test]
    fn a_calm_gpu_has_no_remark_and_others_have_theirs() {
        assert_eq!(remarks(|_| ()), []);
        assert_eq!(
            remarks(|gpu| gpu.throttle_reasons = Some(0x1 | 0x4 | 0x40)),
            [Remark::Throttled(vec!["sw_power_cap", "hw_thermal_slowdown"])]
        );
        assert_eq!(
            remarks(|gpu| gpu.ecc_uncorrectable_total = Some(2)),
            [Remark::Uncorrectable(None, Some(2))]
        );
        assert_eq!(
            remarks(|gpu| gpu.power_limit_mw = Some(250_000)),
            [Remark::LoweredLimit(250.0, 300.0)]
        );
        assert_eq!(remarks(|gpu| gpu.memory_used = Some(95)), [Remark::FullMemory(95, 100)]);
        assert_eq!(remarks(|gpu| gpu.temperature = Some(89)), [Remark::Hot(89, 89)]);
        assert_eq!(remarks(|gpu| gpu.repair_pending = Some(true)), [Remark::RepairPending]);
        assert_eq!(remarks(|gpu| gpu.mig = Some(true)), [Remark::Mig(0)]);
    }
}
