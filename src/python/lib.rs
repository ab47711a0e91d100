//! The compiled part of the Python package: what a report holds, as texts of JSON and as Arrow streams.
//!
//! `rooflens/__init__.py` makes Python objects of it. The calls are those of [`rooflens::pipeline`], so that a notebook
//! and the command line cannot disagree. The alternative was a class per Rust type; JSON already has stable names for all
//! of them, and only tables are large enough for a copy to matter.

#![forbid(unsafe_code)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "Python gives arguments by value"
)]

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use rooflens::cli::Nsys;
use rooflens::compare::Pair;
use rooflens::compare::conditions::Subject;
use rooflens::document::{Cell, Lang, Quantity};
use rooflens::pipeline::{self, Exporter, Input, Repeats, Settings};
use rooflens::render::{self, Format, RenderOptions};
use rooflens::report::Kind;
use rooflens::session::view;
use rooflens::{Options, report};
use rooflens_parquet::{Frame, TablesError};
use rooflens_units::Ratio;
use serde::Serialize;

create_exception!(
    rooflens,
    Error,
    PyException,
    "An input that cannot be read, analyzed or compared. The message says what to do."
);

/// Files of one run and their tables.
#[pyclass(frozen)]
struct Capture(pipeline::Capture);

/// The report of a capture or of a comparison.
#[pyclass(frozen)]
struct Report(report::Report);

/// A table in memory.
#[pyclass(frozen)]
struct Table {
    frame: Frame,
    #[pyo3(get)]
    title: String,
    /// Column, its meaning, and its unit.
    #[pyo3(get)]
    about: Vec<(String, String, String)>,
}

/// Any error with its advice.
fn error(message: &impl ToString, hint: Option<&str>) -> PyErr {
    let message = message.to_string();
    Error::new_err(match hint {
        Some(hint) => format!("{message}\nhint: {hint}"),
        None => message,
    })
}

fn lang(code: &str) -> PyResult<Lang> {
    let lang = Lang::ALL.into_iter().find(|lang| lang.code() == code);
    lang.ok_or_else(|| {
        error(
            &format!("language {code:?}: expected \"en\" or \"zh\""),
            None,
        )
    })
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|failure| error(&failure, None))
}

fn table(frame: Result<Frame, TablesError>, title: &str) -> PyResult<Table> {
    let frame = frame.map_err(|failure| error(&failure, None))?;
    let title = title.to_owned();
    let about = Vec::new();
    Ok(Table {
        frame,
        title,
        about,
    })
}

/// Reads and analyzes files of one run.
#[pyfunction]
fn open(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    gpu: Option<String>,
    files: [Option<PathBuf>; 3],
    stages: Vec<String>,
    merge: bool,
    language: &str,
) -> PyResult<(Capture, Report)> {
    let lang = lang(language)?;
    let mut rules = Vec::new();
    for stage in &stages {
        let rule = pipeline::stage_rule(stage);
        rules.push(rule.map_err(|failure| error(&format!("stage {failure}"), None))?);
    }
    let [model, workload, notes] = files;
    py.allow_threads(|| {
        let nsys = Nsys::find();
        let input = Input {
            paths,
            model,
            workload,
            notes,
            stages: rules,
            merge,
            exporter: nsys.as_ref().map(|nsys| nsys as &dyn Exporter),
            ..Input::default()
        };
        let capture = input
            .open(&mut |_| ())
            .map_err(|failure| error(&failure, failure.hint()))?;
        let options = Options {
            gpu,
            ..Options::default()
        };
        let report = match capture.analyze(&options) {
            Ok(analysis) => {
                let mut report = analysis.report(lang);
                // Frames hold all rows, also those that only a CSV file has.
                let mut parts = analysis.ncu_metrics();
                if let Some(mut whole) = parts.next() {
                    whole.rows.extend(parts.flat_map(|part| part.rows));
                    report.datasets.push(whole);
                }
                report
            }
            Err(pipeline::AnalyzeError::Nothing(nothing)) => {
                return Err(error(&nothing, nothing.hint()));
            }
            Err(failure) => return Err(error(&failure, None)),
        };
        Ok((Capture(capture), Report(report)))
    })
}

/// Compares captures before and after a change.
#[pyfunction]
fn compare(
    py: Python<'_>,
    before: Vec<Py<Capture>>,
    after: Vec<Py<Capture>>,
    least: f64,
    allow: Vec<String>,
    language: &str,
) -> PyResult<Report> {
    let lang = lang(language)?;
    let mut allowed = Vec::new();
    for word in &allow {
        let subject = Subject::ALL
            .into_iter()
            .find(|subject| subject.label() == word);
        let words = Subject::ALL.map(Subject::label).join(", ");
        let expected = || error(&format!("allow {word:?}: expected one of {words}"), None);
        allowed.push(subject.ok_or_else(expected)?);
    }
    py.allow_threads(|| {
        let repeats = |captures: &[Py<Capture>]| {
            let mut repeats = Repeats::default();
            for capture in captures {
                let added = repeats.add(&capture.get().0, lang);
                added.map_err(|failure| error(&failure, None))?;
            }
            Ok::<_, PyErr>(repeats)
        };
        let sides = Pair {
            before: repeats(&before)?,
            after: repeats(&after)?,
        };
        let settings = Settings {
            least: Ratio(least),
            allowed: &allowed,
            lang,
        };
        let report = pipeline::compare(sides, settings);
        report
            .map(Report)
            .map_err(|failure| error(&failure, Some("allow=[…] names conditions that may differ")))
    })
}

