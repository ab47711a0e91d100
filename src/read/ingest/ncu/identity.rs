//! Values of the identity columns of a row: compute capability, launch extents, NVTX path.

use super::header::Header;
use super::nvtx;
use csv::StringRecord;
use rooflens_session::Dim3;

/// The ranges around a launch: nested ones, or those with a start and an end of their own.
pub(super) fn nvtx_path(header: &Header, row: &StringRecord) -> String {
    let cell = |column: Option<usize>| column.and_then(|index| row.get(index)).unwrap_or_default();
    let nested = nvtx::path(cell(header.push_pop), false);
    if nested.is_empty() {
        nvtx::path(cell(header.start_stop), true)
    } else {
        nested
    }
}

/// `9.0` as 90, `12.0` as 120.
pub(super) fn capability(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.')?;
    major
        .parse::<u32>()
        .ok()?
        .checked_mul(10)?
        .checked_add(minor.parse().ok()?)
}

/// `(32, 4, 1)`; all 0 if the page does not tell.
pub(super) fn extent(text: &str) -> Dim3 {
    let inner = text.trim_matches(['(', ')', ' ']);
    let mut sizes = inner
        .split(',')
        .map(|size| size.trim().parse::<u32>().unwrap_or_default());
    let mut next = || sizes.next().unwrap_or_default();
    Dim3 {
        x: next(),
        y: next(),
        z: next(),
    }
}
