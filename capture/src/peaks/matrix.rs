//! Rates of square matrix products.

use serde_json::{Map, json};

use super::document::{Measured, Outcome};
use crate::cuda::{
    Argument, Buffer, ClockReader, CudaError, Device, Dtype, Grid, Matmul, Operands, Plan, Product,
    Source, measure,
};

/// Algorithms tried for each layout.
const CANDIDATES: usize = 8;

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
    let (transposed, matmul) = best_layout(device, size, dtype, operands)?;
    let mut during = serde_json::Value::Null;
    let measured = measure(device, plan, &mut |_| matmul.launch(operands), &mut || {
        during = clocks.now();
    })?;
    let note = Map::from_iter([
        ("weights".to_owned(), json!(if transposed { "n x k" } else { "k x n" })),
        ("algorithms".to_owned(), json!(matmul.candidates())),
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

/// The faster way to store W, as far as both exist, and whether that is [n, k].
fn best_layout(
    device: &Device,
    size: u64,
    dtype: Dtype,
    operands: Operands,
) -> Result<(bool, Matmul), CudaError> {
    // cuBLAS has 8-bit products with W stored as [n, k] only.
    let layouts: &[bool] = if dtype.bytes() == 1 { &[true] } else { &[true, false] };
    let mut best: Option<(f64, bool, Matmul)> = None;
    let mut failure = CudaError::Unsupported("no layout".to_owned());
    for transposed in layouts.iter().copied() {
        match fastest(device, product(size, dtype, transposed), operands) {
            Ok((seconds, matmul)) if best.as_ref().is_none_or(|best| seconds < best.0) => {
                best = Some((seconds, transposed, matmul));
            }
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    best.map(|(_, transposed, matmul)| (transposed, matmul)).ok_or(failure)
}

fn product(size: u64, dtype: Dtype, transposed: bool) -> Product {
    let (bias, accumulate) = (false, false);
    Product { m: size, n: size, k: size, transposed, bias, accumulate, dtype }
}

/// The product with the fastest of its algorithms, and that one's time in seconds.
fn fastest(
    device: &Device,
    product: Product,
    operands: Operands,
) -> Result<(f64, Matmul), CudaError> {
    let mut matmul = Matmul::new(device, product, None, CANDIDATES)?;
    let plan = Plan { samples: 3, sample_s: 2e-3, warmup_s: 0.0 };
    let mut best: Option<(f64, usize)> = None;
    let mut failure = CudaError::Unsupported("no algorithm".to_owned());
    for algorithm in 0..matmul.candidates() {
        matmul.choose(algorithm);
        match measure(device, plan, &mut |_| matmul.launch(operands), &mut || ()) {
            Ok(measured) if best.is_none_or(|best| measured.seconds.median < best.0) => {
                best = Some((measured.seconds.median, algorithm));
            }
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    let (seconds, algorithm) = best.ok_or(failure)?;
    matmul.choose(algorithm);
    Ok((seconds, matmul))
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
