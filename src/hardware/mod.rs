//! Specified peaks of GPUs, a source for each number.

/// The table of GPUs.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// All entries.
    pub gpus: Vec<Gpu>,
}

/// One GPU product: a chip in a form factor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// Name in reports, such as `H200 SXM`.
    pub name: String,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Boost clock in hertz, the one that the peaks refer to.
    pub boost_hz: f64,
    /// Memory bandwidth in bytes per second.
    pub memory_bandwidth: f64,
    /// Where the bandwidth is from.
    pub memory_source: String,
    /// Device memory in bytes.
    pub memory_bytes: f64,
    /// Board power limit in watts.
    pub power_watts: f64,
    /// Rates by dtype.
    pub peaks: Vec<Peak>,
}

/// A specified rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peak {
    /// `fp64`, `fp64_tensor`, `fp32`, `tf32`, `fp16`, `bf16`, `fp8`, `fp4`, `int8`.
    pub dtype: String,
    /// Dense operations per second.
    pub dense: f64,
    /// Operations per second with 2:4 sparsity, where the chip has it.
    pub sparse: Option<f64>,
    /// Where the number is from, and how dense was derived if the source gives sparse.
    pub source: String,
}

impl Hardware {
    /// The built-in table.
    pub fn builtin() -> Self {
        todo!()
    }

    /// The GPU of a device name as drivers report it ("NVIDIA H100 80GB HBM3"); `None` if unknown.
    pub fn find(&self, _device_name: &str) -> Option<&Gpu> {
        todo!()
    }
}

impl Gpu {
    /// The rate for a dtype.
    pub fn peak(&self, dtype: &str) -> Option<&Peak> {
        self.peaks.iter().find(|peak| peak.dtype == dtype)
    }
}
