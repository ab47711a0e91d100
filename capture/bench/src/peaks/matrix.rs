//! Rates of square matrix products.

use serde_json::{Map, json};

use super::document::{Measured, Outcome};
use crate::cuda::{
    Argument, Batched, Buffer, ClockReader, CudaError, Device, Dtype, Grid, Matmul, Operands, Plan,
    Product, Source, measure,
};

/// Algorithms of cuBLASLt tried for each layout.
const CANDIDATES: usize = 16;

/// How each is tried.
const TRIAL: Plan = Plan { samples: 3, sample_s: 2e-3, warmup_s: 0.0 };

/// Each format in turn; one that fails costs that one.
pub(super) fn measure_all(
    device: &Device,
    clocks: &ClockReader,
    plan: Plan,
    size: u64,
) -> Vec<(Dtype, Outcome)> {
    let one = |dtype| one(device, clocks, plan, size, dtype).map_err(|error| error.to_string());
    Dtype::ALL.into_iter().map(|dtype| (dtype, one(dtype))).collect()
}

/// A library's product, ready to be launched.
enum Way {
    /// cuBLASLt, with the algorithm chosen.
    Lt(Matmul),
    /// cuBLAS, which knows kernels that cuBLASLt does not offer, above all in fp64.
    Blas(Batched),
}

impl Way {
    fn launch(&self, device: &Device, operands: Operands) -> Result<(), CudaError> {
        match self {
            Self::Lt(matmul) => matmul.launch(operands),
            Self::Blas(product) => product.launch(device, operands),
        }
    }

    const fn library(&self) -> &'static str {
        match self {
            Self::Lt(_) => "cuBLASLt",
            Self::Blas(_) => "cuBLAS",
        }
    }
}

/// A way with the time of one launch in a short trial, seconds.
struct Trial {
    seconds: f64,
    transposed: bool,
    way: Way,
}

fn one(
    device: &Device,
    clocks: &ClockReader,
    plan: Plan,
    size: u64,
    dtype: Dtype,
) -> Result<Measured, CudaError> {
    let elements = size * size;
    let (x, w) = (random(device, dtype, elements, 1)?, random(device, dtype, elements, 2)?);
    let d = device.allocate(elements * dtype.product().bytes())?;
    let operands = Operands { x: x.address(), w: w.address(), d: d.address() };
    let best = best(device, size, dtype, operands)?;
    let mut during = serde_json::Value::Null;
    let measured = measure(device, plan, &mut |_| best.way.launch(device, operands), &mut || {
        during = clocks.now();
    })?;
    let note = Map::from_iter([
        ("weights".to_owned(), json!(if best.transposed { "n x k" } else { "k x n" })),
        ("library".to_owned(), json!(best.way.library())),
    ]);
    let size = size as f64;
    Ok(Measured {
        seconds: measured.seconds,
        work: 2.0 * size * size * size,
        launches: measured.launches,
        clocks: during,
        note,
    })
}

/// The fastest of both libraries and both ways to store W, as far as they exist.
fn best(device: &Device, size: u64, dtype: Dtype, operands: Operands) -> Result<Trial, CudaError> {
    // cuBLAS has 8-bit products with W stored as [n, k] only.
    let layouts: &[bool] = if dtype.bytes() == 1 { &[true] } else { &[true, false] };
    let mut best: Option<Trial> = None;
    // The first one counts: it is cuBLASLt's, which tells more.
    let mut failure: Option<CudaError> = None;
    for transposed in layouts.iter().copied() {
        let trials = [
            fastest(device, product(size, dtype, transposed), operands),
            blas(device, size, dtype, transposed, operands),
        ];
        for trial in trials {
            match trial {
                Ok(trial) if best.as_ref().is_none_or(|best| trial.seconds < best.seconds) => {
                    best = Some(trial);
                }
                Ok(_) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
    let nothing = || CudaError::Unsupported("no layout".to_owned());
    best.ok_or_else(|| failure.unwrap_or_else(nothing))
}

fn blas(
    device: &Device,
    size: u64,
    dtype: Dtype,
    transposed: bool,
    operands: Operands,
) -> Result<Trial, CudaError> {
    let product = Batched { batch: 1, m: size, n: size, k: size, transposed, dtype };
    let measured = measure(device, TRIAL, &mut |_| product.launch(device, operands), &mut || ())?;
    Ok(Trial { seconds: measured.seconds.median, transposed, way: Way::Blas(product) })
}

fn product(size: u64, dtype: Dtype, transposed: bool) -> Product {
    let (bias, accumulate) = (false, false);
    Product { m: size, n: size, k: size, transposed, bias, accumulate, dtype }
}

/// The product with the fastest of its algorithms.
fn fastest(device: &Device, product: Product, operands: Operands) -> Result<Trial, CudaError> {
    let mut matmul = Matmul::new(device, product, None, CANDIDATES)?;
    let mut best: Option<(f64, usize)> = None;
    let mut failure = CudaError::Unsupported("no algorithm".to_owned());
    for algorithm in 0..matmul.candidates() {
        matmul.choose(algorithm);
        match measure(device, TRIAL, &mut |_| matmul.launch(operands), &mut || ()) {
            Ok(measured) if best.is_none_or(|best| measured.seconds.median < best.0) => {
                best = Some((measured.seconds.median, algorithm));
            }
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    let (seconds, algorithm) = best.ok_or(failure)?;
    matmul.choose(algorithm);
    Ok(Trial { seconds, transposed: product.transposed, way: Way::Lt(matmul) })
}

/// A matrix of values uniform in [−1, 1]: power, and with it the clocks, depend on the data.
fn random(device: &Device, dtype: Dtype, elements: u64, seed: u32) -> Result<Buffer, CudaError> {
    let buffer = device.allocate(elements * dtype.bytes())?;
    let grid = Grid { blocks: (device.multiprocessors * 8, 1, 1), threads: 256 };
    let arguments = [
        Argument::Address(buffer.address()),
        Argument::Long(elements),
        Argument::Int(seed),
        Argument::Float(1.0),
    ];
    device.kernel(Source::Fill, dtype, "fill")?.launch(grid, &arguments)?;
    Ok(buffer)
}
