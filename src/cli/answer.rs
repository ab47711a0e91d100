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
    let cell = |cell: &Option<Value>| match cell {
        Some(Value::Text(text)) => text_cell(text),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let texts = |row: &Vec<Option<Value>>| row.iter().map(cell).collect::<Vec<_>>();
    let heads: Vec<String> = answer.columns.iter().map(|name| text_cell(name)).collect();
    for line in std::iter::once(heads).chain(answer.rows.iter().map(texts)) {
        writer
            .write_record(line)
            .expect("memory takes every byte, and rows are of one length");
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("made of strings")
}

/// A list of objects, one a line, whose keys are in the order of the columns.
pub(super) fn json(answer: &Answer) -> String {
    let cell = |cell: &Option<Value>| match cell {
        Some(Value::Bool(value)) => Json::from(*value),
        Some(Value::Int(value)) => Json::from(*value),
        Some(Value::Float(value)) => Json::from(*value),
        Some(Value::Text(text)) => Json::from(text.as_str()),
        None => Json::Null,
    };
    let object = |row: &Vec<Option<Value>>| {
        let pair =
            |(name, value): (&String, _)| format!("{}:{}", Json::from(name.as_str()), cell(value));
        let pairs: Vec<String> = answer.columns.iter().zip(row).map(pair).collect();
        cleaned(&format!("{{{}}}", pairs.join(",")))
    };
    let lines: Vec<String> = answer.rows.iter().map(object).collect();
    format!("[{}]\n", lines.join(",\n"))
}

/// Aligned columns for a terminal: numbers to the right, long texts cut in the middle, because the ends of kernel names
/// tell them apart. Control characters are replaced.
pub(super) fn text(answer: &Answer) -> String {
    let cells: Vec<Vec<String>> = std::iter::once(answer.columns.clone())
        .chain(
            answer
                .rows
                .iter()
                .map(|row| row.iter().map(shown).collect()),
        )
        .map(|line: Vec<String>| line.iter().map(|cell| shortened(cell, WIDTH)).collect())
        .collect();
    let widest = |column: usize| {
        cells
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..answer.columns.len()).map(widest).collect();
    let is_number = |value: &Value| value.as_float().is_some();
    let is_numeric = |column: usize| {
        answer
            .rows
            .iter()
            .filter_map(|row| row[column].as_ref())
            .all(is_number)
    };
    let right: Vec<bool> = (0..answer.columns.len()).map(is_numeric).collect();
    cells
        .iter()
        .map(|line| aligned(line, &widths, &right))
        .collect()
}

fn shown(cell: &Option<Value>) -> String {
    match cell {
        Some(Value::Float(value)) => {
            let rounded = format!("{value:.*e}", DIGITS - 1);
            rounded
                .parse()
                .map_or(rounded, |value: f64| value.to_string())
        }
        Some(other) => other.to_string(),
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
    let cell = |(column, text): (usize, &String)| {
        let width = widths[column];
        if right[column] {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        }
    };
    let joined = line
        .iter()
        .enumerate()
        .map(cell)
        .collect::<Vec<_>>()
        .join("  ");
    format!("{}\n", joined.trim_end())
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
