//! `doctor`: what would keep a pass from working on this machine, and the one command that fixes it.

pub(crate) mod args;
#[allow(unsafe_code, reason = "asks the C library for the room of a disk")]
mod machine;
mod permissions;
mod versions;

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::args::DoctorArguments;
use crate::error::CaptureError;
use crate::run::Outcome;
use crate::snapshot::runner::{Runner, System};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Nothing is wrong.
    Ok,
    /// It cannot be reported: a file or a tool is not there.
    Unknown,
    /// Something is lost or disturbed, but all passes run.
    Warning,
    /// A pass would fail.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// A name that stays.
    pub(crate) id: &'static str,
    pub(crate) status: Status,
    /// What was found.
    pub(crate) finding: String,
    /// The command that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Check {
    fn new(id: &'static str, status: Status, finding: impl Into<String>) -> Self {
        Self {
            id,
            status,
            finding: finding.into(),
            fix: None,
        }
    }

    fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }
}

/// What the checks look at.
pub(crate) struct Machine<'a, R> {
    /// `/`, or a folder with planted files.
    root: &'a Path,
    runner: &'a R,
    arguments: &'a DoctorArguments,
}

impl<R: Runner> Machine<'_, R> {
    /// The text of a file of Linux.
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// A file that holds one number.
    fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.trim().parse().ok()
    }

    /// The value of the line `key: value` of a file.
    fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.read(path)?;
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
    }

    /// Whether it is a container: its remedies are options of `docker run`.
    fn is_container(&self) -> bool {
        crate::snapshot::is_container(self.root)
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = permissions::checks(self);
        checks.extend(versions::checks(self));
        checks.extend(machine::checks(self));
        checks
    }
}

/// Prints the checks. Exit code 1 says that a pass would fail.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<Outcome, CaptureError> {
    let machine = Machine {
        root: &arguments.root,
        runner: &System,
        arguments,
    };
    let checks = machine.checks();
    let is_ok = checks.iter().all(|check| check.status != Status::Problem);
    let text = match arguments.json {
        true => {
            let document = serde_json::json!({ "version": 1, "ok": is_ok, "checks": checks });
            format!("{document:#}\n")
        }
        false => table(&checks),
    };
    // Nobody reads it: nothing is left to be done.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(Outcome {
        said: String::new(),
        code: u8::from(!is_ok),
    })
}

/// A line a check, with its remedy below.
fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match check.status {
            Status::Ok => "ok",
            Status::Unknown => "unknown",
            Status::Warning => "warning",
            Status::Problem => "PROBLEM",
        };
        text.push_str(&format!(
            "{mark:<8}{:<width$}  {}\n",
            check.id, check.finding
        ));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{:<8}{:<width$}  fix: {fix}\n", "", ""));
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let (problems, warnings) = (count(Status::Problem), count(Status::Warning));
    text.push_str(&match (problems, warnings) {
        (0, 0) => "All passes can run.\n".to_owned(),
        (0, warnings) => format!("All passes can run; warnings: {warnings}.\n"),
        (problems, warnings) => {
            format!("Some passes would fail; problems: {problems}, warnings: {warnings}.\n")
        }
    });
    text
}

#[cfg(test)]
mod tests;
