//! The least time that a product takes on a GPU.

use super::{Product, Shape};
use crate::Context;
use crate::engine::classify::{KernelClass, KernelIdentity};
use crate::engine::measured_peaks::Measured;
use crate::engine::measured_peaks::gpu_name;
use rooflens_hardware::Gpu;
use rooflens_hardware::element_bytes;
use rooflens_session::{Ns, PassId};

/// A kernel that computes nothing lasts about this long, nanoseconds.
const SHORTEST: Ns = Ns(2_000);

/// A rate or a bandwidth that bounds products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Operations or bytes per second.
    pub value: f64,
    /// Measured on this GPU, rather than specified.
    pub measured: bool,
}

impl Ceiling {
    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        if self.measured {
            "measured"
        } else {
            "specified"
        }
    }

    /// The measured one if there is one, else the specified one.
    fn of(measured: Option<f64>, specified: Option<f64>) -> Option<Self> {
        let measured = measured.map(|value| Self {
            value,
            measured: true,
        });
        let ceiling = measured.or(specified.map(|value| Self {
            value,
            measured: false,
        }));
        ceiling.filter(|ceiling| ceiling.value > 0.0)
    }
}

/// What bounds the products of a pass: rates and bandwidth of its GPU.
pub struct Ceilings<'a> {
    /// The GPU as specified.
    pub gpu: Option<&'a Gpu>,
    measured: Measured<'a>,
    /// No matrix kernel of the pass is shorter, nanoseconds.
    floor: Ns,
}

impl<'a> Ceilings<'a> {
    /// The ceilings of the GPU that a pass ran on.
    pub fn of(context: &Context<'a>, pass: PassId) -> Self {
        let name = gpu_name(context.session, Some(pass));
        let launches = &context.session.launches;
        let is_matrix = |row: &usize| {
            let kernel = launches.kernel[*row].index();
            let class = context
                .facts
                .identities
                .get(kernel)
                .map(|identity| identity.class);
            launches.pass[*row] == pass && class.is_some_and(KernelClass::is_matrix_work)
        };
        let floor = (0..launches.len())
            .filter(is_matrix)
            .map(|row| launches.end[row].saturating_sub(launches.start[row]))
            .min();
        Self {
            gpu: context.gpu_spec(&name),
            measured: Measured::of(context, &name),
            floor: floor.unwrap_or(Ns::ZERO).min(SHORTEST),
        }
    }

    fn rate(&self, dtype: &str) -> Option<Ceiling> {
        let specified = self
            .gpu
            .and_then(|gpu| gpu.peak(dtype))
            .map(|peak| peak.dense.0);
        Ceiling::of(self.measured.rate(self.gpu, dtype), specified)
    }

    fn bandwidth(&self) -> Option<Ceiling> {
        Ceiling::of(
            self.measured.bandwidth(),
            self.gpu.map(|gpu| gpu.memory_bandwidth.0),
        )
    }
}

/// Work of one product: operations, bytes and what bounds both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roof {
    /// Operations, of attention those under its mask.
    pub flops: f64,
    /// Bytes that must move; absent if the type is not known.
    pub bytes: Option<f64>,
    /// Dtype of the rate; empty if the type is not known.
    pub dtype: &'static str,
    /// Rate of the type; absent if the GPU or the type is not known.
    pub rate: Option<Ceiling>,
    /// Bandwidth of the memory.
    pub bandwidth: Option<Ceiling>,
    /// Specified dense rate of the type, per second.
    pub peak: Option<f64>,
    /// Specified bandwidth of the memory, bytes per second.
    pub memory: Option<f64>,
    /// No kernel is shorter, nanoseconds.
    pub floor: Ns,
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
    /// The work of a product by a kernel under some ceilings.
    pub fn of(product: &Product, identity: &KernelIdentity, ceilings: &Ceilings<'_>) -> Self {
        let operand = element_bytes(product.operand);
        let output = element_bytes(product.output).or(operand);
        let bytes = match product.shape {
            Shape::Gemm(gemm) => operand.zip(output).map(|(a, d)| gemm.bytes(a, d)),
            Shape::Attention(attention) => operand.map(|size| attention.bytes(size)),
            Shape::Convolution { .. } => None,
        };
        let dtype = dtype(identity, product);
        Self {
            flops: product.shape.flops(),
            bytes,
            dtype,
            rate: ceilings.rate(dtype),
            bandwidth: ceilings.bandwidth(),
            peak: ceilings
                .gpu
                .and_then(|gpu| gpu.peak(dtype))
                .map(|peak| peak.dense.0),
            memory: ceilings.gpu.map(|gpu| gpu.memory_bandwidth.0),
            floor: ceilings.floor,
        }
    }

    /// Nanoseconds at the rate, and at the bandwidth.
    pub fn times(&self) -> Option<(f64, f64)> {
        let (at_rate, at_bandwidth) = (
            self.flops / self.rate?.value,
            self.bytes? / self.bandwidth?.value,
        );
        Some((at_rate * 1e9, at_bandwidth * 1e9))
    }

    /// The least time in nanoseconds: the longer of both, and of the shortest kernel.
    pub fn time(&self) -> Option<f64> {
        self.times()
            .map(|(rate, bandwidth)| rate.max(bandwidth).max(self.floor.time().0))
    }
}

