//! What is computed by GEMMs.

use super::{Setup, Workload, cudnn_name, unsupported};
use crate::bench::operation::Case;
use crate::cuda::{
    Argument, Convolution, CudaError, Dtype, Fill, Grid, Image, Matmul, Operands, Product, Source,
    launch_batched,
};

fn product(case: &Case, [m, n, k]: [u64; 3], bias: bool, accumulate: bool) -> Product {
    Product {
        m,
        n,
        k,
        transposed: true,
        bias,
        accumulate,
        dtype: case.dtype,
    }
}

/// A linear layer.
pub(super) fn linear<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let (m, n, k) = (case.tokens(), case.size("out"), case.size("in"));
    let (x, w) = (setup.random(m * k, 1)?, setup.random(n * k, 2)?);
    let d = setup.empty(m * n)?;
    let bias = match case.size("bias") {
        0 => None,
        _ => Some(setup.random(n, 3)?),
    };
    let product = product(case, [m, n, k], bias.is_some(), false);
    let vector = bias.as_ref().map(|bias| bias.buffer.clone());
    let matmul = Matmul::new(setup.device, product, vector, 1)?;
    let mut workload = Workload::product(move |operands| matmul.launch(operands), [x, w, d]);
    workload.inputs.extend(bias);
    Ok(workload)
}

/// A batch of products.
pub(super) fn batched<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let (case, device) = (setup.case, setup.device);
    let [batch, m, n, k] = ["batch", "m", "n", "k"].map(|name| case.size(name));
    let product = product(case, [m, n, k], false, false);
    let (x, w) = (
        setup.random(batch * m * k, 1)?,
        setup.random(batch * n * k, 2)?,
    );
    let d = setup.empty(batch * m * n)?;
    Ok(Workload::product(
        move |operands| launch_batched(device, batch, product, operands),
        [x, w, d],
    ))
}

/// A convolution by cuDNN.
pub(super) fn cudnn<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    let (rows, columns) = case.image();
    let [batch, channels_in, channels_out] =
        ["batch", "channels_in", "channels_out"].map(|name| case.size(name));
    for name in [
        "batch",
        "channels_in",
        "channels_out",
        "height",
        "width",
        "kernel",
    ] {
        setup.small(name)?;
    }
    let image = Image {
        batch,
        input: [channels_in, case.size("height"), case.size("width")],
        output: [channels_out, rows, columns],
        kernel: case.size("kernel"),
        stride: case.size("stride"),
        padding: case.size("padding"),
        dtype: case.dtype,
    };
    let convolution = Convolution::new(setup.device, image)?;
    let x = setup.random(
        batch * channels_in * case.size("height") * case.size("width"),
        1,
    )?;
    let w = setup.random(channels_out * channels_in * image.kernel * image.kernel, 2)?;
    let d = setup.empty(batch * channels_out * rows * columns)?;
    let what = "the fastest of its algorithms; channels last";
    let implementation = Some(cudnn_name(what));
    let workload = Workload::product(move |operands| convolution.launch(operands), [x, w, d]);
    Ok(Workload {
        implementation,
        ..workload
    })
}

