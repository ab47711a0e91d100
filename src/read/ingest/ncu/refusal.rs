//! Texts of ncu that are no page of launches: what they are and what to do instead.

use super::console;
use super::header::is_summary_header;
use crate::{IngestError, IngestErrorKind};

/// How to export a page that can be read.
const EXPORT: &str = "export a page of launches: ncu --import FILE.ncu-rep --page raw --csv";

/// The start of the error that ncu prints without access to the counters.
const NO_PERMISSION: &str = "ERR_NVGPUCTRPERM";

/// True if a text without a header is ncu's nevertheless.
pub(super) fn recognizes(text: &str) -> bool {
    lacks_permission(text) || is_source_page(text) || console::recognizes(text)
}

/// True if ncu was refused the performance counters.
pub(super) fn lacks_permission(text: &str) -> bool {
    text.lines()
        .any(|line| line.starts_with("==ERROR==") && line.contains(NO_PERMISSION))
}

/// Why a text without a header cannot be read.
pub(super) fn reason(text: &str) -> IngestError {
    if lacks_permission(text) {
        let message = "ncu had no permission to use the GPU's performance counters \
                       (ERR_NVGPUCTRPERM): nothing was measured";
        return IngestError::from(IngestErrorKind::Empty(message.to_owned())).hint(
            "run ncu as root, give the container the capability SYS_ADMIN, or load the driver \
             with NVreg_RestrictProfilingToAdminUsers=0",
        );
    }
    let message = if text.lines().any(is_summary_header) {
        "a summary per kernel (--print-summary) does not name launches"
    } else if is_source_page(text) {
        "the source page counts instructions, not launches"
    } else if console::recognizes(text) {
        "a console report of ncu without a launch whose tables are whole"
    } else {
        "no header of a raw or details page was found"
    };
    IngestError::from(IngestErrorKind::Unsupported(message.to_owned())).hint(EXPORT)
}

/// The source page: the kernel's name, then a table of its instructions.
fn is_source_page(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with("=="))
        .skip_while(|line| line.is_empty());
    lines
        .next()
        .is_some_and(|line| line.starts_with("\"Kernel Name\",\""))
        && lines
            .next()
            .is_some_and(|line| line.contains("\"Source\"") || line.contains("\"Address\""))
}
