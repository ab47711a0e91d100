//! Rates of square matrix products.

use serde_json::{Map, json};

use super::document::{Measured, Outcome};
use super::{Gpu, measured};
use crate::cuda::{
    Batched, CudaError, Device, Dtype, Matmul, Operands, Plan, Product, fastest, measure,
};

/// Algorithms of cuBLASLt tried for each layout.
const CANDIDATES: usize = 16;

/// How each is tried.
const TRIAL: Plan = Plan { samples: 3, sample_s: 2e-3, warmup_s: 0.0 };

/// Each format in turn; one that fails costs that one.
pub(super) fn measure_all(gpu: &Gpu<'_>, size: u64) -> Vec<(Dtype, Outcome)> {
    let one = |dtype| one(gpu, size, dtype).map_err(|error| error.to_string());
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

/// Seconds of one launch in a short trial, whether W is stored as [n, k], and the way.
type Trial = (f64, (bool, Way));

fn one(gpu: &Gpu<'_>, size: u64, dtype: Dtype) -> Result<Measured, CudaError> {
    let (device, elements) = (gpu.device, size * size);
    let (x, w) = (device.random(dtype, elements, 1)?, device.random(dtype, elements, 2)?);
    let d = device.allocate(elements * dtype.product().bytes())?;
    let operands = Operands { x: x.address(), w: w.address(), d: d.address() };
    // cuBLAS has 8-bit products with W stored as [n, k] only.
    let layouts: &[bool] = if dtype.bytes() == 1 { &[true] } else { &[true, false] };
    // cuBLASLt comes first: its failure tells more.
    let trials = layouts.iter().flat_map(|transposed| {
        let by_lt = by_lt(device, size, dtype, *transposed, operands);
        [by_lt, by_blas(device, size, dtype, *transposed, operands)]
    });
    let (_, (transposed, way)) = fastest(trials)?;
    let note = Map::from_iter([
        ("weights".to_owned(), json!(if transposed { "n x k" } else { "k x n" })),
        ("library".to_owned(), json!(way.library())),
    ]);
    let size = size as f64;
    measured(gpu, 2.0 * size * size * size, note, &mut |_| way.launch(device, operands))
}

fn by_blas(
    device: &Device,
    size: u64,
    dtype: Dtype,
    transposed: bool,
    operands: Operands,
) -> Result<Trial, CudaError> {
    let product = Batched { batch: 1, m: size, n: size, k: size, transposed, dtype };
    let trial = measure(device, TRIAL, &mut |_| product.launch(device, operands), &mut || ())?;
    Ok((trial.seconds.median, (transposed, Way::Blas(product))))
}

/// The product with the fastest of its algorithms.
fn by_lt(
    device: &Device,
    size: u64,
    dtype: Dtype,
    transposed: bool,
    operands: Operands,
) -> Result<Trial, CudaError> {
    let (bias, accumulate) = (false, false);
    let product = Product { m: size, n: size, k: size, transposed, bias, accumulate, dtype };
    let mut matmul = Matmul::new(device, product, None, CANDIDATES)?;
    let (seconds, algorithm) = fastest((0..matmul.candidates()).map(|algorithm| {
        matmul.choose(algorithm);
        let trial = measure(device, TRIAL, &mut |_| matmul.launch(operands), &mut || ())?;
        Ok((trial.seconds.median, algorithm))
    }))?;
    matmul.choose(algorithm);
    Ok((seconds, (transposed, Way::Lt(matmul))))
}
