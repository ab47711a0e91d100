//! The rows of a report.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_document::report::Report;
use rooflens_document::{Cell, Dataset};
use rooflens_schemas::{Metric, MetricValue};

use super::LakeError;
use super::files::{Rows, write};
use super::schema::{Column, KEY, TABLES, Table, VERSION};

/// Contents by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Folder of the results below that of a report.
pub const FOLDER: &str = "results";

/// What the name of a pass has before the number of its rank.
const RANK: &str = " · rank ";

/// The results of a report, as `results/<table>.parquet`; tables without rows are missing.
///
/// # Errors
/// The report is not of one capture, or a cell has another type than its column.
pub fn results(report: &Report) -> Result<Files, LakeError> {
    let key = key(report)?;
    let mut files = Files::new();
    for table in TABLES {
        let mut rows = Rows::new(table);
        match table.name {
            "captures" => rows.push(&key, capture(report))?,
            "metrics" => {
                for metric in &report.metrics {
                    if let Some(cells) = cells_of(metric) {
                        rows.push(&key, cells)?;
                    }
                }
            }
            _ => {
                if let Some(dataset) = report.dataset(table.dataset) {
                    add(&mut rows, &key, table, dataset)?;
                }
            }
        }
        if !rows.is_empty() {
            let path = format!("{FOLDER}/{}.parquet", table.name);
            files.insert(path, write(rows)?);
        }
    }
    Ok(files)
}

/// Adds the rows of a data set. A column that it lacks is missing in all rows.
fn add(rows: &mut Rows, key: &[Cell], table: &Table, dataset: &Dataset) -> Result<(), LakeError> {
    let place = |column: &Column| dataset.position(column.name);
    let places: Vec<Option<usize>> = table.columns.iter().map(place).collect();
    let longest = longest_run(dataset);
    let mut seen = BTreeSet::new();
    for row in &dataset.rows {
        let mut cells = Vec::new();
        let run = text_of(dataset, row, "pass").map(|pass| run_of(&pass).to_owned());
        let is_counted = run == longest;
        for (column, place) in table.columns.iter().zip(&places) {
            cells.push(match place {
                Some(place) => row[*place].clone(),
                None if column.name == "counted" => Cell::Int(i64::from(is_counted)),
                None if column.name == "once" => {
                    let is_first = is_counted && seen.insert(text_of(dataset, row, "name"));
                    Cell::Int(i64::from(is_first))
                }
                None => Cell::Missing,
            });
        }
        rows.push(key, cells)?;
    }
    Ok(())
}

/// The run with the most time of its rows; the first by name of equals.
fn longest_run(dataset: &Dataset) -> Option<String> {
    let time = dataset.position("total_ns")?;
    let mut times = BTreeMap::<String, f64>::new();
    for row in &dataset.rows {
        if let Some(pass) = text_of(dataset, row, "pass") {
            let time = row[time].plain().parse().unwrap_or(0.0);
            *times.entry(run_of(&pass).to_owned()).or_default() += time;
        }
    }
    let mut longest: Option<(String, f64)> = None;
    for (run, time) in times {
        if longest.as_ref().is_none_or(|(_, most)| time > *most) {
            longest = Some((run, time));
        }
    }
    longest.map(|(run, _)| run)
}

/// The run of a pass: ranks are passes that ran at the same time, on GPUs of their own.
fn run_of(pass: &str) -> &str {
    match pass.rsplit_once(RANK) {
        Some((run, rank)) if rank.parse::<u32>().is_ok() => run,
        _ => pass,
    }
}

/// A cell as a text; none in a column that the data set lacks.
fn text_of(dataset: &Dataset, row: &[Cell], column: &str) -> Option<String> {
    let place = dataset.position(column)?;
    Some(row[place].plain())
}

/// The cells of [`KEY`].
fn key(report: &Report) -> Result<Vec<Cell>, LakeError> {
    let meta = &report.meta;
    if !is_hash(&meta.bundle_id) {
        return Err(LakeError::NoCapture);
    }
    let facts = report.dataset("environment").map(facts);
    let facts = facts.unwrap_or_default();
    let fact = |subject: &str, name: &str| {
        let mut found = facts.iter();
        let found = found.find(|[about, key, _]| about == subject && key == name);
        filled(found.map(|[_, _, value]| value.clone()))
    };
    let labels = facts.iter().filter(|[subject, ..]| subject == "label");
    let labels: Vec<String> = labels
        .map(|[_, key, value]| format!("{key}={value}"))
        .collect();
    let tests = report.dataset("serving_runs");
    let of_tests = |name: &str| tests.and_then(|dataset| first(dataset, name));
    let given = |value: &str, name: &str| {
        filled(
            Some(value.to_owned())
                .filter(|value| !value.is_empty())
                .or_else(|| of_tests(name)),
        )
    };
    let cell = |column: &Column| match column.name {
        "capture" => meta.bundle_id.clone().into(),
        "run" => meta.bundle.clone().into(),
        "time" => filled(meta.captured_at.clone()),
        "commit" => fact("git", "commit"),
        "gpu" => given(&meta.subject.gpu, "gpu"),
        "gpus" => Some(meta.subject.gpus).filter(|count| *count > 0).into(),
        "driver" => fact("driver", "version"),
        "model" => given(&meta.subject.model, "model"),
        "workload" => filled(Some(meta.subject.workload.clone())),
        "labels" => filled(Some(labels.join(","))),
        name => unreachable!("the key has no column {name}"),
    };
    Ok(KEY.iter().map(cell).collect())
}

/// A text, missing if it is empty.
fn filled(text: Option<String>) -> Cell {
    text.filter(|text| !text.is_empty()).into()
}

/// Whether a text is a SHA-256 in lower-case digits, which is safe as the name of a folder.
pub(crate) fn is_hash(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_digit)
}

/// Subject, key and value of each fact.
fn facts(environment: &Dataset) -> Vec<[String; 3]> {
    let places = ["subject", "key", "value"].map(|id| environment.position(id));
    let [Some(subject), Some(key), Some(value)] = places else {
        return Vec::new();
    };
    let row = |row: &Vec<Cell>| [subject, key, value].map(|place| row[place].plain());
    environment.rows.iter().map(row).collect()
}

/// The first filled cell of a column.
fn first(dataset: &Dataset, id: &str) -> Option<String> {
    let place = dataset.position(id)?;
    let mut texts = dataset.rows.iter().map(|row| row[place].plain());
    texts.find(|text| !text.is_empty())
}

fn capture(report: &Report) -> Vec<Cell> {
    let version = report.meta.generator.version.clone();
    vec![VERSION.into(), version.into()]
}

/// The cells of a metric; none if it is not available.
fn cells_of(metric: &Metric) -> Option<Vec<Cell>> {
    let value = match metric.value {
        MetricValue::Measured { value }
        | MetricValue::Derived { value }
        | MetricValue::Assumed { value } => value,
        MetricValue::Unavailable { .. } => return None,
    };
    let scope = &metric.scope;
    Some(vec![
        metric.id.clone().into(),
        scope.pass.clone().into(),
        scope.stage.clone().into(),
        scope.gpu.into(),
        scope.rank.into(),
        scope.class.clone().into(),
        value.into(),
        word(&metric.unit),
        word(&metric.polarity),
    ])
}

/// A value as JSON names it.
fn word(value: &impl serde::Serialize) -> Cell {
    let json = serde_json::to_value(value).ok();
    let word = json.as_ref().and_then(serde_json::Value::as_str);
    word.map(str::to_owned).into()
}
