//! The least time that a product takes on a GPU.

use super::{Product, Shape};
use crate::analysis::Context;
use crate::analysis::classify::KernelIdentity;
use crate::analysis::flops::element_bytes;
use crate::analysis::utilization::timed::gpu_name;
use crate::hardware::Gpu;
use crate::model::PassId;

/// Work of one product: operations, bytes and the least time for each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roof {
    /// Operations, of attention those under its mask.
    pub flops: f64,
    /// Bytes that must move; absent if the type is not known.
    pub bytes: Option<f64>,
    /// Dense rate of the type, per second; absent if the GPU or the type is not known.
    pub rate: Option<f64>,
    /// Bandwidth, bytes per second.
    pub bandwidth: Option<f64>,
}

/// What bounds a product at best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The rate of operations.
    Compute,
    /// The bandwidth of the memory.
    Memory,
}

impl Bound {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

/// The GPU of a pass, as specified.
pub fn gpu<'a>(context: &Context<'a>, pass: PassId) -> Option<&'a Gpu> {
    let name = gpu_name(context.session, Some(pass));
    let shown = context.options.gpu.as_deref().unwrap_or(&name);
    context.hardware.find(shown)
}

/// The dtype of which a kernel has the rate: what its name tells, else the type of its operands.
pub fn dtype(identity: &KernelIdentity, product: &Product) -> &'static str {
    match (identity.dtype, product.operand) {
        // A name that mentions single precision alone may mean the accumulator.
        ("" | "fp32", "bf16") => "bf16",
        ("" | "fp32", "fp16") => "fp16",
        ("" | "fp32", "fp8") => "fp8",
        ("", operand) => operand,
        ("fp64", _) if identity.tensor_cores == Some(true) => "fp64_tensor",
        (named, _) => named,
    }
}

impl Roof {
    /// The work of a product by a kernel on a GPU.
    pub fn of(product: &Product, identity: &KernelIdentity, gpu: Option<&Gpu>) -> Self {
        let operand = element_bytes(product.operand);
        let output = element_bytes(product.output).or(operand);
        let bytes = match product.shape {
            Shape::Gemm(gemm) => operand.zip(output).map(|(a, d)| gemm.bytes(a, d)),
            Shape::Attention(attention) => operand.map(|size| attention.bytes(size)),
            Shape::Convolution { .. } => None,
        };
        let rate = gpu.and_then(|gpu| gpu.peak(dtype(identity, product))).map(|peak| peak.dense);
        let bandwidth = gpu.map(|gpu| gpu.memory_bandwidth);
        Self { flops: product.shape.flops(), bytes, rate, bandwidth }
    }

    /// Nanoseconds at the rate, and at the bandwidth.
    pub fn times(&self) -> Option<(f64, f64)> {
        let at_rate = self.flops / self.rate.filter(|rate| *rate > 0.0)?;
        let at_bandwidth = self.bytes? / self.bandwidth.filter(|bandwidth| *bandwidth > 0.0)?;
        Some((at_rate * 1e9, at_bandwidth * 1e9))
    }

    /// The least time in nanoseconds: the longer of both.
    pub fn time(&self) -> Option<f64> {
        self.times().map(|(rate, bandwidth)| rate.max(bandwidth))
    }

    /// Which of both is longer.
    pub fn bound(&self) -> Option<Bound> {
        let (rate, bandwidth) = self.times()?;
        Some(if rate >= bandwidth { Bound::Compute } else { Bound::Memory })
    }
}
