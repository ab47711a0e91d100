//! Convolutions by cuDNN, where it is there.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use cudarc::cudnn::result as dnn;
use cudarc::cudnn::sys::{
    self, cudnnConvolutionFwdAlgo_t as Algorithm, cudnnConvolutionFwdAlgoPerf_t as Performance,
    cudnnDataType_t as Type, cudnnMathType_t as Math, cudnnStatus_t as Status,
};

use super::{Buffer, CudaError, Device, Dtype, Operands, libraries};

/// Algorithms that are tried: as many as there are.
const ALGORITHMS: usize = 8;

/// D = X convolved with W: X is [batch, rows, columns, channels], W [channels, kernel, kernel, channels], channels last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    pub(crate) batch: u64,
    /// Channels, height and width of X.
    pub(crate) input: [u64; 3],
    /// Channels, height and width of D.
    pub(crate) output: [u64; 3],
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) padding: u64,
    pub(crate) dtype: Dtype,
}

impl Image {
    /// Addresses of the operands.
    ///
    /// # Errors
    /// A place is too small.
    fn addresses(self, of: Operands<'_>) -> Result<[u64; 3], CudaError> {
        let Self {
            batch,
            input,
            output,
            kernel,
            dtype,
            ..
        } = self;
        let ([from, height, width], [to, rows, columns]) = (input, output);
        Ok([
            of.x.holding(&[batch, from, height, width, dtype.bytes()])?,
            of.w.holding(&[to, from, kernel, kernel, dtype.bytes()])?,
            of.d.holding(&[batch, to, rows, columns, dtype.bytes()])?,
        ])
    }
}

/// A convolution with the algorithm that computes it.
pub(crate) struct Convolution {
    image: Image,
    handle: sys::cudnnHandle_t,
    x: sys::cudnnTensorDescriptor_t,
    w: sys::cudnnFilterDescriptor_t,
    d: sys::cudnnTensorDescriptor_t,
    description: sys::cudnnConvolutionDescriptor_t,
    algorithm: Algorithm,
    workspace: Buffer,
}

impl Convolution {
    /// Takes the fastest of cuDNN's algorithms, which cuDNN itself measures: its heuristic's first choice is often twice
    /// as slow.
    ///
    /// # Errors
    /// No cuDNN, a format other than fp32, tf32, fp16 and bf16, or what cuDNN says.
    pub(crate) fn new(device: &Device, image: Image) -> Result<Self, CudaError> {
        libraries::require_cudnn()?;
        let kind = match image.dtype {
            Dtype::Fp32 | Dtype::Tf32 => Type::CUDNN_DATA_FLOAT,
            Dtype::Fp16 => Type::CUDNN_DATA_HALF,
            Dtype::Bf16 => Type::CUDNN_DATA_BFLOAT16,
            other => {
                return Err(CudaError::Unsupported(format!(
                    "cuDNN with {}",
                    other.name()
                )));
            }
        };
        let math = match image.dtype {
            Dtype::Fp32 => Math::CUDNN_FMA_MATH,
            _ => Math::CUDNN_TENSOR_OP_MATH,
        };
        let mut convolution = Self {
            image,
            handle: dnn::create_handle().map_err(CudaError::cudnn("create"))?,
            x: dnn::create_tensor_descriptor().map_err(CudaError::cudnn("tensor"))?,
            w: dnn::create_filter_descriptor().map_err(CudaError::cudnn("filter"))?,
            d: dnn::create_tensor_descriptor().map_err(CudaError::cudnn("tensor"))?,
            description: dnn::create_convolution_descriptor()
                .map_err(CudaError::cudnn("description"))?,
            algorithm: Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            workspace: device.allocate(1)?,
        };
        convolution
            .describe(device, image, kind, math)
            .map_err(CudaError::cudnn("describe"))?;
        let bytes = convolution
            .search()
            .map_err(CudaError::cudnn("search for an algorithm"))?;
        convolution.workspace = device.allocate(bytes.max(1) as u64)?;
        Ok(convolution)
    }

    /// Enqueues the convolution.
    pub(crate) fn launch(&self, operands: Operands<'_>) -> Result<(), CudaError> {
        let [x_at, w_at, d_at] = self.image.addresses(operands)?;
        let (one, zero) = (1f32, 0f32);
        // SAFETY: handle, descriptions and workspace live in `self`, the factors are read before the call returns, and
        // the places hold the operands.
        let done = unsafe {
            dnn::convolution_forward(
                self.handle,
                (&raw const one).cast(),
                self.x,
                x_at as *const c_void,
                self.w,
                w_at as *const c_void,
                self.description,
                self.algorithm,
                self.workspace.address() as *mut c_void,
                self.workspace.bytes() as usize,
                (&raw const zero).cast(),
                self.d,
                d_at as *mut c_void,
            )
        };
        done.map_err(CudaError::cudnn("convolution"))
    }

