//! `rooflens gpus`: the hardware table.

use std::fmt::Write as _;

use super::error::CliError;
use super::term::Term;
use crate::document::Quantity;
use crate::hardware::{Gpu, Hardware};
use rooflens_units::FlopsPerSecond;

/// GPUs that are named in a message at most.
const NAMED: usize = 8;

/// Letters and digits of a name that tell something of the GPU.
const LEAST: usize = 3;

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
    let near = nearest(hardware, name);
    let near: Vec<&str> = near
        .iter()
        .map(|gpu| gpu.name.as_str())
        .take(NAMED)
        .collect();
    CliError::Usage(match near.is_empty() {
        true => format!("no GPU named {name}; “rooflens gpus” lists the known ones"),
        false => format!("no GPU named {name}; there are {}", near.join(", ")),
    })
}

/// The GPUs that a name leads to, or its longest beginning that leads to any.
fn nearest<'h>(hardware: &'h Hardware, name: &str) -> Vec<&'h Gpu> {
    let ends = name.char_indices().map(|(at, _)| at).rev();
    let beginnings = std::iter::once(name).chain(ends.map(|end| &name[..end]));
    let meant = beginnings.take_while(|beginning| plain(beginning).len() >= LEAST);
    meant
        .map(|name| matching(hardware, name))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// The GPU of that name, or those in one of whose names all of its words are.
fn matching<'h>(hardware: &'h Hardware, name: &str) -> Vec<&'h Gpu> {
    if let Some(gpu) = hardware.find(name) {
        return vec![gpu];
    }
    let words: Vec<String> = name
        .split(|sign: char| !sign.is_alphanumeric())
        .map(plain)
        .filter(|word| !word.is_empty() && word != "nvidia")
        .collect();
    let has = |name: &String| words.iter().all(|word| plain(name).contains(word));
    let is_near = |gpu: &&Gpu| has(&gpu.name) || gpu.aliases.iter().any(has);
    hardware
        .gpus
        .iter()
        .filter(|_| !words.is_empty())
        .filter(is_near)
        .collect()
}

/// Letters and digits alone: people write `rtx4090` and `A100-80GB`.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|sign| sign.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them_lead_to_gpus_and_wrong_ones_to_the_nearest() {
        let hardware = Hardware::builtin();
        for (name, found) in [
            ("rtx4090", "GeForce RTX 4090"),
            ("h200sxm", "H200 SXM"),
            ("mi250x", "Instinct MI250X"),
            ("b200", "B200"),
            ("t5000", "Jetson T5000"),
        ] {
            let gpus = matching(&hardware, name);
            assert_eq!(
                gpus.first().map(|gpu| gpu.name.as_str()),
                Some(found),
                "{name}"
            );
        }
        let names: Vec<&str> = matching(&hardware, "a100-80gb")
            .iter()
            .map(|gpu| gpu.name.as_str())
            .collect();
        assert_eq!(names, ["A100 PCIe 80GB", "A100 SXM4 80GB"]);
        for part in [
            "orin", "thor", "gb300", "v100", "titan", "quadro", "2080", "mi355",
        ] {
            assert!(!matching(&hardware, part).is_empty(), "{part}");
        }
        let said = |name: &str| unknown(&hardware, name).to_string();
        assert!(
            said("h1000").contains("there are H100 SXM5 80GB, H100 PCIe 80GB"),
            "{}",
            said("h1000")
        );
        assert!(said("xyz").contains("lists the known ones"));
    }
}
