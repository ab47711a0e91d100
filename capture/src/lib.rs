//! `rooflens-capture` leaves a capture bundle on a GPU machine, for `rooflens` to read elsewhere.
//!
//! It records and hashes; it does not parse or analyze, and `serve` and `tune` alone reach the network. It runs without a GPU, too: what it
//! cannot ask for is recorded as missing, with the reason. What is public here `rooflens-bench` shares.

#![deny(unsafe_code)]

mod args;
mod commands;
mod doctor;
mod error;
mod files;
mod infer;
mod kernels;
mod manifest;
mod manual;
mod merge;
mod plan;
mod redact;
mod run;
mod serve;
mod snapshot;
mod timeline;
mod tools;
mod tune;
mod utc;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use rooflens_config::{CommandLine, ConfigError, Program};

use args::{Arguments, Command};
pub use error::CaptureError;
pub use manifest::renew as renew_manifest;
pub use run::Outcome;

/// Exit code of our own failures, as in `timeout` and `docker run`: others are those of the captured command.
const FAILED: u8 = 125;

/// Built-in profiles of `all`.
const PROFILES: &str = include_str!("profiles.toml");

/// The program `rooflens-capture`.
pub fn main() -> ExitCode {
    let (words, file) = match command_line() {
        Ok(CommandLine::Run(words, file)) => (words, file),
        Ok(CommandLine::Show(text)) => {
            // Nobody reads the options: nothing is left to be done.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            say(&format!("error: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    if let Some(file) = file {
        say(&format!("options from {}", file.display()));
    }
    start_with(words.clone(), |arguments: Arguments| {
        match arguments.command {
            Command::Snapshot(arguments) => snapshot::run(&arguments).map(Outcome::from),
            Command::Baseline(arguments) => commands::baseline(arguments),
            Command::Nsys(arguments) => commands::nsys(arguments),
            Command::Ncu(arguments) => commands::ncu(arguments),
            Command::Torch(arguments) => commands::torch(arguments),
            Command::All(arguments) => commands::all(arguments),
            Command::Kernels(arguments) => commands::kernels(&arguments),
            Command::Serve(arguments) => serve::run(&arguments, &words),
            Command::Tune(arguments) => tune::run(&arguments),
            Command::Doctor(arguments) => doctor::run(&arguments),
            Command::Merge(arguments) => merge::run(&arguments).map(Outcome::from),
            Command::Manifest(arguments) => manifest::run(&arguments).map(Outcome::from),
            Command::Completions { shell } => manual::completions(shell).map(Outcome::from),
            Command::Man { folder } => manual::man(&folder).map(Outcome::from),
            Command::Peaks(_) | Command::Bench(_) => Err(commands::bench()),
        }
    })
}

/// The arguments with those of the project file.
fn command_line() -> Result<CommandLine, ConfigError> {
    let program = Program {
        name: "rooflens-capture",
        profiles: PROFILES,
        folder: &env::current_dir().unwrap_or_default(),
    };
    program.command_line(&Arguments::command(), env::args_os().collect())
}

/// Parses the command line, runs it, and says on standard error what came of it. Wrong arguments and errors
/// end with 125.
pub fn start<A: Parser, O: Into<Outcome>, E: Display>(
    run: impl FnOnce(A) -> Result<O, E>,
) -> ExitCode {
    start_with(env::args_os().collect(), run)
}

fn start_with<A: Parser, O: Into<Outcome>, E: Display>(
    words: Vec<OsString>,
    run: impl FnOnce(A) -> Result<O, E>,
) -> ExitCode {
    let arguments = match A::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(answer) => {
            let failed = answer.use_stderr();
            // Nothing is left to be done if nobody reads the answer.
            let _ = answer.print();
            return ExitCode::from(if failed { FAILED } else { 0 });
        }
    };
    let outcome = run(arguments).map_or_else(
        |error| Outcome {
            said: format!("error: {error}"),
            code: FAILED,
        },
        Into::into,
    );
    say(&outcome.said);
    ExitCode::from(outcome.code)
}

/// Standard output belongs to the captured command; what we say goes to standard error.
#[allow(clippy::print_stderr)]
pub fn say(line: &str) {
    if !line.is_empty() {
        eprintln!("rooflens-capture: {line}");
    }
}
