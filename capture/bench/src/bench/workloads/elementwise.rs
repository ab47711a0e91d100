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
    let grid = Grid { blocks: (blocks, 1, 1), threads: THREADS };
    let (operands, output) = (inputs.clone(), Some(y.clone()));
    let launch = Box::new(move |launch: usize| {
        let mut arguments = vec![Argument::Address(y.at(launch))];
        arguments.extend(operands.iter().map(|operand| Argument::Address(operand.at(launch))));
        arguments.push(Argument::Long(elements));
        kernel.launch(grid, &arguments)
    });
    Ok(Workload::new(launch, inputs, output))
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
    let kernel = setup.device.kernel(Source::Elementwise, case.dtype, "rotary")?;
    let x = setup.random(elements, 1)?;
    let half = u64::from(positions) * u64::from(dim / 2);
    let (cosines, sines) = (setup.table(half, 2)?, setup.table(half, 3)?);
    let y = setup.empty(elements)?;
    let pairs = elements / 2;
    let threads = pairs * case.dtype.bytes() / 16;
    let blocks = u32::try_from(threads.div_ceil(u64::from(THREADS)).max(1));
    let blocks = blocks.map_err(|_| unsupported("more than 2^32 blocks".to_owned()))?;
    let grid = Grid { blocks: (blocks, 1, 1), threads: THREADS };
    let inputs = vec![x.clone(), cosines.clone(), sines.clone()];
    let output = Some(y.clone());
    let launch = Box::new(move |launch: usize| {
        let addresses = [y.at(launch), x.at(launch), cosines.at(launch), sines.at(launch)];
        let mut arguments = addresses.map(Argument::Address).to_vec();
        arguments.push(Argument::Long(pairs));
        arguments.extend([heads, dim, positions].map(Argument::Int));
        kernel.launch(grid, &arguments)
    });
    Ok(Workload::new(launch, inputs, output))
}
