//! A sample table: which of the three dialects it is, and its rows.

use rustc_hash::FxHashMap;

use super::Read;
use super::columns::{self, Field, Number};
use rooflens_model::{DeviceSample, StrId};

/// The program that wrote the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Our sampler: whole numbers in the model's units, UTC.
    Sampler,
    /// `nvidia-smi --query-gpu`: comma-separated, units in header and cells, local time.
    Query,
    /// `nvidia-smi dmon`: columns of blanks, local time.
    Dmon,
}

/// A table and where its columns are.
pub(super) struct Table<'a> {
    pub(super) dialect: Dialect,
    header: &'a str,
    columns: Vec<Option<Field>>,
    body: &'a str,
    /// Line of the header, counted from 1.
    header_line: u64,
}

impl<'a> Table<'a> {
    /// The table of a text whose first line that is not empty is its header.
    pub(super) fn find(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let skipped = text.len() - text.trim_start().len();
        let header_line = text[..skipped].matches('\n').count() as u64 + 1;
        let (header, body) = text[skipped..].split_once('\n')?;
        let header = header.trim_end();
        let with = |dialect, columns| Some(Self { dialect, header, columns, body, header_line });

        let cells = || header.split(',').map(|cell| cell.trim().trim_matches('"'));
        if cells().next() == Some("t_ns") {
            return with(Dialect::Sampler, cells().map(columns::sampler).collect());
        }
        if let Some(names) = header.strip_prefix('#') {
            let found: Vec<_> = names.split_whitespace().map(columns::dmon).collect();
            return if found.contains(&Some(Field::Index)) {
                with(Dialect::Dmon, found)
            } else {
                None
            };
        }
        let found: Vec<_> = cells().map(columns::query).collect();
        // Many logs have a timestamp; only nvidia-smi's have a dotted column of a GPU beside it.
        let of_gpu =
            |field: &Field| !matches!(field, Field::DateTime | Field::Index | Field::Identity);
        if found.iter().flatten().any(of_gpu) { with(Dialect::Query, found) } else { None }
    }

    /// Whether the rows have times.
    pub(super) fn has_time(&self) -> bool {
        let has = |field| self.column(field).is_some();
        has(Field::UtcNs) || has(Field::DateTime) || (has(Field::Date) && has(Field::Time))
    }

    /// Whether the rows say which GPU they are of.
    pub(super) fn names_device(&self) -> bool {
        self.column(Field::Index).is_some() || self.column(Field::Identity).is_some()
    }

    fn column(&self, field: Field) -> Option<usize> {
        self.columns.iter().position(|column| *column == Some(field))
    }

    /// All rows, up to `limit`. A last line without an end may be cut inside a number and is left out.
    pub(super) fn read(&self, artifact: StrId, limit: u64) -> Read {
        let mut read = Read {
            samples: Vec::new(),
            lost_rows: 0,
            first_lost: None,
            lost_cells: 0,
            cut: false,
            full: false,
        };
        let mut devices = FxHashMap::default();
        let mut lines = self.body.split('\n').peekable();
        let mut number = self.header_line;
        while let Some(line) = lines.next() {
            number += 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line == self.header {
                continue;
            }
            if lines.peek().is_none() && !read.samples.is_empty() {
                read.cut = true;
                break;
            }
            if read.samples.len() as u64 >= limit {
                read.full = true;
                break;
            }
            match self.row(line, artifact, &mut devices, &mut read.lost_cells) {
                Some(sample) => read.samples.push(sample),
                None => {
                    read.lost_rows += 1;
                    read.first_lost.get_or_insert(number);
                }
            }
        }
        read
    }

    /// One row; `None` without a time or with fewer cells than columns.
    fn row<'b>(
        &self,
        line: &'b str,
        artifact: StrId,
        devices: &mut FxHashMap<&'b str, u32>,
        lost_cells: &mut u64,
    ) -> Option<DeviceSample> {
        let cells: Vec<&'b str> = match self.dialect {
            Dialect::Dmon => line.split_whitespace().collect(),
            Dialect::Sampler | Dialect::Query => line.split(',').map(str::trim).collect(),
        };
        if cells.len() < self.columns.len() {
            return None;
        }
        let text = |field: Field| self.column(field).map(|index| cells[index]);
        let mut number = |field: Field| match self.number(field, text(field)?) {
            Number::Is(number) if number <= columns::most(field) => Some(number),
            Number::Absent => None,
            Number::Bad | Number::Is(_) => {
                *lost_cells += 1;
                None
            }
        };
        let small = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
        Some(DeviceSample {
            utc: self.time(&text)?,
            device: match (self.column(Field::Index), text(Field::Identity)) {
                (Some(_), _) => small(number(Field::Index))?,
                (None, Some(identity)) => {
                    let next = u32::try_from(devices.len()).ok()?;
                    *devices.entry(identity).or_insert(next)
                }
                (None, None) => 0,
            },
            power_mw: number(Field::Power),
            sm_mhz: small(number(Field::SmClock)),
            memory_mhz: small(number(Field::MemoryClock)),
            gpu_util: small(number(Field::GpuUtil)),
            memory_util: small(number(Field::MemoryUtil)),
            temperature: small(number(Field::Temperature)),
            memory_used: number(Field::MemoryUsed),
            throttle_reasons: number(Field::Reasons),
            artifact,
        })
    }

    fn number(&self, field: Field, cell: &str) -> Number {
        match self.dialect {
            Dialect::Sampler => columns::whole_number(cell),
            Dialect::Query | Dialect::Dmon => columns::smi_number(field, cell),
        }
    }

    fn time<'b>(&self, text: &impl Fn(Field) -> Option<&'b str>) -> Option<i64> {
        match self.dialect {
            Dialect::Sampler => text(Field::UtcNs)?.parse().ok().filter(|utc| *utc >= 0),
            Dialect::Query => columns::date_time(text(Field::DateTime)?),
            Dialect::Dmon => columns::dmon_time(text(Field::Date)?, text(Field::Time)?),
        }
    }
}
