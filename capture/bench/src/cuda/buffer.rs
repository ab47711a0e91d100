//! Memory of the GPU, and host memory that it can reach.

use std::marker::PhantomData;
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
        stream
            .context()
            .bind_to_thread()
            .map_err(CudaError::driver("bind"))?;
        // SAFETY: the size is not zero; the address is released once, on drop.
        let address = unsafe { result::malloc_sync((bytes as usize).max(256)) };
        let address = address.map_err(CudaError::driver("allocate"))?;
        Ok(Self {
            address,
            bytes,
            stream: stream.clone(),
        })
    }

    /// Address on the device.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// All of it.
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            address: self.address,
            bytes: self.bytes,
            buffer: PhantomData,
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies from the host and waits.
    pub(crate) fn upload(&self, data: &[u8]) -> Result<(), CudaError> {
        let length = data.len().min(self.bytes as usize);
        let stream = self.stream.cu_stream();
        // SAFETY: the length fits in both, and the data are borrowed until the copy is done.
        let done = unsafe { result::memcpy_htod_async(self.address, &data[..length], stream) };
        done.and_then(|()| self.stream.synchronize())
            .map_err(CudaError::driver("copy to the device"))
    }

    /// Copies to the host and waits for all work before it.
    pub(crate) fn download(&self) -> Result<Vec<u8>, CudaError> {
        self.stream
            .synchronize()
            .map_err(CudaError::driver("synchronize"))?;
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

/// A place in a [`Buffer`] up to its end. Work is enqueued on it while the buffer lives, and the buffer's release waits for that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'b> {
    address: u64,
    bytes: u64,
    buffer: PhantomData<&'b Buffer>,
}

impl Place<'_> {
    /// The place so many bytes behind this one; beyond the end, a place without any.
    pub(crate) fn after(self, bytes: u64) -> Self {
        let skipped = bytes.min(self.bytes);
        Self {
            address: self.address + skipped,
            bytes: self.bytes - skipped,
            ..self
        }
    }

    /// Address on the device.
    pub(super) fn address(self) -> u64 {
        self.address
    }

    /// Address of an array of these dimensions, the last of which is the width of an element in bytes.
    ///
    /// # Errors
    /// It is larger than what is left of the buffer.
    pub(super) fn holding(self, dimensions: &[u64]) -> Result<u64, CudaError> {
        let needed = dimensions
            .iter()
            .try_fold(1, |size: u64, next| size.checked_mul(*next));
        match needed {
            Some(needed) if needed <= self.bytes => Ok(self.address),
            _ => Err(CudaError::Unsupported(format!(
                "an operand of {dimensions:?} in {} bytes",
                self.bytes
            ))),
        }
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
        let address = address
            .map_err(CudaError::driver("allocate pinned memory"))?
            .cast::<u8>();
        // SAFETY: the memory is that long.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self {
            address,
            bytes,
            stream: stream.clone(),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_what_is_left_of_its_buffer() {
        let place = Place {
            address: 4096,
            bytes: 24,
            buffer: PhantomData,
        };
        assert!(matches!(place.holding(&[2, 3, 4]), Ok(4096)));
        assert!(place.holding(&[25]).is_err());
        // 2^33 * 2^33 is 0 modulo 2^64.
        assert!(place.holding(&[1 << 33, 1 << 33]).is_err());
        let rest = place.after(16);
        assert!(matches!(rest.holding(&[8]), Ok(4112)) && rest.holding(&[9]).is_err());
        assert!(place.after(25).holding(&[1]).is_err());
    }
}
