//! Memory of the GPU, and host memory that it can reach.

use std::sync::Arc;

use cudarc::driver::{CudaStream, result};

use super::CudaError;

/// Memory on the device. Its release waits for the work that was enqueued before.
pub(crate) struct Buffer {
    address: u64,
    bytes: u64,
    stream: Arc<CudaStream>,
}

impl Buffer {
    /// Not suballocated from a pool, so that free memory can be watched.
    pub(super) fn new(stream: &Arc<CudaStream>, bytes: u64) -> Result<Self, CudaError> {
        stream.context().bind_to_thread().map_err(CudaError::driver("bind"))?;
        // SAFETY: the size is not zero; the address is released once, on drop.
        let address = unsafe { result::malloc_sync((bytes as usize).max(256)) };
        let address = address.map_err(CudaError::driver("allocate"))?;
        Ok(Self { address, bytes, stream: stream.clone() })
    }

    /// Address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies from the host and waits.
    pub(crate) fn upload(&self, data: &[u8]) -> Result<(), CudaError> {
        let length = data.len().min(self.bytes as usize);
        // SAFETY: the length fits in both.
        let done = unsafe { result::memcpy_htod_sync(self.address, &data[..length]) };
        done.map_err(CudaError::driver("copy to the device"))
    }

    /// Copies to the host and waits for all work before it.
    pub(crate) fn download(&self) -> Result<Vec<u8>, CudaError> {
        self.stream.synchronize().map_err(CudaError::driver("synchronize"))?;
        let mut data = vec![0u8; self.bytes as usize];
        // SAFETY: the vector is as long as the memory.
        let done = unsafe { result::memcpy_dtoh_sync(&mut data, self.address) };
        done.map_err(CudaError::driver("copy to the host"))?;
        Ok(data)
    }

    /// Enqueues a copy of all of `source`, which must not be larger.
    pub(crate) fn copy_from(&self, source: &Self) -> Result<(), CudaError> {
        let bytes = source.bytes.min(self.bytes) as usize;
        let stream = self.stream.cu_stream();
        // SAFETY: the length fits in both.
        let done =
            unsafe { result::memcpy_dtod_async(self.address, source.address, bytes, stream) };
        done.map_err(CudaError::driver("copy on the device"))
    }

    /// Enqueues a copy to or from pinned host memory.
    pub(crate) fn copy_pinned(&self, host: &mut Pinned, to_device: bool) -> Result<(), CudaError> {
        let stream = self.stream.cu_stream();
        let length = host.bytes.min(self.bytes as usize);
        // SAFETY: the host memory is pinned, lives as long as `host`, and is not looked at meanwhile.
        let done = unsafe {
            let memory = std::slice::from_raw_parts_mut(host.address, length);
            if to_device {
                result::memcpy_htod_async(self.address, memory, stream)
            } else {
                result::memcpy_dtoh_async(memory, self.address, stream)
            }
        };
        done.map_err(CudaError::driver("copy of pinned memory"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the address came from `malloc_sync`. The release waits for the device; its failure is that of
        // earlier work, which is reported elsewhere.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// Page-locked host memory.
pub(crate) struct Pinned {
    address: *mut u8,
    bytes: usize,
    stream: Arc<CudaStream>,
}

impl Pinned {
    /// Zeroed memory of that many bytes.
    pub(crate) fn new(stream: &Arc<CudaStream>, bytes: u64) -> Result<Self, CudaError> {
        let bytes = (bytes as usize).max(256);
        // SAFETY: the size is not zero; the memory is initialized before use and released once, on drop.
        let address = unsafe { result::malloc_host(bytes, 0) };
        let address = address.map_err(CudaError::driver("allocate pinned memory"))?.cast::<u8>();
        // SAFETY: the memory is that long.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { address, bytes, stream: stream.clone() })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A failure is that of earlier work, which is reported elsewhere.
        let _ = self.stream.synchronize();
        // SAFETY: the address came from `malloc_host`, and no copy is under way.
        let _ = unsafe { result::free_host(self.address.cast()) };
    }
}
