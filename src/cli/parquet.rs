//! Tables as Parquet files, in builds that can write them.

use super::error::CliError;
use crate::pipeline::Capture;
use crate::query::Answer;
use crate::render::{RenderError, Rendered};
use crate::report::Report;

/// The tables of a session.
pub(super) fn of_session(capture: &Capture) -> Result<Rendered, CliError> {
    #[cfg(feature = "tables")]
    return files(crate::parquet::parquet(&capture.session));
    #[cfg(not(feature = "tables"))]
    missing(capture)
}

/// The data sets of a report without a session.
pub(super) fn of_report(report: &Report) -> Result<Rendered, CliError> {
    #[cfg(feature = "tables")]
    return files(crate::parquet::parquet_of(&report.datasets));
    #[cfg(not(feature = "tables"))]
    missing(report)
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