/// Runs the command of these words; `program` starts this program again.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>, program: Vec<OsString>) -> u8 {
    py.allow_threads(|| rooflens::cli::command(words, &program))
}

#[pymethods]
impl Capture {
    /// Names of the tables that have rows.
    fn tables(&self) -> Vec<&'static str> {
        let tables = self.0.session.tables();
        let filled = tables.into_iter().filter(|table| table.rows() > 0);
        filled.map(|table| table.name()).collect()
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let session = &self.0.session;
        py.allow_threads(|| {
            let mut tables = session.tables().into_iter();
            let found = tables.find(|table| table.name() == name);
            let found = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
            let mut result = table(Frame::of_table(session, found), found.doc())?;
            for column in view::columns(found) {
                let unit = column.unit().to_owned();
                result.about.push((column.name, column.doc, unit));
            }
            Ok(result)
        })
    }
}

#[pymethods]
impl Report {
    /// Title, bundle and facts of the cover.
    fn meta(&self) -> PyResult<String> {
        json(&self.0.meta)
    }

    /// The metrics, as in `metrics.json`.
    fn metrics(&self) -> PyResult<String> {
        json(&self.0.metrics)
    }

    /// What the input lacks or got wrong.
    fn data_quality(&self) -> PyResult<String> {
        json(&self.0.data_quality)
    }

    /// Names of the data sets.
    fn tables(&self) -> Vec<&'static str> {
        self.0.datasets.iter().map(|dataset| dataset.id).collect()
    }

    /// Rows of a data set by column, for those that need no other library.
    fn rows<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut rows = Vec::new();
        let Some(dataset) = self.0.dataset(name) else {
            return Ok(rows);
        };
        for cells in &dataset.rows {
            let row = PyDict::new(py);
            for (column, cell) in dataset.columns.iter().zip(cells) {
                match cell {
                    Cell::Missing => row.set_item(column.id, py.None())?,
                    Cell::Int(value) => row.set_item(column.id, value)?,
                    Cell::Float(value) => row.set_item(column.id, value)?,
                    Cell::Quantity(quantity) => row.set_item(column.id, quantity.value)?,
                    Cell::Flag(holds) => row.set_item(column.id, holds)?,
                    Cell::Text(text) | Cell::Name(text) => {
                        row.set_item(column.id, text.as_str())?
                    }
                }
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let dataset = self.0.dataset(name);
        let dataset = dataset.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let frame = py.allow_threads(|| Frame::of_dataset(dataset));
        let mut result = table(frame, &dataset.title)?;
        for column in &dataset.columns {
            let unit = Quantity::new(0.0, column.unit).base().to_owned();
            let about = (column.id.to_owned(), column.title.to_owned(), unit);
            result.about.push(about);
        }
        Ok(result)
    }

    /// The document of a kind as one file.
    fn render(&self, py: Python<'_>, format: &str, kind: &str) -> PyResult<Vec<u8>> {
        let format = match format {
            "html" => Format::Html,
            "json" => Format::Json,
            "pdf" => Format::Pdf,
            _ => {
                return Err(error(
                    &format!("format {format:?}: expected html, json or pdf"),
                    None,
                ));
            }
        };
        let kinds = [Kind::Summary, Kind::Report, Kind::Appendix];
        let kind = kinds.into_iter().find(|known| known.name() == kind);
        let expected = || error(&"kind: expected summary, report or appendix", None);
        let kind = kind.ok_or_else(expected)?;
        py.allow_threads(|| {
            let rendered = render::render(&self.0, kind, format, &RenderOptions::default());
            let mut rendered = rendered.map_err(|failure| error(&failure, None))?;
            Ok(rendered.files.remove(&rendered.main).unwrap_or_default())
        })
    }
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.frame.rows()
    }

    fn columns(&self) -> Vec<&str> {
        self.frame.columns()
    }

    /// The columns by the PyCapsule interface of Arrow; a schema that is asked for is a wish, which is not met.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        PyCapsule::new(
            py,
            self.frame.stream(),
            Some(c"arrow_array_stream".to_owned()),
        )
    }
}

#[pymodule]
mod _rooflens {
    #[pymodule_export]
    use super::{Capture, Error, Report, Table, command, compare, open};
}
