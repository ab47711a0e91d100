//! Our kernels: compiled on the machine by NVRTC for the GPU at hand, without any header.

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{result, sys};

use super::{CudaError, Dtype, Place};

const PRELUDE: &str = include_str!("kernels/prelude.cuh");

/// A file of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Attention,
    Decode,
    Elementwise,
    Fill,
    Gather,
    Recurrent,
    Rows,
    Stream,
}

impl Source {
    const fn text(self) -> &'static str {
        match self {
            Self::Attention => include_str!("kernels/attention.cu"),
            Self::Decode => include_str!("kernels/decode.cu"),
            Self::Elementwise => include_str!("kernels/elementwise.cu"),
            Self::Fill => include_str!("kernels/fill.cu"),
            Self::Gather => include_str!("kernels/gather.cu"),
            Self::Recurrent => include_str!("kernels/recurrent.cu"),
            Self::Rows => include_str!("kernels/rows.cu"),
            Self::Stream => include_str!("kernels/stream.cu"),
        }
    }
}

/// Machine code of a file of kernels for one number format and compute capability.
pub(super) fn compile(
    source: Source,
    dtype: Dtype,
    (major, minor): (i32, i32),
) -> Result<Vec<u8>, CudaError> {
    let text = format!("#define {} 1\n{PRELUDE}\n{}", dtype.define(), source.text());
    let text = CString::new(text).map_err(|error| CudaError::Compile(error.to_string()))?;
    let failed = |error: result::NvrtcError| CudaError::Compile(format!("{error:?}"));
    let program = result::create_program(&text, None).map_err(failed)?;
    let options = [
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--std=c++17".to_owned(),
    ];
    // SAFETY: the program is valid until it is destroyed below, and the vector is as long as NVRTC asks.
    let image = unsafe {
        let image = result::compile_program(program, &options).and_then(|()| {
            let mut length = 0;
            sys::nvrtcGetCUBINSize(program, &raw mut length).result()?;
            let mut image = vec![0u8; length];
            sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result()?;
            Ok(image)
        });
        image.map_err(|error| match result::get_program_log(program) {
            Ok(log) => CudaError::Compile(log.iter().map(|c| *c as u8 as char).collect()),
            Err(_) => failed(error),
        })
    };
    // SAFETY: it was created above and is not used after this. A failure leaves nothing to be done.
    let _ = unsafe { result::destroy_program(program) };
    image
}

/// Blocks of a launch, and threads of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: (u32, u32, u32),
    pub(crate) threads: u32,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument<'b> {
    Place(Place<'b>),
    Long(u64),
    Int(u32),
    Float(f32),
}

impl Argument<'_> {
    fn address(&self) -> u64 {
        if let Self::Place(place) = self {
            place.address()
        } else {
            0
        }
    }
}

/// A compiled kernel.
pub(crate) struct Kernel {
    function: CudaFunction,
    stream: Arc<CudaStream>,
}

impl Kernel {
    pub(super) fn new(function: CudaFunction, stream: Arc<CudaStream>) -> Self {
        Self { function, stream }
    }

    /// Enqueues a launch.
    ///
    /// # Safety
    /// The arguments are those that the kernel declares, in its order, and what it reads and writes for them and this grid lies in
    /// the places.
    pub(crate) unsafe fn launch(
        &self,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), CudaError> {
        let addresses: Vec<u64> = arguments.iter().map(Argument::address).collect();
        let mut builder = self.stream.launch_builder(&self.function);
        for (argument, address) in arguments.iter().zip(&addresses) {
            match argument {
                Argument::Place(_) => builder.arg(address),
                Argument::Long(value) => builder.arg(value),
                Argument::Int(value) => builder.arg(value),
                Argument::Float(value) => builder.arg(value),
            };
        }
        let block_dim = (grid.threads, 1, 1);
        let shape = LaunchConfig {
            grid_dim: grid.blocks,
            block_dim,
            shared_mem_bytes: 0,
        };
        // SAFETY: as the caller promises; the places are those of live buffers.
        let launched = unsafe { builder.launch(shape) };
        launched.map(|_| ()).map_err(CudaError::driver("launch"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVRTC needs no GPU: where it is installed, every file of kernels is compiled for every format in use.
    #[test]
    fn the_kernels_compile_where_nvrtc_is() {
        if !super::super::libraries::has_nvrtc() {
            return;
        }
        let formats = [Dtype::Fp32, Dtype::Fp16, Dtype::Bf16];
        let sources = [
            Source::Attention,
            Source::Decode,
            Source::Elementwise,
            Source::Fill,
            Source::Gather,
            Source::Recurrent,
            Source::Rows,
            Source::Stream,
        ];
        for source in sources {
            for dtype in formats {
                let on_tensor_cores = source == Source::Attention && dtype == Dtype::Fp32;
                let image = compile(source, dtype, (9, 0));
                // A cubin is an ELF file.
                let compiled = image
                    .as_ref()
                    .is_ok_and(|image| image.starts_with(b"\x7fELF"));
                assert_eq!(compiled, !on_tensor_cores, "{source:?} {dtype:?} {image:?}");
            }
        }
        for dtype in Dtype::ALL {
            assert!(compile(Source::Fill, dtype, (9, 0)).is_ok(), "{dtype:?}");
        }
    }
}
