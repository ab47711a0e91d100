//! `rooflens baseline`: figures of accepted runs, one file per workload in a plain folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::args::{Baseline as Args, BaselineInput};
use super::error::CliError;
use super::files::write_file;
use super::gate;
use super::output::file_stem;
use super::term::{Term, printable};
use crate::bundle;
use crate::compare::Record;
use crate::compare::record::{Acceptance, KEY_LENGTH, VERSION};
use crate::document::Quantity;
use crate::render::RenderError;
use rooflens_schemas::{MetricsFile, Unit, metrics};

/// Largest record, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Runs one of the commands.
pub(super) fn run(args: &Args, term: &mut Term) -> Result<(), CliError> {
    match args {
        Args::Add(input) => add(input, None, term),
        Args::Accept { input, reason } => add(input, Some(reason), term),
        Args::List { store } => list(&Store::new(store), term),
        Args::Show { key, store } => show(&Store::new(store), key, term),
    }
}

/// Stores the record of a run; with a reason, it replaces the one that is there.
fn add(input: &BaselineInput, reason: Option<&String>, term: &mut Term) -> Result<(), CliError> {
    let (mut record, _) = gate::record(&input.run, term)?;
    let missing = match (record.is_empty(), record.conditions.is_empty()) {
        (true, _) => Some("has no figure to keep: neither a stage time nor a metric"),
        (_, true) => Some("states neither GPU nor workload, by which a baseline is found"),
        _ => None,
    };
    if let Some(missing) = missing {
        let message = format!("{} {missing}", record.name);
        return Err(CliError::unusable(message));
    }
    let store = Store::new(&input.store);
    let existing = store.find(&record.key())?;
    match (&existing, reason) {
        (Some(path), None) => {
            return Err(CliError::Usage(format!(
                "{} is the baseline of this workload; rooflens baseline accept --reason replaces it",
                path.display()
            )));
        }
        (None, Some(_)) => {
            return Err(CliError::Usage(format!(
                "{} has no baseline of this workload to replace; rooflens baseline add stores one",
                store.folder.display()
            )));
        }
        (Some(path), Some(reason)) => {
            let replaced = read(path)?;
            record.accepted = replaced.accepted;
            record.accepted.push(Acceptance {
                reason: reason.clone(),
                replaced: replaced.bundles,
            });
        }
        (None, None) => {}
    }
    let path = existing.unwrap_or_else(|| store.path(&record));
    let text = serde_json::to_string_pretty(&record).map_err(RenderError::from)?;
    write_file(&path, (text + "\n").as_bytes())?;
    term.note(&format!("wrote {}", path.display()));
    Ok(())
}

fn list(store: &Store, term: &mut Term) -> Result<(), CliError> {
    let mut lines = String::new();
    for path in store.files()? {
        let record = read(&path)?;
        let stages: Vec<String> = record.stages.iter().map(time).collect();
        let gpu = record.conditions.get("gpu").map_or("", String::as_str);
        let cells = [&*record.key(), &*record.name, gpu, &*stages.join(", ")].map(printable);
        lines += &format!("{}\n", cells.join("  "));
    }
    term.print(lines.as_bytes())
}

/// A stage with the median of its times.
fn time(stage: &crate::compare::times::StageTimes) -> String {
    let times = match stage.unprofiled.is_empty() {
        true => &stage.profiled,
        false => &stage.unprofiled,
    };
    match rooflens_stats::median(times) {
        Some(median) => format!(
            "{} {}",
            stage.name,
            Quantity::new(median, Unit::Nanoseconds)
        ),
        None => stage.name.clone(),
    }
}

fn show(store: &Store, key: &str, term: &mut Term) -> Result<(), CliError> {
    let Some(path) = store.find(key)? else {
        let folder = store.folder.display();
        return Err(CliError::Unusable {
            message: format!("{folder} has no baseline {key}"),
            hint: Some("rooflens baseline list shows what it has".to_owned()),
        });
    };
    let text = serde_json::to_string_pretty(&read(&path)?).map_err(RenderError::from)?;
    term.print((text + "\n").as_bytes())
}

/// A folder of records, `NAME-KEY.json` each.
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The records by name; none if there is no folder.
    fn files(&self) -> Result<Vec<PathBuf>, CliError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let unreadable = |error| CliError::unusable(format!("{}: {error}", self.folder.display()));
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if is_of_store(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Whether it is a folder that holds records.
    pub(super) fn is_store(&self) -> Result<bool, CliError> {
        Ok(self.folder.is_dir() && !self.files()?.is_empty())
    }

    /// The record of a workload.
    pub(super) fn find(&self, key: &str) -> Result<Option<PathBuf>, CliError> {
        let ending = format!("-{key}.json");
        let is_of_key = |path: &PathBuf| path.to_string_lossy().ends_with(&ending);
        Ok(self.files()?.into_iter().find(is_of_key))
    }

    fn path(&self, record: &Record) -> PathBuf {
        let name = file_stem(&record.name).to_lowercase();
        self.folder.join(format!("{name}-{}.json", record.key()))
    }
}

/// Whether a file is named like a record of a store. A damaged one is, too, so that reading it says so.
fn is_of_store(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let key = stem.rsplit_once('-').map_or("", |(_, key)| key);
    is_json(path) && key.len() == KEY_LENGTH && key.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Whether a file looks like a record.
fn is_record(path: &Path) -> bool {
    is_json(path) && parsed(path).is_ok()
}

fn is_json(path: &Path) -> bool {
    let extension = path.extension();
    path.is_file() && extension.is_some_and(|extension| extension == "json")
}

/// The figures of a file of figures: a record, or a `metrics.json`. None for other files, and for captures.
pub(super) fn figures(path: &Path) -> Result<Option<Record>, CliError> {
    if is_record(path) {
        return read(path).map(Some);
    }
    // Larger files are traces.
    let is_larger = || fs::metadata(path).is_ok_and(|file| file.len() > MAX_BYTES);
    if !is_json(path) || is_larger() {
        return Ok(None);
    }
    let content = content(path).map_err(CliError::unusable)?;
    let Ok(file) = serde_json::from_slice::<MetricsFile>(&content) else {
        return Ok(None);
    };
    match file.version {
        metrics::VERSION => Ok(Some(Record::of_metrics(&file))),
        version => Err(CliError::unusable(format!(
            "{}: version {version} of metrics.json is not {}",
            path.display(),
            metrics::VERSION
        ))),
    }
}

/// Reads a record.
pub(super) fn read(path: &Path) -> Result<Record, CliError> {
    let record = parsed(path).map_err(|reason| {
        CliError::unusable(format!("{} is no baseline: {reason}", path.display()))
    })?;
    match record.rooflens_baseline {
        VERSION => Ok(record),
        version => Err(CliError::unusable(format!(
            "{}: version {version} of the format is not {VERSION}",
            path.display()
        ))),
    }
}

fn parsed(path: &Path) -> Result<Record, String> {
    serde_json::from_slice(&content(path)?).map_err(|error| error.to_string())
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("{size} bytes are too many"));
    }
    bundle::argument(path).map_err(|error| error.to_string())
}
