//! `rooflens-capture bench` and `rooflens-capture peaks`: what a GPU reaches, measured by CUDA.
//!
//! A program of its own, so that the capture program carries no CUDA. `rooflens-capture` starts it with its own
//! arguments and under its own name.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "launches kernels whose arguments it states")]
mod bench;
#[allow(unsafe_code, reason = "calls CUDA's libraries")]
mod cuda;
#[allow(unsafe_code, reason = "launches kernels whose arguments it states")]
mod peaks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rooflens_capture::CaptureError;

/// Measure what a GPU reaches
#[derive(Debug, Parser)]
#[command(name = "rooflens-capture", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Peaks(peaks::PeaksArguments),
    Bench(bench::BenchArguments),
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    /// A file could not be read or written, or a sweep cannot be run.
    #[error(transparent)]
    File(#[from] CaptureError),
    /// The GPU could not be measured.
    #[error(transparent)]
    Cuda(#[from] cuda::CudaError),
}

fn main() -> ExitCode {
    rooflens_capture::start(|arguments: Arguments| match arguments.command {
        Command::Peaks(arguments) => peaks::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    })
}
