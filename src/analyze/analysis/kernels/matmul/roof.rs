//! The least time that a product takes on a GPU.

use std::ops::{Add, Mul};

use super::{Product, Shape};
use crate::Context;
use crate::engine::classify::{KernelClass, KernelIdentity};
use crate::engine::measured_peaks::Measured;
use crate::engine::measured_peaks::gpu_name;
use rooflens_hardware::Gpu;
use rooflens_hardware::element_bytes;
use rooflens_session::{Ns, PassId};
use rooflens_units::{
    Bytes, BytesPerSecond, Flops, FlopsPerByte, FlopsPerSecond, Measure, Ratio, Time,
};

/// A kernel that computes nothing lasts about this long.
const SHORTEST: Ns = Ns(2_000);

/// A rate or a bandwidth that bounds products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling<M> {
    /// The most that the GPU does per second.
    pub value: M,
    /// Measured on this GPU, rather than specified.
    pub measured: bool,
}

impl<M: Measure> Ceiling<M> {
    /// The measured one if there is one, else the specified one.
    fn of(measured: Option<M>, specified: Option<M>) -> Option<Self> {
        let measured = measured.map(|value| Self {
            value,
            measured: true,
        });
        let ceiling = measured.or(specified.map(|value| Self {
            value,
            measured: false,
        }));
        ceiling.filter(|ceiling| ceiling.value.number() > 0.0)
    }
}

/// The word that reports print for a measured or a specified ceiling.
pub const fn basis(measured: bool) -> &'static str {
    if measured { "measured" } else { "specified" }
}

/// What bounds the products of a pass: rates and bandwidth of its GPU.
pub struct Ceilings<'a> {
    /// The GPU as specified.
    pub gpu: Option<&'a Gpu>,
    measured: Measured<'a>,
    /// No matrix kernel of the pass is shorter.
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

    fn rate(&self, dtype: &str) -> Option<Ceiling<FlopsPerSecond>> {
        let specified = self.gpu.and_then(|gpu| gpu.peak(dtype));
        Ceiling::of(
            self.measured.rate(self.gpu, dtype),
            specified.map(|peak| peak.dense),
        )
    }

    fn bandwidth(&self) -> Option<Ceiling<BytesPerSecond>> {
        let specified = self.gpu.map(|gpu| gpu.memory_bandwidth);
        Ceiling::of(self.measured.bandwidth(), specified)
    }
}

/// Work of one product: operations, bytes and what bounds both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roof {
    /// Operations, of attention those under its mask.
    pub flops: Flops,
    /// Bytes that must move; absent if the type is not known.
    pub bytes: Option<Bytes>,
    /// Dtype of the rate; empty if the type is not known.
    pub dtype: &'static str,
    /// Rate of the type; absent if the GPU or the type is not known.
    pub rate: Option<Ceiling<FlopsPerSecond>>,
    /// Bandwidth of the memory.
    pub bandwidth: Option<Ceiling<BytesPerSecond>>,
    /// Specified dense rate of the type.
    pub peak: Option<FlopsPerSecond>,
    /// Specified bandwidth of the memory.
    pub memory: Option<BytesPerSecond>,
    /// No kernel is shorter.
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

/// The bytes that a product must move; absent if a type is not known.
pub(super) fn bytes(product: &Product) -> Option<Bytes> {
    let operand = element_bytes(product.operand);
    let output = element_bytes(product.output).or(operand);
    match product.shape {
        Shape::Gemm(gemm) => operand.zip(output).map(|(a, d)| gemm.bytes(a, d)),
        Shape::Attention(attention) => operand.map(|size| attention.bytes(size)),
        Shape::Convolution { .. } => None,
    }
}

impl Roof {
    /// The work of a product by a kernel under some ceilings.
    pub fn of(product: &Product, identity: &KernelIdentity, ceilings: &Ceilings<'_>) -> Self {
        let dtype = dtype(identity, product);
        Self {
            flops: product.shape.flops(),
            bytes: bytes(product),
            dtype,
            rate: ceilings.rate(dtype),
            bandwidth: ceilings.bandwidth(),
            peak: ceilings
                .gpu
                .and_then(|gpu| gpu.peak(dtype))
                .map(|peak| peak.dense),
            memory: ceilings.gpu.map(|gpu| gpu.memory_bandwidth),
            floor: ceilings.floor,
        }
    }

