//! `rooflens query`, and the Parquet files of a report: what needs the tables as data frames.

use super::args::Query;
use super::error::CliError;
use super::load::Loaded;
use super::term::Term;
use crate::render::Rendered;
use crate::report::Report;

/// Runs one SELECT over the tables.
#[cfg(feature = "tables")]
pub(super) fn run(args: &Query, term: &mut Term) -> Result<(), CliError> {
    use clap::Parser;
    // The same defaults as every other command has.
    let path = args.path.to_string_lossy();
    let parsed = super::args::Args::parse_from(["rooflens", "metrics", &path]);
    let super::args::Command::Metrics(input) = parsed.command else {
        return Err(CliError::Usage("no input".to_owned()));
    };
    let loaded = super::load::load(&input, term)?;
    let answer = crate::tables::query(&loaded.session, &[], &args.sql)
        .map_err(|error| CliError::Query(error.to_string()))?;
    let text = if args.csv { answer.csv() } else { answer.text(120) };
    term.print(text.as_bytes())
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
pub(super) fn run(_: &Query, _: &mut Term) -> Result<(), CliError> {
    Err(crate::render::RenderError::NotBuiltIn("query results").into())
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
