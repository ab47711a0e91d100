//! The `rooflens` program: see [`rooflens::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rooflens::cli::main()
}
