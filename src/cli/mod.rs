//! The command line: the only place that reads arguments and the environment, prints, writes files and exits.

mod answer;
mod args;
mod baseline;
mod bundles;
mod compare;
mod each;
mod error;
#[cfg(unix)]
mod exhaustion;
mod experiments;
mod files;
mod gate;
mod gpus;
mod inspect;
mod kernels;
mod lake;
mod load;
mod manual;
mod metrics;
mod microbench;
mod nsys;
mod output;
mod parquet;
mod predict;
mod projection;
mod query;
mod report;
mod scratch;
mod serve;
mod shell;
mod spool;
mod templates;
mod term;
#[cfg(feature = "tables")]
mod trend;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rooflens_config::{CommandLine, ConfigError, Program};

pub use nsys::Nsys;

use args::{Args, Color, Command};
use error::CliError;
use scratch::Scratch;
use term::Term;

/// Threads beyond which more are of no use on any machine.
const MAX_THREADS: usize = 1024;

/// Runs the command of the arguments of this process.
pub fn main() -> ExitCode {
    ExitCode::from(command(env::args_os().collect(), &[]))
}

/// Parses words, the first of which is the name of the program, runs the command and turns the outcome into an exit code:
/// 0 done, 1 done with errors or a gate failed, 2 wrong usage, 3 unusable input, 4 output could not be written,
/// 5 a regression. `program` starts this program again; without words, its own file does.
pub fn command(words: Vec<OsString>, program: &[OsString]) -> u8 {
    #[cfg(unix)]
    exhaustion::is_an_answer();
    let mut plain = Term::new(true, Color::Auto);
    let (words, file) = match command_line(words) {
        Ok(CommandLine::Run(words, file)) => (words, file),
        Ok(CommandLine::Show(text)) => return exit_code(plain.print(text.as_bytes()), &mut plain),
        Err(error) => return exit_code(Err(error.into()), &mut plain),
    };
    let args = Args::parse_from(words);
    if let Some(file) = file {
        let mut term = Term::new(args.quiet, args.color);
        term.note(&format!("options from {}", file.display()));
    }
    let mut term = Term::new(args.quiet, args.color);
    if let Some(threads) = args.threads {
        // Fails only if a pool exists already, and none does at this point.
        let _ = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get().min(MAX_THREADS))
            .build_global();
    }
    let scratch = Scratch::new(scratch::places(args.command.output()));
    let outcome = run(&args.command, program, &mut term);
    scratch::wait_for_signal();
    drop(scratch);
    exit_code(outcome, &mut term)
}

/// The arguments with those of the project file.
fn command_line(words: Vec<OsString>) -> Result<CommandLine, ConfigError> {
    let program = Program {
        name: "rooflens",
        profiles: "",
        folder: &env::current_dir().unwrap_or_default(),
    };
    program.command_line(&Args::command(), words)
}

fn exit_code(outcome: Result<(), CliError>, term: &mut Term) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            term.error(&error);
            error.exit_code()
        }
    }
}

fn run(command: &Command, program: &[OsString], term: &mut Term) -> Result<(), CliError> {
    match command {
        Command::Report(args) => report::run(args, program, term),
        Command::Compare(args) => compare::run(args, term),
        Command::Gate(args) => gate::run(args, term),
        Command::Baseline(args) => baseline::run(args, term),
        Command::Experiments(args) => experiments::run(args, term),
        Command::Predict(args) if args.from.is_empty() => predict::run(args, term),
        Command::Predict(args) => projection::run(args, term),
        Command::BenchReport(args) => microbench::run(args, term),
        Command::ServeReport(args) => serve::run(args, term),
        Command::Inspect(args) => inspect::run(args, term),
        Command::Metrics(args) => metrics::run(args, term),
        Command::Kernels(args) => kernels::run(args, term),
        Command::Lake(args) => lake::run(args, term),
        Command::Query(args) => query::run(args, term),
        Command::Validate(args) => bundles::validate(args, term),
        Command::Pack(args) => bundles::pack(args, term),
        Command::Unpack(args) => bundles::unpack(args, term),
        Command::Templates(args) => templates::run(args, term),
        Command::Completions { shell } => manual::completions(*shell, term),
        Command::Man { folder } => manual::man(folder, term),
        Command::Gpus { name, json } => gpus::run(name.as_deref(), *json, term),
    }
}
