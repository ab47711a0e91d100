//! GEMMs by cuBLASLt.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::rc::Rc;

use cudarc::cublaslt::result as lt;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Attribute,
    cudaDataType_t as Type,
};

use super::{Buffer, CudaError, Device, Dtype, Place};

/// What cuBLASLt may use as scratch memory; its documentation advises 32 MiB for Hopper.
const WORKSPACE: u64 = 32 << 20;

/// D[m, n] = X[m, k] · W, all row-major, W stored as [n, k] (as a linear layer has it) or as [k, n].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Product {
    pub(crate) m: u64,
    pub(crate) n: u64,
    pub(crate) k: u64,
    /// W is stored as [n, k].
    pub(crate) transposed: bool,
    /// A vector of length n is added to each row of D.
    pub(crate) bias: bool,
    /// D = D + X · W instead.
    pub(crate) accumulate: bool,
    pub(crate) dtype: Dtype,
}

impl Product {
    /// Addresses of the operands of a batch of it.
    ///
    /// # Errors
    /// A place is too small.
    pub(super) fn addresses(self, batch: u64, of: Operands<'_>) -> Result<[u64; 3], CudaError> {
        let Self { m, n, k, dtype, .. } = self;
        let (operand, result) = (dtype.bytes(), dtype.product().bytes());
        Ok([
            of.x.holding(&[batch, m, k, operand])?,
            of.w.holding(&[batch, n, k, operand])?,
            of.d.holding(&[batch, m, n, result])?,
        ])
    }
}

/// Where the operands are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands<'b> {
    pub(crate) x: Place<'b>,
    pub(crate) w: Place<'b>,
    pub(crate) d: Place<'b>,
}

/// A product with the algorithm that computes it.
pub(crate) struct Matmul {
    product: Product,
    handle: sys::cublasLtHandle_t,
    description: sys::cublasLtMatmulDesc_t,
    /// W, X and D as cuBLAS sees them: column-major, hence in this order.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithms: Vec<sys::cublasLtMatmulAlgo_t>,
    chosen: usize,
    scalars: [Scalar; 2],
    workspace: Buffer,
    stream: sys::cudaStream_t,
    /// Held for as long as the description points to them.
    _constants: Vec<Rc<Buffer>>,
}

/// A factor in the format that the arithmetic wants: the first bytes are read.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Scalar([u8; 8]);

impl Scalar {
    pub(super) fn new(value: u8, dtype: Dtype) -> Self {
        let mut bytes = [0; 8];
        match dtype {
            Dtype::Fp64 => bytes = f64::from(value).to_ne_bytes(),
            Dtype::Int8 => bytes[..4].copy_from_slice(&i32::from(value).to_ne_bytes()),
            _ => bytes[..4].copy_from_slice(&f32::from(value).to_ne_bytes()),
        }
        Self(bytes)
    }

