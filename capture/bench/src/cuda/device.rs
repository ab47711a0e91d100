//! The GPU that is measured.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::cublas::{self, CudaBlas};
use cudarc::cublaslt;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{self, CudaContext, CudaModule, CudaStream};

use super::kernels::{self, Argument, Grid, Source};
use super::{Buffer, CudaError, Dtype, Kernel, Place, libraries};

/// Bytes of cuBLAS's workspace, as large as PyTorch's on Hopper: cuBLAS's own cannot be in a CUDA graph without memory nodes.
const BLAS_WORKSPACE: u64 = 32 << 20;

/// What a place is filled with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill {
    /// Numbers of the format, uniform between this and its negative.
    Uniform(f32),
    /// Unsigned 32-bit numbers below this.
    Below(u32),
}

/// One GPU, with the one stream on which all work is enqueued.
pub(crate) struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Name as the driver says it.
    pub(crate) name: String,
    /// Compute capability: major, minor.
    pub(crate) capability: (i32, i32),
    /// Number of streaming multiprocessors.
    pub(crate) multiprocessors: u32,
    /// Bytes of L2 cache.
    pub(crate) l2_bytes: u64,
    lowest_free: Cell<u64>,
    modules: RefCell<BTreeMap<(Source, &'static str), Arc<CudaModule>>>,
    lt: OnceCell<cublaslt::sys::cublasLtHandle_t>,
    blas: OnceCell<(CudaBlas, Buffer)>,
}

impl Device {
    /// Opens the device of that CUDA ordinal, if asked for by libraries of Python packages.
    ///
    /// # Errors
    /// No driver, no such device, or a library of the toolkit is missing.
    pub(crate) fn open(ordinal: usize, of_python: bool) -> Result<Self, CudaError> {
        libraries::require(of_python)?;
        let context = CudaContext::new(ordinal).map_err(|error| {
            CudaError::NoDriver(format!("device {ordinal} cannot be used: {error:?}"))
        })?;
        let attribute = |which| {
            context
                .attribute(which)
                .map_err(CudaError::driver("attribute"))
        };
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let l2_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let capability = context
            .compute_capability()
            .map_err(CudaError::driver("capability"))?;
        let name = context.name().map_err(CudaError::driver("name"))?;
        // The default stream cannot be captured into a graph.
        let stream = context.new_stream().map_err(CudaError::driver("stream"))?;
        let device = Self {
            context,
            stream,
            name,
            capability,
            multiprocessors: multiprocessors.unsigned_abs().max(1),
            l2_bytes: u64::from(l2_bytes.unsigned_abs()),
            lowest_free: Cell::new(u64::MAX),
            modules: RefCell::default(),
            lt: OnceCell::new(),
            blas: OnceCell::new(),
        };
        device.free_memory()?;
        Ok(device)
    }

    /// Bytes of memory that are free now; the lowest number ever seen is kept.
    pub(crate) fn free_memory(&self) -> Result<u64, CudaError> {
        let (free, _) = self
            .context
            .mem_get_info()
            .map_err(CudaError::driver("free memory"))?;
        self.lowest_free
            .set(self.lowest_free.get().min(free as u64));
        Ok(free as u64)
    }

    /// Forgets the lowest amount of free memory seen so far and returns the present one.
    pub(crate) fn restart_low_water(&self) -> Result<u64, CudaError> {
        self.lowest_free.set(u64::MAX);
        self.free_memory()
    }

    /// The lowest amount of free memory seen since the last restart.
    pub(crate) fn low_water(&self) -> u64 {
        self.lowest_free.get()
    }

