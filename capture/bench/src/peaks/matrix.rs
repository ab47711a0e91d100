//! Rates of square GEMMs.

use rooflens_units::{Flops, FlopsPerSecond, Seconds};
use serde_json::json;

use super::document::{Measured, Outcome};
use super::{Gpu, measured};
use crate::cuda::{
    CudaError, Device, Dtype, Matmul, Operands, Operation, Plan, Product, fastest, launch_batched,
    measure,
};

/// Algorithms of cuBLASLt tried for each layout.
const CANDIDATES: usize = 16;

/// How each is tried.
const TRIAL: Plan = Plan {
    samples: 3,
    sample_time: Seconds(2e-3),
    warmup_time: Seconds::ZERO,
};

/// Each format in turn; one that fails costs that one.
pub(super) fn measure_all(gpu: &Gpu<'_>, size: u64) -> Vec<(Dtype, Outcome<FlopsPerSecond>)> {
    let one = |dtype| one(gpu, size, dtype).map_err(|error| error.to_string());
    Dtype::ALL
        .into_iter()
        .map(|dtype| (dtype, one(dtype)))
        .collect()
}

/// A library's product, ready to be launched.
enum Way {
    /// cuBLASLt, with the algorithm chosen.
    Lt(Matmul),
    /// cuBLAS, which knows kernels that cuBLASLt does not offer, above all in fp64.
    Blas(Product),
}

impl Way {
    fn launch(&self, device: &Device, operands: Operands<'_>) -> Result<(), CudaError> {
        match self {
            Self::Lt(matmul) => matmul.launch(operands),
            Self::Blas(product) => launch_batched(device, 1, *product, operands),
        }
    }
}

/// The time of a launch in a short trial, with the way.
type Trial = (Seconds, Way);

fn one(gpu: &Gpu<'_>, size: u64, dtype: Dtype) -> Result<Measured<FlopsPerSecond>, CudaError> {
    let (device, elements) = (gpu.device, size * size);
    let (x, w) = (
        device.random(dtype, elements, 1)?,
        device.random(dtype, elements, 2)?,
    );
    let d = device.allocate(elements * dtype.product().bytes())?;
    let operands = Operands {
        x: x.place(),
        w: w.place(),
        d: d.place(),
    };
    // cuBLAS has 8-bit products with W stored as [n, k] only.
    let layouts: &[bool] = if dtype.bytes() == 1 {
        &[true]
    } else {
        &[true, false]
    };
    // cuBLASLt comes first: its failure tells more.
    let trials = layouts.iter().flat_map(|transposed| {
        let (transposed, bias, accumulate) = (*transposed, false, false);
        let product = Product {
            m: size,
            n: size,
            k: size,
            transposed,
            bias,
            accumulate,
            dtype,
        };
        let trials = [
            by_lt(device, product, operands),
            by_blas(device, product, operands),
        ];
        trials.map(|trial| trial.map(|(time, way)| (time, (transposed, way))))
    });
    let (_, (transposed, way)) = fastest(trials)?;
    let note = json!({
        "weights": if transposed { "n x k" } else { "k x n" },
        "library": if matches!(way, Way::Lt(_)) { "cuBLASLt" } else { "cuBLAS" },
    });
    let size = size as f64;
    let work = Flops(2.0 * size * size * size);
    measured(gpu, work, note, &mut |_| way.launch(device, operands))
}

fn by_blas(device: &Device, product: Product, operands: Operands<'_>) -> Result<Trial, CudaError> {
    let way = Way::Blas(product);
    Ok((trial(device, &mut |_| way.launch(device, operands))?, way))
}

/// The product with the fastest of its algorithms.
fn by_lt(device: &Device, product: Product, operands: Operands<'_>) -> Result<Trial, CudaError> {
    let mut matmul = Matmul::new(device, product, None, CANDIDATES)?;
    let (time, algorithm) = fastest((0..matmul.candidates()).map(|algorithm| {
        matmul.choose(algorithm);
        Ok((trial(device, &mut |_| matmul.launch(operands))?, algorithm))
    }))?;
    matmul.choose(algorithm);
    Ok((time, Way::Lt(matmul)))
}

fn trial(
    device: &Device,
    launch: &mut dyn FnMut(usize) -> Result<(), CudaError>,
) -> Result<Seconds, CudaError> {
    let operation = Operation {
        launch,
        copies: 1,
        in_graph: false,
    };
    let trial = measure(device, TRIAL, operation, &mut || ())?;
    Ok(trial.times.median)
}
