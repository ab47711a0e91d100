//! Attention: prefill on tensor cores, decode with a split context.

use std::rc::Rc;

use super::{Setup, Tensor, Workload, cudnn_name, unsupported};
use crate::cuda::{Argument, Attention, CudaError, Dtype, Grid, Shape, Source};

/// The kernels are written for this many elements a head.
const DIM: u64 = 128;
/// Queries of a block in prefill.
const TILE: u64 = 64;
/// Query heads of a block in decode.
const GROUP: u64 = 4;

/// Causal attention of whole sequences.
pub(super) fn prefill<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    if setup.device.capability < (8, 0) || !matches!(case.dtype, Dtype::Bf16 | Dtype::Fp16) {
        let message = "prefill is for bf16 and fp16 on compute capability 8.0 and newer";
        return Err(unsupported(message.to_owned()));
    }
    let (heads, kv_heads) = own_heads(setup)?;
    let (batch, length) = (case.size("batch"), case.size("sequence"));
    let [q, k, v] = operands(setup, length, length)?;
    let out = setup.empty(q.elements)?;
    let kernel = setup
        .device
        .kernel(Source::Attention, case.dtype, "prefill")?;
    let grid = grid(length.div_ceil(TILE), batch * u64::from(heads))?;
    let length = setup.small("sequence")?;
    let [heads, kv_heads, length] = [heads, kv_heads, length].map(Argument::Int);
    let rest = vec![heads, kv_heads, length, Argument::Float(scale())];
    // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
    Ok(unsafe { Workload::kernel(kernel, grid, out, vec![q, k, v], rest) })
}

/// Attention of one new token a sequence.
pub(super) fn decode<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let (heads, kv_heads) = own_heads(setup)?;
    let (batch, context) = (case.size("batch"), case.size("context"));
    let [q, k, v] = operands(setup, 1, context)?;
    let out = setup.empty(q.elements)?;
    let chunks = u64::from(heads / kv_heads).div_ceil(GROUP);
    let groups = batch * u64::from(kv_heads) * chunks;
    let parts = parts(groups, context, setup.device.multiprocessors);
    let rows = batch * u64::from(heads);
    let sums = setup.tensor(rows * u64::from(parts) * DIM, Dtype::Fp32, 1)?;
    let softmax = setup.tensor(rows * u64::from(parts) * 2, Dtype::Fp32, 1)?;
    // Numbers below one: zeros.
    let arrived = setup.indices(rows, 1, 0)?;
    let kernel = setup.device.kernel(Source::Decode, case.dtype, "decode")?;
    let grid = grid(u64::from(parts), groups)?;
    let context = setup.small("context")?;
    let (inputs, output) = (vec![q.clone(), k.clone(), v.clone()], Some(out.clone()));
    let launch = Box::new(move |launch: usize| {
        let own = [sums.at(0), softmax.at(0), arrived.at(0)];
        let operands = [&q, &k, &v].map(|tensor| tensor.at(launch));
        let places = [out.at(launch)].into_iter().chain(own).chain(operands);
        let sizes = [heads, kv_heads, context].map(Argument::Int);
        let arguments = places.map(Argument::Place).chain(sizes);
        let arguments: Vec<_> = arguments.chain([Argument::Float(scale())]).collect();
        // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
        unsafe { kernel.launch(grid, &arguments) }
    });
    Ok(Workload::new(launch, inputs, output))
}

/// Causal attention of whole sequences by cuDNN.
pub(super) fn cudnn_prefill<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let length = setup.case.size("sequence");
    cudnn(setup, length, length, true)
}

/// Attention of one new token a sequence by cuDNN.
pub(super) fn cudnn_decode<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    cudnn(setup, 1, setup.case.size("context"), false)
}

fn cudnn<'a>(
    setup: &Setup<'a>,
    queries: u64,
    keys: u64,
    causal: bool,
) -> Result<Workload<'a>, CudaError> {
    heads(setup)?;
    let [batch, heads, kv_heads, dim] =
        ["batch", "heads", "kv_heads", "head_dim"].map(|name| setup.case.size(name));
    let dtype = setup.case.dtype;
    let shape = Shape {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        dim,
        causal,
        dtype,
    };
    let attention = Attention::new(setup.device, shape)?;
    let [q, k, v] = operands(setup, queries, keys)?;
    let out = setup.empty(q.elements)?;
    let (inputs, output) = (vec![q.clone(), k.clone(), v.clone()], Some(out.clone()));
    let launch = Box::new(move |launch: usize| {
        attention.launch([&q, &k, &v, &out].map(|tensor| tensor.at(launch)))
    });
    let implementation = Some(cudnn_name("fused attention, first choice of its heuristic"));
    Ok(Workload {
        implementation,
        ..Workload::new(launch, inputs, output)
    })
}

/// So many parts of the context that every multiprocessor has about four blocks, each with 64 keys at least.
fn parts(groups: u64, context: u64, multiprocessors: u32) -> u32 {
    let wanted = (u64::from(multiprocessors) * 4).div_ceil(groups.max(1));
    wanted.min(context.div_ceil(64)).clamp(1, 1024) as u32
}

fn scale() -> f32 {
    1.0 / (DIM as f32).sqrt()
}

fn heads(setup: &Setup<'_>) -> Result<(u32, u32), CudaError> {
    let (heads, kv_heads) = (setup.small("heads")?, setup.small("kv_heads")?);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(unsupported(format!(
            "{heads} heads over {kv_heads} key/value heads"
        )));
    }
    Ok((heads, kv_heads))
}

fn own_heads(setup: &Setup<'_>) -> Result<(u32, u32), CudaError> {
    match setup.case.size("head_dim") {
        DIM => heads(setup),
        dim => Err(unsupported(format!(
            "head_dim = {dim} without cuDNN: only {DIM}"
        ))),
    }
}

fn operands(setup: &Setup<'_>, queries: u64, keys: u64) -> Result<[Rc<Tensor>; 3], CudaError> {
    let rows = setup.case.size("batch") * setup.case.size("head_dim");
    let q = rows * setup.case.size("heads") * queries;
    let kv = rows * setup.case.size("kv_heads") * keys;
    Ok([
        setup.random(q, 1)?,
        setup.random(kv, 2)?,
        setup.random(kv, 3)?,
    ])
}

fn grid(x: u64, y: u64) -> Result<Grid, CudaError> {
    let fits = x < 1 << 31 && y < 1 << 16;
    let blocks = fits.then_some((x as u32, y as u32, 1));
    let blocks = blocks.ok_or_else(|| unsupported(format!("a grid of {x} by {y} blocks")))?;
    Ok(Grid {
        blocks,
        threads: 128,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_split_until_the_gpu_is_full() {
        // 132 multiprocessors: 528 blocks wanted.
        assert_eq!(parts(8, 8192, 132), 66);
        assert_eq!(parts(8, 1024, 132), 16);
        assert_eq!(parts(600, 8192, 132), 1);
        assert_eq!(parts(1, 10, 132), 1);
    }
}
