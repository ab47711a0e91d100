//! `rooflens gpus`: the hardware table.

use std::fmt::Write as _;

use super::error::CliError;
use super::term::Term;
use crate::findings::Quantity;
use crate::hardware::{Gpu, Hardware};
use rooflens_schemas::Unit;

/// GPUs that are named in a message at most.
const NAMED: usize = 8;

/// Prints a line for each GPU; of those that a name leads to all numbers with their sources; or JSON.
pub(super) fn run(name: Option<&str>, json: bool, term: &mut Term) -> Result<(), CliError> {
    let hardware = Hardware::builtin();
    let found = match name {
        Some(name) => matching(&hardware, name),
        None => hardware.gpus.iter().collect(),
    };
    if found.is_empty() {
        return Err(unknown(&hardware, name.unwrap_or_default()));
    }
    let out = match (json, name) {
        (true, _) => serde_json::to_string_pretty(&found).unwrap_or_default() + "\n",
        (false, Some(_)) => found.into_iter().map(details).collect(),
        (false, None) => table(&found),
    };
    term.print(out.as_bytes())
}

/// The GPU of that name, or the one in whose name all of its words are.
///
/// # Errors
/// None has it, or several; the message has those.
pub(super) fn named<'h>(hardware: &'h Hardware, name: &str) -> Result<&'h Gpu, CliError> {
    match matching(hardware, name)[..] {
        [gpu] => Ok(gpu),
        _ => Err(unknown(hardware, name)),
    }
}

fn unknown(hardware: &Hardware, name: &str) -> CliError {
    let near: Vec<&str> =
        matching(hardware, name).into_iter().map(|gpu| gpu.name.as_str()).take(NAMED).collect();
    CliError::Usage(match near.is_empty() {
        true => format!("no GPU named {name}; “rooflens gpus” lists the known ones"),
        false => format!("no GPU named {name}; there are {}", near.join(", ")),
    })
}

/// The GPU of that name, or those in one of whose names all of its words are.
fn matching<'h>(hardware: &'h Hardware, name: &str) -> Vec<&'h Gpu> {
    if let Some(gpu) = hardware.find(name) {
        return vec![gpu];
    }
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().filter(|word| *word != "nvidia").collect();
    let has = |name: &String| words.iter().all(|word| name.to_lowercase().contains(word));
    let is_near = |gpu: &&Gpu| has(&gpu.name) || gpu.aliases.iter().any(has);
    hardware.gpus.iter().filter(|_| !words.is_empty()).filter(is_near).collect()
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
            Quantity::new(gpu.memory_bytes, Unit::Bytes).to_string(),
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
    Quantity::new(gpu.memory_bandwidth, Unit::BytesPerSecond).to_string()
}

fn flops(rate: f64) -> String {
    Quantity::new(rate, Unit::FlopPerSecond).to_string()
}