/// A convolution: the patches of the image as a matrix, times the filters.
pub(super) fn patches<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let case = setup.case;
    setup.require_packs("channels_in", case.size("channels_in"))?;
    let (rows, columns) = case.image();
    let (m, n) = (
        case.size("batch") * rows * columns,
        case.size("channels_out"),
    );
    let k = case.size("kernel") * case.size("kernel") * case.size("channels_in");
    if m == 0 || m * k > 1 << 40 {
        return Err(unsupported(format!("a matrix of {m} by {k} patches")));
    }
    let image = case.size("batch") * case.size("height") * case.size("width");
    let x = setup.random(image * case.size("channels_in"), 1)?;
    let (w, d) = (setup.random(n * k, 2)?, setup.empty(m * n)?);
    let patches = setup.tensor(m * k, case.dtype, 1)?;
    let kernel = setup.device.kernel(Source::Gather, case.dtype, "patches")?;
    let matmul = Matmul::new(
        setup.device,
        product(case, [m, n, k], false, false),
        None,
        1,
    )?;
    let mut sizes = Vec::new();
    for name in ["height", "width", "channels_in"] {
        sizes.push(Argument::Int(setup.small(name)?));
    }
    sizes.extend([Argument::Int(rows as u32), Argument::Int(columns as u32)]);
    for name in ["kernel", "stride", "padding"] {
        sizes.push(Argument::Int(setup.small(name)?));
    }
    let packs = m * k * case.dtype.bytes() / 16;
    let grid = Grid {
        blocks: (setup.device.multiprocessors * 16, 1, 1),
        threads: 256,
    };
    let (inputs, output) = (vec![x.clone(), w.clone()], Some(d.clone()));
    let launch = Box::new(move |launch: usize| {
        let mut arguments = [patches.at(launch), x.at(launch)]
            .map(Argument::Place)
            .to_vec();
        arguments.push(Argument::Long(packs));
        arguments.extend(&sizes);
        // SAFETY: the arguments are the kernel's, and the tensors have the sizes that it is given.
        unsafe { kernel.launch(grid, &arguments)? };
        matmul.launch(Operands {
            x: patches.at(launch),
            w: w.at(launch),
            d: d.at(launch),
        })
    });
    Ok(Workload::new(launch, inputs, output))
}

/// An LSTM layer over a whole sequence, steps first: x is [sequence, batch, in].
pub(super) fn lstm<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let (case, device) = (setup.case, setup.device);
    let [batch, input, hidden] = ["batch", "in", "hidden"].map(|name| case.size(name));
    let (steps, e) = (case.size("sequence"), case.dtype.bytes());
    // cuBLASLt chooses algorithms for addresses that are multiples of 256; a step's start must be one.
    if !(batch * hidden * e).is_multiple_of(256) {
        return Err(unsupported(
            "batch * hidden is not a multiple of 256 bytes".to_owned(),
        ));
    }
    let (x, w) = (
        setup.random(case.tokens() * input, 1)?,
        setup.random(4 * hidden * input, 2)?,
    );
    let u = setup.random(4 * hidden * hidden, 3)?;
    let out = setup.empty(case.tokens() * hidden)?;
    let gates = setup.tensor(case.tokens() * 4 * hidden, case.dtype, 1)?;
    let cell = setup.tensor(batch * hidden, Dtype::Fp32, 1)?;
    let zeros = setup.tensor(batch * hidden, Dtype::Fp32, 1)?;
    setup.fill(&zeros, batch * hidden, 0, Fill::Uniform(0.0))?;
    let whole = product(case, [case.tokens(), 4 * hidden, input], false, false);
    let whole = Matmul::new(device, whole, None, 1)?;
    let step = product(case, [batch, 4 * hidden, hidden], false, true);
    let step = Matmul::new(device, step, None, 1)?;
    let kernel = device.kernel(Source::Recurrent, case.dtype, "lstm_step")?;
    let blocks = u32::try_from((batch * hidden).div_ceil(256));
    let blocks = blocks.map_err(|_| unsupported("more than 2^32 blocks".to_owned()))?;
    let grid = Grid {
        blocks: (blocks, 1, 1),
        threads: 256,
    };
    let sizes = [
        Argument::Int(setup.small("batch")?),
        Argument::Int(setup.small("hidden")?),
    ];
    let (inputs, output) = (vec![x.clone(), w.clone(), u.clone()], Some(out.clone()));
    let launch = Box::new(move |launch: usize| {
        cell.buffer.copy_from(&zeros.buffer)?;
        whole.launch(Operands {
            x: x.at(launch),
            w: w.at(launch),
            d: gates.at(launch),
        })?;
        for number in 0..steps {
            let d = gates.at(launch).after(number * batch * 4 * hidden * e);
            let h = out.at(launch).after(number * batch * hidden * e);
            if number > 0 {
                let before = out.at(launch).after((number - 1) * batch * hidden * e);
                step.launch(Operands {
                    x: before,
                    w: u.at(launch),
                    d,
                })?;
            }
            let places = [h, cell.at(0), d].map(Argument::Place);
            // SAFETY: the arguments are the kernel's, and a step of the tensors has the sizes that it is given.
            unsafe { kernel.launch(grid, &[places.as_slice(), &sizes].concat())? };
        }
        Ok(())
    });
    Ok(Workload::new(launch, inputs, output))
}
