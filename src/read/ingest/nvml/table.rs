//! A sample table: which of the dialects it is, and its rows.

use rustc_hash::FxHashMap;

use super::Read;
use super::columns::{self, Field, Number};
use rooflens_session::{DeviceSample, Ns, StrId};

/// The program that wrote the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Our sampler: whole numbers in the model's units, UTC.
    Sampler,
    /// `nvidia-smi --query-gpu`: comma-separated, units in header and cells, local time.
    Query,
    /// The same without a header: columns are taken by their units.
    Headerless,
    /// `nvidia-smi dmon`: columns of blanks, local time.
    Dmon,
    /// `nvidia-smi pmon`: the same, a row a process.
    Pmon,
}

/// A row of a table without times.
pub(super) struct State<'a> {
    /// All but its time.
    pub(super) sample: DeviceSample,
    pub(super) name: Option<&'a str>,
    pub(super) performance_state: Option<&'a str>,
    pub(super) memory_total: Option<u64>,
    pub(super) power_limit: Option<u64>,
    pub(super) sm_max: Option<u32>,
    pub(super) memory_max: Option<u32>,
}

/// A row of `pmon`.
pub(super) struct ProcessRow<'a> {
    pub(super) pid: i64,
    pub(super) command: &'a str,
    pub(super) device: u32,
    pub(super) gpu_util: Option<u32>,
    pub(super) memory_util: Option<u32>,
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
        let with = |dialect, columns| {
            Some(Self {
                dialect,
                header,
                columns,
                body,
                header_line,
            })
        };

        let cells = || header.split(',').map(|cell| cell.trim().trim_matches('"'));
        if cells().next() == Some("t_ns") {
            return with(Dialect::Sampler, cells().map(columns::sampler).collect());
        }
        if let Some(names) = header.strip_prefix('#') {
            let columns: Vec<_> = names.split_whitespace().map(columns::dmon).collect();
            let has = |field| columns.contains(&Some(field));
            return match has(Field::Index) {
                true if has(Field::Pid) => with(Dialect::Pmon, columns),
                true => with(Dialect::Dmon, columns),
                false => None,
            };
        }
        if let Some(columns) = headerless(header) {
            let (header_line, body) = (header_line.saturating_sub(1), &text[skipped..]);
            return Some(Self {
                dialect: Dialect::Headerless,
                header: "",
                columns,
                body,
                header_line,
            });
        }
        let columns: Vec<_> = cells().map(columns::query).collect();
        // Many logs have a timestamp; only nvidia-smi's also have a dotted column of a GPU.
        let of_gpu = |field: &Field| {
            use Field::{DateTime, Identity, Index, Name, State};
            !matches!(field, DateTime | Index | Identity | Name | State)
        };
        if columns.iter().flatten().any(of_gpu) {
            with(Dialect::Query, columns)
        } else {
            None
        }
    }

    /// True if the rows have times.
    pub(super) fn has_time(&self) -> bool {
        let has = |field| self.column(field).is_some();
        has(Field::UtcNs) || has(Field::DateTime) || (has(Field::Date) && has(Field::Time))
    }

    /// True if the rows say which GPU they are of.
    pub(super) fn names_device(&self) -> bool {
        self.column(Field::Index).is_some() || self.column(Field::Identity).is_some()
    }

    fn column(&self, field: Field) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| *column == Some(field))
    }

    /// Columns that are read, by number from 1, with the name that nvidia-smi gives them.
    pub(super) fn assumed(&self) -> String {
        let name = |field: &Field| match field {
            Field::GpuUtil => "utilization.gpu",
            Field::MemoryUtil => "utilization.memory",
            Field::MemoryUsed => "memory.used",
            Field::Power => "power.draw",
            Field::SmClock => "clocks.sm",
            _ => "timestamp",
        };
        let columns = self.columns.iter().enumerate();
        let columns = columns.filter_map(|(column, field)| {
            Some(format!("{} is {}", column + 1, name(field.as_ref()?)))
        });
        columns.collect::<Vec<_>>().join(", ")
    }

    /// All rows, up to `limit`. A last line without an end may be cut inside a number and is skipped.
    pub(super) fn read(&self, artifact: StrId, limit: u64) -> Read<'a> {
        let timed = self.has_time();
        let mut read = Read {
            samples: Vec::new(),
            states: Vec::new(),
            processes: Vec::new(),
            idle: 0,
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
            // A table of one state may be pasted without its end; a log ends each line.
            if lines.peek().is_none() && (timed || read.rows() > 0) {
                read.cut = true;
                break;
            }
            if read.rows() as u64 >= limit {
                read.full = true;
                break;
            }
            match self.row(line, artifact, &mut devices, &mut read.lost_cells) {
                Some(Row::State(state)) if timed => read.samples.push(state.sample),
                Some(Row::State(state)) => read.states.push(*state),
                Some(Row::Process(process)) => read.processes.push(process),
                Some(Row::Nothing) => read.idle += 1,
                None => {
                    read.lost_rows += 1;
                    read.first_lost.get_or_insert(number);
                }
            }
        }
        read
    }

    /// One row; `None` without a time in a table that has times, or with fewer cells than columns.
    fn row(
        &self,
        line: &'a str,
        artifact: StrId,
        devices: &mut FxHashMap<&'a str, u32>,
        lost_cells: &mut u64,
    ) -> Option<Row<'a>> {
        let cells: Vec<&'a str> = match self.dialect {
            Dialect::Dmon | Dialect::Pmon => line.split_whitespace().collect(),
            _ => line.split(',').map(str::trim).collect(),
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
        // A GPU without processes has a row of dashes.
        if text(Field::Pid).is_some_and(columns::is_absent) {
            return Some(Row::Nothing);
        }
        if self.dialect == Dialect::Pmon {
            return Some(Row::Process(ProcessRow {
                pid: text(Field::Pid)?.parse().ok()?,
                command: text(Field::Command).unwrap_or_default(),
                device: small(number(Field::Index))?,
                gpu_util: small(number(Field::GpuUtil)),
                memory_util: small(number(Field::MemoryUtil)),
            }));
        }
        let sample = DeviceSample {
            utc: if self.has_time() {
                self.time(&text)?
            } else {
                Ns::ZERO
            },
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
        };
        if self.has_time() {
            return Some(Row::State(Box::new(State::of(sample))));
        }
        Some(Row::State(Box::new(State {
            name: text(Field::Name).filter(|name| !columns::is_absent(name)),
            performance_state: text(Field::State).filter(|state| !columns::is_absent(state)),
            memory_total: number(Field::MemoryTotal),
            power_limit: number(Field::PowerLimit),
            sm_max: small(number(Field::SmClockMax)),
            memory_max: small(number(Field::MemoryClockMax)),
            ..State::of(sample)
        })))
    }

    fn number(&self, field: Field, cell: &str) -> Number {
        match self.dialect {
            Dialect::Sampler => columns::whole_number(cell),
            _ => columns::smi_number(field, cell),
        }
    }

    fn time<'b>(&self, text: &impl Fn(Field) -> Option<&'b str>) -> Option<Ns> {
        match self.dialect {
            Dialect::Sampler => {
                let utc = Ns(text(Field::UtcNs)?.parse().ok()?);
                (utc >= Ns::ZERO).then_some(utc)
            }
            Dialect::Query | Dialect::Headerless => columns::date_time(text(Field::DateTime)?),
            Dialect::Dmon | Dialect::Pmon => {
                columns::dmon_time(text(Field::Date)?, text(Field::Time)?)
            }
        }
    }
}

