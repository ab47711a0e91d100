//! NVML samples while a command runs, from a thread of their own.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use crate::files;

/// The columns. The first nine are those of the first sampler that there was; others come after them.
const HEADER: &str = "t_ns,power_mw,sm_mhz,mem_mhz,util_gpu_pct,util_mem_pct,temp_c,mem_used_bytes,\
throttle_reasons,gpu,energy_mj,pcie_tx_kb_per_s,pcie_rx_kb_per_s,monotonic_ns,\
gpm_sm_active_pct,gpm_sm_occupancy_pct,gpm_tensor_pct,gpm_dram_pct";

/// What is asked of GPM, in the order of the last columns; PCIe comes first.
const GPM: [GpmMetricId; 6] = [
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
];

/// GPM needs some time between two of its samples, and NVML measures PCIe for 20 ms at every question.
const SLOW: Duration = Duration::from_millis(200);
const PCIE: Duration = Duration::from_secs(2);

/// A thread that samples.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Sampler {
    /// Begins to write samples of all GPUs. GPM shares the counters with profilers: it is for runs without one.
    pub(crate) fn start(path: &Path, period: Duration, with_gpm: bool) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| format!("NVML cannot be loaded: {error}"))?;
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML: {error}"))?;
        if count == 0 {
            return Err("NVML knows no GPU".to_owned());
        }
        let file = files::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            sample(
                &nvml,
                count,
                &mut BufWriter::new(file),
                period,
                with_gpm,
                &stopped,
            )
        });
        Ok(Self { stop, thread })
    }

    /// Ends sampling.
    pub(crate) fn finish(self) -> Result<(), String> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("samples cannot be written: {error}")),
            Err(_) => Err("the sampler failed".to_owned()),
        }
    }
}

/// A GPU and what is between its samples.
struct Gpu<'a> {
    index: u32,
    device: Device<'a>,
    gpm: Option<GpmSample<'a>>,
    gpm_at: Instant,
    pcie_at: Instant,
}

fn sample(
    nvml: &Nvml,
    count: u32,
    out: &mut impl Write,
    period: Duration,
    with_gpm: bool,
    stop: &AtomicBool,
) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    let start = Instant::now();
    let mut gpus: Vec<Gpu<'_>> = (0..count)
        .filter_map(|index| {
            let device = nvml.device_by_index(index).ok()?;
            let has_gpm = with_gpm && device.gpm_support().unwrap_or(false);
            let gpm = has_gpm.then(|| device.gpm_sample().ok()).flatten();
            Some(Gpu {
                index,
                device,
                gpm,
                gpm_at: start,
                pcie_at: start,
            })
        })
        .collect();
    let mut next = start;
    let mut flushed = start;
    while !stop.load(Ordering::SeqCst) {
        for gpu in &mut gpus {
            writeln!(out, "{}", row(nvml, gpu))?;
        }
        let now = Instant::now();
        if now - flushed > Duration::from_secs(1) {
            out.flush()?;
            flushed = now;
        }
        next += period;
        if next < now {
            // Samples that were missed are missed.
            next = now;
        }
        thread::sleep(next - now);
    }
    out.flush()
}

fn row(nvml: &Nvml, gpu: &mut Gpu<'_>) -> String {
    let device = &gpu.device;
    let utc = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    let monotonic = monotonic_ns();
    let utilization = device.utilization_rates().ok();
    let mut cells = vec![
        utc.to_string(),
        cell(device.power_usage().ok()),
        cell(device.clock_info(Clock::SM).ok()),
        cell(device.clock_info(Clock::Memory).ok()),
        cell(utilization.as_ref().map(|share| share.gpu)),
        cell(utilization.as_ref().map(|share| share.memory)),
        cell(device.temperature(TemperatureSensor::Gpu).ok()),
        cell(device.memory_info().ok().map(|memory| memory.used)),
        cell(
            device
                .current_throttle_reasons()
                .ok()
                .map(|reasons| reasons.bits()),
        ),
        gpu.index.to_string(),
        cell(device.total_energy_consumption().ok()),
    ];
    let [tx, rx, gpm @ ..] = slow_cells(nvml, gpu);
    cells.extend([tx, rx, monotonic.to_string()]);
    cells.extend(gpm);
    cells.join(",")
}

/// PCIe and GPM: not in every row.
fn slow_cells(nvml: &Nvml, gpu: &mut Gpu<'_>) -> [String; 6] {
    let mut cells: [String; 6] = Default::default();
    let now = Instant::now();
    if let Some(before) = &gpu.gpm {
        if now - gpu.gpm_at < SLOW {
            return cells;
        }
        let Ok(sample) = gpu.device.gpm_sample() else {
            return cells;
        };
        let read = gpm_metrics_get(nvml, before, &sample, &GPM).unwrap_or_default();
        for (index, metric) in read.into_iter().enumerate().take(cells.len()) {
            // GPM counts MiB a second on PCIe; the column has kB.
            let scale = if index < 2 { 1_048.576 } else { 1.0 };
            cells[index] =
                metric.map_or_else(|_| String::new(), |m| format!("{:.0}", m.value * scale));
        }
        (gpu.gpm, gpu.gpm_at) = (Some(sample), now);
    } else if now - gpu.pcie_at > PCIE {
        cells[0] = cell(gpu.device.pcie_throughput(PcieUtilCounter::Send).ok());
        cells[1] = cell(gpu.device.pcie_throughput(PcieUtilCounter::Receive).ok());
        gpu.pcie_at = now;
    }
    cells
}

/// CLOCK_MONOTONIC, which profilers use and [`Instant`] does not tell.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to the struct given. It cannot fail: Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// What is not known is empty, never 0.
fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
