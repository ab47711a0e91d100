//! What a GPU can do at most: as specified, or as measured.

use rooflens_hardware::Gpu;
use rooflens_units::{Bytes, BytesPerSecond, FlopsPerSecond};

use crate::Precision;

/// Rates, bandwidths and memory of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Name in reports.
    pub name: String,
    /// Dense rates by dtype.
    pub rates: Vec<(String, FlopsPerSecond)>,
    /// Memory bandwidth.
    pub bandwidth: BytesPerSecond,
    /// Device memory.
    pub memory: Bytes,
    /// Bandwidth to the other GPUs in one direction, if it has links.
    pub link: Option<BytesPerSecond>,
}

impl From<&Gpu> for Machine {
    fn from(gpu: &Gpu) -> Self {
        let mut rates = Vec::new();
        for peak in &gpu.peaks {
            rates.push((peak.dtype.clone(), peak.dense));
        }
        Self {
            name: gpu.name.clone(),
            rates,
            bandwidth: gpu.memory_bandwidth,
            memory: gpu.memory_bytes,
            link: gpu.nvlink_bandwidth,
        }
    }
}

impl Machine {
    /// The dense rate of a dtype.
    pub fn rate(&self, dtype: &str) -> Option<FlopsPerSecond> {
        let (_, rate) = self.rates.iter().find(|(name, _)| name == dtype)?;
        Some(*rate)
    }

    /// The dtype in which numbers of a format are multiplied, and its rate; none if the GPU has no such unit.
    pub fn rate_of(&self, precision: &Precision) -> Option<(&'static str, FlopsPerSecond)> {
        let mut dtypes = precision.rates.iter();
        dtypes.find_map(|dtype| Some((*dtype, self.rate(dtype)?)))
    }
}
