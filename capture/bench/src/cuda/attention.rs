//! Attention by cuDNN's graph interface: the pattern of operations that its fused engines recognize.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;

use cudarc::cudnn::result::{self as dnn, CudnnError};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind,
    cudnnDataType_t as Type, cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduction,
};

use super::descriptor::Descriptor;
use super::graph::{Graph, Layout};
use super::{Buffer, CudaError, Device, Dtype, Place, libraries};

/// The first version of cuDNN that is asked.
const OLDEST: usize = 90_000;
/// Versions from here on mask by −∞, older ones by the lowest number.
const MASK_BY_INFINITY: usize = 91_000;

/// Q and the result are [batch, heads, queries, dim], K and V [batch, kv_heads, keys, dim].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) batch: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) queries: u64,
    pub(crate) keys: u64,
    pub(crate) dim: u64,
    pub(crate) causal: bool,
    pub(crate) dtype: Dtype,
}

/// Addresses of Q, K, V and the result.
type Addresses = [u64; 4];

impl Shape {
    /// Addresses of the operands.
    ///
    /// # Errors
    /// A place is too small.
    fn addresses(self, [q, k, v, out]: [Place<'_>; 4]) -> Result<Addresses, CudaError> {
        let Self {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            dim,
            dtype,
            ..
        } = self;
        let wide = [batch, heads, queries, dim, dtype.bytes()];
        let narrow = [batch, kv_heads, keys, dim, dtype.bytes()];
        Ok([
            q.holding(&wide)?,
            k.holding(&narrow)?,
            v.holding(&narrow)?,
            out.holding(&wide)?,
        ])
    }
}

/// softmax(Q·Kᵀ ÷ √dim)·V as cuDNN's first choice for the shape computes it.
pub(crate) struct Attention {
    shape: Shape,
    // Fields are dropped in this order: each before what it refers to.
    packs: RefCell<BTreeMap<Addresses, Descriptor>>,
    plan: Descriptor,
    _graph: Graph,
    handle: Handle,
    workspace: Buffer,
    /// Factor of the scores, and the value of masked ones: cuDNN reads them at every launch.
    scalars: Vec<f32>,
}

impl Attention {
    /// Chooses an engine.
    ///
    /// # Errors
    /// No cuDNN 9, a format other than fp16 and bf16, a shape that cuDNN does not have, or what it says.
    pub(crate) fn new(device: &Device, shape: Shape) -> Result<Self, CudaError> {
        libraries::require_cudnn()?;
        let version = libraries::cudnn_version().unwrap_or(0);
        let dtype = match shape.dtype {
            Dtype::Fp16 if version >= OLDEST => Type::CUDNN_DATA_HALF,
            Dtype::Bf16 if version >= OLDEST => Type::CUDNN_DATA_BFLOAT16,
            other => {
                let message = format!("attention in {} by cuDNN {version}", other.name());
                return Err(CudaError::Unsupported(message));
            }
        };
        let handle = Handle::new(device).map_err(CudaError::cudnn("create"))?;
        let mut graph = Graph::default();
        describe(&mut graph, shape, dtype).map_err(CudaError::cudnn("attention graph"))?;
        let plan = graph
            .plan(handle.0)
            .map_err(CudaError::cudnn("attention plan"))?;
        let mut bytes = [0i64];
        plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &mut bytes)
            .map_err(CudaError::cudnn("workspace"))?;
        let workspace = device.allocate(u64::try_from(bytes[0]).unwrap_or(0).max(1))?;
        let masked = if version < MASK_BY_INFINITY {
            f32::MIN
        } else {
            f32::NEG_INFINITY
        };
        let mut scalars = vec![1.0 / (shape.dim as f32).sqrt()];
        scalars.extend(shape.causal.then_some(masked));
        let packs = RefCell::default();
        Ok(Self {
            shape,
            packs,
            plan,
            _graph: graph,
            handle,
            workspace,
            scalars,
        })
    }

