//! The tables of an export.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use rooflens_sqlite_pages::Record;

use super::{Call, Kernel, Launch, Range, THREAD, Timeline, Work};
use crate::redact::{Database, Table};

/// Event types of `NVTX_EVENTS`, the same in all versions.
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN: i64 = 75;

/// A call's process and its number in it.
type Correlation = (i64, i64);

/// The open export.
struct Reader {
    database: Database,
    tables: Vec<Table>,
    strings: HashMap<i64, String>,
}

/// Columns of a table by name; those that a version does not have read as nothing.
struct Columns<'a>(&'a Table);

impl Columns<'_> {
    fn int(&self, row: &Record<'_>, name: &str) -> Option<i64> {
        row.value(self.0.column(name)?).int()
    }
}

pub(super) fn read(path: &Path) -> io::Result<Timeline> {
    let database = Database::open(path)?;
    let tables = database.schema()?.tables;
    let mut reader = Reader {
        database,
        tables,
        strings: HashMap::new(),
    };
    reader.strings = reader.strings()?;
    let mut timeline = Timeline::default();
    let mut issued = reader.kernels(&mut timeline)?;
    for table in ["MEMCPY", "MEMSET", "GRAPH_TRACE"] {
        issued.extend(reader.other_work(table, &mut timeline)?);
    }
    let calls = reader.calls(&issued)?;
    for (work, key) in timeline.work.iter_mut().zip(&issued) {
        work.call = key.and_then(|key| calls.get(&key).copied());
        if let Some(launch) = work.launch {
            timeline.launches[launch].call = work.call;
        }
    }
    timeline.ranges = reader.ranges()?;
    reader.rows("TARGET_INFO_SESSION_START_TIME", |columns, row| {
        timeline.origin = columns.int(row, "utcEpochNs").or(timeline.origin);
    })?;
    Ok(timeline)
}

impl Reader {
    fn rows(&self, table: &str, mut each: impl FnMut(&Columns<'_>, &Record<'_>)) -> io::Result<()> {
        let Some(table) = self.tables.iter().find(|one| one.name == table) else {
            return Ok(());
        };
        let columns = Columns(table);
        self.database.rows(table, |row| {
            each(&columns, row);
            Ok(())
        })
    }

    fn strings(&self) -> io::Result<HashMap<i64, String>> {
        let mut strings = HashMap::new();
        self.rows("StringIds", |columns, row| {
            let text = columns
                .0
                .column("value")
                .and_then(|column| row.value(column).text());
            if let Some(text) = text {
                // The column of an integer primary key is the row id, and empty in the record.
                strings.insert(columns.int(row, "id").unwrap_or(row.rowid), text.to_owned());
            }
        })?;
        Ok(strings)
    }

    fn string(&self, id: Option<i64>) -> Option<String> {
        id.and_then(|id| self.strings.get(&id).cloned())
    }

    /// Reads the kernels. Gives for each piece of work the call that issued it.
    fn kernels(&self, timeline: &mut Timeline) -> io::Result<Vec<Option<Correlation>>> {
        let mut numbers: HashMap<(Option<i64>, Option<i64>), usize> = HashMap::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut issued = Vec::new();
        self.rows("CUPTI_ACTIVITY_KIND_KERNEL", |columns, row| {
            let Some((start, end, key)) = times(columns, row) else {
                return;
            };
            let int = |name| columns.int(row, name);
            let ids = (int("demangledName"), int("shortName"));
            let kernel = *numbers.entry(ids).or_insert_with(|| {
                let name = self.string(ids.0).unwrap_or_default();
                let function = self.string(ids.1).filter(|short| !short.is_empty());
                let function = function.unwrap_or_else(|| function_of(&name));
                let mangled = self.string(int("mangledName"));
                *by_name.entry(name.clone()).or_insert_with(|| {
                    timeline.kernels.push(Kernel {
                        name,
                        function,
                        mangled,
                    });
                    timeline.kernels.len() - 1
                })
            });
            let launch = timeline.launches.len();
            timeline.launches.push(Launch {
                start,
                end,
                kernel,
                process: int("globalPid").unwrap_or(0) & !THREAD,
                grid: ["gridX", "gridY", "gridZ"].map(|name| int(name).unwrap_or(0)),
                block: [
                    int("blockX").unwrap_or(0),
                    int("blockY").unwrap_or(0),
                    int("blockZ").unwrap_or(0),
                    int("staticSharedMemory").unwrap_or(0)
                        + int("dynamicSharedMemory").unwrap_or(0),
                ],
                call: None,
            });
            timeline.work.push(Work {
                start,
                end,
                call: None,
                launch: Some(launch),
            });
            issued.push(key);
        })?;
        Ok(issued)
    }

