//! Thin layer over cudarc: the device, memory, our kernels, GEMMs and event timing.
//!
//! Calls into CUDA are unsafe; they are in this module, and what it exports is safe to use in any order on the one stream of the
//! [`Device`], except for a launch of a kernel, whose arguments nobody can check. Memory is handed over as a [`Place`], which lives
//! and is as long as its [`Buffer`]; work is asynchronous, and a buffer's release waits for what was enqueued on it.

mod attention;
mod batched;
mod buffer;
mod clocks;
mod convolution;
mod descriptor;
mod device;
mod dtype;
mod error;
mod graph;
mod kernels;
mod libraries;
mod matmul;
mod nvtx;
mod statistics;
mod timing;

pub(crate) use attention::{Attention, Shape};
pub(crate) use batched::launch_batched;
pub(crate) use buffer::{Buffer, Pinned, Place};
pub(crate) use clocks::ClockReader;
pub(crate) use convolution::{Convolution, Image};
pub(crate) use device::{Device, Fill};
pub(crate) use dtype::Dtype;
pub(crate) use error::CudaError;
pub(crate) use kernels::{Argument, Grid, Kernel, Source};
pub(crate) use libraries::{cudnn_version, load_cudnn};
pub(crate) use matmul::{Matmul, Operands, Product};
pub(crate) use nvtx::Nvtx;
pub(crate) use statistics::{spread, statistics};
pub(crate) use timing::{Measurement, Operation, Plan, fastest, measure};