    /// Enqueues the attention of these operands. Their description is kept for the next launch.
    pub(crate) fn launch(&self, operands: [Place<'_>; 4]) -> Result<(), CudaError> {
        let operands = self.shape.addresses(operands)?;
        let mut packs = self.packs.borrow_mut();
        let pack = match packs.entry(operands) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                place.insert(self.pack(operands).map_err(CudaError::cudnn("operands"))?)
            }
        };
        // SAFETY: handle, plan, workspace and scalars live in `self`, and the places hold the operands.
        let done = unsafe { sys::cudnnBackendExecute(self.handle.0, self.plan.raw(), pack.raw()) };
        done.result().map_err(CudaError::cudnn("attention"))
    }

    fn pack(&self, operands: Addresses) -> Result<Descriptor, CudnnError> {
        let mut pointers = operands.map(|address| address as *mut c_void).to_vec();
        pointers.extend(
            self.scalars
                .iter()
                .map(|scalar| (&raw const *scalar) as *mut c_void),
        );
        let ids: Vec<i64> = (1..=pointers.len() as i64).collect();
        let workspace = self.workspace.address() as *mut c_void;
        Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .one(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace)?
            .with(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .with(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?
            .finish()
    }
}

/// The operations in cuDNN's own order, on which its engines depend: also the logarithm of the sum, which nobody reads.
/// The tensors of the variant pack come first: Q, K, V, the result, the factor and the mask.
fn describe(graph: &mut Graph, shape: Shape, dtype: Type) -> Result<(), CudnnError> {
    let Shape {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        dim,
        ..
    } = shape;
    let (wide, narrow) = ([batch, heads, queries, dim], [batch, kv_heads, keys, dim]);
    let q = graph.memory(Layout::dense(wide), dtype)?;
    let k = graph.memory(Layout::dense(narrow).transposed(), dtype)?;
    let v = graph.memory(Layout::dense(narrow), dtype)?;
    let out = graph.memory(Layout::dense(wide), dtype)?;
    let factor = graph.scalar()?;
    let mask = if shape.causal {
        Some(graph.scalar()?)
    } else {
        None
    };

    let products = Layout::dense([batch, heads, queries, keys]);
    let products = graph.between(products, Type::CUDNN_DATA_FLOAT)?;
    graph.matmul([q, k, products])?;
    let mut scores = graph.map(Pointwise::CUDNN_POINTWISE_MUL, &[products, factor])?;
    if let Some(mask) = mask {
        let (row, column) = (graph.index(scores, 2)?, graph.index(scores, 3)?);
        let seen = (Pointwise::CUDNN_POINTWISE_CMP_GE, Type::CUDNN_DATA_BOOLEAN);
        let seen = graph.map_to(seen.0, &[row, column], seen.1)?;
        scores = graph.map(
            Pointwise::CUDNN_POINTWISE_BINARY_SELECT,
            &[scores, mask, seen],
        )?;
    }
    let top = graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_MAX, scores)?;
    let below = graph.map(Pointwise::CUDNN_POINTWISE_SUB, &[scores, top])?;
    let powers = graph.map(Pointwise::CUDNN_POINTWISE_EXP, &[below])?;
    let sum = graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, powers)?;
    let log = graph.map(Pointwise::CUDNN_POINTWISE_LOG, &[sum])?;
    graph.map(Pointwise::CUDNN_POINTWISE_ADD, &[top, log])?;
    let weights = graph.map_to(Pointwise::CUDNN_POINTWISE_DIV, &[powers, sum], dtype)?;
    graph.matmul([weights, v, out])
}

/// A handle of cuDNN on the device's stream.
struct Handle(sys::cudnnHandle_t);

impl Handle {
    fn new(device: &Device) -> Result<Self, CudnnError> {
        let handle = Self(dnn::create_handle()?);
        // SAFETY: the handle was just created; the stream is the device's own and outlives it.
        unsafe { dnn::set_stream(handle.0, device.stream().cu_stream().cast())? };
        Ok(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was created by us and is not used after this. A failure leaves nothing to be done.
        let _ = unsafe { dnn::destroy_handle(self.0) };
    }
}