    /// The times at the rate and at the bandwidth.
    pub fn times(&self) -> Option<(Time, Time)> {
        let at_rate = self.flops / self.rate?.value;
        let at_bandwidth = self.bytes? / self.bandwidth?.value;
        Some((at_rate.time(), at_bandwidth.time()))
    }

    /// The least time: the longer of both, and of the shortest kernel.
    pub fn time(&self) -> Option<Time> {
        self.times()
            .map(|(rate, bandwidth)| rate.max(bandwidth).max(self.floor.time()))
    }
}

/// Launches that compute the same by one kernel, summed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Launches.
    pub launches: u64,
    /// Their time and that of their helpers.
    pub time: Ns,
    /// That of their helpers alone.
    pub helpers: Ns,
    /// Operations; absent if the sizes are not known.
    pub flops: Option<Flops>,
    /// Bytes that must move.
    pub bytes: Option<Bytes>,
    /// The least time.
    pub least: Option<Time>,
    /// The times at the rate and at the bandwidth.
    times: (Time, Time),
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
        add(&mut self.flops, Some(roof.flops), launches);
        add(&mut self.bytes, roof.bytes, launches);
        add(&mut self.least, roof.time(), launches);
        if let Some((rate, bandwidth)) = roof.times() {
            self.times.0 += rate * launches as f64;
            self.times.1 += bandwidth * launches as f64;
        }
        self.roof = Some(roof);
    }

    /// Operations per second of their time.
    pub fn rate(&self) -> Option<FlopsPerSecond> {
        let flops = self.flops.filter(|_| self.time > Ns::ZERO)?;
        Some(flops / self.time.time())
    }

    /// Bytes per second of their time.
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        let bytes = self.bytes.filter(|_| self.time > Ns::ZERO)?;
        Some(bytes / self.time.time())
    }

    /// Operations per byte.
    pub fn intensity(&self) -> Option<FlopsPerByte> {
        Some(self.flops? / self.bytes?)
    }

    /// Share of the specified rate.
    pub fn of_peak(&self) -> Option<Ratio> {
        Some(Ratio(self.rate()? / self.roof?.peak?))
    }

    /// Time beyond the least.
    pub fn recoverable(&self) -> Option<Time> {
        self.least
            .map(|least| (self.time.time() - least).max(Time::ZERO))
    }

    /// The time that their bytes need at the bandwidth.
    pub const fn at_bandwidth(&self) -> Time {
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

    /// Whether the ceiling that bounds them was measured, rather than specified.
    pub fn has_measured_ceiling(&self) -> Option<bool> {
        let roof = self.roof?;
        match self.bound()? {
            Bound::Compute => roof.rate.map(|rate| rate.measured),
            Bound::Memory => roof.bandwidth.map(|bandwidth| bandwidth.measured),
        }
    }
}

/// Adds the amount of so many launches, if it is known.
fn add<A>(sum: &mut Option<A>, amount: Option<A>, launches: u64)
where
    A: Copy + Default + Add<Output = A> + Mul<f64, Output = A>,
{
    if let Some(amount) = amount {
        *sum = Some(sum.unwrap_or_default() + amount * launches as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_product_is_shorter_than_the_shortest_kernel() {
        // 1 MFLOP at 1 TFLOP/s are 1000 ns, 2 MB at 4 TB/s 500 ns.
        let roof = |floor| Roof {
            flops: Flops(1e6),
            bytes: Some(Bytes(2e6)),
            rate: Ceiling::of(None, Some(FlopsPerSecond(1e12))),
            bandwidth: Ceiling::of(None, Some(BytesPerSecond(4e12))),
            floor,
            ..Roof::default()
        };
        assert_eq!(
            [roof(Ns::ZERO), roof(Ns(900)), roof(Ns(1800))].map(|roof| roof.time()),
            [1000.0, 1000.0, 1800.0].map(|time| Some(Time(time)))
        );
    }
}
