//! Standard output and standard error: plain when piped, progress and colour on a terminal only.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::Color;
use super::error::CliError;
use crate::diagnostic::{Diagnostic, Severity};
use crate::render::text::clean;

/// Diagnostics that are printed of those that differ in the artifact only.
const MOST_ALIKE: usize = 3;

/// Where a command prints.
pub(super) struct Term {
    quiet: bool,
    color: bool,
    bar: Option<ProgressBar>,
}

impl Term {
    pub(super) fn new(quiet: bool, color: Color) -> Self {
        let is = |name: &str, word: &str| std::env::var_os(name).is_some_and(|value| value == word);
        let terminal = io::stderr().is_terminal() && !is("TERM", "dumb");
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal && (std::env::var_os("NO_COLOR").is_none() || is("NO_COLOR", ""))
            }
        };
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { quiet, color, bar }
    }

    /// Says what is being done, on a terminal.
    pub(super) fn step(&self, message: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(printable(&message.into()));
        }
    }

    /// Takes the progress away before something is printed for good.
    pub(super) fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A line for people on standard error.
    pub(super) fn note(&mut self, message: &str) {
        self.done();
        if !self.quiet {
            self.print_error_line(&printable(message));
        }
    }

    /// A diagnostic on standard error; those below `Notice` are only in the report.
    pub(super) fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        if self.quiet && diagnostic.severity < Severity::Error {
            return;
        }
        self.done();
        let label = match diagnostic.severity {
            Severity::Error => self.painted("31;1", "error"),
            Severity::DataLoss => self.painted("33;1", "data loss"),
            Severity::Notice => self.painted("36", "notice"),
            Severity::Info => return,
        };
        let artifact = diagnostic
            .artifact
            .as_deref()
            .map_or_else(String::new, |path| format!("{}: ", clean(path)));
        let times = if diagnostic.count > 1 {
            format!(" ({} times)", diagnostic.count)
        } else {
            String::new()
        };
        let (message, at) = (printable(&diagnostic.message), diagnostic.at.to_string());
        self.print_error_line(&format!(
            "{label}: {artifact}{message}{}{times}",
            clean(&at)
        ));
        if let Some(hint) = &diagnostic.hint {
            self.print_error_line(&format!("  hint: {}", printable(hint)));
        }
    }

    /// Each failure, however alike they are. The error makes the exit code say that there were some.
    pub(super) fn failures(&mut self, failures: &[Diagnostic]) -> Result<(), CliError> {
        for failure in failures {
            self.diagnostic(failure);
        }
        match failures.len() {
            0 => Ok(()),
            count => Err(CliError::Errors(count)),
        }
    }

    /// Diagnostics on standard error: of those that differ in the artifact only, the first [`MOST_ALIKE`] and a count.
    pub(super) fn diagnostics<'a>(
        &mut self,
        diagnostics: impl IntoIterator<Item = &'a Diagnostic>,
    ) {
        let mut alike: BTreeMap<_, (usize, &Diagnostic)> = BTreeMap::new();
        for diagnostic in diagnostics {
            let kind = (diagnostic.severity, &diagnostic.message, &diagnostic.hint);
            let (count, _) = alike
                .entry(kind)
                .and_modify(|(count, _)| *count += 1)
                .or_insert((1, diagnostic));
            if *count <= MOST_ALIKE {
                self.diagnostic(diagnostic);
            }
        }
        for (count, first) in alike.into_values() {
            if count > MOST_ALIKE {
                let files = count - MOST_ALIKE;
                let message = format!("{} ({files} more files)", first.message);
                let rest = Diagnostic::new(first.severity, first.code, message);
                self.diagnostic(&rest);
            }
        }
    }

    /// The error that ends the command.
    pub(super) fn error(&mut self, error: &CliError) {
        self.done();
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            source = cause.source();
        }
        let label = self.painted("31;1", "error");
        self.print_error_line(&format!("{label}: {}", printable(&message)));
        if let Some(hint) = error.hint() {
            self.print_error_line(&format!("  hint: {}", printable(hint)));
        }
    }

    /// The result of a command on standard output.
    pub(super) fn print(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.done();
        let mut out = io::stdout().lock();
        out.write_all(bytes)
            .and_then(|()| out.flush())
            .map_err(|error| CliError::Write {
                path: PathBuf::from("standard output"),
                error,
            })
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn print_error_line(&self, line: &str) {
        // Nothing is left to tell anyone if standard error is gone.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// A message without characters that drive the terminal or reorder text. Its later lines are indented, so that none
/// passes for a message of its own.
pub(super) fn printable(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_name_in_a_message_neither_acts_nor_poses_as_a_message() {
        let name = "a\u{1b}[2J\u{9b}2J\u{202e}b\r\nerror: c";
        assert_eq!(
            printable(name),
            "a\u{fffd}[2J\u{fffd}2J\u{fffd}b\n  error: c"
        );
    }
}
