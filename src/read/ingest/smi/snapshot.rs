//! The state of each GPU, in numbers.

use rooflens_session::{GpuSnapshot, MigDevice, Session, StrId};

use super::{Gpu, Log, POWER_LIMITS, Texts, is_stated};

/// Bits of `nvmlClocksEventReasons` by the names that the file gives them.
const REASONS: [(&str, u64); 9] = [
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clocks_setting", 0x100),
];

const POWER: &[&str] = &[
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/average_power_draw",
    "power_readings/power_draw",
];

const DEFAULT_POWER: &[&str] = &[
    "gpu_power_readings/default_power_limit",
    "power_readings/default_power_limit",
];

const REPAIRS: &[&str] = &[
    "remapped_rows/remapped_row_pending",
    "retired_pages/pending_retirement",
    "retired_pages/pending_blacklist",
];

/// Adds the states of all GPUs of a file.
pub(super) fn add(log: &Log, artifact: StrId, session: &mut Session) {
    for (index, gpu) in log.gpus.iter().enumerate() {
        let device = u32::try_from(index).unwrap_or(u32::MAX);
        let row = state(log, gpu, (artifact, device), session);
        session.gpu_snapshots.push(row);
        for texts in &gpu.mig {
            session
                .mig_devices
                .push(mig_device(texts, artifact, device));
        }
    }
}

fn mig_device(texts: &Texts, artifact: StrId, device: u32) -> MigDevice {
    MigDevice {
        artifact,
        device,
        gpu_instance: small(texts, &["gpu_instance_id"]),
        compute_instance: small(texts, &["compute_instance_id"]),
        sm_count: small(texts, &["device_attributes/shared/multiprocessor_count"]),
        memory_used: scaled(texts, &["fb_memory_usage/used"], MIB),
        memory_total: scaled(texts, &["fb_memory_usage/total"], MIB),
    }
}

fn state(
    log: &Log,
    gpu: &Gpu,
    (artifact, device): (StrId, u32),
    session: &mut Session,
) -> GpuSnapshot {
    let texts = &gpu.texts;
    let mut name = |texts: &Texts, path: &str| {
        Some(session.intern(texts.get(path).filter(|text| is_stated(text))?))
    };
    let yes = |path: &str, word: &str| stated(texts, &[path]).map(|text| text == word);
    let repairs: Vec<bool> = REPAIRS.iter().filter_map(|path| yes(path, "Yes")).collect();
    let link = "pci/pci_gpu_link_info";
    let link = |part: &str| small(texts, &[format!("{link}/{part}").as_str()]);
    GpuSnapshot {
        artifact,
        time: name(&log.driver, "timestamp"),
        device,
        name: name(texts, "product_name"),
        driver: name(&log.driver, "driver_version"),
        cuda: name(&log.driver, "cuda_version"),
        performance_state: name(texts, "performance_state"),
        sm_mhz: small(texts, &["clocks/sm_clock"]),
        sm_max_mhz: small(texts, &["max_clocks/sm_clock"]),
        memory_mhz: small(texts, &["clocks/mem_clock"]),
        memory_max_mhz: small(texts, &["max_clocks/mem_clock"]),
        power_mw: scaled(texts, POWER, 1000),
        power_limit_mw: scaled(texts, POWER_LIMITS, 1000),
        power_default_mw: scaled(texts, DEFAULT_POWER, 1000),
        temperature: small(texts, &["temperature/gpu_temp"]),
        slowdown_temperature: small(texts, &["temperature/gpu_temp_slow_threshold"]),
        memory_used: scaled(texts, &["fb_memory_usage/used"], MIB),
        memory_total: scaled(texts, &["fb_memory_usage/total"], MIB),
        gpu_util: small(texts, &["utilization/gpu_util"]),
        memory_util: small(texts, &["utilization/memory_util"]),
        throttle_reasons: reasons(texts),
        ecc: yes("ecc_mode/current_ecc", "Enabled"),
        ecc_corrected: errors(texts, "volatile", &["_correctable", "single_bit/total"]),
        ecc_uncorrectable: errors(texts, "volatile", &["uncorrectable", "double_bit/total"]),
        ecc_uncorrectable_total: errors(texts, "aggregate", &["uncorrectable", "double_bit/total"]),
        repair_pending: (!repairs.is_empty()).then(|| repairs.contains(&true)),
        pcie_generation: link("pcie_gen/current_link_gen"),
        pcie_generation_max: link("pcie_gen/max_link_gen"),
        pcie_width: link("link_widths/current_link_width"),
        pcie_width_max: link("link_widths/max_link_width"),
        mig: yes("mig_mode/current_mig", "Enabled"),
        processes: gpu.processes,
    }
}

const MIB: u32 = 1 << 20;

/// The first text that is a value.
fn stated<'t>(texts: &'t Texts, paths: &[&str]) -> Option<&'t str> {
    let mut stated_texts = paths.iter().filter_map(|path| texts.get(*path));
    stated_texts
        .find(|text| is_stated(text))
        .map(String::as_str)
}

/// `7441 MHz`, `25.10 W`, `16x`: the number.
fn number(text: &str) -> Option<f64> {
    let first = text.split_whitespace().next()?.trim_end_matches('x');
    first
        .parse()
        .ok()
        .filter(|number| (0.0..1e12).contains(number))
}

fn small(texts: &Texts, paths: &[&str]) -> Option<u32> {
    let number = number(stated(texts, paths)?)?;
    (number <= f64::from(u32::MAX)).then_some(number as u32)
}

fn scaled(texts: &Texts, paths: &[&str], scale: u32) -> Option<u64> {
    let number = number(stated(texts, paths)?)?;
    Some((number * f64::from(scale)).round() as u64)
}

/// The sum of the error counts of a period; of both layouts, whose names differ.
fn errors(texts: &Texts, period: &str, names: &[&str]) -> Option<u64> {
    let prefix = format!("ecc_errors/{period}/");
    let counters = texts.iter().filter(|(path, _)| {
        path.strip_prefix(&prefix)
            .is_some_and(|rest| names.iter().any(|name| rest.contains(name)))
    });
    let counts: Vec<f64> = counters.filter_map(|(_, text)| number(text)).collect();
    (!counts.is_empty()).then(|| counts.iter().sum::<f64>() as u64)
}

/// The reasons that are active; none if the file states no reason at all.
fn reasons(texts: &Texts) -> Option<u64> {
    let active = super::reasons(texts);
    let bit = |name: &str| {
        REASONS
            .iter()
            .find(|(reason, _)| *reason == name)
            .map_or(0, |reason| reason.1)
    };
    let mask =
        |sum: u64, (name, active): &(String, bool)| if *active { sum | bit(name) } else { sum };
    (!active.is_empty()).then(|| active.iter().fold(0, mask))
}
