//! `rooflens-capture` leaves a capture bundle on a GPU machine, for `rooflens` to read elsewhere.
//!
//! It records and hashes; it does not parse, analyze or reach the network. It runs without a GPU, too: what it
//! cannot ask for is recorded as missing, with the reason.

mod args;
mod bench;
mod commands;
mod cuda;
mod error;
mod kernels;
mod manifest;
mod peaks;
mod plan;
mod redact;
mod run;
mod snapshot;
mod tools;
mod utc;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};
use error::CaptureError;
use run::Outcome;

/// Exit code of our own failures, as in `timeout` and `docker run`: others are those of the captured command.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => {
            let failed = answer.use_stderr();
            // Nothing is left to be done if nobody reads the answer.
            let _ = answer.print();
            return if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
        }
    };
    match run(&arguments.command) {
        Ok(outcome) => {
            say(&outcome.said);
            ExitCode::from(outcome.code)
        }
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(command: &Command) -> Result<Outcome, CaptureError> {
    let well = |said| Outcome { said, code: 0 };
    match command {
        Command::Snapshot(arguments) => snapshot::run(arguments).map(well),
        Command::Baseline(arguments) => commands::baseline(arguments),
        Command::Nsys(arguments) => commands::nsys(arguments),
        Command::Ncu(arguments) => commands::ncu(arguments),
        Command::Torch(arguments) => commands::torch(arguments),
        Command::All(arguments) => commands::all(arguments),
        Command::Manifest(arguments) => manifest::run(arguments).map(well),
        Command::Peaks(arguments) => peaks::run(arguments).map(well),
        Command::Bench(arguments) => bench::run(arguments).map(well),
    }
}

/// Standard output belongs to the captured command; what we say goes to standard error.
#[allow(clippy::print_stderr)]
fn say(line: &str) {
    if !line.is_empty() {
        eprintln!("rooflens-capture: {line}");
    }
}
