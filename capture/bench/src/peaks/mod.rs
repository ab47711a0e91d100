//! `peaks`: what this GPU reaches, measured: GEMMs per number format, and memory bandwidth.

mod document;
mod matrix;
mod memory;

use std::ops::Div;
use std::path::{Path, PathBuf};

use clap::Args;
use rooflens_capture::{CaptureError, renew_manifest};
use rooflens_units::Seconds;
use serde_json::Value;

use crate::BenchError;
use crate::cuda::{ClockReader, CudaError, Device, Operation, Plan, measure};
use document::Measured;

/// Measure this GPU's ceilings and write them to peaks.json
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture peaks -o run1                    into run1/snapshot/peaks.json
  rooflens-capture peaks -o peaks.json --size 4096

Matrix products by cuBLAS and cuBLASLt on random data in fp64, fp32, tf32, fp16, bf16, fp8 and int8, the best of
several algorithms; copying, reading and writing of memory. Rates are those of sustained load: single products with
pauses between them reach more where power is the limit. What this GPU does not have is recorded with the reason.")]
pub(crate) struct PeaksArguments {
    /// Folder of the bundle, or a file whose name ends in .json
    #[arg(short, long, value_name = "BUNDLE|FILE")]
    output: PathBuf,
    /// Rows and columns of the matrices, a multiple of 16
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = parse_size)]
    size: u64,
    /// Samples of each measurement
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    samples: u32,
    /// Milliseconds of load before each measurement: until then the power limit has lowered the clocks to what they stay at
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    warmup: u32,
    /// CUDA ordinal of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: usize,
    /// Take CUDA's libraries from the Python packages of the python3 on the PATH, where neither the loader nor the toolkit has them
    #[arg(long)]
    python_libraries: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let size = text.parse::<u64>().map_err(|error| error.to_string())?;
    if (256..=65536).contains(&size) && size.is_multiple_of(16) {
        Ok(size)
    } else {
        Err("expected a multiple of 16 from 256 to 65536".to_owned())
    }
}

/// Measures everything and writes the file; answers with what is to be said.
pub(crate) fn run(arguments: &PeaksArguments) -> Result<String, BenchError> {
    let path = file(&arguments.output);
    let device = Device::open(arguments.device, arguments.python_libraries)?;
    let clocks = ClockReader::new(&device);
    let warmup_time = Seconds(f64::from(arguments.warmup) * 1e-3);
    let plan = Plan {
        samples: arguments.samples as usize,
        sample_time: Seconds(2e-3),
        warmup_time,
    };
    let gpu = Gpu {
        device: &device,
        clocks: &clocks,
        plan,
    };
    let peaks = document::Peaks {
        gpu: device.name.clone(),
        size: arguments.size,
        matmul: matrix::measure_all(&gpu, arguments.size),
        memory: memory::measure_all(&gpu),
        clocks: clocks.limits(),
        libraries: device.versions(),
    };
    write(&path, &peaks.to_json())?;
    renew_manifest(&arguments.output)?;
    Ok(format!(
        "{}\nwritten to {}",
        peaks.to_text(),
        path.display()
    ))
}

/// What is measured, and how.
struct Gpu<'a> {
    device: &'a Device,
    clocks: &'a ClockReader,
    plan: Plan,
}

/// Measures an operation of that much work: FLOPs or bytes.
fn measured<W: Div<Seconds>>(
    gpu: &Gpu<'_>,
    work: W,
    note: Value,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
) -> Result<Measured<W::Output>, CudaError> {
    let mut clocks = Value::Null;
    let operation = Operation {
        launch,
        copies: 1,
        in_graph: false,
    };
    let timed = measure(gpu.device, gpu.plan, operation, &mut || {
        clocks = gpu.clocks.now()
    })?;
    Ok(Measured {
        rate: work / timed.times.median,
        timed,
        clocks,
        note,
    })
}

/// The file itself, or its place in a bundle.
fn file(output: &Path) -> PathBuf {
    if output
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        output.to_owned()
    } else {
        output.join("snapshot/peaks.json")
    }
}

fn write(path: &Path, document: &Value) -> Result<(), CaptureError> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(CaptureError::io(folder))?;
    }
    std::fs::write(path, format!("{document:#}\n")).map_err(CaptureError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_gets_the_file_into_its_snapshot() {
        assert_eq!(
            file(Path::new("run1")),
            Path::new("run1/snapshot/peaks.json")
        );
        assert_eq!(file(Path::new("a/p.json")), Path::new("a/p.json"));
    }

    #[test]
    fn sizes_suit_every_format() {
        assert_eq!(parse_size("8192"), Ok(8192));
        assert!(
            parse_size("100").is_err() && parse_size("264").is_err() && parse_size("-1").is_err()
        );
    }
}
