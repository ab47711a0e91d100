//! `rooflens gpus`: the hardware table.

use std::fmt::Write as _;

use super::error::CliError;
use super::term::Term;
use crate::document::Quantity;
use crate::hardware::{Gpu, Hardware};
use rooflens_units::FlopsPerSecond;

/// Prints a line for each GPU; of those that a name leads to all numbers with their sources; or JSON.
pub(super) fn run(name: Option<&str>, json: bool, term: &mut Term) -> Result<(), CliError> {
    let hardware = Hardware::builtin();
    let gpus = match name {
        Some(name) => hardware.matching(name),
        None => hardware.gpus.iter().collect(),
    };
    if gpus.is_empty() {
        return Err(hardware.unknown(name.unwrap_or_default()).into());
    }
    let out = match (json, name) {
        (true, _) => serde_json::to_string_pretty(&gpus).unwrap_or_default() + "\n",
        (false, Some(_)) => gpus.into_iter().map(details).collect(),
        (false, None) => table(&gpus),
    };
    term.print(out.as_bytes())
}

fn table(gpus: &[&Gpu]) -> String {
    let mut out = format!(
        "{:<35} {:>4} {:>9} {:>11} {:>14} {:>14} {:>14}\n",
        "GPU", "SMs", "memory", "bandwidth", "fp32", "16 bit", "fp8"
    );
    for gpu in gpus {
        let rate = |dtypes: &[&str]| {
            let peak = dtypes.iter().find_map(|dtype| gpu.peak(dtype));
            peak.map_or_else(String::new, |peak| flops(peak.dense))
        };
        let _ = writeln!(
            out,
            "{:<35} {:>4} {:>9} {:>11} {:>14} {:>14} {:>14}",
            gpu.name,
            gpu.sm_count,
            Quantity::from(gpu.memory_bytes).to_string(),
            bandwidth(gpu),
            rate(&["fp32"]),
            rate(&["bf16", "fp16"]),
            rate(&["fp8"]),
        );
    }
    out.push_str("Dense rates. “rooflens gpus NAME” has all of them, with their sources.\n");
    out
}

fn details(gpu: &Gpu) -> String {
    let mut out = format!(
        "{}\n  {:<12} {:<38} {}\n",
        gpu.name,
        "bandwidth",
        bandwidth(gpu),
        gpu.memory_source
    );
    for peak in &gpu.peaks {
        let mut rate = flops(peak.dense);
        if let Some(sparse) = peak.sparse {
            rate.push_str(&format!(", sparse {}", flops(sparse)));
        }
        let _ = writeln!(out, "  {:<12} {rate:<38} {}", peak.dtype, peak.source);
    }
    out
}

fn bandwidth(gpu: &Gpu) -> String {
    Quantity::from(gpu.memory_bandwidth).to_string()
}

fn flops(rate: FlopsPerSecond) -> String {
    Quantity::from(rate).to_string()
}
