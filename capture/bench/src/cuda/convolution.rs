//! Convolutions by cuDNN, where it is there.

use std::ffi::{c_int, c_void};

use cudarc::cudnn::result as dnn;
use cudarc::cudnn::sys::{
    self, cudnnConvolutionFwdAlgo_t as Algorithm, cudnnDataType_t as Type, cudnnMathType_t as Math,
    cudnnStatus_t as Status,
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

/// A convolution with the algorithm that computes it.
pub(crate) struct Convolution {
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
            other => return Err(CudaError::Unsupported(format!("cuDNN with {}", other.name()))),
        };
        let math = match image.dtype {
            Dtype::Fp32 => Math::CUDNN_FMA_MATH,
            _ => Math::CUDNN_TENSOR_OP_MATH,
        };
        let mut convolution = Self {
            handle: dnn::create_handle().map_err(CudaError::cudnn("create"))?,
            x: dnn::create_tensor_descriptor().map_err(CudaError::cudnn("tensor"))?,
            w: dnn::create_filter_descriptor().map_err(CudaError::cudnn("filter"))?,
            d: dnn::create_tensor_descriptor().map_err(CudaError::cudnn("tensor"))?,
            description: dnn::create_convolution_descriptor()
                .map_err(CudaError::cudnn("description"))?,
            algorithm: Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            workspace: device.allocate(1)?,
        };
        convolution.describe(device, image, kind, math).map_err(CudaError::cudnn("describe"))?;
        let bytes = convolution.search().map_err(CudaError::cudnn("search for an algorithm"))?;
        convolution.workspace = device.allocate(bytes.max(1) as u64)?;
        Ok(convolution)
    }

    /// Enqueues the convolution.
    pub(crate) fn launch(&self, operands: Operands) -> Result<(), CudaError> {
        let (one, zero) = (1f32, 0f32);
        // SAFETY: handle, descriptions and workspace live in `self`, the factors are read before the call returns, and
        // the caller's buffers have the sizes of the image.
        let done = unsafe {
            dnn::convolution_forward(
                self.handle,
                (&raw const one).cast(),
                self.x,
                operands.x as *const c_void,
                self.w,
                operands.w as *const c_void,
                self.description,
                self.algorithm,
                self.workspace.address() as *mut c_void,
                self.workspace.bytes() as usize,
                (&raw const zero).cast(),
                self.d,
                operands.d as *mut c_void,
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
        // SAFETY: all handles live, the array has the length given, and an all-zero result is valid.
        unsafe {
            let mut found: [sys::cudnnConvolutionFwdAlgoPerf_t; ALGORITHMS] = std::mem::zeroed();
            let mut count = 0;
            sys::cudnnFindConvolutionForwardAlgorithm(
                self.handle,
                self.x,
                self.w,
                self.description,
                self.d,
                ALGORITHMS as c_int,
                &raw mut count,
                found.as_mut_ptr(),
            )
            .result()?;
            let found = &found[..usize::try_from(count).unwrap_or(0).min(ALGORITHMS)];
            // The fastest comes first.
            let works = |one: &&sys::cudnnConvolutionFwdAlgoPerf_t| {
                one.status == Status::CUDNN_STATUS_SUCCESS
            };
            if let Some(fastest) = found.iter().find(works) {
                self.algorithm = fastest.algo;
                dnn::set_convolution_math_type(self.description, fastest.mathType)?;
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
