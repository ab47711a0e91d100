//! Batched matrix products by cuBLAS.

use std::ffi::{c_int, c_longlong, c_void};

use cudarc::cublas::{result, sys};

use super::{CudaError, Device, Dtype, Operands};

/// D[i] = X[i] · W[i]ᵀ for each i of a batch: X[i] is [m, k], W[i] [n, k], D[i] [m, n], row-major, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batched {
    pub(crate) batch: u64,
    pub(crate) m: u64,
    pub(crate) n: u64,
    pub(crate) k: u64,
    pub(crate) dtype: Dtype,
}

impl Batched {
    /// Enqueues the products.
    ///
    /// # Errors
    /// A format other than fp16, bf16, fp32 and tf32, a size beyond 2³¹, or what cuBLAS says.
    pub(crate) fn launch(self, device: &Device, operands: Operands) -> Result<(), CudaError> {
        let Self { batch, m, n, k, dtype } = self;
        let kind = match dtype {
            Dtype::Fp16 => sys::cudaDataType_t::CUDA_R_16F,
            Dtype::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
            Dtype::Fp32 | Dtype::Tf32 => sys::cudaDataType_t::CUDA_R_32F,
            _ => return Err(CudaError::Unsupported(format!("batched {}", dtype.name()))),
        };
        let compute = match dtype {
            Dtype::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let algorithm = sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        let [transposed, plain] =
            [sys::cublasOperation_t::CUBLAS_OP_T, sys::cublasOperation_t::CUBLAS_OP_N];
        let (one, zero) = (1f32, 0f32);
        let handle = *device.blas()?.handle();
        let (rows, columns, depth) = (small(n)?, small(m)?, small(k)?);
        // SAFETY: the handle lives, the factors are read before the call returns, and the caller's buffers have the
        // sizes of the product.
        let done = unsafe {
            result::gemm_strided_batched_ex(
                handle,
                transposed,
                plain,
                rows,
                columns,
                depth,
                (&raw const one).cast(),
                operands.w as *const c_void,
                kind,
                depth,
                (n * k) as c_longlong,
                operands.x as *const c_void,
                kind,
                depth,
                (m * k) as c_longlong,
                (&raw const zero).cast(),
                operands.d as *mut c_void,
                kind,
                rows,
                (m * n) as c_longlong,
                small(batch)?,
                compute,
                algorithm,
            )
        };
        done.map_err(CudaError::cublas("batched gemm"))
    }
}

fn small(size: u64) -> Result<c_int, CudaError> {
    c_int::try_from(size).map_err(|_| CudaError::Unsupported(format!("size {size} beyond 2^31")))
}
