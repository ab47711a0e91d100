//! `rooflens-capture` leaves a capture bundle on a GPU machine, for `rooflens` to read elsewhere.
//!
//! It records and hashes; it does not parse or analyze, and `serve` alone reaches the network. It runs without a GPU, too: what it
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
mod utc;

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
pub use error::CaptureError;
pub use manifest::renew as renew_manifest;
pub use run::Outcome;

/// Exit code of our own failures, as in `timeout` and `docker run`: others are those of the captured command.
const FAILED: u8 = 125;

/// The program `rooflens-capture`.
pub fn main() -> ExitCode {
    start(|arguments: Arguments| match arguments.command {
        Command::Snapshot(arguments) => snapshot::run(&arguments).map(Outcome::from),
        Command::Baseline(arguments) => commands::baseline(arguments),
        Command::Nsys(arguments) => commands::nsys(arguments),
        Command::Ncu(arguments) => commands::ncu(arguments),
        Command::Torch(arguments) => commands::torch(arguments),
        Command::All(arguments) => commands::all(arguments),
        Command::Kernels(arguments) => commands::kernels(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments).map(Outcome::from),
        Command::Manifest(arguments) => manifest::run(&arguments).map(Outcome::from),
        Command::Completions { shell } => manual::completions(shell).map(Outcome::from),
        Command::Man { folder } => manual::man(&folder).map(Outcome::from),
        Command::Peaks(_) | Command::Bench(_) => Err(commands::bench()),
    })
}

/// Parses the command line, runs it, and says on standard error what came of it. Wrong arguments and errors
/// end with 125.
pub fn start<A: Parser, O: Into<Outcome>, E: Display>(
    run: impl FnOnce(A) -> Result<O, E>,
) -> ExitCode {
    let arguments = match A::try_parse() {
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
