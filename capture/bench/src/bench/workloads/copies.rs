//! Copies on the device and over the link.

use super::{Setup, Workload};
use crate::bench::operation::Kind;
use crate::cuda::{CudaError, Pinned};

/// A copy of that many bytes; over the link to and from pinned memory.
pub(super) fn prepare<'a>(setup: &Setup<'a>) -> Result<Workload<'a>, CudaError> {
    let (device, bytes) = (setup.device, setup.case.size("bytes"));
    let copies = setup.copies as usize;
    if setup.case.kind == Kind::CopyDevice {
        let pairs: Result<Vec<_>, CudaError> = (0..copies)
            .map(|_| Ok((device.allocate(bytes)?, device.allocate(bytes)?)))
            .collect();
        let pairs = pairs?;
        let launch = Box::new(move |launch: usize| {
            let (to, from) = &pairs[launch % copies];
            to.copy_from(from)
        });
        return Ok(Workload::new(launch, Vec::new(), None));
    }
    // The L2 cache plays no part: one pair is enough.
    let to_device = setup.case.kind == Kind::CopyToDevice;
    let mut host = Pinned::new(device.stream(), bytes)?;
    let buffer = device.allocate(bytes)?;
    let launch = Box::new(move |_: usize| buffer.copy_pinned(&mut host, to_device));
    Ok(Workload::new(launch, Vec::new(), None))
}
