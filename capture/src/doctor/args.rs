//! The command line of `doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::args::Profilers;

/// Check that all passes can run on this machine, and say how to fix what would stop one
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture doctor
  rooflens-capture doctor --python .venv/bin/python -o /data/run1
  rooflens-capture doctor --json

Exit codes: 0 if all passes can run, 1 if something would stop one, 125 if this program failed")]
pub(crate) struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder that a bundle would be written to
    #[arg(short, long, value_name = "BUNDLE", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Python whose PyTorch is looked at
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
    /// Folder that takes the place of /
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) profilers: Profilers,
}
