//! What can go wrong on the device.

use std::path::PathBuf;

use cudarc::{cublas, cublaslt, cudnn, driver, nvrtc};

/// Why an operation on the GPU was not done: what, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CudaError {
    /// The driver's library is not there, or it finds no device.
    #[error("no CUDA driver: {0}")]
    NoDriver(String),
    /// A library of the CUDA toolkit is not there.
    #[error(
        "no {0}: install the CUDA runtime libraries, add their folder to LD_LIBRARY_PATH, or take those of Python's packages by --python-libraries"
    )]
    NoLibrary(&'static str),
    /// The cuDNN that was named is not the one that is loaded.
    #[error("no cuDNN at {}: expected libcudnn.so.9 or its folder, and no other cuDNN where the loader looks", .0.display())]
    NoCudnn(PathBuf),
    /// A call of the driver failed.
    #[error("CUDA driver: {what}: {error:?}")]
    Driver {
        what: &'static str,
        error: driver::DriverError,
    },
    /// A call of cuBLAS or cuBLASLt failed.
    #[error("cuBLAS: {what}: {status}")]
    Cublas { what: &'static str, status: String },
    /// A call of cuDNN failed.
    #[error("cuDNN: {what}: {error}")]
    Cudnn {
        what: &'static str,
        error: cudnn::result::CudnnError,
    },
    /// A kernel of ours did not compile.
    #[error("NVRTC: {0}")]
    Compile(String),
    /// More is asked for than there is.
    #[error("{needed} bytes of GPU memory are needed and {free} are free: choose smaller sizes")]
    Memory { needed: u64, free: u64 },
    /// This GPU, or this program, cannot do it.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Kernels compute something else than the host.
    #[error("{failed} of {count} checks failed: do not trust the measurements of these operations")]
    SelfTest { failed: usize, count: usize },
}

impl CudaError {
    /// An error of the driver in a call that does `what`.
    pub(crate) fn driver(what: &'static str) -> impl FnOnce(driver::DriverError) -> Self {
        move |error| Self::Driver { what, error }
    }

    /// An error of cuBLAS in a call that does `what`.
    pub(crate) fn cublas(what: &'static str) -> impl FnOnce(cublas::result::CublasError) -> Self {
        move |error| Self::Cublas {
            what,
            status: format!("{:?}", error.0),
        }
    }

    /// An error of cuDNN in a call that does `what`.
    pub(crate) fn cudnn(what: &'static str) -> impl FnOnce(cudnn::result::CudnnError) -> Self {
        move |error| Self::Cudnn { what, error }
    }

    /// An error of cuBLASLt in a call that does `what`.
    pub(crate) fn lt(what: &'static str) -> impl FnOnce(cublaslt::result::CublasError) -> Self {
        move |error| Self::Cublas {
            what,
            status: format!("{:?}", error.0),
        }
    }
}

impl From<nvrtc::CompileError> for CudaError {
    fn from(error: nvrtc::CompileError) -> Self {
        match error {
            nvrtc::CompileError::CompileError { log, .. } => {
                Self::Compile(log.to_string_lossy().into_owned())
            }
            other => Self::Compile(other.to_string()),
        }
    }
}
