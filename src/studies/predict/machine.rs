//! What a GPU can do at most: as specified, or as measured.

use rooflens_hardware::Gpu;

use crate::Precision;

/// Rates, bandwidths and memory of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Name in reports.
    pub name: String,
    /// Dense operations per second by dtype.
    pub rates: Vec<(String, f64)>,
    /// Memory bandwidth in bytes per second.
    pub bandwidth: f64,
    /// Device memory in bytes.
    pub memory: f64,
    /// Bandwidth to the other GPUs in one direction, bytes per second, if it has links.
    pub link: Option<f64>,
}

impl From<&Gpu> for Machine {
    fn from(gpu: &Gpu) -> Self {
        Self {
            name: gpu.name.clone(),
            rates: gpu
                .peaks
                .iter()
                .map(|peak| (peak.dtype.clone(), peak.dense.0))
                .collect(),
            bandwidth: gpu.memory_bandwidth.0,
            memory: gpu.memory_bytes.0,
            link: gpu.nvlink_bandwidth.map(|link| link.0),
        }
    }
}

impl Machine {
    /// The rate for weights or a cache of this format and the dtype that it is of; none if the GPU has no such unit.
    pub fn rate(&self, precision: &Precision) -> Option<(&str, f64)> {
        let find = |dtype: &&str| self.rates.iter().find(|(known, _)| known == dtype);
        precision
            .rates
            .iter()
            .find_map(find)
            .map(|(dtype, rate)| (dtype.as_str(), *rate))
    }
}
