//! The operations on the device: each prepares its memory once and then enqueues one launch at a time.

mod attention;
mod copies;
mod elementwise;
mod layers;
mod rows;

use std::rc::Rc;
use std::slice;

use rooflens_units::{Bytes, Seconds};

use super::operation::{Case, Kind};
use crate::cuda::{
    Argument, Buffer, CudaError, Device, Dtype, Fill, Grid, Kernel, Operands, Operation, Place,
    Plan, cudnn_version, fastest, measure,
};

/// Most copies of the operands.
const MOST_COPIES: u64 = 512;

/// A tensor of which there are several copies, used in turn: so that no launch finds its operands in the L2 cache.
pub(super) struct Tensor {
    buffer: Rc<Buffer>,
    stride: u64,
    copies: u64,
    pub(super) elements: u64,
    pub(super) dtype: Dtype,
    /// Unsigned 32-bit numbers instead of the format.
    pub(super) indices: bool,
}

impl Tensor {
    /// The copy for that launch.
    fn at(&self, launch: usize) -> Place<'_> {
        self.buffer
            .place()
            .after(launch as u64 % self.copies * self.stride)
    }

    /// The bytes of the first copy, after all work on it.
    pub(super) fn download(&self) -> Result<Vec<u8>, CudaError> {
        let width = if self.indices { 4 } else { self.dtype.bytes() };
        let mut bytes = self.buffer.download()?;
        bytes.truncate((self.elements * width) as usize);
        Ok(bytes)
    }
}

/// Enqueues an operation; the argument counts the launches.
type Launch<'a> = Box<dyn FnMut(usize) -> Result<(), CudaError> + 'a>;

/// An operation that is ready to run.
pub(super) struct Workload<'a> {
    pub(super) launch: Launch<'a>,
    /// Operands in the order of the reference, and the result; copies state none.
    pub(super) inputs: Vec<Rc<Tensor>>,
    pub(super) output: Option<Rc<Tensor>>,
    /// What computes it, where that is not what the operation's description says.
    pub(super) implementation: Option<String>,
}

impl<'a> Workload<'a> {
    fn new(launch: Launch<'a>, inputs: Vec<Rc<Tensor>>, output: Option<Rc<Tensor>>) -> Self {
        Self {
            launch,
            inputs,
            output,
            implementation: None,
        }
    }

    /// As it is measured. In a graph, copies are others: 1 GiB within an H100 at 2.4 instead of 3.0 TB/s.
    pub(super) fn operation(&mut self, kind: Kind, copies: u64) -> Operation<'_> {
        let in_graph = !kind.is_copy();
        Operation {
            launch: &mut *self.launch,
            copies: copies as usize,
            in_graph,
        }
    }

    /// One of our kernels: its arguments are the result, the operands and `rest`.
    ///
    /// # Safety
    /// That of [`Kernel::launch`], for any copy of the tensors.
    unsafe fn kernel(
        kernel: Kernel,
        grid: Grid,
        output: Rc<Tensor>,
        inputs: Vec<Rc<Tensor>>,
        rest: Vec<Argument<'a>>,
    ) -> Self {
        let tensors = [slice::from_ref(&output), &inputs].concat();
        let launch = Box::new(move |launch: usize| {
            let places = tensors
                .iter()
                .map(|tensor| Argument::Place(tensor.at(launch)));
            let arguments: Vec<_> = places.chain(rest.iter().copied()).collect();
            // SAFETY: as the caller promises.
            unsafe { kernel.launch(grid, &arguments) }
        });
        Self::new(launch, inputs, Some(output))
    }

    /// A library's product of x and w into d.
    fn product(
        product: impl Fn(Operands<'_>) -> Result<(), CudaError> + 'a,
        [x, w, d]: [Rc<Tensor>; 3],
    ) -> Self {
        let (inputs, output) = (vec![x.clone(), w.clone()], Some(d.clone()));
        let launch = Box::new(move |launch: usize| {
            product(Operands {
                x: x.at(launch),
                w: w.at(launch),
                d: d.at(launch),
            })
        });
        Self::new(launch, inputs, output)
    }
}

/// What a workload is made from.
pub(super) struct Setup<'a> {
    pub(super) device: &'a Device,
    pub(super) case: &'a Case,
    copies: u64,
}

/// How the ways of an operation are tried.
const TRIAL: Plan = Plan {
    samples: 3,
    sample_time: Seconds(1e-3),
    warmup_time: Seconds::ZERO,
};

/// Prepares a case: by the fastest of its ways.
///
/// # Errors
/// Those of the first way, if none works: sizes that the kernels do not have, too little memory, or what CUDA says.
pub(super) fn prepare<'a>(device: &'a Device, case: &'a Case) -> Result<Workload<'a>, CudaError> {
    let setup = Setup::new(device, case)?;
    let ways = ways(case.kind);
    if let [way] = ways {
        return way(&setup);
    }
    let timed = ways.iter().map(|way| {
        let mut way = way(&setup)?;
        let timed = measure(
            device,
            TRIAL,
            way.operation(case.kind, setup.copies),
            &mut || (),
        )?;
        Ok((timed.times.median, way))
    });
    fastest(timed).map(|(_, way)| way)
}

/// A way to compute an operation.
pub(super) type Way = for<'a> fn(&Setup<'a>) -> Result<Workload<'a>, CudaError>;