    pub(super) fn pointer(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// Formats of operands and result, the arithmetic between them, and the format of factors.
fn formats(dtype: Dtype) -> (Type, Type, Compute, Type) {
    use Compute::{
        CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32I, CUBLAS_COMPUTE_64F,
    };
    use Type::{
        CUDA_R_8F_E4M3, CUDA_R_8I, CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F, CUDA_R_32I, CUDA_R_64F,
    };
    match dtype {
        Dtype::Fp64 => (CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F),
        Dtype::Fp32 => (CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        Dtype::Tf32 => (
            CUDA_R_32F,
            CUDA_R_32F,
            CUBLAS_COMPUTE_32F_FAST_TF32,
            CUDA_R_32F,
        ),
        Dtype::Fp16 => (CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        Dtype::Bf16 => (CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        Dtype::Fp8E4m3 => (CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        Dtype::Int8 => (CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I),
    }
}

impl Matmul {
    /// Asks cuBLASLt for up to `candidates` algorithms; its first choice is taken until [`Self::choose`].
    ///
    /// `bias` is the vector to add, where the product has one.
    ///
    /// # Errors
    /// The GPU or the library does not have the product: the compute capability or the status says so.
    pub(crate) fn new(
        device: &Device,
        product: Product,
        bias: Option<Rc<Buffer>>,
        candidates: usize,
    ) -> Result<Self, CudaError> {
        let (needed, name) = (product.dtype.capability(), product.dtype.name());
        if device.capability < needed {
            let message = format!("{name} needs compute capability {}.{}", needed.0, needed.1);
            return Err(CudaError::Unsupported(message));
        }
        let workspace = device.allocate(WORKSPACE)?;
        let (layouts, description) = describe(product)?;
        let mut matmul = Self {
            product,
            handle: device.lt()?,
            description,
            layouts,
            algorithms: Vec::new(),
            chosen: 0,
            scalars: [1, u8::from(product.accumulate)].map(|f| Scalar::new(f, product.dtype)),
            workspace,
            stream: device.stream().cu_stream().cast(),
            _constants: Vec::new(),
        };
        if product.bias {
            let bias =
                bias.ok_or_else(|| CudaError::Unsupported("a bias without a vector".to_owned()))?;
            let address = bias
                .place()
                .holding(&[product.n, product.dtype.product().bytes()])?;
            matmul._constants.push(bias);
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set(
                description,
                Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE,
                &epilogue,
            )?;
            set(
                description,
                Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                &address,
            )?;
        }
        if product.dtype == Dtype::Fp8E4m3 {
            let one = device.allocate(4)?;
            one.upload(&1f32.to_ne_bytes())?;
            for which in [
                Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
            ] {
                set(description, which, &one.address())?;
            }
            matmul._constants.push(Rc::new(one));
        }
        matmul.algorithms = matmul.search(candidates)?;
        Ok(matmul)
    }

    /// Number of algorithms found; at least one.
    pub(crate) fn candidates(&self) -> usize {
        self.algorithms.len()
    }

    /// Takes that algorithm from now on; of a number too large, the last.
    pub(crate) fn choose(&mut self, algorithm: usize) {
        self.chosen = algorithm.min(self.algorithms.len().saturating_sub(1));
    }

    /// Enqueues the product.
    pub(crate) fn launch(&self, operands: Operands<'_>) -> Result<(), CudaError> {
        let [x_at, w_at, d_at] = self.product.addresses(1, operands)?;
        let [w, x, d] = self.layouts;
        let algorithm = self.algorithms.get(self.chosen);
        let algorithm =
            algorithm.ok_or_else(|| CudaError::Unsupported("no algorithm".to_owned()))?;
        // SAFETY: handle, description, layouts and scalars live in `self`; the places hold the operands, and C is D.
        let status = unsafe {
            sys::cublasLtMatmul(
                self.handle,
                self.description,
                self.scalars[0].pointer(),
                w_at as *const c_void,
                w,
                x_at as *const c_void,
                x,
                self.scalars[1].pointer(),
                d_at as *const c_void,
                d,
                d_at as *mut c_void,
                d,
                algorithm,
                self.workspace.address() as *mut c_void,
                self.workspace.bytes() as usize,
                self.stream,
            )
        };
        status.result().map_err(CudaError::lt("matmul"))
    }

    fn search(&self, candidates: usize) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CudaError> {
        let preference = lt::create_matmul_pref().map_err(CudaError::lt("preference"))?;
        let limit =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let bytes = WORKSPACE as usize;
        let mut found = vec![Found::zeroed(); candidates.max(1)];
        let mut count = 0;
        // SAFETY: all handles live; the array has the length given.
        let status = unsafe {
            let [w, x, d] = self.layouts;
            let (handle, description) = (self.handle, self.description);
            let size = size_of_val(&bytes);
            let set =
                lt::set_matmul_pref_attribute(preference, limit, (&raw const bytes).cast(), size);
            let status = set.and_then(|()| {
                let (length, at) = (found.len() as i32, found.as_mut_ptr().cast());
                sys::cublasLtMatmulAlgoGetHeuristic(
                    handle,
                    description,
                    w,
                    x,
                    d,
                    d,
                    preference,
                    length,
                    at,
                    &raw mut count,
                )
                .result()
            });
            // A failure leaves nothing to be done.
            let _ = lt::destroy_matmul_pref(preference);
            status
        };
        status.map_err(CudaError::lt("search for an algorithm"))?;
        found.truncate(usize::try_from(count).unwrap_or(0));
        let algorithms: Vec<_> = found.iter().filter_map(algorithm).collect();
        if algorithms.is_empty() {
            return Err(CudaError::Unsupported(
                "cuBLASLt has no algorithm for it".to_owned(),
            ));
        }
        Ok(algorithms)
    }
}

/// What cuBLASLt writes of an algorithm. Its status is an enum in Rust, which must not hold a number that a later version writes.
type Found = MaybeUninit<sys::cublasLtMatmulHeuristicResult_t>;

/// The algorithm, if it is of use.
fn algorithm(found: &Found) -> Option<sys::cublasLtMatmulAlgo_t> {
    let at = found.as_ptr();
    // SAFETY: the memory was zeroed; numbers may have any value, and the status is read as one.
    unsafe {
        let state = (&raw const (*at).state).cast::<u32>().read();
        (state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS as u32)
            .then(|| (&raw const (*at).algo).read())
    }
}

impl Drop for Matmul {
    fn drop(&mut self) {
        // SAFETY: all were created by us and are not used after this. A failure leaves nothing to be done.
        unsafe {
            for layout in self.layouts {
                let _ = lt::destroy_matrix_layout(layout);
            }
            let _ = lt::destroy_matmul_desc(self.description);
        }
    }
}

type Description = ([sys::cublasLtMatrixLayout_t; 3], sys::cublasLtMatmulDesc_t);

/// Row-major D = X · W is column-major Dᵀ = Wᵀ · Xᵀ: W is cuBLAS's A, X its B.
fn describe(product: Product) -> Result<Description, CudaError> {
    let (operand, result, compute, scale) = formats(product.dtype);
    let Product {
        m,
        n,
        k,
        transposed,
        ..
    } = product;
    let layout = |format, rows: u64, columns: u64| {
        lt::create_matrix_layout(format, rows, columns, rows as i64)
            .map_err(CudaError::lt("layout"))
    };
    let (w_rows, w_columns) = if transposed { (k, n) } else { (n, k) };
    let w = layout(operand, w_rows, w_columns)?;
    let layouts = [w, layout(operand, k, m)?, layout(result, n, m)?];
    let description = lt::create_matmul_desc(compute, scale);
    let description = description.map_err(CudaError::lt("description"))?;
    let transpose = i32::from(transposed);
    set(
        description,
        Attribute::CUBLASLT_MATMUL_DESC_TRANSA,
        &transpose,
    )?;
    Ok((layouts, description))
}

fn set<T>(
    description: sys::cublasLtMatmulDesc_t,
    attribute: Attribute,
    value: &T,
) -> Result<(), CudaError> {
    // SAFETY: the description lives, and the value has the type that the attribute wants.
    let done = unsafe {
        let at = (&raw const *value).cast();
        lt::set_matmul_desc_attribute(description, attribute, at, size_of::<T>())
    };
    done.map_err(CudaError::lt("attribute"))
}
