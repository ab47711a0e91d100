//! Norms, softmax and embedding: a block a row.

use super::{Setup, Workload, unsupported};
use crate::bench::operation::Kind;
use crate::cuda::{Argument, CudaError, Grid, Source};

const EPSILON: f32 = 1e-5;

/// Layer norm, RMS norm or softmax.
pub(super) fn prepare<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    // Vectors of weights and biases.
    let (rows, columns, vectors) = match case.kind {
        Kind::Softmax => (case.tokens() * case.size("heads"), setup.small("keys")?, 0),
        Kind::LayerNorm => (case.tokens(), setup.small("hidden")?, 2),
        _ => (case.tokens(), setup.small("hidden")?, 1),
    };
    let grid = row_grid(setup, rows, columns)?;
    let kernel = setup
        .device
        .kernel(Source::Rows, case.dtype, case.kind.description().name)?;
    let x = setup.random(rows * u64::from(columns), 1)?;
    let y = setup.empty(rows * u64::from(columns))?;
    let mut inputs = vec![x];
    for seed in 0..vectors {
        inputs.push(setup.random(u64::from(columns), 2 + seed)?);
    }
    let mut rest = vec![Argument::Int(columns)];
    rest.extend((vectors > 0).then_some(Argument::Float(EPSILON)));
    // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
    Ok(unsafe { Workload::kernel(kernel, grid, y, inputs, rest) })
}

/// Rows of a table.
pub(super) fn embedding<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let (tokens, hidden) = (case.tokens(), setup.small("hidden")?);
    let vocabulary = setup.small("vocabulary")?;
    let grid = row_grid(setup, tokens, hidden)?;
    let kernel = setup
        .device
        .kernel(Source::Gather, case.dtype, "embedding")?;
    // The table is not copied: which of its rows are read differs from launch to launch.
    let once = Setup {
        copies: 1,
        ..*setup
    };
    let table = once.random(u64::from(vocabulary) * u64::from(hidden), 1)?;
    let index = setup.indices(tokens, vocabulary, 2)?;
    let y = setup.empty(tokens * u64::from(hidden))?;
    let rest = vec![Argument::Int(hidden)];
    // SAFETY: the arguments are the kernel's, the indices are below the table's rows, and the tensors have the sizes that it is given.
    Ok(unsafe { Workload::kernel(kernel, grid, y, vec![table, index], rest) })
}

/// A block a row, with as many threads as one pass over the row keeps busy.
fn row_grid(setup: &Setup<'_>, rows: u64, columns: u32) -> Result<Grid, CudaError> {
    setup.require_packs("row length", u64::from(columns))?;
    let packs = u64::from(columns) * setup.case.dtype.bytes() / 16;
    let blocks = u32::try_from(rows).ok().filter(|rows| *rows < 1 << 31);
    let blocks = blocks.ok_or_else(|| unsupported(format!("{rows} rows are beyond 2^31")))?;
    let threads = packs.next_multiple_of(32).clamp(32, 512) as u32;
    Ok(Grid {
        blocks: (blocks, 1, 1),
        threads,
    })
}
