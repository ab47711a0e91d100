//! Answers of queries as text: aligned for people, CSV and JSON for programs.

use serde_json::Value as Json;

use crate::query::{Answer, Value};
use crate::render::csv::text_cell;
use crate::render::text::{clean, json as cleaned};

/// Longest text of a cell for people, in characters.
const WIDTH: usize = 120;

/// Digits of a number for people; more are noise of the arithmetic.
const DIGITS: usize = 12;

/// CSV with a header line; missing values are empty fields.
pub(super) fn csv(answer: &Answer) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |record: Vec<String>| {
        let written = writer.write_record(record);
        written.expect("memory takes every byte, and rows are of one length");
    };
    write(
        answer
            .columns
            .iter()
            .map(|name| text_cell(name).into_owned())
            .collect(),
    );
    for row in &answer.rows {
        write(row.iter().map(csv_cell).collect());
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("made of strings")
}

fn csv_cell(cell: &Option<Value>) -> String {
    match cell {
        Some(Value::Text(text)) => text_cell(text).into_owned(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// A list of objects, one a line, whose keys are in the order of the columns.
pub(super) fn json(answer: &Answer) -> String {
    let mut lines = Vec::new();
    for row in &answer.rows {
        let mut pairs = Vec::new();
        for (name, cell) in answer.columns.iter().zip(row) {
            pairs.push(format!("{}:{}", Json::from(name.as_str()), json_cell(cell)));
        }
        lines.push(cleaned(&format!("{{{}}}", pairs.join(","))).into_owned());
    }
    format!("[{}]\n", lines.join(",\n"))
}

fn json_cell(cell: &Option<Value>) -> Json {
    match cell {
        Some(Value::Bool(value)) => Json::from(*value),
        Some(Value::Int(value)) => Json::from(*value),
        Some(Value::Float(value)) => Json::from(*value),
        Some(Value::Text(text)) => Json::from(text.as_str()),
        None => Json::Null,
    }
}

/// Aligned columns for a terminal: numbers to the right, long texts cut in the middle, because the ends of kernel names
/// tell them apart. Control characters are replaced.
pub(super) fn text(answer: &Answer) -> String {
    let mut lines = vec![answer.columns.clone()];
    for row in &answer.rows {
        lines.push(row.iter().map(shown).collect());
    }
    let mut widths = vec![0; answer.columns.len()];
    for line in &mut lines {
        for (cell, width) in line.iter_mut().zip(&mut widths) {
            *cell = shortened(cell, WIDTH);
            *width = cell.chars().count().max(*width);
        }
    }
    let mut right = Vec::new();
    for column in 0..answer.columns.len() {
        right.push(answer.rows.iter().all(|row| is_number(&row[column])));
    }
    let mut text = String::new();
    for line in &lines {
        text.push_str(&aligned(line, &widths, &right));
    }
    text
}

/// Whether a cell may stand in a column of numbers.
fn is_number(cell: &Option<Value>) -> bool {
    cell.as_ref().is_none_or(|value| value.as_float().is_some())
}

fn shown(cell: &Option<Value>) -> String {
    match cell {
        Some(Value::Float(value)) => {
            let rounded = format!("{value:.*e}", DIGITS - 1);
            match rounded.parse::<f64>() {
                Ok(value) => value.to_string(),
                Err(_) => rounded,
            }
        }
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn shortened(text: &str, width: usize) -> String {
    let text = clean(text);
    let length = text.chars().count();
    if length <= width {
        return text.into_owned();
    }
    let (head, tail) = (width / 2, width.saturating_sub(width / 2 + 1));
    let start = text.chars().take(head);
    start
        .chain(['…'])
        .chain(text.chars().skip(length - tail))
        .collect()
}

fn aligned(line: &[String], widths: &[usize], right: &[bool]) -> String {
    let mut cells = Vec::new();
    for ((cell, width), is_right) in line.iter().zip(widths).zip(right) {
        cells.push(match is_right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
    }
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Answer {
        let row = |name: &str, n: Option<i64>, share: f64| {
            vec![
                Some(Value::Text(name.into())),
                n.map(Value::Int),
                Some(Value::Float(share)),
            ]
        };
        Answer {
            columns: ["name", "n", "share"].map(String::from).to_vec(),
            rows: vec![
                row("gemm, \"big\"", Some(10), 0.1 + 0.2),
                row("copy\u{1b}[2J", None, 0.25),
            ],
            cut: false,
        }
    }

    #[test]
    fn csv_quotes_and_leaves_missing_values_empty() {
        let expected =
            "name,n,share\n\"gemm, \"\"big\"\"\",10,0.30000000000000004\ncopy\u{fffd}[2J,,0.25\n";
        assert_eq!(csv(&sample()), expected);
    }

    #[test]
    fn json_is_a_list_of_objects_with_nulls() {
        let read: Json = serde_json::from_str(&json(&sample())).expect("JSON");
        assert_eq!(
            read[0],
            serde_json::json!({"name": "gemm, \"big\"", "n": 10, "share": 0.1 + 0.2})
        );
        assert_eq!(
            read[1],
            serde_json::json!({"name": "copy\u{1b}[2J", "n": null, "share": 0.25})
        );
        assert!(!json(&sample()).contains('\u{1b}'));
    }

    #[test]
    fn text_aligns_and_shows_no_control_characters() {
        let expected =
            "name          n  share\ngemm, \"big\"  10    0.3\ncopy\u{fffd}[2J          0.25\n";
        assert_eq!(text(&sample()), expected);
    }

    #[test]
    fn long_cells_keep_both_ends() {
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        assert_eq!(shortened("abcdefghij", 10), "abcdefghij");
        assert_eq!(shortened("abcdefghij", 1), "…");
        assert_eq!(shortened("äöüß", 3), "ä…ß");
    }
}
