//! `bench`: the operations that a language model is made of, one at a time.
//!
//! What is run and what it costs is arithmetic ([`operation`], [`sweep`]); the device is in [`workloads`].

mod check;
mod operation;
mod output;
mod reference;
mod sweep;
mod workloads;

use std::path::{Path, PathBuf};

use clap::Args;
use rooflens_capture::{CaptureError, say};

use crate::BenchError;
use crate::cuda::{CudaError, Device, Nvtx, Plan, cudnn_version, load_cudnn, measure};
use operation::Case;
use output::{Header, Measured, Outcome};
use sweep::Sweep;

/// Measure single operations of language models on this GPU
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture bench -o run1/bench                      the built-in sweep: bench.json and bench.csv
  rooflens-capture bench -o run1/bench --sweep sweep.toml
  rooflens-capture bench --print-sweep > sweep.toml         the built-in sweep, to be changed
  rooflens-capture bench --self-test                        are the kernels right on this GPU?

Each case runs in an NVTX range of its own name: nsys and ncu can tell the cases apart. A case that fails is recorded
with its error.")]
pub(crate) struct BenchArguments {
    /// Folder for bench.json and bench.csv; made if it is not there
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["self_test", "print_sweep"])]
    output: Option<PathBuf>,
    /// Cases to run, as TOML
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// Run only cases whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// CUDA ordinal of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
    /// Compare every kernel with the host on small sizes, and measure nothing
    #[arg(long)]
    self_test: bool,
    /// Take CUDA's libraries from the Python packages of the python3 on the PATH, where neither the loader nor the toolkit has them
    #[arg(long)]
    python_libraries: bool,
    /// cuDNN to use: libcudnn.so.9 or its folder, such as site-packages/nvidia/cudnn/lib [default: the system's]
    #[arg(long, value_name = "PATH")]
    cudnn: Option<PathBuf>,
    /// Write the built-in sweep to standard output
    #[arg(long)]
    print_sweep: bool,
}

/// Runs the cases and writes the files after each; answers with what is to be said.
pub(crate) fn run(arguments: &BenchArguments) -> Result<String, BenchError> {
    if arguments.print_sweep {
        print_sweep();
        return Ok(String::new());
    }
    let mut sweep = read(arguments.sweep.as_deref())?;
    sweep.cases.retain(|case| {
        arguments
            .only
            .as_ref()
            .is_none_or(|text| case.name().contains(text))
    });
    let device = Device::open(arguments.device, arguments.python_libraries)?;
    if let Some(path) = &arguments.cudnn {
        load_cudnn(path)?;
    }
    let Some(folder) = arguments.output.as_deref().filter(|_| !arguments.self_test) else {
        return self_test(&device);
    };
    std::fs::create_dir_all(folder).map_err(CaptureError::io(folder))?;
    let header = Header {
        gpu: device.name.clone(),
        capability: device.capability,
        l2_bytes: device.l2_bytes,
        libraries: device.versions(),
        plan: sweep.plan,
    };
    if cudnn_version().is_none() && sweep.cases.iter().any(|case| case.kind.uses_cudnn()) {
        say(
            "no cuDNN: attention and convolutions are measured with slower kernels; --cudnn PATH names one",
        );
    }
    let nvtx = Nvtx::connect();
    let mut outcomes = Vec::new();
    for case in sweep.cases {
        let result = one(&device, nvtx, sweep.plan, &case).map_err(|error| error.to_string());
        outcomes.push(Outcome { case, result });
        if let Some(outcome) = outcomes.last() {
            say(&output::line(outcome));
        }
        write(folder, &header, &outcomes)?;
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .count();
    let count = outcomes.len();
    Ok(format!(
        "{count} cases, {failed} failed; written to {}",
        folder.display()
    ))
}

fn one(device: &Device, nvtx: Nvtx, plan: Plan, case: &Case) -> Result<Measured, CudaError> {
    let before = device.free_memory()?;
    let mut workload = workloads::prepare(device, case)?;
    device.synchronize()?;
    // What was tried and not chosen does not count.
    device.restart_low_water()?;
    let copies = workloads::copies(case.bytes(), device.l2_bytes);
    let operation = workload.operation(case.kind, copies);
    let timed = nvtx.range(&case.name(), || {
        measure(device, plan, operation, &mut || ())
    })?;
    Ok(Measured {
        timed,
        implementation: workload.implementation,
        copies,
        peak_memory_bytes: before.saturating_sub(device.low_water()),
    })
}

fn self_test(device: &Device) -> Result<String, BenchError> {
    let checks = check::run(device);
    for check in &checks {
        say(&check.line());
    }
    let (failed, count) = (
        checks.iter().filter(|check| !check.passed()).count(),
        checks.len(),
    );
    match failed {
        0 => Ok(format!("all {count} checks passed on {}", device.name)),
        _ => Err(CudaError::SelfTest { failed, count }.into()),
    }
}

fn read(path: Option<&Path>) -> Result<Sweep, CaptureError> {
    let Some(path) = path else {
        return Ok(Sweep::parse(sweep::DEFAULT).expect("a test reads the built-in sweep"));
    };
    let text = std::fs::read_to_string(path).map_err(CaptureError::io(path))?;
    Sweep::parse(&text).map_err(|reason| CaptureError::File(path.to_owned(), reason))
}

fn write(folder: &Path, header: &Header, outcomes: &[Outcome]) -> Result<(), CaptureError> {
    let json = format!("{:#}\n", output::to_json(header, outcomes));
    for (name, text) in [
        ("bench.json", json),
        ("bench.csv", output::to_csv(outcomes)),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(CaptureError::io(&path))?;
    }
    Ok(())
}

/// It is asked for on standard output: no command runs whose output that is.
#[allow(clippy::print_stdout)]
fn print_sweep() {
    print!("{}", sweep::DEFAULT);
}
