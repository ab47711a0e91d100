//! Bandwidth of the GPU's memory.

use serde_json::{Map, Value, json};

use super::document::{Measured, Memory, Outcome};
use crate::cuda::{
    Argument, Buffer, ClockReader, CudaError, Device, Dtype, Grid, Kernel, Plan, Source, measure,
};

/// Bytes of a buffer: far more than any L2 cache.
const BYTES: u64 = 4 << 30;

/// Copying, reading and writing; one that fails costs that one.
pub(super) fn measure_all(device: &Device, clocks: &ClockReader, plan: Plan) -> Memory {
    let buffers = match buffers(device) {
        Ok(buffers) => buffers,
        Err(error) => {
            let failed: Outcome = Err(error.to_string());
            return Memory { copy: failed.clone(), read: failed.clone(), write: failed };
        }
    };
    let [from, to] = &buffers;
    let run = |bytes: u64, launch: &mut dyn FnMut(usize) -> Result<(), CudaError>| {
        one(device, clocks, plan, bytes, launch).map_err(|error| error.to_string())
    };
    let kernel = |name| device.kernel(Source::Stream, Dtype::Fp32, name);
    let copy = run(2 * from.bytes(), &mut |_| to.copy_from(from));
    let read = kernel("read_only").map_err(|error| error.to_string()).and_then(|kernel| {
        run(from.bytes(), &mut |_| stream(device, &kernel, from, Argument::Address(to.address())))
    });
    let write = kernel("write_only").map_err(|error| error.to_string()).and_then(|kernel| {
        run(to.bytes(), &mut |launch| stream(device, &kernel, to, Argument::Int(launch as u32)))
    });
    Memory { copy, read, write }
}

/// Two buffers of 4 GiB, or of a quarter of the free memory; the first holds random data.
fn buffers(device: &Device) -> Result<[Buffer; 2], CudaError> {
    let bytes = (device.free_memory()? / 4).min(BYTES) / 4096 * 4096;
    let [from, to] = [device.allocate(bytes)?, device.allocate(bytes)?];
    let grid = Grid { blocks: (device.multiprocessors * 8, 1, 1), threads: 256 };
    let arguments = [
        Argument::Address(from.address()),
        Argument::Long(bytes / Dtype::Fp32.bytes()),
        Argument::Int(3),
        Argument::Float(1.0),
    ];
    device.kernel(Source::Fill, Dtype::Fp32, "fill")?.launch(grid, &arguments)?;
    to.copy_from(&from)?;
    Ok([from, to])
}

fn stream(
    device: &Device,
    kernel: &Kernel,
    buffer: &Buffer,
    last: Argument,
) -> Result<(), CudaError> {
    let grid = Grid { blocks: (device.multiprocessors * 16, 1, 1), threads: 256 };
    let packs = buffer.bytes() / 16;
    kernel.launch(grid, &[Argument::Address(buffer.address()), Argument::Long(packs), last])
}

fn one(
    device: &Device,
    clocks: &ClockReader,
    plan: Plan,
    bytes: u64,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
) -> Result<Measured, CudaError> {
    let mut during = Value::Null;
    let measured = measure(device, plan, launch, &mut || during = clocks.now())?;
    Ok(Measured {
        seconds: measured.seconds,
        work: bytes as f64,
        launches: measured.launches,
        clocks: during,
        note: Map::from_iter([("bytes".to_owned(), json!(bytes))]),
    })
}
