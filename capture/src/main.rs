//! `rooflens-capture` leaves a capture bundle on a GPU machine, for `rooflens` to read elsewhere.
//!
//! It records and hashes; it does not parse, analyze or reach the network. It runs without a GPU, too: what it
//! cannot ask for is recorded as missing, with the reason.

mod args;
mod bench;
mod cuda;
mod error;
mod manifest;
mod peaks;
mod snapshot;
mod utc;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};
use error::CaptureError;

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
        Ok(said) => {
            say(&said);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn run(command: &Command) -> Result<String, CaptureError> {
    match command {
        Command::Snapshot(arguments) => snapshot::run(arguments),
        Command::Manifest(arguments) => manifest::run(arguments),
        Command::Peaks(arguments) => peaks::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
    }
}

/// Standard output belongs to the captured command; what we say goes to standard error.
#[allow(clippy::print_stderr)]
fn say(line: &str) {
    eprintln!("{line}");
}
