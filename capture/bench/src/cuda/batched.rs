//! Batched GEMMs by cuBLAS.

use std::ffi::{c_int, c_longlong, c_void};

use cudarc::cublas::{result, sys};

use super::matmul::Scalar;
use super::{CudaError, Device, Dtype, Operands, Product};

/// Enqueues D[i] = X[i] · W[i] for each i of a batch: the operands of one product after those of the other.
///
/// # Errors
/// A format other than fp64, fp32, tf32, fp16 and bf16, a size beyond 2³¹, or what cuBLAS says.
pub(crate) fn launch_batched(
    device: &Device,
    batch: u64,
    product: Product,
    operands: Operands<'_>,
) -> Result<(), CudaError> {
    let Product {
        m,
        n,
        k,
        transposed,
        dtype,
        ..
    } = product;
    let kind = match dtype {
        Dtype::Fp16 => sys::cudaDataType_t::CUDA_R_16F,
        Dtype::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        Dtype::Fp32 | Dtype::Tf32 => sys::cudaDataType_t::CUDA_R_32F,
        Dtype::Fp64 => sys::cudaDataType_t::CUDA_R_64F,
        _ => return Err(CudaError::Unsupported(format!("batched {}", dtype.name()))),
    };
    let compute = match dtype {
        Dtype::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        Dtype::Fp64 => sys::cublasComputeType_t::CUBLAS_COMPUTE_64F,
        _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
    };
    let algorithm = sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
    let plain = sys::cublasOperation_t::CUBLAS_OP_N;
    let (of_w, leading) = if transposed {
        (sys::cublasOperation_t::CUBLAS_OP_T, k)
    } else {
        (plain, n)
    };
    let factors = [1, 0].map(|factor| Scalar::new(factor, dtype));
    let handle = *device.blas()?.handle();
    let (rows, columns, depth) = (small(n)?, small(m)?, small(k)?);
    let [x_at, w_at, d_at] = product.addresses(batch, operands)?;
    // SAFETY: the handle lives, the factors are read before the call returns, and the places hold the operands.
    let done = unsafe {
        result::gemm_strided_batched_ex(
            handle,
            of_w,
            plain,
            rows,
            columns,
            depth,
            factors[0].pointer(),
            w_at as *const c_void,
            kind,
            small(leading)?,
            (n * k) as c_longlong,
            x_at as *const c_void,
            kind,
            depth,
            (m * k) as c_longlong,
            factors[1].pointer(),
            d_at as *mut c_void,
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

fn small(size: u64) -> Result<c_int, CudaError> {
    c_int::try_from(size).map_err(|_| CudaError::Unsupported(format!("size {size} beyond 2^31")))
}
