//! `report.json`: the document with its data, unformatted.

use serde::Serialize;

use super::{RenderError, Rendered};
use crate::report::Report;

/// Version of the file. 0: its shape may change with any release.
const VERSION: u32 = 0;

#[derive(Serialize)]
struct File<'a> {
    version: u32,
    #[serde(flatten)]
    report: &'a Report,
}

/// Writes `report.json`.
///
/// # Errors
/// Fails only if the serializer does.
pub(super) fn render(report: &Report) -> Result<Rendered, RenderError> {
    Rendered::json("report.json", &File { version: VERSION, report })
}
