//! `report.json`: the document with its data, unformatted.

use rooflens_schemas::Metric;
use serde::Serialize;

use super::{RenderError, Rendered};
use rooflens_diagnostic::Diagnostic;
use rooflens_document::report::{Meta, Report, Section};
use rooflens_document::{Block, Dataset, Method};

/// Version of the file. 0: its shape may change with any release.
const VERSION: u32 = 0;

/// Data sets of more rows stand in their CSV files alone.
const MOST_ROWS: usize = 5000;

#[derive(Serialize)]
struct File<'a> {
    version: u32,
    meta: &'a Meta,
    summary: &'a [Block],
    notes: &'a [Block],
    sections: &'a [Section],
    appendix: &'a [Section],
    metrics: &'a [Metric],
    datasets: Vec<&'a Dataset>,
    /// Data sets that are only in CSV files of their names.
    only_in_csv: Vec<&'a str>,
    data_quality: &'a [Diagnostic],
    methods: &'a [Method],
}

/// Writes `report.json`.
///
/// # Errors
/// Fails only if the serializer does.
pub(super) fn render(report: &Report) -> Result<Rendered, RenderError> {
    let (datasets, bulky): (Vec<&Dataset>, Vec<&Dataset>) = report
        .datasets
        .iter()
        .partition(|dataset| dataset.rows.len() <= MOST_ROWS);
    let bulky = bulky.iter().map(|dataset| dataset.id);
    let file = File {
        version: VERSION,
        meta: &report.meta,
        summary: &report.summary,
        notes: &report.notes,
        sections: &report.sections,
        appendix: &report.appendix,
        metrics: &report.metrics,
        datasets,
        only_in_csv: report.only_in_csv.into_iter().chain(bulky).collect(),
        data_quality: &report.data_quality,
        methods: &report.methods,
    };
    Rendered::json("report.json", &file)
}
