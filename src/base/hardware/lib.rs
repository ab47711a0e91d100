//! Specified peaks of GPUs, a source for each number.

#![forbid(unsafe_code)]

mod described;
mod lookup;
mod specs;

use std::collections::BTreeMap;

use serde::Serialize;

pub use described::Device;

/// Dense operations per SM and clock, by architecture and dtype.
pub type PerClock = BTreeMap<String, BTreeMap<String, f64>>;

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
    /// Boost clock in hertz, the one that the tensor rates refer to.
    pub boost_hz: f64,
    /// Boost clock in hertz that the `fp32` and `fp64` rates refer to; differs on Hopper and Blackwell.
    pub vector_boost_hz: f64,
    /// Memory bandwidth in bytes per second.
    pub memory_bandwidth: f64,
    /// Where the bandwidth is from.
    pub memory_source: String,
    /// Device memory in bytes, as the vendor counts them (1 GB = 10⁹ bytes).
    pub memory_bytes: f64,
    /// Board power limit in watts.
    pub power_watts: f64,
    /// Bandwidth of all its NVLinks in one direction, bytes per second; half of what datasheets print.
    pub nvlink_bandwidth: Option<f64>,
    /// Rates by dtype, in the order of [`DTYPES`].
    pub peaks: Vec<Peak>,
}

/// A specified rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Peak {
    /// `fp64`, `fp64_tensor`, `fp32`, `tf32`, `fp16`, `bf16`, `fp8`, `fp4`, `int8`.
    pub dtype: String,
    /// Dense operations per second.
    pub dense: f64,
    /// Operations per second with 2:4 sparsity, where the chip has it.
    pub sparse: Option<f64>,
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

/// One rate or bandwidth of the table with its source: what `rooflens gpus` prints.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// A dtype, or `memory` for the bandwidth.
    pub what: &'a str,
    /// Dense operations per second, or bytes per second.
    pub dense: f64,
    /// Operations per second with 2:4 sparsity.
    pub sparse: Option<f64>,
    /// Where the number is from.
    pub source: &'a str,
}

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

    /// All numbers of the table, GPU by GPU: the bandwidth, then the rates.
    pub fn rows(&self) -> impl Iterator<Item = TableRow<'_>> {
        self.gpus.iter().flat_map(Gpu::rows)
    }
}

impl Gpu {
    /// The rate for a dtype.
    pub fn peak(&self, dtype: &str) -> Option<&Peak> {
        self.peaks.iter().find(|peak| peak.dtype == dtype)
    }

    fn rows(&self) -> impl Iterator<Item = TableRow<'_>> {
        let memory = TableRow {
            gpu: self,
            what: "memory",
            dense: self.memory_bandwidth,
            sparse: None,
            source: &self.memory_source,
        };
        let rates = self.peaks.iter().map(move |peak| TableRow {
            gpu: self,
            what: &peak.dtype,
            dense: peak.dense,
            sparse: peak.sparse,
            source: &peak.source,
        });
        std::iter::once(memory).chain(rates)
    }
}

/// Bytes of one element of a dtype; `None` for a dtype that is not known.
pub fn element_bytes(dtype: &str) -> Option<f64> {
    Some(match dtype {
        "fp64" => 8.0,
        "fp32" | "tf32" => 4.0,
        "bf16" | "fp16" => 2.0,
        "fp8" | "int8" => 1.0,
        "fp4" | "int4" => 0.5,
        _ => return None,
    })
}
