//! `snapshot`: what the machine and its software are.

mod gpus;
mod host;
pub(crate) mod runner;
mod smi;
mod tools;
mod variables;

use std::path::Path;

use rooflens_schemas::{Environment, Fact, environment, manifest};

use crate::args::SnapshotArguments;
use crate::error::CaptureError;
use crate::{files, say, utc};
pub(crate) use gpus::first_gpu;
pub(crate) use host::is_container;
use runner::{Runner, System};

/// The folder of the bundle that a snapshot is written into; the id of its pass.
const FOLDER: &str = "snapshot";

/// Writes `snapshot/env.json` and, where the tool is there, `snapshot/nvidia-smi.xml`.
pub(crate) fn run(arguments: &SnapshotArguments) -> Result<String, CaptureError> {
    let bundle = &arguments.output;
    if bundle.join(manifest::FILE_NAME).exists() {
        return Err(CaptureError::Complete(bundle.clone()));
    }
    write(arguments)
}

/// The same for a bundle that other passes are added to, and says it. A snapshot that is there is kept.
pub(crate) fn write_if_absent(arguments: &SnapshotArguments) -> Result<(), CaptureError> {
    if !arguments.output.join(FOLDER).exists() {
        say(&write(arguments)?);
    }
    Ok(())
}

fn write(arguments: &SnapshotArguments) -> Result<String, CaptureError> {
    let bundle = &arguments.output;
    let folder = bundle.join(FOLDER);
    files::make(&folder)?;
    let mut entries = gpus::facts(arguments.uuid);
    entries.extend(host::facts(Path::new("/")));
    entries.extend(tools::facts(
        &System,
        &arguments.python,
        &arguments.profilers,
    ));
    entries.extend(variables::facts(|name| std::env::var(name).ok()));
    entries.push(write_smi(&System, &folder)?);
    let missing = entries
        .iter()
        .filter(|fact| fact.value.known().is_none())
        .count();
    let said = format!(
        "{}: {} facts, {missing} of them missing",
        folder.display(),
        entries.len()
    );
    write_environment(entries, &folder)?;
    Ok(said)
}

fn write_environment(entries: Vec<Fact>, folder: &Path) -> Result<(), CaptureError> {
    let version = environment::VERSION;
    let environment = Environment {
        version,
        captured_at: Some(utc::now()),
        entries,
    };
    let mut text = serde_json::to_string_pretty(&environment).expect("facts have string keys");
    text.push('\n');
    let path = folder.join(environment::FILE_NAME);
    files::write(&path, text).map_err(CaptureError::io(&path))
}

/// Writes what `nvidia-smi -q -x` says, without what tells devices and users apart.
fn write_smi(runner: &impl Runner, folder: &Path) -> Result<Fact, CaptureError> {
    let path = folder.join("nvidia-smi.xml");
    Ok(match runner.output("nvidia-smi", &["-q", "-x"]) {
        Ok(xml) => {
            files::write(&path, smi::redacted(&xml)).map_err(CaptureError::io(&path))?;
            Fact::known("tool", "nvidia_smi", format!("{FOLDER}/nvidia-smi.xml"))
        }
        Err(reason) => Fact::missing("tool", "nvidia_smi", reason),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::runner::Fake;
    use super::*;

    #[test]
    fn the_answer_of_nvidia_smi_is_kept_without_identities() {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::new().with("nvidia-smi", Ok("<log><serial>123</serial></log>"));
        let fact = write_smi(&fake, folder.path()).unwrap();
        assert_eq!(fact.value.known(), Some("snapshot/nvidia-smi.xml"));
        let xml = std::fs::read_to_string(folder.path().join("nvidia-smi.xml")).unwrap();
        assert_eq!(xml, "<log><serial>N/A</serial></log>");
    }

    #[test]
    fn without_nvidia_smi_there_is_a_reason_and_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let fact = write_smi(&Fake::new(), folder.path()).unwrap();
        assert_eq!(
            fact,
            Fact::missing("tool", "nvidia_smi", "nvidia-smi is not on the path")
        );
        assert!(!folder.path().join("nvidia-smi.xml").exists());
    }
}
