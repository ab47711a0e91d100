//! Tables as text: which kind one is, by its header.

use csv::StringRecord;
use serde_json::{Map, Value};

use rooflens_units::Time;

use super::{Outcome, Parsed, READABLE, Refusal, aggregates, perf_csv, requests, server_log};

/// A table: its header, and rows that have as many cells.
pub(super) struct Table {
    /// Headings.
    pub(super) header: Vec<String>,
    /// Rows.
    pub(super) rows: Vec<StringRecord>,
    /// Rows with another number of cells.
    pub(super) lost: u64,
}

impl Table {
    /// The column of that heading.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|heading| heading == name)
    }

    /// A number of a row.
    pub(super) fn number(&self, row: &StringRecord, name: &str) -> Option<f64> {
        let cell = row.get(self.column(name)?)?.trim();
        cell.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// What a text table holds.
pub(super) fn parse(text: &str, unit: Option<Time>) -> Outcome {
    let first = text
        .lines()
        .find(|line| !line.trim_start().starts_with('#'))
        .unwrap_or_default();
    if first.starts_with("Metric,") || first.starts_with("Config Name,") {
        return perf_csv::read(text);
    }
    let count = |sign: char| first.matches(sign).count();
    let delimiter = [',', ';', '\t']
        .into_iter()
        .max_by_key(|sign| (count(*sign), *sign == ','));
    let Some(table) = delimiter
        .filter(|sign| count(*sign) > 0)
        .and_then(|sign| table(text, sign as u8))
    else {
        return Err(Refusal::new("it is neither JSON nor a table", READABLE));
    };
    if table.column("num_requests_running").is_some() {
        return server_log::read(&table);
    }
    if table.column("report.prefill.latency.mean").is_some() {
        let runs = table
            .rows
            .iter()
            .filter_map(|row| aggregates::optimum(&nested(&table.header, row)));
        return Ok(Parsed {
            runs: runs.collect(),
            lost: table.lost,
            ..Parsed::default()
        });
    }
    requests::of_table(&table, unit)
}

fn table(text: &str, delimiter: u8) -> Option<Table> {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader
        .delimiter(delimiter)
        .comment(Some(b'#'))
        .flexible(true)
        .trim(csv::Trim::All);
    let mut reader = reader.from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().ok()?.iter().map(str::to_owned).collect();
    let (mut rows, mut lost) = (Vec::new(), 0);
    for record in reader.records() {
        match record {
            Ok(record) if record.len() == header.len() => {
                rows.push(record);
            }
            _ => lost += 1,
        }
    }
    Some(Table { header, rows, lost })
}

/// A row whose headings are paths, as the object that was flattened.
fn nested(header: &[String], row: &StringRecord) -> Value {
    let mut root = Map::new();
    for (path, cell) in header.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
        let mut parts: Vec<&str> = path.split('.').collect();
        let Some(last) = parts.pop() else { continue };
        let mut object = Some(&mut root);
        for part in parts {
            let next =
                object.map(|map| map.entry(part).or_insert_with(|| Value::Object(Map::new())));
            object = next.and_then(Value::as_object_mut);
        }
        if let Some(map) = object {
            let number = cell.parse().ok().and_then(serde_json::Number::from_f64);
            map.insert(
                last.to_owned(),
                number.map_or_else(|| Value::String(cell.to_owned()), Value::Number),
            );
        }
    }
    Value::Object(root)
}
