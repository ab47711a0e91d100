//! `rooflens metrics`: the metrics on standard output.

use rooflens_schemas::{Metric, MetricValue};

use super::args::Metrics;
use super::error::CliError;
use super::load::{errors, load, report};
use super::term::Term;
use crate::document::{Cell, Column, Dataset, Lang};
use crate::render::{self, RenderOptions};
use crate::report::Kind;

/// Columns of the CSV.
const COLUMNS: [&str; 10] = [
    "metric", "pass", "stage", "gpu", "rank", "class", "value", "unit", "kind", "reason",
];

/// Prints `metrics.json`, or the same as CSV.
pub(super) fn run(args: &Metrics, term: &mut Term) -> Result<(), CliError> {
    let capture = load(&args.input, term)?;
    let (report, _) = report(&capture, &args.input, Lang::default(), term)?;
    if args.csv {
        let table = Dataset {
            id: "metrics",
            columns: COLUMNS.map(|id| Column::text(id, id)).to_vec(),
            rows: report.metrics.iter().map(row).collect(),
            ..Dataset::default()
        };
        term.print(&render::csv::bytes(&table)?)?;
    } else {
        let (kind, options) = (Kind::default(), RenderOptions::default());
        let rendered = render::render(&report, kind, render::Format::Metrics, &options)?;
        term.print(&rendered.files[&rendered.main])?;
    }
    errors(report.data_quality.iter())
}

fn row(metric: &Metric) -> Vec<Cell> {
    let scope = metric.scope.clone();
    let (kind, value, reason) = match &metric.value {
        MetricValue::Measured { value } => ("measured", Some(*value), None),
        MetricValue::Derived { value } => ("derived", Some(*value), None),
        MetricValue::Assumed { value } => ("assumed", Some(*value), None),
        MetricValue::Unavailable { reason } => ("unavailable", None, Some(reason.clone())),
    };
    let unit = serde_json::to_value(metric.unit).unwrap_or_default();
    vec![
        metric.id.as_str().into(),
        scope.pass.into(),
        scope.stage.into(),
        scope.gpu.into(),
        scope.rank.into(),
        scope.class.into(),
        value.into(),
        unit.as_str().map(str::to_owned).into(),
        kind.into(),
        reason.into(),
    ]
}
