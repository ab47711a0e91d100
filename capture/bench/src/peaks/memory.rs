//! Bandwidth of the GPU's memory.

use rooflens_units::{Bytes, BytesPerSecond};
use serde_json::json;

use super::document::{Memory, Outcome};
use super::{Gpu, measured};
use crate::cuda::{Argument, Buffer, CudaError, Device, Dtype, Grid, Source};

/// Bytes of a buffer: far more than any L2 cache.
const BYTES: u64 = 4 << 30;

/// Copying, reading and writing; one that fails costs that one.
pub(super) fn measure_all(gpu: &Gpu<'_>) -> Memory {
    let [from, to] = match buffers(gpu.device) {
        Ok(buffers) => buffers,
        Err(error) => {
            let failed: Outcome<BytesPerSecond> = Err(error.to_string());
            return Memory {
                copy: failed.clone(),
                read: failed.clone(),
                write: failed,
            };
        }
    };
    let run = |bytes: u64, launch: &mut dyn FnMut(usize) -> Result<(), CudaError>| {
        let note = json!({"bytes": bytes});
        measured(gpu, Bytes(bytes as f64), note, launch).map_err(|error| error.to_string())
    };
    let stream = |name, buffer: &Buffer, sink: Option<&Buffer>| {
        let kernel = gpu.device.kernel(Source::Stream, Dtype::Fp32, name);
        let kernel = kernel.map_err(|error| error.to_string())?;
        let grid = Grid {
            blocks: (gpu.device.multiprocessors * 16, 1, 1),
            threads: 256,
        };
        let packs = Argument::Long(buffer.bytes() / 16);
        run(buffer.bytes(), &mut |launch| {
            let number = Argument::Int(launch as u32);
            let last = sink.map_or(number, |sink| Argument::Place(sink.place()));
            let arguments = [Argument::Place(buffer.place()), packs, last];
            // SAFETY: the arguments are the kernel's, and the buffer holds as many packs.
            unsafe { kernel.launch(grid, &arguments) }
        })
    };
    Memory {
        copy: run(2 * from.bytes(), &mut |_| to.copy_from(&from)),
        read: stream("read_only", &from, Some(&to)),
        write: stream("write_only", &to, None),
    }
}

/// Two buffers of 4 GiB, or of a quarter of the free memory; the first holds random data.
fn buffers(device: &Device) -> Result<[Buffer; 2], CudaError> {
    let bytes = (device.free_memory()? / 4).min(BYTES) / 4096 * 4096;
    let from = device.random(Dtype::Fp32, bytes / Dtype::Fp32.bytes(), 3)?;
    let to = device.allocate(bytes)?;
    to.copy_from(&from)?;
    Ok([from, to])
}
