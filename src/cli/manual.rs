//! `rooflens completions` and `rooflens man`: what shells and readers of manuals want to know of the arguments.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Args;
use super::error::CliError;
use super::term::Term;

/// Prints the completions of a shell.
pub(super) fn completions(shell: Shell, term: &mut Term) -> Result<(), CliError> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "rooflens", &mut out);
    term.print(&out)
}

/// Writes a page for the program and one for each command.
pub(super) fn man(folder: &Path, term: &mut Term) -> Result<(), CliError> {
    let write = || {
        fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Args::command(), folder)
    };
    write().map_err(|error| CliError::Write {
        path: folder.to_owned(),
        error,
    })?;
    term.note(&format!("wrote man pages to {}", folder.display()));
    Ok(())
}
