//! Specified peaks of GPUs, a source for each number.

#![forbid(unsafe_code)]

mod described;
mod lookup;
mod named;
mod specs;

use std::collections::BTreeMap;

use rooflens_units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Hertz, Watts};
use serde::Serialize;

pub use described::Device;
pub use named::UnknownGpu;

/// Dense operations per SM and clock, by architecture and dtype.
pub type PerClock = BTreeMap<String, BTreeMap<String, Flops>>;

/// The table of GPUs.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// All entries.
    pub gpus: Vec<Gpu>,
    /// Operations per clock, of which the rates of GPUs without a datasheet are made.
    pub per_clock: PerClock,
}

/// One GPU product: a chip in a form factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Name in reports, such as `H200 SXM`.
    pub name: String,
    /// Architecture, and the variant where its rates differ: `Ampere GA102 GeForce`.
    pub architecture: String,
    /// Whole device names that mean this GPU, of drivers and of people.
    pub aliases: Vec<String>,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Boost clock that the tensor rates refer to.
    pub boost_hz: Hertz,
    /// Boost clock that the `fp32` and `fp64` rates refer to; differs on Hopper and Blackwell.
    pub vector_boost_hz: Hertz,
    /// Memory bandwidth.
    pub memory_bandwidth: BytesPerSecond,
    /// Where the bandwidth is from.
    pub memory_source: String,
    /// Device memory, as the vendor counts it (1 GB = 10⁹ bytes).
    pub memory_bytes: Bytes,
    /// Board power limit.
    pub power_watts: Watts,
    /// Bandwidth of all its NVLinks in one direction; half of what datasheets print.
    pub nvlink_bandwidth: Option<BytesPerSecond>,
    /// Rates by dtype, in the order of [`DTYPES`].
    pub peaks: Vec<Peak>,
}

/// A specified rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peak {
    /// `fp64`, `fp64_tensor`, `fp32`, `tf32`, `fp16`, `bf16`, `fp8`, `fp4`, `int8`.
    pub dtype: String,
    /// Dense rate.
    pub dense: FlopsPerSecond,
    /// Rate with 2:4 sparsity, where the chip has it.
    pub sparse: Option<FlopsPerSecond>,
    /// Where the number is from, its accumulator, and how dense was derived if the source gives sparse.
    pub source: String,
}

/// The dtypes of [`Gpu::peaks`], in order.
pub const DTYPES: &[&str] = &[
    "fp64",
    "fp64_tensor",
    "fp32",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
    "fp4",
    "int8",
];

impl Hardware {
    /// The built-in table.
    pub fn builtin() -> Self {
        specs::builtin()
    }

    /// The GPU of a device name as drivers report it ("NVIDIA H100 80GB HBM3") or as people write it
    /// ("h100 sxm"); `None` if unknown. Only whole names count: a MIG slice or a laptop chip is another GPU.
    pub fn find(&self, device_name: &str) -> Option<&Gpu> {
        lookup::find(&self.gpus, device_name)
    }
}

impl Gpu {
    /// The rate for a dtype.
    pub fn peak(&self, dtype: &str) -> Option<&Peak> {
        self.peaks.iter().find(|peak| peak.dtype == dtype)
    }
}

/// Bytes of one element of a dtype; `None` for a dtype that is not known.
pub fn element_bytes(dtype: &str) -> Option<Bytes> {
    Some(Bytes(match dtype {
        "fp64" => 8.0,
        "fp32" | "tf32" => 4.0,
        "bf16" | "fp16" => 2.0,
        "fp8" | "int8" => 1.0,
        "fp4" | "int4" => 0.5,
        _ => return None,
    }))
}