    fn other_work(
        &self,
        kind: &str,
        timeline: &mut Timeline,
    ) -> io::Result<Vec<Option<Correlation>>> {
        let mut issued = Vec::new();
        self.rows(&format!("CUPTI_ACTIVITY_KIND_{kind}"), |columns, row| {
            if let Some((start, end, key)) = times(columns, row) {
                timeline.work.push(Work {
                    start,
                    end,
                    call: None,
                    launch: None,
                });
                issued.push(key);
            }
        })?;
        Ok(issued)
    }

    /// The calls that issued work; of several with one number the outermost.
    fn calls(&self, issued: &[Option<Correlation>]) -> io::Result<HashMap<Correlation, Call>> {
        let wanted: HashSet<Correlation> = issued.iter().flatten().copied().collect();
        let mut calls: HashMap<Correlation, Call> = HashMap::new();
        self.rows("CUPTI_ACTIVITY_KIND_RUNTIME", |columns, row| {
            let int = |name| columns.int(row, name);
            let (Some(start), Some(end), Some(thread), Some(correlation)) = (
                int("start"),
                int("end"),
                int("globalTid"),
                int("correlationId"),
            ) else {
                return;
            };
            let key = (thread & !THREAD, correlation);
            if wanted.contains(&key) {
                let call = calls.entry(key).or_insert(Call { start, end, thread });
                if start <= call.start && end >= call.end {
                    *call = Call { start, end, thread };
                }
            }
        })?;
        Ok(calls)
    }

    /// Ranges that were closed, in the order of the table.
    fn ranges(&self) -> io::Result<Vec<Range>> {
        let (mut ranges, mut domains) = (Vec::new(), HashMap::new());
        self.rows("NVTX_EVENTS", |columns, row| {
            let int = |name| columns.int(row, name);
            let text = columns
                .0
                .column("text")
                .and_then(|column| row.value(column).text());
            let text = text
                .map(str::to_owned)
                .or_else(|| self.string(int("textId")));
            let (thread, domain) = (int("globalTid").unwrap_or(0), int("domainId").unwrap_or(0));
            match (int("eventType"), int("start"), int("end")) {
                (Some(DOMAIN), ..) => {
                    domains.insert((thread & !THREAD, domain), text.unwrap_or_default());
                }
                (Some(kind @ (PUSH_POP | START_END)), Some(start), Some(end)) if end >= start => {
                    let (name, is_pushed) = (text.unwrap_or_default(), kind == PUSH_POP);
                    let range = Range {
                        name,
                        domain: String::new(),
                        start,
                        end,
                        thread,
                        is_pushed,
                    };
                    ranges.push((range, domain));
                }
                _ => {}
            }
        })?;
        let named = ranges.into_iter().map(|(range, domain)| {
            let name = domains.get(&(range.thread & !THREAD, domain)).cloned();
            Range {
                domain: name.unwrap_or_default(),
                ..range
            }
        });
        Ok(named.collect())
    }
}

/// Start, end, and the call that issued it.
fn times(columns: &Columns<'_>, row: &Record<'_>) -> Option<(i64, i64, Option<Correlation>)> {
    let (start, end) = (columns.int(row, "start")?, columns.int(row, "end")?);
    let process = columns.int(row, "globalPid").unwrap_or(0) & !THREAD;
    let correlation = columns.int(row, "correlationId");
    (end >= start).then(|| (start, end, correlation.map(|id| (process, id))))
}

/// The function of a name with its arguments.
fn function_of(name: &str) -> String {
    let head = name.split(['<', '(']).next().unwrap_or(name).trim();
    head.rsplit([' ', ':']).next().unwrap_or(head).to_owned()
}
