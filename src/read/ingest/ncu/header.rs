//! The header row: which page it is and which column holds what, by name and never by position.

use csv::StringRecord;
use rustc_hash::FxHashMap;

use crate::{IngestError, IngestErrorKind};

/// Longest name of a column, and longest unit: each row looks at all of them. ncu's have some 100 bytes.
const MAX_NAME: usize = 4096;

/// The two layouts that name launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One row a launch, one column a metric; a row of units follows the header.
    Raw,
    /// One row a metric, with its section, unit and value; rules have rows of their own.
    Details,
}

/// The columns of a page.
#[derive(Debug)]
pub(super) struct Header {
    /// The layout of the page.
    pub(super) layout: Layout,
    /// Names of all columns.
    pub(super) names: Vec<String>,
    /// The first column of each name.
    positions: FxHashMap<String, usize>,
    /// Metric columns of a raw page.
    pub(super) metrics: Vec<usize>,
    /// First column that does not describe the launch.
    first_value: usize,
    /// NVTX push/pop column.
    pub(super) push_pop: Option<usize>,
    /// NVTX start/stop column.
    pub(super) start_stop: Option<usize>,
}

/// Columns that describe the launch; all others of a raw page are metrics.
const LAUNCH_COLUMNS: &[&str] = &[
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
];

/// True if a line begins like the header of a page with or without launches.
pub(super) fn looks_like_header(line: &str) -> bool {
    is_launch_header(line) || is_summary_header(line)
}

/// True if a line is the header of a page that names launches.
fn is_launch_header(line: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}');
    line.starts_with("\"ID\",\"Process ID\",\"Process Name\",")
        || line.starts_with("ID,Process ID,Process Name,")
}

/// True if a line is the header of `--print-summary`: it has no ID column.
pub(super) fn is_summary_header(line: &str) -> bool {
    line.starts_with("\"Process ID\",\"Process Name\",\"Host Name\",")
        && line.contains("\"Invocations\"")
}

/// Byte offset of the first header of a page that names launches.
pub(super) fn find(text: &str) -> Option<usize> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if is_launch_header(line) {
            return Some(offset + line.len() - line.trim_start_matches('\u{feff}').len());
        }
        offset += line.len();
    }
    None
}

impl Header {
    /// True if a row is a header.
    pub(super) fn begins(row: &StringRecord) -> bool {
        row.get(0) == Some("ID") && row.get(1) == Some("Process ID")
    }

    /// Reads a header row.
    pub(super) fn read(row: &StringRecord) -> Result<Self, IngestError> {
        short_cells(row)?;
        let names: Vec<String> = row.iter().map(str::to_owned).collect();
        let position = |name: &str| names.iter().position(|column| column == name);
        let containing = |part: &str| names.iter().position(|column| column.contains(part));
        let push_pop = containing(":Push/Pop_Range:");
        let start_stop = containing(":Start/Stop_Range:");
        let layout = match (position("Metric Name"), position("Metric Value")) {
            (None, None) => Layout::Raw,
            (Some(_), Some(_)) => Layout::Details,
            _ => return Err(missing_column("Metric Value")),
        };
        if position("Kernel Name").is_none() {
            return Err(missing_column("Kernel Name"));
        }
        let is_metric = |index: &usize| {
            let name = names[*index].as_str();
            !LAUNCH_COLUMNS.contains(&name)
                && Some(*index) != push_pop
                && Some(*index) != start_stop
                && !name.is_empty()
        };
        let metrics = match layout {
            Layout::Raw => (0..names.len()).filter(is_metric).collect(),
            Layout::Details => Vec::new(),
        };
        let first_value = (0..names.len()).find(is_metric).unwrap_or(names.len());
        // Of columns of one name the first counts.
        let positions = (0..names.len())
            .rev()
            .map(|column| (names[column].clone(), column))
            .collect();
        Ok(Self {
            layout,
            metrics,
            first_value,
            push_pop,
            start_stop,
            names,
            positions,
        })
    }

    /// The field of a column; empty if the row is too short or the page has no such column.
    pub(super) fn field<'a>(&self, row: &'a StringRecord, name: &str) -> &'a str {
        let position = self.positions.get(name);
        position
            .and_then(|index| row.get(*index))
            .unwrap_or_default()
            .trim()
    }

    /// True if this is the row of units: it names no launch.
    pub(super) fn is_units_row(&self, row: &StringRecord) -> bool {
        row.len() > 1
            && self.field(row, "ID").is_empty()
            && self.field(row, "Kernel Name").is_empty()
    }

    /// True if the row names a launch and goes on: program output between the rows does not,
    /// and a row that ends before may hold a name that was cut.
    pub(super) fn is_data_row(&self, row: &StringRecord) -> bool {
        row.len() > self.first_value
            && self.field(row, "ID").parse::<u32>().is_ok()
            && !self.field(row, "Kernel Name").is_empty()
    }
}

/// Refuses names of columns, or units, that are longer than any.
pub(super) fn short_cells(row: &StringRecord) -> Result<(), IngestError> {
    match row.iter().map(str::len).max() {
        Some(longest) if longest > MAX_NAME => Err(IngestErrorKind::Value {
            what: "the longest name or unit of a column".to_owned(),
            found: format!("of {longest} bytes"),
            expected: "one of at most 4096",
        }
        .into()),
        _ => Ok(()),
    }
}

fn missing_column(column: &str) -> IngestError {
    IngestErrorKind::MissingColumn {
        table: "the Nsight Compute page".to_owned(),
        column: column.to_owned(),
    }
    .into()
}
