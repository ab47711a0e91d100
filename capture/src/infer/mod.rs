//! What ran, from the notes of the injected modules: `config.json`, `workload.toml` and `timings.json` of a workload
//! that writes none. What it writes itself is never touched.

mod document;
mod facts;
mod sizes;
mod stages;

use std::fs;
use std::path::Path;

use rooflens_schemas::workload;
use serde_json::{Map, Value};

use crate::error::CaptureError;
use crate::files;
use crate::redact::Secrets;
use facts::Notes;

/// Name of the file with unprofiled times, in the folder of the baseline pass.
const TIMINGS: &str = "timings.json";

/// Writes what can be inferred and is not there, without secrets. `notes` holds a folder for each run. Gives a line that says so.
pub(crate) fn write(
    notes: &Path,
    bundle: &Path,
    pass: &Path,
    secrets: &Secrets,
) -> Result<Option<String>, CaptureError> {
    let runs: Vec<Notes> = counted_runs(notes)
        .iter()
        .filter_map(|folder| facts::main_of(facts::read(folder)))
        .collect();
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    let mut written = Vec::new();
    let mut put = |path: &Path, text: String| {
        if path.exists() {
            return Ok(());
        }
        files::write(path, secrets.masked_text(&text)).map_err(CaptureError::io(path))?;
        written.push(
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        );
        Ok(())
    };
    let (sizes, stages) = (sizes::of(first), stages::of(&runs));
    if let Some(config) = config(first) {
        put(&bundle.join("config.json"), format!("{config:#}\n"))?;
    }
    let has_config = bundle.join("config.json").exists();
    if let Some(text) = document::write(first, &sizes, &stages, has_config) {
        put(&bundle.join(workload::FILE_NAME), text)?;
    }
    if !stages.all.is_empty() {
        let mut head = Map::new();
        for (key, value) in [
            ("batch", sizes.batch),
            ("prompt_tokens", sizes.prompt_tokens),
            ("output_tokens", sizes.output_tokens),
        ] {
            head.extend(value.map(|value| (key.to_owned(), value.into())));
        }
        head.extend(
            first
                .torch
                .clone()
                .map(|torch| ("torch".to_owned(), torch.into())),
        );
        put(&pass.join(TIMINGS), format!("{:#}\n", stages.timings(head)))?;
    }
    let said = format!("inferred from the workload: {}", written.join(", "));
    Ok((!written.is_empty()).then_some(said))
}

/// Folders of the runs that count, in order; that of warm-up runs is not a number.
fn counted_runs(notes: &Path) -> Vec<std::path::PathBuf> {
    let mut runs: Vec<(u32, std::path::PathBuf)> = Vec::new();
    for entry in fs::read_dir(notes).into_iter().flatten().flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        runs.extend(number.map(|number| (number, entry.path())));
    }
    runs.sort();
    runs.into_iter().map(|(_, path)| path).collect()
}

/// The config of the model, as Hugging Face writes it.
fn config(notes: &Notes) -> Option<&Value> {
    let own = sizes::model_of(notes).and_then(|model| model.config.as_ref());
    let served = notes.served_config.as_ref().map(|served| &served.config);
    own.or(served).filter(|config| config.is_object())
}

/// Whether the baseline of this bundle showed that the workload opens no ranges, so that ours are needed.
pub(crate) fn lacks_ranges(bundle: &Path) -> bool {
    let text = fs::read(bundle.join("baseline").join(TIMINGS)).unwrap_or_default();
    let timings: Value = serde_json::from_slice(&text).unwrap_or_default();
    timings.get("ranges").and_then(Value::as_str) == Some(stages::INJECTED)
}
