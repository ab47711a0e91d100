//! `completions` and `man`: what shells and readers of manuals want to know of the arguments.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Arguments;
use crate::error::CaptureError;

const PROGRAM: &str = "rooflens-capture";

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<String, CaptureError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    io::stdout()
        .write_all(&script)
        .map_err(CaptureError::io(Path::new("standard output")))?;
    Ok(String::new())
}

/// Writes a page for the program and one for each command: its help as it stands. `clap_mangen` would be two crates.
pub(crate) fn man(folder: &Path) -> Result<String, CaptureError> {
    fs::create_dir_all(folder).map_err(CaptureError::io(folder))?;
    let mut program = Arguments::command();
    program.build();
    let commands = program
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
        .cloned();
    let pages: Vec<(String, Command)> = std::iter::once((PROGRAM.to_owned(), program.clone()))
        .chain(commands.map(|one| (format!("{PROGRAM}-{}", one.get_name()), one)))
        .collect();
    for (name, mut command) in pages {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page(&name, &mut command)).map_err(CaptureError::io(&path))?;
    }
    Ok(format!("wrote man pages to {}", folder.display()))
}

fn page(name: &str, command: &mut Command) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let help = roff(&command.render_long_help().to_string());
    let (title, name, about) = (name.to_uppercase(), roff(name), roff(&about));
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {title} 1 \"\" \"{PROGRAM} {version}\"\n.SH NAME\n{name} \\- {about}\n.SH DESCRIPTION\n.nf\n{help}\n.fi\n"
    )
}

/// A text in which nothing commands the formatter.
fn roff(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) {
            format!("\\&{line}")
        } else {
            line
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_commands_the_formatter() {
        assert_eq!(roff(".so x\na \\ b --c"), "\\&.so x\na \\e b \\-\\-c");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("there is room");
        man(folder.path()).expect("writable");
        let page =
            fs::read_to_string(folder.path().join("rooflens-capture-nsys.1")).expect("a page");
        assert!(page.starts_with(".TH ROOFLENS-CAPTURE-NSYS 1 "), "{page}");
        assert!(page.contains("\\-\\-gate"), "{page}");
        assert!(folder.path().join("rooflens-capture.1").is_file());
        assert!(!folder.path().join("rooflens-capture-help.1").exists());
    }
}