    fn describe(
        &self,
        device: &Device,
        image: Image,
        kind: Type,
        math: Math,
    ) -> Result<(), dnn::CudnnError> {
        let last = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        let sizes = |[channels, rows, columns]: [u64; 3]| {
            [image.batch, channels, rows, columns].map(|size| size as c_int)
        };
        let (input, output) = (image.input, image.output);
        let filter = [output[0], input[0], image.kernel, image.kernel].map(|size| size as c_int);
        let (pad, step) = (image.padding as c_int, image.stride as c_int);
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        // SAFETY: all were created by us and live; the stream is the device's own.
        unsafe {
            dnn::set_stream(self.handle, device.stream().cu_stream().cast())?;
            dnn::set_tensor4d_descriptor(self.x, last, kind, sizes(input))?;
            dnn::set_tensor4d_descriptor(self.d, last, kind, sizes(output))?;
            dnn::set_filter4d_descriptor(self.w, kind, last, filter)?;
            let (how, float) = (self.description, Type::CUDNN_DATA_FLOAT);
            dnn::set_convolution2d_descriptor(how, pad, pad, step, step, 1, 1, mode, float)?;
            dnn::set_convolution_math_type(how, math)
        }
    }

    /// Chooses the algorithm and answers with the bytes of workspace that it needs.
    fn search(&mut self) -> Result<usize, dnn::CudnnError> {
        // SAFETY: all handles live, and the array has the length given.
        unsafe {
            let mut found = [const { MaybeUninit::<Performance>::zeroed() }; ALGORITHMS];
            let mut count = 0;
            sys::cudnnFindConvolutionForwardAlgorithm(
                self.handle,
                self.x,
                self.w,
                self.description,
                self.d,
                ALGORITHMS as c_int,
                &raw mut count,
                found.as_mut_ptr().cast(),
            )
            .result()?;
            let found = &found[..usize::try_from(count).unwrap_or(0).min(ALGORITHMS)];
            // The fastest comes first.
            if let Some((algorithm, math)) = found.iter().find_map(usable) {
                self.algorithm = algorithm;
                dnn::set_convolution_math_type(self.description, math)?;
            }
            dnn::get_convolution_forward_workspace_size(
                self.handle,
                self.x,
                self.w,
                self.description,
                self.d,
                self.algorithm,
            )
        }
    }
}

/// Algorithm and arithmetic, if they are of use and of those that are known: cuDNN writes numbers into what are enums in Rust,
/// and a later version has further ones.
fn usable(found: &MaybeUninit<Performance>) -> Option<(Algorithm, Math)> {
    use Algorithm::*;
    use Math::*;
    const KNOWN: [Algorithm; ALGORITHMS] = [
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
        CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
        CUDNN_CONVOLUTION_FWD_ALGO_FFT,
        CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
    ];
    const MATHS: [Math; 4] = [
        CUDNN_DEFAULT_MATH,
        CUDNN_TENSOR_OP_MATH,
        CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
        CUDNN_FMA_MATH,
    ];
    let at = found.as_ptr();
    // SAFETY: the memory was zeroed, and the enums are read as the numbers that they are in memory.
    let [status, algorithm, math] = unsafe {
        [
            (&raw const (*at).status).cast::<u32>().read(),
            (&raw const (*at).algo).cast::<u32>().read(),
            (&raw const (*at).mathType).cast::<u32>().read(),
        ]
    };
    let algorithm = KNOWN.into_iter().find(|known| *known as u32 == algorithm)?;
    let math = MATHS.into_iter().find(|known| *known as u32 == math)?;
    (status == Status::CUDNN_STATUS_SUCCESS as u32).then_some((algorithm, math))
}

impl Drop for Convolution {
    fn drop(&mut self) {
        // SAFETY: all were created by us and are not used after this. A failure leaves nothing to be done.
        unsafe {
            let _ = dnn::destroy_tensor_descriptor(self.x);
            let _ = dnn::destroy_tensor_descriptor(self.d);
            let _ = dnn::destroy_filter_descriptor(self.w);
            let _ = dnn::destroy_convolution_descriptor(self.description);
            let _ = dnn::destroy_handle(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cuDNN wrote: algorithm, status and arithmetic, wherever the header puts them.
    fn written([algorithm, status, math]: [u32; 3]) -> MaybeUninit<Performance> {
        let mut found = MaybeUninit::<Performance>::zeroed();
        let at = found.as_mut_ptr();
        // SAFETY: the memory is there, and is only read as numbers.
        unsafe {
            (&raw mut (*at).algo).cast::<u32>().write(algorithm);
            (&raw mut (*at).status).cast::<u32>().write(status);
            (&raw mut (*at).mathType).cast::<u32>().write(math);
        }
        found
    }

    #[test]
    fn numbers_that_no_known_version_has_are_of_no_use() {
        // 6 is Winograd and 3 is FMA in cudnn_ops.h.
        let known = (
            Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
            Math::CUDNN_FMA_MATH,
        );
        assert_eq!(usable(&written([6, 0, 3])), Some(known));
        for unknown in [[8, 0, 3], [6, 0, 4], [6, 1, 3], [6, u32::MAX, 3]] {
            assert_eq!(usable(&written(unknown)), None, "{unknown:?}");
        }
    }
}
