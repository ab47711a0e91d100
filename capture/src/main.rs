//! See the library.

fn main() -> std::process::ExitCode {
    rooflens_capture::main()
}