    /// Memory of that many bytes, with undefined contents.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<Buffer, CudaError> {
        let free = self.free_memory()?;
        if bytes > free {
            return Err(CudaError::Memory {
                needed: bytes,
                free,
            });
        }
        let buffer = Buffer::new(&self.stream, bytes)?;
        self.free_memory()?;
        Ok(buffer)
    }

    /// Enqueues a fill of `elements` numbers from that place.
    ///
    /// # Errors
    /// The place is too small, or what CUDA says.
    pub(crate) fn fill(
        &self,
        dtype: Dtype,
        (place, elements): (Place<'_>, u64),
        seed: u32,
        with: Fill,
    ) -> Result<(), CudaError> {
        let (kernel, width, last) = match with {
            Fill::Uniform(most) => ("fill", dtype.bytes(), Argument::Float(most)),
            Fill::Below(bound) => ("fill_indices", 4, Argument::Int(bound)),
        };
        place.holding(&[elements, width])?;
        let grid = Grid {
            blocks: (self.multiprocessors * 8, 1, 1),
            threads: 256,
        };
        let arguments = [
            Argument::Place(place),
            Argument::Long(elements),
            Argument::Int(seed),
            last,
        ];
        let kernel = self.kernel(Source::Fill, dtype, kernel)?;
        // SAFETY: these are the arguments of both kernels, and the place holds as many numbers.
        unsafe { kernel.launch(grid, &arguments) }
    }

    /// Memory of values uniform in [−1, 1]: power, and with it the clocks, depend on the data.
    pub(crate) fn random(
        &self,
        dtype: Dtype,
        elements: u64,
        seed: u32,
    ) -> Result<Buffer, CudaError> {
        let buffer = self.allocate(elements * dtype.bytes())?;
        self.fill(dtype, (buffer.place(), elements), seed, Fill::Uniform(1.0))?;
        Ok(buffer)
    }

    /// The kernel of that name, compiled for this GPU and number format on first use.
    pub(crate) fn kernel(
        &self,
        source: Source,
        dtype: Dtype,
        name: &'static str,
    ) -> Result<Kernel, CudaError> {
        let key = (source, dtype.define());
        let known = self.modules.borrow().get(&key).cloned();
        let module = match known {
            Some(module) => module,
            None => {
                let image = kernels::compile(source, dtype, self.capability)?;
                let image = cudarc::nvrtc::Ptx::from_binary(image);
                let module = self
                    .context
                    .load_module(image)
                    .map_err(CudaError::driver("load kernels"))?;
                self.modules.borrow_mut().insert(key, module.clone());
                module
            }
        };
        let function = module
            .load_function(name)
            .map_err(CudaError::driver("find kernel"))?;
        Ok(Kernel::new(function, self.stream.clone()))
    }

    /// Waits until all enqueued work is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.stream
            .synchronize()
            .map_err(CudaError::driver("synchronize"))
    }

    /// The stream of all work.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The cuBLASLt handle, created on first use.
    pub(super) fn lt(&self) -> Result<cublaslt::sys::cublasLtHandle_t, CudaError> {
        if let Some(handle) = self.lt.get() {
            return Ok(*handle);
        }
        let handle = cublaslt::result::create_handle().map_err(CudaError::lt("create"))?;
        Ok(*self.lt.get_or_init(|| handle))
    }

    /// The cuBLAS handle, created on first use.
    pub(super) fn blas(&self) -> Result<&CudaBlas, CudaError> {
        if self.blas.get().is_none() {
            let blas = CudaBlas::new(self.stream.clone()).map_err(CudaError::cublas("create"))?;
            let workspace = self.allocate(BLAS_WORKSPACE)?;
            // SAFETY: the workspace is that long, and is released after the handle.
            let set = unsafe {
                let (at, bytes) = (workspace.address() as *mut _, BLAS_WORKSPACE as usize);
                cublas::sys::cublasSetWorkspace_v2(*blas.handle(), at, bytes)
            };
            set.result().map_err(CudaError::cublas("workspace"))?;
            // Nothing was set before: this thread alone has the cell.
            let _ = self.blas.set((blas, workspace));
        }
        self.blas
            .get()
            .map(|(blas, _)| blas)
            .ok_or(CudaError::NoLibrary("cuBLAS"))
    }

    /// PCI address, by which NVML knows the same GPU.
    pub(crate) fn pci_address(&self) -> Option<String> {
        let mut text = [0u8; 32];
        // SAFETY: the buffer has the stated length, and the driver ends what it writes with a zero.
        let status = unsafe {
            let (at, length) = (text.as_mut_ptr().cast(), text.len() as i32);
            driver::sys::cuDeviceGetPCIBusId(at, length, self.context.cu_device())
        };
        status.result().ok()?;
        let text = std::ffi::CStr::from_bytes_until_nul(&text).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// Versions of driver, NVRTC, cuBLASLt and cuDNN (null where there is none) as their libraries number them, and the files they come from.
    pub(crate) fn versions(&self) -> serde_json::Value {
        let (mut driver, mut major, mut minor) = (0, 0, 0);
        // SAFETY: the calls write to the integers given, or answer with one.
        let lt = unsafe {
            // A version that is not answered stays zero, which no library has.
            let _ = driver::sys::cuDriverGetVersion(&raw mut driver);
            let _ = cudarc::nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor);
            cublaslt::sys::cublasLtGetVersion()
        };
        serde_json::json!({
            "driver_cuda": driver, "nvrtc": format!("{major}.{minor}"), "cublaslt": lt,
            "cudnn": libraries::cudnn_version(),
            "files": libraries::loaded(),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(handle) = self.lt.take() {
            // SAFETY: the handle was created by us and is not used after this. A failure leaves nothing to be done.
            let _ = unsafe { cublaslt::result::destroy_handle(handle) };
        }
    }
}
