//! One CSV file for each data set: all rows, 15 digits, base units. Quoted as in RFC 4180; lines end
//! in LF, as in all outputs. With them the queries that prove findings, in one file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use ::csv::{ByteRecord, Error, Writer};

use super::{RenderError, Rendered, page::file_name, text::clean};
use rooflens_document::report::Report;
use rooflens_document::{Block, Cell, Dataset, Inline};

/// Writes every data set of `report`.
///
/// # Errors
/// Fails only if the writer does.
pub(super) fn render(report: &Report) -> Result<Rendered, RenderError> {
    let mut files = BTreeMap::new();
    for dataset in &report.datasets {
        files.insert(format!("{}.csv", file_name(dataset.id)), bytes(dataset)?);
    }
    let main = report
        .datasets
        .first()
        .map_or_else(String::new, |d| format!("{}.csv", file_name(d.id)));
    let queries = queries(report);
    if !queries.is_empty() {
        files.insert(EVIDENCE.to_owned(), queries.into_bytes());
    }
    Ok(Rendered { main, files })
}

/// File of the queries.
const EVIDENCE: &str = "evidence.sql";

/// The query of each finding on the nsys export, under its title and what it gives.
fn queries(report: &Report) -> String {
    let sections = report.sections.iter().chain(&report.appendix);
    let mut queries = String::new();
    for block in sections.flat_map(|section| &section.blocks) {
        let Block::Finding(finding) = block else {
            continue;
        };
        if let Some(query) = finding.query.as_ref().filter(|query| !query.sql.is_empty()) {
            let gives: String = query.gives.iter().map(Inline::plain).collect();
            let lines = [
                format!("-- {}", clean(&finding.title)),
                format!("-- {}", clean(&gives)),
            ];
            queries.push_str(&format!("{}\n{}\n\n", lines.join("\n"), query.sql.trim()));
        }
    }
    queries
}

/// Writes one data set; a row shorter than the header ends in empty cells.
///
/// # Errors
/// Fails only if the writer does.
pub fn bytes(dataset: &Dataset) -> Result<Vec<u8>, RenderError> {
    let mut bytes = Vec::new();
    let mut writer = Writer::from_writer(&mut bytes as &mut dyn Write);
    write_header(&mut writer, dataset)?;
    write_rows(&mut writer, dataset)?;
    finish(writer)?;
    Ok(bytes)
}

/// Writes the parts of one data set, one after the other under one header.
///
/// # Errors
/// Fails only if the writer does.
// Not generic: a generic function would compile with the program, which is not optimized.
pub fn write(
    parts: &mut dyn Iterator<Item = Dataset>,
    out: &mut dyn Write,
) -> Result<(), RenderError> {
    let mut writer = Writer::from_writer(out);
    for (number, part) in parts.enumerate() {
        if number == 0 {
            write_header(&mut writer, &part)?;
        }
        write_rows(&mut writer, &part)?;
    }
    finish(writer)
}

fn finish(mut writer: Writer<&mut dyn Write>) -> Result<(), RenderError> {
    writer
        .flush()
        .map_err(|error| RenderError::Csv(error.into()))
}

fn write_header(writer: &mut Writer<&mut dyn Write>, dataset: &Dataset) -> Result<(), Error> {
    writer.write_record(dataset.columns.iter().map(|column| column.id))
}

fn write_rows(writer: &mut Writer<&mut dyn Write>, dataset: &Dataset) -> Result<(), Error> {
    let (mut record, mut plain) = (ByteRecord::new(), String::new());
    for row in &dataset.rows {
        record.clear();
        for column in 0..dataset.columns.len() {
            plain.clear();
            match row.get(column) {
                Some(Cell::Text(text) | Cell::Name(text)) => {
                    record.push_field(text_cell(text).as_bytes());
                    continue;
                }
                Some(cell) => cell.write_plain(&mut plain),
                None => {}
            }
            record.push_field(plain.as_bytes());
        }
        writer.write_byte_record(&record)?;
    }
    Ok(())
}

/// A text as a cell of a CSV file: characters that drive a terminal or reorder text are replaced, and what a
/// spreadsheet would take for a formula begins with an apostrophe. Numbers stay numbers.
pub fn text_cell(text: &str) -> Cow<'_, str> {
    let text = clean(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.len() > 1;
    if is_formula && text.parse::<f64>().is_err() {
        format!("'{text}").into()
    } else {
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rooflens_document::Column;
    use rooflens_schemas::Unit;

    #[test]
    fn cells_are_quoted_by_rfc_4180_and_missing_ones_empty() {
        let columns = vec![
            Column::text("kernel", "Kernel"),
            Column::new("share", "Share", Unit::Ratio),
        ];
        let rows = vec![
            vec![Cell::Name("a,\"b\"".into()), Cell::Float(0.1 + 0.2)],
            vec![Cell::Name("d".into()), Cell::Missing],
        ];
        let dataset = Dataset {
            id: "kernels",
            title: String::new(),
            columns,
            rows,
        };
        let text = String::from_utf8(bytes(&dataset).unwrap()).unwrap();
        let expected = "kernel,share\n\"a,\"\"b\"\"\",0.3\nd,\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_is_no_formula_and_drives_no_terminal() {
        for (name, cell) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1+1", "'+1+1"),
            ("--batch 8", "'--batch 8"),
            ("-0.5", "-0.5"),
            ("-", "-"),
            ("void k<a=b>()", "void k<a=b>()"),
            ("a\u{1b}[2J\u{202e}b\nc", "a\u{fffd}[2J\u{fffd}b\u{fffd}c"),
        ] {
            assert_eq!(text_cell(name), cell);
        }
    }
}
