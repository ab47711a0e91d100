//! `rooflens experiments`: what the experiments of a ledger show.

use std::fs;
use std::path::Path;

use super::args::Experiments as Args;
use super::error::CliError;
use super::gate::record;
use super::output::{Writer, file_stem};
use super::term::Term;
use crate::bundle;
use crate::compare::ledger::Ledger;
use crate::pipeline::{self, Settings};
use rooflens_units::Ratio;

/// Largest ledger, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Writes the report of a ledger.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    let path = &args.ledger;
    let mut writer = Writer::new(&args.output, [path])?;
    let wrong = |reason: String| CliError::unusable(format!("{}: {reason}", path.display()));
    let ledger = text(path)
        .and_then(|text| Ledger::parse(&text))
        .map_err(wrong)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut records = Vec::new();
    for entry in &ledger.experiments {
        let runs: Vec<_> = entry.runs.iter().map(|run| folder.join(run)).collect();
        if runs.is_empty() {
            records.push(None);
            continue;
        }
        let (of_entry, captures) = record(&runs, term)?;
        for capture in &captures {
            writer.protect(&capture.bundle);
        }
        records.push(Some(of_entry));
    }
    let settings = Settings {
        least: args.least()?,
        allowed: &[],
        lang: writer.language(),
    };
    let report = pipeline::experiments(path, &ledger, &records, settings)?;
    let folder = format!("{}-experiments", file_stem(&ledger.name));
    writer.write(&report, None, &folder, term)
}

fn text(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("{size} bytes are too many"));
    }
    bundle::argument_text(path).map_err(|error| error.to_string())
}

impl Args {
    /// The least change that counts.
    fn least(&self) -> Result<Ratio, CliError> {
        let least = Ratio(self.least / 100.0);
        match least.0 > 0.0 && least.0.is_finite() {
            true => Ok(least),
            false => {
                let message = format!("--least {}: expected a percentage above 0", self.least);
                Err(CliError::Usage(message))
            }
        }
    }
}
