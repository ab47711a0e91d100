//! Tables as Parquet files, in builds that can write them.

use super::error::CliError;
use crate::pipeline::Analysis;
use crate::query::Answer;
use crate::render::{RenderError, Rendered};
use crate::report::Report;

/// The tables of the capture that was analyzed; the data sets of a report of anything else.
pub(super) fn of(report: &Report, analysis: Option<&Analysis<'_>>) -> Result<Rendered, CliError> {
    #[cfg(feature = "tables")]
    return files(match analysis {
        Some(analysis) => crate::parquet::parquet(&analysis.capture().session),
        None => crate::parquet::parquet_of(&report.datasets),
    });
    #[cfg(not(feature = "tables"))]
    missing(&(report, analysis))
}

/// The answer of a query, as one file.
pub(super) fn of_answer(answer: &Answer) -> Result<Vec<u8>, CliError> {
    #[cfg(feature = "tables")]
    return crate::parquet::parquet_of_answer(answer)
        .map_err(|error| RenderError::Tables(error.to_string()).into());
    #[cfg(not(feature = "tables"))]
    missing(answer)
}

/// The results of a report, for a lake.
pub(super) fn results(report: &Report) -> Result<Rendered, CliError> {
    #[cfg(feature = "tables")]
    return Ok(Rendered {
        main: String::new(),
        files: crate::lake::results(report)?,
    });
    #[cfg(not(feature = "tables"))]
    missing(report)
}

#[cfg(feature = "tables")]
fn files(
    files: Result<crate::parquet::Files, crate::parquet::TablesError>,
) -> Result<Rendered, CliError> {
    let files = files.map_err(|error| RenderError::Tables(error.to_string()))?;
    Ok(Rendered {
        main: String::new(),
        files,
    })
}

/// This build has no writer of Parquet.
#[cfg(not(feature = "tables"))]
pub(super) fn missing<T, R>(_: &T) -> Result<R, CliError> {
    Err(RenderError::NotBuiltIn("Parquet").into())
}
