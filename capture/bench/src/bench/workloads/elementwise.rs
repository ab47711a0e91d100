//! Activations and rotary embedding.

use super::{Setup, Workload, unsupported};
use crate::bench::operation::Kind;
use crate::cuda::{Argument, CudaError, Grid, Source};

const THREADS: u32 = 256;

/// GELU, SiLU, or SiLU times another tensor.
pub(super) fn prepare<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let elements = case.tokens() * case.size("hidden");
    setup.require_packs("batch * sequence * hidden", elements)?;
    let name = case.kind.description().name;
    let kernel = setup.device.kernel(Source::Elementwise, case.dtype, name)?;
    let mut inputs = vec![setup.random(elements, 1)?];
    if case.kind == Kind::SiluMul {
        inputs.push(setup.random(elements, 2)?);
    }
    let y = setup.empty(elements)?;
    let packs = elements * case.dtype.bytes() / 16;
    let most = u64::from(setup.device.multiprocessors) * 32;
    let blocks = packs.div_ceil(u64::from(THREADS)).clamp(1, most) as u32;
    let grid = Grid {
        blocks: (blocks, 1, 1),
        threads: THREADS,
    };
    let rest = vec![Argument::Long(elements)];
    // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
    Ok(unsafe { Workload::kernel(kernel, grid, y, inputs, rest) })
}

/// Rotary position embedding.
pub(super) fn rotary<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let (heads, dim) = (setup.small("heads")?, setup.small("head_dim")?);
    if !dim.is_multiple_of(2) {
        return Err(unsupported(format!("head_dim = {dim} is not even")));
    }
    setup.require_packs("head_dim / 2", u64::from(dim / 2))?;
    let positions = setup.small("sequence")?;
    let elements = case.tokens() * u64::from(heads) * u64::from(dim);
    let kernel = setup
        .device
        .kernel(Source::Elementwise, case.dtype, "rotary")?;
    let x = setup.random(elements, 1)?;
    let half = u64::from(positions) * u64::from(dim / 2);
    let (cosines, sines) = (setup.table(half, 2)?, setup.table(half, 3)?);
    let y = setup.empty(elements)?;
    let pairs = elements / 2;
    let threads = pairs * case.dtype.bytes() / 16;
    let blocks = u32::try_from(threads.div_ceil(u64::from(THREADS)).max(1));
    let blocks = blocks.map_err(|_| unsupported("more than 2^32 blocks".to_owned()))?;
    let grid = Grid {
        blocks: (blocks, 1, 1),
        threads: THREADS,
    };
    let [heads, dim, positions] = [heads, dim, positions].map(Argument::Int);
    let rest = vec![Argument::Long(pairs), heads, dim, positions];
    // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
    Ok(unsafe { Workload::kernel(kernel, grid, y, vec![x, cosines, sines], rest) })
}
