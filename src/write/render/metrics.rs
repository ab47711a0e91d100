//! `metrics.json`: the metrics alone, by the public schema.

use std::borrow::Cow;

use rooflens_schemas::{MetricsFile, metrics::VERSION};

use super::{RenderError, Rendered};
use rooflens_document::report::Report;

/// Writes `metrics.json`.
///
/// # Errors
/// Fails only if the serializer does.
pub(super) fn render(report: &Report) -> Result<Rendered, RenderError> {
    let file = MetricsFile {
        version: VERSION,
        bundle: report.meta.bundle.clone(),
        generator: report.meta.generator.clone(),
        metrics: Cow::Borrowed(&report.metrics),
    };
    Rendered::json("metrics.json", &file)
}
