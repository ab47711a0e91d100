//! Documents and data into files: what every command that makes a report does with it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::args::{Format, Kind, Lang, Output};
use super::error::CliError;
use super::files::{Staged, refuse_foreign};
use super::parquet;
use super::templates;
use super::term::Term;
use crate::bundle::Bundle;
use crate::document;
use crate::pipeline::Analysis;
use crate::render::{self, RenderError, RenderOptions, Rendered};
use crate::report::{self, Report};

/// Formats that are written once, whatever the document.
const DATA: [Format; 4] = [Format::Json, Format::Metrics, Format::Csv, Format::Parquet];

/// The outputs that were asked for, checked before any input is read.
pub(super) struct Writer<'a> {
    args: &'a Output,
    options: RenderOptions,
    inputs: Inputs,
}

impl<'a> Writer<'a> {
    /// Reads templates and brand, and refuses an output to which nothing can be written, or which is one of the inputs.
    pub(super) fn new(
        args: &'a Output,
        inputs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<Self, CliError> {
        let mut protected = Inputs::default();
        for path in inputs.into_iter().chain(&args.brand) {
            protected.add(path);
        }
        let options = RenderOptions {
            templates: templates::load(args.templates.as_deref())?,
            brand: args.brand.as_deref().map(templates::brand).transpose()?,
            stem: None,
        };
        for (number, output) in args.outputs.iter().enumerate() {
            check_output(output, &args.formats)?;
            if !is_file(output) && output != Path::new("-") {
                refuse_foreign(output, args.force)?;
            }
            protected.refuse(output)?;
            if args.outputs[..number].contains(output) {
                let message = format!("--output {} is given twice", output.display());
                return Err(CliError::Usage(message));
            }
        }
        Ok(Self {
            args,
            options,
            inputs: protected,
        })
    }

    /// The files of a bundle are not to be overwritten.
    pub(super) fn protect(&mut self, bundle: &Bundle) {
        for file in &bundle.files {
            if file.kind.is_some() {
                self.inputs.add(&file.location);
            }
        }
    }

    /// The language that was asked for.
    pub(super) const fn language(&self) -> document::Lang {
        match self.args.lang {
            Lang::En => document::Lang::En,
            Lang::Zh => document::Lang::Zh,
        }
    }

    fn outputs(&self, folder: &str) -> Vec<PathBuf> {
        let outputs = self.args.outputs.clone();
        if outputs.is_empty() {
            vec![PathBuf::from(folder)]
        } else {
            outputs
        }
    }

    /// Writes a report to all outputs, or into `folder` if none was given: all of it or nothing. The tables of a capture
    /// come from its `analysis`.
    pub(super) fn write(
        &self,
        report: &Report,
        analysis: Option<&Analysis<'_>>,
        folder: &str,
        term: &mut Term,
    ) -> Result<(), CliError> {
        let job = Job {
            args: self.args,
            options: &self.options,
            report,
            analysis,
        };
        let mut staged = Vec::new();
        let outputs = self.outputs(folder);
        for output in &outputs {
            staged.extend(job.stage(output, term)?.map(|files| (output, files)));
        }
        for target in staged.iter().flat_map(|(_, files)| files.targets()) {
            self.inputs.refuse(&target)?;
        }
        for (output, files) in staged {
            files.commit()?;
            term.note(&format!("wrote {}", output.display()));
        }
        Ok(())
    }
}

/// Files that are read, and must be there afterwards.
#[derive(Default)]
struct Inputs(Vec<PathBuf>);

impl Inputs {
    fn add(&mut self, path: &Path) {
        if path.is_dir() {
            self.add(&path.join(rooflens_schemas::manifest::FILE_NAME));
        }
        self.0
            .extend(fs::canonicalize(path).ok().filter(|path| path.is_file()));
    }

    fn refuse(&self, output: &Path) -> Result<(), CliError> {
        match fs::canonicalize(output) {
            Ok(path) if self.0.contains(&path) => Err(CliError::overwrites(output)),
            _ => Ok(()),
        }
    }
}

/// A report that is ready to be written.
struct Job<'a> {
    args: &'a Output,
    options: &'a RenderOptions,
    report: &'a Report,
    analysis: Option<&'a Analysis<'a>>,
}

