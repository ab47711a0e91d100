//! The `rooflens` program: see [`rooflens::cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    rooflens::cli::main()
}
