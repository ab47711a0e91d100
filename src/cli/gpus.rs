//! `rooflens gpus`: the hardware table.

use super::error::CliError;
use super::term::Term;
use crate::findings::Quantity;
use crate::hardware::Hardware;
use rooflens_schemas::Unit;

/// Prints every GPU with its peaks and their sources.
pub(super) fn run(term: &mut Term) -> Result<(), CliError> {
    let mut out = String::new();
    for gpu in &Hardware::builtin().gpus {
        let bandwidth = Quantity::new(gpu.memory_bandwidth, Unit::BytesPerSecond);
        out.push_str(&format!(
            "{}\n  {:<12} {bandwidth:<38} {}\n",
            gpu.name, "bandwidth", gpu.memory_source
        ));
        for peak in &gpu.peaks {
            let mut rate = Quantity::new(peak.dense, Unit::FlopPerSecond).to_string();
            if let Some(sparse) = peak.sparse {
                rate.push_str(&format!(", sparse {}", Quantity::new(sparse, Unit::FlopPerSecond)));
            }
            out.push_str(&format!("  {:<12} {rate:<38} {}\n", peak.dtype, peak.source));
        }
    }
    term.print(out.as_bytes())
}
