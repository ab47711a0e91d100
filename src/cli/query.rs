//! `rooflens query`, and the Parquet files of a report: what needs the tables as data frames.

use super::args::{Input, Query};
use super::error::CliError;
use super::load::{Loaded, check, errors, load};
use super::term::Term;
use crate::render::Rendered;
use crate::report::Report;

/// Runs one SELECT over the tables.
pub(super) fn run(args: &Query, term: &mut Term) -> Result<(), CliError> {
    let input = Input { paths: vec![args.path.clone()], ..Input::default() };
    let loaded = load(&input, term)?;
    check(&loaded, term)?;
    loaded.diagnostics.iter().for_each(|diagnostic| term.diagnostic(diagnostic));
    term.print(answer(args, &loaded)?.as_bytes())?;
    errors(loaded.diagnostics.iter())
}

#[cfg(feature = "tables")]
fn answer(args: &Query, loaded: &Loaded) -> Result<String, CliError> {
    let answer = crate::tables::query(&loaded.session, &[], &args.sql)
        .map_err(|error| CliError::Query(error.to_string()))?;
    Ok(if args.csv { answer.csv() } else { answer.text(120) })
}

/// This build has no data frames.
#[cfg(not(feature = "tables"))]
fn answer(args: &Query, _: &Loaded) -> Result<String, CliError> {
    let _ = (&args.sql, args.csv);
    Err(crate::render::RenderError::NotBuiltIn("query results").into())
}

/// The tables as Parquet files.
#[cfg(feature = "tables")]
pub(super) fn parquet(loaded: &Loaded) -> Result<Rendered, CliError> {
    parquet_files(crate::tables::parquet(&loaded.session))
}

/// The data sets of a report without a session, as Parquet files.
#[cfg(feature = "tables")]
pub(super) fn parquet_of(report: &Report) -> Result<Rendered, CliError> {
    parquet_files(crate::tables::parquet_of(&report.datasets))
}

#[cfg(feature = "tables")]
fn parquet_files(
    files: Result<crate::tables::Files, crate::tables::TablesError>,
) -> Result<Rendered, CliError> {
    let files = files.map_err(|error| crate::render::RenderError::Tables(error.to_string()))?;
    Ok(Rendered { main: String::new(), files })
}

/// This build has no data frames.
#[cfg(not(feature = "tables"))]
pub(super) fn parquet(_: &Loaded) -> Result<Rendered, CliError> {
    Err(crate::render::RenderError::NotBuiltIn("Parquet").into())
}

/// This build has no data frames.
#[cfg(not(feature = "tables"))]
pub(super) fn parquet_of(_: &Report) -> Result<Rendered, CliError> {
    Err(crate::render::RenderError::NotBuiltIn("Parquet").into())
}
