//! Documents and data into files: what every command that makes a report does with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::args::{Format, Kind, Lang, Output};
use super::error::CliError;
use super::templates;
use super::term::Term;
use crate::findings;
use crate::render::{self, RenderError, RenderOptions, Rendered};
use crate::report::{self as document, Report};

/// Formats that are written once, whatever the document.
const DATA: [Format; 4] = [Format::Json, Format::Metrics, Format::Csv, Format::Parquet];

/// Makes the Parquet files of a report.
pub(super) type Parquet<'a> = &'a dyn Fn() -> Result<Rendered, CliError>;

/// The outputs that were asked for, checked before any input is read.
pub(super) struct Writer<'a> {
    args: &'a Output,
    options: RenderOptions,
}

impl<'a> Writer<'a> {
    /// Reads templates and brand, and refuses an output to which nothing can be written.
    pub(super) fn new(args: &'a Output) -> Result<Self, CliError> {
        let options = RenderOptions {
            templates: templates::load(args.templates.as_deref())?,
            brand: args.brand.as_deref().map(templates::brand).transpose()?,
        };
        for output in &args.outputs {
            check_output(output, args.format)?;
        }
        Ok(Self { args, options })
    }

    /// The language that was asked for.
    pub(super) const fn language(&self) -> findings::Lang {
        match self.args.lang {
            Lang::En => findings::Lang::En,
            Lang::Zh => findings::Lang::Zh,
        }
    }

    /// Writes a report to all outputs, or into `folder` if none was given.
    pub(super) fn write(
        &self,
        report: &Report,
        folder: &str,
        parquet: Parquet<'_>,
        term: &mut Term,
    ) -> Result<(), CliError> {
        let job = Job { args: self.args, options: &self.options, report, parquet };
        if self.args.outputs.is_empty() {
            return job.write(Path::new(folder), term);
        }
        self.args.outputs.iter().try_for_each(|output| job.write(output, term))
    }
}

/// A report that is ready to be written.
struct Job<'a> {
    args: &'a Output,
    options: &'a RenderOptions,
    report: &'a Report,
    parquet: Parquet<'a>,
}

impl Job<'_> {
    fn write(&self, output: &Path, term: &mut Term) -> Result<(), CliError> {
        let (stated, kind) = (self.args.format, self.args.kind.unwrap_or(Kind::Report));
        if output == Path::new("-") {
            let rendered = self.one(stated.unwrap_or(Format::Md), kind)?;
            return term.print(rendered.files.get(&rendered.main).map_or(&[], Vec::as_slice));
        }
        let extension = output.extension().and_then(|extension| extension.to_str());
        match stated.or_else(|| extension.and_then(of_extension)) {
            Some(format @ (Format::Csv | Format::Parquet)) => {
                write_files(output, self.one(format, kind)?.files)?;
            }
            Some(format) if extension.is_some() => {
                term.step(format!("writing {}", output.display()));
                write_single(output, &self.one(format, kind)?)?;
            }
            Some(format) => write_files(output, self.one(format, kind)?.files)?,
            None => self.write_all(output, term)?,
        }
        term.note(&format!("wrote {}", output.display()));
        Ok(())
    }

    /// Every format into a folder: the documents that were asked for, and the data once.
    fn write_all(&self, folder: &Path, term: &mut Term) -> Result<(), CliError> {
        let asked = self.args.kind.map(|kind| vec![kind]);
        let kinds = asked.unwrap_or_else(|| vec![Kind::Summary, Kind::Report, Kind::Appendix]);
        let documents = kinds.iter().flat_map(|kind| [(Format::Pdf, *kind), (Format::Md, *kind)]);
        // The HTML of the report holds summary and appendix.
        let html = (Format::Html, self.args.kind.unwrap_or(Kind::Report));
        for (format, kind) in
            documents.chain([html]).chain(DATA.map(|format| (format, Kind::Report)))
        {
            term.step(format!("writing {format:?}"));
            match self.one(format, kind) {
                Ok(rendered) => write_files(folder, rendered.files)?,
                // A build without typst or polars writes what it can.
                Err(CliError::Render(error @ RenderError::NotBuiltIn(_))) => {
                    term.note(&error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Renders one format.
    fn one(&self, format: Format, kind: Kind) -> Result<Rendered, CliError> {
        let kind = match kind {
            Kind::Summary => document::Kind::Summary,
            Kind::Report => document::Kind::Report,
            Kind::Appendix => document::Kind::Appendix,
        };
        let format = match format {
            Format::Pdf => render::Format::Pdf,
            Format::Html => render::Format::Html,
            Format::Md => render::Format::Markdown,
            Format::Json => render::Format::Json,
            Format::Metrics => render::Format::Metrics,
            Format::Csv => render::Format::Csv,
            Format::Parquet => return (self.parquet)(),
        };
        Ok(render::render(self.report, kind, format, self.options)?)
    }
}

/// Refuses an output before the input is read, if nothing can be written to it.
fn check_output(output: &Path, stated: Option<Format>) -> Result<(), CliError> {
    let extension = output.extension().and_then(|extension| extension.to_str());
    let unknown = stated.is_none()
        && extension.is_some_and(|one| looks_like_a_format(one) && of_extension(one).is_none());
    if unknown && !output.is_dir() {
        let path = output.display();
        return Err(CliError::Usage(format!(
            "no format has the extension of {path}; give --format, or a folder"
        )));
    }
    Ok(())
}

/// `docx` names a format that is not to be had; the `5b` of `qwen-0.5b` is part of a folder's name.
fn looks_like_a_format(extension: &str) -> bool {
    extension.len() >= 2 && extension.bytes().all(|letter| letter.is_ascii_alphabetic())
}

fn of_extension(extension: &str) -> Option<Format> {
    Some(match extension {
        "pdf" => Format::Pdf,
        "html" | "htm" => Format::Html,
        "md" | "markdown" => Format::Md,
        "json" => Format::Json,
        "csv" => Format::Csv,
        "parquet" => Format::Parquet,
        _ => return None,
    })
}

/// The main file under the name that was asked for; the files that it refers to beside it.
fn write_single(output: &Path, rendered: &Rendered) -> Result<(), CliError> {
    let folder = output.parent().unwrap_or(Path::new(""));
    for (path, bytes) in &rendered.files {
        let target = if *path == rendered.main { output.to_owned() } else { folder.join(path) };
        write(&target, bytes)?;
    }
    Ok(())
}

/// Writes files below a folder, which is made if need be.
pub(super) fn write_files(folder: &Path, files: BTreeMap<String, Vec<u8>>) -> Result<(), CliError> {
    for (path, bytes) in files {
        write(&folder.join(path), &bytes)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let failed = |error| CliError::Write { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, bytes).map_err(failed)
}

/// A name as a file name: hostile ones stay in this folder.
pub(super) fn file_stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|letter| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' })
        .collect();
    let stem = stem.trim_matches(['.', '-']);
    if stem.is_empty() { "rooflens".to_owned() } else { stem.to_owned() }
}
