//! Descriptors of cuDNN's graph interface: objects with attributes, sealed before use.

use std::ffi::c_void;
use std::slice;

use cudarc::cudnn::result::CudnnError;
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};

/// One of cuDNN's objects, destroyed on drop.
#[repr(transparent)]
pub(super) struct Descriptor(sys::cudnnBackendDescriptor_t);

/// What can be an attribute, and cuDNN's name for its type.
///
/// # Safety
/// The memory of the type is what cuDNN expects under that name.
pub(super) unsafe trait Attribute {
    const TYPE: Type;
}

/// What cuDNN may write into: any number that it writes is a value of the type, which does not hold for enums.
///
/// # Safety
/// That holds.
pub(super) unsafe trait Readable: Attribute {}
// SAFETY: a number.
unsafe impl Readable for i64 {}
// SAFETY: cuDNN fills the object, not the pointer to it.
unsafe impl Readable for Descriptor {}

macro_rules! attributes {
    ($($type:ty: $name:ident,)*) => {
        // SAFETY: these are the types of cuDNN's header under these names; a descriptor is a transparent pointer.
        $(unsafe impl Attribute for $type {
            const TYPE: Type = Type::$name;
        })*
    };
}

attributes! {
    i64: CUDNN_TYPE_INT64,
    bool: CUDNN_TYPE_BOOLEAN,
    *mut c_void: CUDNN_TYPE_VOID_PTR,
    sys::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    sys::cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    sys::cudnnBackendHeurMode_t: CUDNN_TYPE_HEUR_MODE,
    sys::cudnnPointwiseMode_t: CUDNN_TYPE_POINTWISE_MODE,
    sys::cudnnReduceTensorOp_t: CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
    Descriptor: CUDNN_TYPE_BACKEND_DESCRIPTOR,
}

impl Descriptor {
    pub(super) fn new(kind: Kind) -> Result<Self, CudnnError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is written before the call returns.
        unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut raw) }.result()?;
        Ok(Self(raw))
    }

    /// Sets an attribute to a list.
    pub(super) fn with<T: Attribute>(self, name: Name, values: &[T]) -> Result<Self, CudnnError> {
        let (count, at) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the descriptor lives, and the list has that many values of that type; cuDNN copies them.
        unsafe { sys::cudnnBackendSetAttribute(self.0, name, T::TYPE, count, at) }.result()?;
        Ok(self)
    }

    /// Sets an attribute to one value.
    pub(super) fn one<T: Attribute>(self, name: Name, value: &T) -> Result<Self, CudnnError> {
        self.with(name, slice::from_ref(value))
    }

    /// Seals it: cuDNN checks the attributes.
    pub(super) fn finish(self) -> Result<Self, CudnnError> {
        // SAFETY: the descriptor lives.
        unsafe { sys::cudnnBackendFinalize(self.0) }.result()?;
        Ok(self)
    }

    /// Has cuDNN fill `values`; answers with the number that there are, which may be smaller or larger.
    pub(super) fn get<T: Readable>(
        &self,
        name: Name,
        values: &mut [T],
    ) -> Result<usize, CudnnError> {
        let (room, at) = (values.len() as i64, values.as_mut_ptr().cast());
        let mut count = 0;
        // SAFETY: the descriptor lives, and the list has room for that many values of that type.
        unsafe { sys::cudnnBackendGetAttribute(self.0, name, T::TYPE, room, &raw mut count, at) }
            .result()?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(super) fn raw(&self) -> sys::cudnnBackendDescriptor_t {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it was created by us and is not used after this. A failure leaves nothing to be done.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}