/// The result of a line.
enum Row<'a> {
    State(Box<State<'a>>),
    Process(ProcessRow<'a>),
    Nothing,
}

impl State<'_> {
    const fn of(sample: DeviceSample) -> Self {
        Self {
            sample,
            name: None,
            performance_state: None,
            memory_total: None,
            power_limit: None,
            sm_max: None,
            memory_max: None,
        }
    }
}

/// The columns of a log without a header, by the units of its first row: of each unit the first column, as in the
/// order of nvidia-smi's own examples. None if the row is no sample with a time, or has no unit but percent.
fn headerless(line: &str) -> Option<Vec<Option<Field>>> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    columns::date_time(cells.first()?)?;
    let mut units = vec![
        ("%", Field::GpuUtil),
        ("%", Field::MemoryUtil),
        ("MiB", Field::MemoryUsed),
        ("W", Field::Power),
        ("MHz", Field::SmClock),
    ];
    let mut field = |cell: &str| {
        let (value, unit) = cell.split_once(' ')?;
        value.parse::<f64>().ok()?;
        let position = units.iter().position(|(suffix, _)| *suffix == unit)?;
        Some(units.remove(position).1)
    };
    let fields: Vec<Option<Field>> = cells[1..].iter().map(|cell| field(cell)).collect();
    let by_unit = [Field::MemoryUsed, Field::Power, Field::SmClock];
    let is_log = fields.iter().flatten().any(|field| by_unit.contains(field));
    is_log.then(|| {
        std::iter::once(Some(Field::DateTime))
            .chain(fields)
            .collect()
    })
}