/// The ways to compute an operation; ours comes first, for where none works, its failure tells more than that cuDNN is
/// missing.
pub(super) fn ways(kind: Kind) -> &'static [Way] {
    match kind {
        Kind::Linear => &[layers::linear],
        Kind::BatchedGemm => &[layers::batched],
        Kind::Conv2d => &[layers::patches, layers::cudnn],
        Kind::Lstm => &[layers::lstm],
        Kind::AttentionPrefill => &[attention::prefill, attention::cudnn_prefill],
        Kind::AttentionDecode => &[attention::decode, attention::cudnn_decode],
        Kind::Softmax | Kind::LayerNorm | Kind::RmsNorm => &[rows::prepare],
        Kind::Gelu | Kind::Silu | Kind::SiluMul => &[elementwise::prepare],
        Kind::Rotary => &[elementwise::rotary],
        Kind::Embedding => &[rows::embedding],
        Kind::CopyDevice | Kind::CopyToDevice | Kind::CopyToHost => &[copies::prepare],
    }
}

/// So many copies that those between two uses of the same one are twice the L2 cache.
pub(super) fn copies(bytes: Bytes, l2_bytes: u64) -> u64 {
    let twice = (2.0 * l2_bytes as f64 / bytes.0.max(1.0)).ceil() as u64;
    twice.saturating_add(1).min(MOST_COPIES)
}

impl<'a> Setup<'a> {
    /// # Errors
    /// Too little memory.
    pub(super) fn new(device: &'a Device, case: &'a Case) -> Result<Self, CudaError> {
        let (copies, free) = (copies(case.bytes(), device.l2_bytes), device.free_memory()?);
        // Twice the bytes that move: what else is allocated is a workspace, or a scratch matrix, and is checked then.
        let needed = case.bytes() * 2.0;
        if needed.0 > free as f64 {
            return Err(CudaError::Memory {
                needed: needed.0 as u64,
                free,
            });
        }
        Ok(Self {
            device,
            case,
            copies,
        })
    }

    /// A size as the kernels take it.
    fn small(&self, name: &str) -> Result<u32, CudaError> {
        let value = self.case.size(name);
        u32::try_from(value).map_err(|_| unsupported(format!("{name} = {value} beyond 2^32")))
    }

    /// A tensor with undefined contents, in as many copies as the case needs.
    fn empty(&self, elements: u64) -> Result<Rc<Tensor>, CudaError> {
        self.tensor(elements, self.case.dtype, self.copies)
    }

    fn tensor(&self, elements: u64, dtype: Dtype, copies: u64) -> Result<Rc<Tensor>, CudaError> {
        // Each copy starts where any access is aligned.
        let stride = (elements * dtype.bytes()).next_multiple_of(256);
        let buffer = Rc::new(self.device.allocate(stride * copies)?);
        Ok(Rc::new(Tensor {
            buffer,
            stride,
            copies,
            elements,
            dtype,
            indices: false,
        }))
    }

    /// A tensor of values uniform in [−1, 1], different in each copy.
    fn random(&self, elements: u64, seed: u32) -> Result<Rc<Tensor>, CudaError> {
        let tensor = self.empty(elements)?;
        let all = tensor.buffer.bytes() / tensor.dtype.bytes();
        self.fill(&tensor, all, seed, Fill::Uniform(1.0))?;
        Ok(tensor)
    }

    /// The same in fp32 and one copy: small tables that stay in the cache in use, too.
    fn table(&self, elements: u64, seed: u32) -> Result<Rc<Tensor>, CudaError> {
        let tensor = self.tensor(elements, Dtype::Fp32, 1)?;
        self.fill(&tensor, elements, seed, Fill::Uniform(1.0))?;
        Ok(tensor)
    }

    /// A tensor of numbers below `bound`.
    fn indices(&self, elements: u64, bound: u32, seed: u32) -> Result<Rc<Tensor>, CudaError> {
        let stride = (elements * 4).next_multiple_of(256);
        let buffer = Rc::new(self.device.allocate(stride * self.copies)?);
        let (copies, dtype) = (self.copies, Dtype::Fp32);
        let tensor = Tensor {
            buffer,
            stride,
            copies,
            elements,
            dtype,
            indices: true,
        };
        self.fill(&tensor, stride * copies / 4, seed, Fill::Below(bound))?;
        Ok(Rc::new(tensor))
    }

    fn fill(&self, tensor: &Tensor, elements: u64, seed: u32, with: Fill) -> Result<(), CudaError> {
        self.device
            .fill(tensor.dtype, (tensor.buffer.place(), elements), seed, with)
    }

    /// Refuses a length that is not a multiple of what one 16-byte access moves.
    fn require_packs(&self, name: &str, length: u64) -> Result<(), CudaError> {
        let lanes = 16 / self.case.dtype.bytes();
        if length.is_multiple_of(lanes) {
            Ok(())
        } else {
            Err(unsupported(format!(
                "{name} = {length} is not a multiple of {lanes}"
            )))
        }
    }
}

/// cuDNN with its version, and what it does.
fn cudnn_name(what: &str) -> String {
    let version = cudnn_version().unwrap_or(0);
    // 8.9.7 is 8907, 9.1.0 is 90 100.
    let unit = if version < 90_000 { 1000 } else { 10_000 };
    let (major, minor, patch) = (version / unit, version % unit / 100, version % 100);
    format!("cuDNN {major}.{minor}.{patch}, {what}")
}

fn unsupported(message: String) -> CudaError {
    CudaError::Unsupported(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_between_two_uses_fill_the_cache_twice() {
        // 100 bytes of cache: 200 / 60 = 3.3, so four others come between.
        assert_eq!(copies(Bytes(60.0), 100), 5);
        assert_eq!(copies(Bytes(1e9), 100), 2);
        assert_eq!(copies(Bytes(1.0), 60 << 20), MOST_COPIES);
        assert_eq!(copies(Bytes::ZERO, 0), 1);
    }
}