impl Job<'_> {
    /// Writes one output aside, or prints it.
    fn stage(&self, output: &Path, term: &mut Term) -> Result<Option<Staged>, CliError> {
        let (formats, kind) = (
            of_output(output, &self.args.formats),
            self.args.kind.unwrap_or(Kind::Report),
        );
        if output == Path::new("-") {
            let format = formats.first().copied().unwrap_or(Format::Md);
            let rendered = self.render(format, kind, None)?;
            term.print(
                rendered
                    .files
                    .get(&rendered.main)
                    .map_or(&[], Vec::as_slice),
            )?;
            return Ok(None);
        }
        let mut staged = match formats[..] {
            [format] if is_file(output) => return self.stage_file(output, format, kind, term),
            _ => Staged::new(output, Some(""), self.args.force)?,
        };
        if formats.is_empty() {
            self.stage_all(&mut staged, term)?;
        }
        for format in formats {
            step(format, kind, term);
            self.add(&mut staged, format, kind)?;
        }
        Ok(Some(staged))
    }

    /// The main file under the name that was asked for; the files that it refers to in a folder next to it.
    fn stage_file(
        &self,
        output: &Path,
        format: Format,
        kind: Kind,
        term: &mut Term,
    ) -> Result<Option<Staged>, CliError> {
        term.step(format!("writing {}", output.display()));
        // A link stays one.
        let real = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
        let name = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem = name(real.file_stem());
        let rendered = self.render(format, kind, stem.clone())?;
        let main = rendered
            .files
            .get(&rendered.main)
            .map_or(&[][..], Vec::as_slice);
        if fs::metadata(&real).is_ok_and(|metadata| !metadata.is_file()) {
            // A device or a pipe takes what is written to it.
            fs::write(&real, main).map_err(|error| CliError::Write { path: real, error })?;
            return Ok(None);
        }
        let folder = real
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let charts = match stem {
            Some(stem) if format == Format::Md => Some(format!("{stem}_files")),
            _ => None,
        };
        let mut staged = Staged::new(
            folder.unwrap_or(Path::new(".")),
            charts.as_deref(),
            self.args.force,
        )?;
        for (path, bytes) in &rendered.files {
            match name(real.file_name()) {
                Some(main) if *path == rendered.main => staged.add(&main, bytes)?,
                _ => staged.add(path, bytes)?,
            }
        }
        Ok(Some(staged))
    }

    /// Every format: the documents that were asked for, and the data once.
    fn stage_all(&self, staged: &mut Staged, term: &mut Term) -> Result<(), CliError> {
        let kinds = match self.args.kind {
            Some(kind) => vec![kind],
            None => vec![Kind::Summary, Kind::Report, Kind::Appendix],
        };
        let documents = kinds
            .iter()
            .flat_map(|kind| [(Format::Pdf, *kind), (Format::Md, *kind)]);
        // The HTML of the report holds summary and appendix.
        let html = (Format::Html, self.args.kind.unwrap_or(Kind::Report));
        // Data first: what the compiler of PDF remembers stays in memory.
        let data = DATA.map(|format| (format, Kind::Report));
        for (format, kind) in data.into_iter().chain(documents).chain([html]) {
            step(format, kind, term);
            match self.add(staged, format, kind) {
                // A build without typst or polars writes what it can.
                Err(CliError::Render(error @ RenderError::NotBuiltIn(_))) => {
                    term.note(&error.to_string());
                }
                added => added?,
            }
        }
        Ok(())
    }

    /// Adds the files of one format. The metrics of profiled launches go to their file part by part.
    fn add(&self, staged: &mut Staged, format: Format, kind: Kind) -> Result<(), CliError> {
        for (path, bytes) in &self.render(format, kind, None)?.files {
            staged.add(path, bytes)?;
        }
        let analysis = self.analysis.filter(|_| format == Format::Csv);
        let mut parts = analysis
            .into_iter()
            .flat_map(Analysis::ncu_metrics)
            .peekable();
        if let Some(part) = parts.peek() {
            let mut file = staged.create(&format!("{}.csv", part.id))?;
            render::csv::write(&mut parts, &mut file)?;
        }
        Ok(())
    }

    /// Renders one format; `stem` is the name of the file without extension.
    fn render(
        &self,
        format: Format,
        kind: Kind,
        stem: Option<String>,
    ) -> Result<Rendered, CliError> {
        let kind = match kind {
            Kind::Summary => report::Kind::Summary,
            Kind::Report => report::Kind::Report,
            Kind::Appendix => report::Kind::Appendix,
        };
        let format = match format {
            Format::Pdf => render::Format::Pdf,
            Format::Html => render::Format::Html,
            Format::Md => render::Format::Markdown,
            Format::Json => render::Format::Json,
            Format::Metrics => render::Format::Metrics,
            Format::Csv => render::Format::Csv,
            Format::Parquet => return parquet::of(self.report, self.analysis),
            Format::Results => return parquet::results(self.report),
            Format::Sarif => render::Format::Sarif,
            Format::Junit => render::Format::Junit,
            Format::Github => render::Format::Github,
        };
        let options = RenderOptions {
            stem,
            ..self.options.clone()
        };
        Ok(render::render(self.report, kind, format, &options)?)
    }
}