/// Launches that compute the same by one kernel, summed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Launches.
    pub launches: u64,
    /// Their time and that of their helpers, nanoseconds.
    pub time: Ns,
    /// That of their helpers alone.
    pub helpers: Ns,
    /// Operations; absent if the sizes are not known.
    pub flops: Option<f64>,
    /// Bytes that must move.
    pub bytes: Option<f64>,
    /// The least time, nanoseconds.
    pub least: Option<f64>,
    /// Nanoseconds at the rate, and at the bandwidth.
    times: (f64, f64),
    /// The work of one of them: the ceilings of all are the same.
    pub roof: Option<Roof>,
}

impl Sum {
    /// Adds launches of which each has this work.
    pub fn add(&mut self, launches: u64, time: Ns, helpers: Ns, roof: Option<Roof>) {
        self.launches += launches;
        self.time = self.time.saturating_add(time);
        self.helpers = self.helpers.saturating_add(helpers);
        let Some(roof) = roof else { return };
        let number = launches as f64;
        let plus = |sum: &mut Option<f64>, amount: Option<f64>| {
            if let Some(amount) = amount {
                *sum = Some(sum.unwrap_or(0.0) + amount * number);
            }
        };
        plus(&mut self.flops, Some(roof.flops));
        plus(&mut self.bytes, roof.bytes);
        plus(&mut self.least, roof.time());
        if let Some((rate, bandwidth)) = roof.times() {
            self.times = (
                self.times.0 + rate * number,
                self.times.1 + bandwidth * number,
            );
        }
        self.roof = Some(roof);
    }

    /// An amount that all launches have, per second of their time.
    pub fn per_second(&self, amount: Option<f64>) -> Option<f64> {
        amount
            .filter(|_| self.time > Ns::ZERO)
            .map(|amount| amount / self.time.time().0 * 1e9)
    }

    /// Operations per second.
    pub fn rate(&self) -> Option<f64> {
        self.per_second(self.flops)
    }

    /// Operations per byte.
    pub fn intensity(&self) -> Option<f64> {
        Some(self.flops? / self.bytes?)
    }

    /// Share of the specified rate.
    pub fn of_peak(&self) -> Option<f64> {
        Some(self.rate()? / self.roof?.peak?)
    }

    /// Time beyond the least, nanoseconds.
    pub fn recoverable(&self) -> Option<f64> {
        self.least
            .map(|least| (self.time.time().0 - least).max(0.0))
    }

    /// Nanoseconds that their bytes need at the bandwidth.
    pub const fn at_bandwidth(&self) -> f64 {
        self.times.1
    }

    /// What bounds them at best.
    pub fn bound(&self) -> Option<Bound> {
        self.least?;
        Some(if self.times.0 >= self.times.1 {
            Bound::Compute
        } else {
            Bound::Memory
        })
    }

    /// The ceiling that bounds them.
    pub fn ceiling(&self) -> Option<Ceiling> {
        let roof = self.roof?;
        match self.bound()? {
            Bound::Compute => roof.rate,
            Bound::Memory => roof.bandwidth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_product_is_shorter_than_the_shortest_kernel() {
        let ceiling = |value| {
            Some(Ceiling {
                value,
                measured: false,
            })
        };
        // 1 MFLOP at 1 TFLOP/s are 1000 ns, 2 MB at 4 TB/s 500 ns.
        let roof = |floor| Roof {
            flops: 1e6,
            bytes: Some(2e6),
            rate: ceiling(1e12),
            bandwidth: ceiling(4e12),
            floor,
            ..Roof::default()
        };
        assert_eq!(
            [roof(Ns::ZERO), roof(Ns(900)), roof(Ns(1800))].map(|roof| roof.time()),
            [Some(1000.0), Some(1000.0), Some(1800.0)]
        );
    }
}
