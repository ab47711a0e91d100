//! The least times of data movement and of FLOPs on the GPU of a pass.

use super::call::Dtype;
use crate::Context;
use crate::engine::measured_peaks::gpu_name;
use rooflens_hardware::Gpu;
use rooflens_session::PassId;
use rooflens_units::{Bytes, Flops, Ratio, Time};

/// The least time of a kernel: none on current GPUs is shorter.
const SHORTEST: Time = Time(1_000.0);

/// Bytes that an L2 cache may keep, so that they never reach the memory; the largest one of an H100.
const CACHE: Bytes = Bytes(50e6);

/// Threads that an SM of current GPUs for computing holds.
const THREADS_PER_SM: u64 = 2_048;

/// Rates of a GPU.
pub(super) struct Roof<'a> {
    gpu: Option<&'a Gpu>,
}

impl<'a> Roof<'a> {
    pub(super) fn of(context: &Context<'a>, pass: PassId) -> Self {
        let name = gpu_name(context.session, Some(pass));
        Self {
            gpu: context.gpu_spec(&name),
        }
    }

    /// Whether the rates of the GPU are known.
    pub(super) const fn is_known(&self) -> bool {
        self.gpu.is_some()
    }

    /// Threads of a grid ÷ threads that the GPU holds at most.
    pub(super) fn filled(&self, threads: u64) -> Option<Ratio> {
        let whole = u64::from(self.gpu?.sm_count) * THREADS_PER_SM;
        Some(Ratio(threads as f64 / whole as f64))
    }

    /// Whether so many bytes may stay in the cache.
    pub(super) fn is_cached(&self, bytes: Bytes) -> bool {
        bytes <= CACHE
    }

    /// The least time of a kernel that moves so many bytes.
    pub(super) fn moving(&self, bytes: Bytes) -> Option<Time> {
        let bandwidth = self.gpu?.memory_bandwidth;
        let time = Time(bytes.0 / bandwidth.0 * 1e9);
        Some(match self.is_cached(bytes) {
            true => SHORTEST,
            false => time.max(SHORTEST),
        })
    }

    /// The least time of a kernel with so many FLOPs at one of these rates, the first that the GPU has, that moves so
    /// many bytes.
    pub(super) fn computing(&self, flops: Flops, rates: &[&str], bytes: Bytes) -> Option<Time> {
        let moving = self.moving(bytes)?;
        let mut peaks = rates.iter().filter_map(|rate| self.gpu?.peak(rate));
        let computing = match peaks.next() {
            Some(peak) => Time(flops.0 / peak.dense.0 * 1e9),
            None => Time::ZERO,
        };
        Some(computing.max(moving))
    }
}

/// The rates of a type, the fastest first: FP32 products may run as TF32.
pub(super) fn rates(dtype: Dtype) -> [&'static str; 2] {
    match dtype.name {
        "fp32" => ["tf32", "fp32"],
        "fp64" => ["fp64_tensor", "fp64"],
        name => [name, name],
    }
}