/// Says what is being written.
fn step(format: Format, kind: Kind, term: &Term) {
    let [format, kind] = [format.to_possible_value(), kind.to_possible_value()]
        .map(|value| value.map_or_else(String::new, |value| value.get_name().to_owned()));
    term.step(format!("writing {kind} as {format}"));
}

/// Refuses an output before the input is read, if nothing can be written to it.
fn check_output(output: &Path, stated: &[Format]) -> Result<(), CliError> {
    let refused = |what: &str| Err(CliError::Usage(format!("{}: {what}", output.display())));
    if output.as_os_str().is_empty() {
        return Err(CliError::Usage("--output is empty".to_owned()));
    }
    let formats = of_output(output, stated);
    let to_one = output == Path::new("-") || is_file(output);
    if to_one && formats.len() > 1 {
        return refused("is one file for several --format; give a folder");
    }
    if to_one
        && matches!(
            formats[..],
            [Format::Csv | Format::Parquet | Format::Results]
        )
    {
        return refused(
            "CSV, Parquet and results are one file a table; give a folder, and --format",
        );
    }
    let unknown = formats.is_empty() && extension(output).is_some_and(looks_like_a_format);
    if unknown && !output.is_dir() {
        return refused("no format has this extension; give --format, or a folder");
    }
    if !to_one && output.exists() && !output.is_dir() {
        return refused("is a file; give a folder, or a file with the extension of a format");
    }
    Ok(())
}

/// The formats of an output: those that are stated, else that of its extension; none for all.
fn of_output(output: &Path, stated: &[Format]) -> Vec<Format> {
    if stated.is_empty() {
        return extension(output)
            .and_then(of_extension)
            .into_iter()
            .collect();
    }
    let mut formats = stated.to_vec();
    formats.dedup();
    formats
}

/// Whether an output is one file: its name ends like one, and it is no folder.
pub(super) fn is_file(output: &Path) -> bool {
    extension(output).is_some_and(looks_like_a_format) && !output.is_dir()
}

fn extension(output: &Path) -> Option<&str> {
    output.extension().and_then(OsStr::to_str)
}

/// `docx` names a format that is not available; the `5b` of `qwen-0.5b` is part of a folder's name.
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
        "sarif" => Format::Sarif,
        "xml" => Format::Junit,
        _ => return None,
    })
}

/// A name as a file name: hostile ones stay in this folder.
pub(super) fn file_stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|letter| {
            if letter.is_alphanumeric() || "-_.".contains(letter) {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let stem = stem.trim_matches(['.', '-']);
    if stem.is_empty() {
        "rooflens".to_owned()
    } else {
        stem.to_owned()
    }
}
