//! The nsys of this machine, if there is one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pipeline::Exporter;

/// Path of `nsys`, which exports reports.
pub struct Nsys(pub(super) PathBuf);

impl Nsys {
    /// The first program of that name on the search path.
    pub fn find() -> Option<Self> {
        let path = env::var_os("PATH")?;
        let mut programs = env::split_paths(&path).map(|folder| folder.join("nsys"));
        programs.find(|program| program.is_file()).map(Self)
    }
}

impl Exporter for Nsys {
    /// Runs `nsys export`; the error is the last line that it printed.
    fn export(&self, report: &Path, target: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.0);
        command.args(["export", "--type", "sqlite", "--force-overwrite", "true"]);
        command.arg("--output").arg(target).arg(report);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() && target.is_file() {
            return Ok(());
        }
        let printed = [output.stderr, output.stdout].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let last = printed
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty());
        Err(last.unwrap_or("it wrote nothing").to_owned())
    }
}
