//! Small exports: threads that open ranges and launch work, and the rows that nsys would write of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::faults::{Fault, faults};

/// Names of ranges: stages by name, steps of engines and of PyTorch, operators, and what no rule knows.
pub(super) const NAMES: [&str; 14] = [
    "prefill",
    "decode",
    "decode_step",
    "train_step",
    "forward",
    "backward",
    "Optimizer.step#Adam.step",
    "ProfilerStep#3",
    "execute_context_0(0)_generation_8(8)",
    "execute_context_2(900)_generation_0(0)",
    "aten::mm, op_id = 3, sizes = [[4, 8], [8, 2]]",
    "request 7",
    "request 8",
    "",
];

/// Names of kernels, two of which have one function.
const KERNELS: [(&str, &str); 6] = [
    ("void gemm<float>(float*)", "gemm"),
    ("void gemm<int>(int*)", "gemm"),
    ("_Z3addPfi", "add"),
    ("softmax\u{7f}\u{202e}\"é", "softmax"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(T)", "nccl"),
    ("copy", "copy"),
];

/// Bytes of a page.
const PAGE: usize = 4096;

/// First ids of strings of ranges and kernels, and one that the export does not explain.
const FIRST_NAME: i64 = 100;
const FIRST_KERNEL: i64 = 200;
const UNKNOWN: i64 = 999;

/// Tables with their columns.
pub(super) const TABLES: [(&str, &[&str]); 12] = [
    ("StringIds", &["id", "value"]),
    (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        &[
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "demangledName",
            "shortName",
            "mangledName",
            "registersPerThread",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "graphNodeId",
            "graphId",
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        &[
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "copyKind",
            "srcKind",
            "dstKind",
            "graphNodeId",
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMSET",
        &[
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "bytes",
            "memKind",
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        &[
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
            "graphId",
        ],
    ),
    (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        &[
            "start",
            "end",
            "eventClass",
            "globalTid",
            "correlationId",
            "nameId",
        ],
    ),
    (
        "NVTX_EVENTS",
        &[
            "start",
            "end",
            "eventType",
            "text",
            "globalTid",
            "textId",
            "domainId",
        ],
    ),
    // Those that the analyzer alone reads.
    (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        &[
            "start",
            "end",
            "syncType",
            "globalPid",
            "streamId",
            "correlationId",
        ],
    ),
    (
        "CUDA_GRAPH_NODE_EVENTS",
        &["start", "globalTid", "graphNodeId", "originalGraphNodeId"],
    ),
    ("TARGET_INFO_CUDA_DEVICE", &["gpuId", "cudaId", "pid"]),
    ("OSRT_API", &["start", "end", "globalTid", "nameId"]),
    ("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"]),
];

/// How an event names itself.
#[derive(Clone, Copy, Debug)]
enum Name {
    Text(usize),
    Id(usize),
    Unknown,
    Absent,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Opens a range in a domain.
    Push(Name, Option<i64>),
    /// Closes the last one.
    Pop,
    /// A range with a start and an end of its own, that lasts so long.
    Start(Name, i64),
    Launch {
        kernel: usize,
        device: i64,
        stream: i64,
        duration: i64,
        grid: i64,
        /// The runtime calls the driver under the same correlation id.
        has_driver_call: bool,
    },
    Copy(i64),
    Memset(i64),
    Graph(i64),
}

/// A thread that repeats its steps.
#[derive(Clone, Debug)]
struct Thread {
    process: i64,
    number: i64,
    start: i64,
    steps: Vec<Step>,
    repeats: usize,
    /// Whether its last ranges are never closed.
    is_unclosed: bool,
}

/// A generated export.
#[derive(Clone, Debug)]
pub(super) struct Export {
    threads: Vec<Thread>,
    origin: i64,
    /// Places by which columns are rotated.
    rotation: usize,
    is_typed: bool,
    is_keyed: bool,
    is_reversed: bool,
    /// Whether it has the tables that the analyzer alone reads.
    has_more: bool,
    faults: Vec<Fault>,
    /// A byte of a page, from the second one on, that is another one.
    damage: Option<(usize, u8)>,
}

pub(super) fn export() -> impl Strategy<Value = Export> {
    let origin = select(vec![0, 0, 1_000, -1_000_000, 1_700_000_000_000_000_000]);
    let threads = proptest::collection::vec(thread(), 1..4);
    let form = (0..20_usize, any::<[bool; 4]>());
    let damage = proptest::option::weighted(0.2, (0..usize::MAX, 1..=255_u8));
    let faults = (faults(), damage);
    (threads, origin, form, faults).prop_map(|(threads, origin, (rotation, flags), faults)| {
        let (faults, damage) = faults;
        let [is_typed, is_keyed, is_reversed, has_more] = flags;
        Export {
            threads,
            origin,
            rotation,
            is_typed,
            is_keyed,
            is_reversed,
            has_more,
            faults,
            damage,
        }
    })
}

fn thread() -> impl Strategy<Value = Thread> {
    let steps = proptest::collection::vec(step(), 1..14);
    (
        0..2_i64,
        0..2_i64,
        0..300_i64,
        steps,
        1..6_usize,
        any::<bool>(),
    )
        .prop_map(
            |(process, number, start, steps, repeats, is_unclosed)| Thread {
                process,
                number,
                start,
                steps,
                repeats,
                is_unclosed,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    let launch = (
        0..KERNELS.len(),
        0..2_i64,
        7..9_i64,
        1..200_i64,
        1..4_i64,
        any::<bool>(),
    );
    let launch = launch.prop_map(
        |(kernel, device, stream, duration, grid, has_driver_call)| Step::Launch {
            kernel,
            device,
            stream,
            duration,
            grid,
            has_driver_call,
        },
    );
    let domain = proptest::option::weighted(0.3, 0..3_i64);
    prop_oneof![
        6 => launch,
        4 => (name(), domain).prop_map(|(name, domain)| Step::Push(name, domain)),
        3 => Just(Step::Pop),
        1 => (name(), 1..2_000_i64).prop_map(|(name, length)| Step::Start(name, length)),
        1 => (1..100_i64).prop_map(Step::Copy),
        1 => (1..100_i64).prop_map(Step::Memset),
        1 => (1..400_i64).prop_map(Step::Graph),
    ]
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        10 => (0..NAMES.len()).prop_map(Name::Text),
        10 => (0..NAMES.len()).prop_map(Name::Id),
        1 => Just(Name::Unknown),
        1 => Just(Name::Absent),
    ]
}

/// Cells of a row by column.
type Cells = BTreeMap<&'static str, Value>;

/// Rows by table.
#[derive(Default)]
struct Rows {
    tables: BTreeMap<&'static str, Vec<Cells>>,
    /// The last correlation id of each process, and when each stream is free.
    correlations: BTreeMap<i64, i64>,
    free: BTreeMap<(i64, i64, i64), i64>,
}

impl Rows {
    fn add<const N: usize>(&mut self, table: &'static str, cells: [(&'static str, Value); N]) {
        let cells = Cells::from(cells);
        self.tables.entry(table).or_default().push(cells);
    }

    /// Adds a call at a time. Gives its correlation id.
    fn call(&mut self, thread: &Thread, time: i64, has_driver_call: bool) -> i64 {
        let correlation = self.correlations.entry(thread.process).or_default();
        *correlation += 1;
        let correlation = *correlation;
        let call = |start: i64, end: i64, class: i64| {
            [
                ("start", start.into()),
                ("end", end.into()),
                ("eventClass", class.into()),
                ("globalTid", thread.id().into()),
                ("correlationId", correlation.into()),
                ("nameId", 1.into()),
            ]
        };
        if has_driver_call {
            self.add("CUPTI_ACTIVITY_KIND_RUNTIME", call(time + 1, time + 5, 1));
        }
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", call(time, time + 6, 0));
        correlation
    }

    /// The cells of work that a call at a time issues.
    fn work(
        &mut self,
        thread: &Thread,
        time: i64,
        (device, stream, duration): (i64, i64, i64),
        has_driver_call: bool,
    ) -> [(&'static str, Value); 6] {
        let correlation = self.call(thread, time, has_driver_call);
        let key = (thread.process, device, stream);
        let free = self.free.entry(key).or_insert(time);
        let start = (time + 8).max(*free);
        *free = start + duration;
        [
            ("start", start.into()),
            ("end", (start + duration).into()),
            ("deviceId", device.into()),
            ("streamId", stream.into()),
            ("correlationId", correlation.into()),
            ("globalPid", (thread.id() & !0xff_ffff).into()),
        ]
    }

    fn event(&mut self, thread: &Thread, (start, end): (i64, Option<i64>), kind: i64, name: Name) {
        let (text, id) = match name {
            Name::Text(name) => (Value::from(NAMES[name].to_owned()), Value::Null),
            Name::Id(name) => (Value::Null, (FIRST_NAME + name as i64).into()),
            Name::Unknown => (Value::Null, UNKNOWN.into()),
            Name::Absent => (Value::Null, Value::Null),
        };
        self.add(
            "NVTX_EVENTS",
            [
                ("start", start.into()),
                ("end", end.into()),
                ("eventType", kind.into()),
                ("text", text),
                ("globalTid", thread.id().into()),
                ("textId", id),
            ],
        );
    }

    fn set_domain(&mut self, domain: Option<i64>) {
        let events = self.tables.get_mut("NVTX_EVENTS");
        if let Some(last) = events.and_then(|events| events.last_mut()) {
            last.insert("domainId", domain.into());
        }
    }

    fn run(&mut self, thread: &Thread, origin: i64) {
        let mut time = origin + thread.start;
        let mut open: Vec<(i64, Name, Option<i64>)> = Vec::new();
        for step in std::iter::repeat_n(&thread.steps, thread.repeats).flatten() {
            time += 10;
            match *step {
                Step::Push(name, domain) => open.push((time, name, domain)),
                Step::Pop => {
                    if let Some((start, name, domain)) = open.pop() {
                        self.event(thread, (start, Some(time)), 59, name);
                        self.set_domain(domain);
                    }
                }
                Step::Start(name, length) => {
                    self.event(thread, (time, Some(time + length)), 60, name);
                }
                Step::Launch {
                    kernel,
                    device,
                    stream,
                    duration,
                    grid,
                    has_driver_call,
                } => {
                    let place = (device, stream, duration);
                    let work = self.work(thread, time, place, has_driver_call);
                    self.add("CUPTI_ACTIVITY_KIND_KERNEL", work);
                    self.set_kernel(kernel as i64, grid);
                }
                Step::Copy(duration) => {
                    self.copy("CUPTI_ACTIVITY_KIND_MEMCPY", thread, time, duration)
                }
                Step::Memset(duration) => {
                    self.copy("CUPTI_ACTIVITY_KIND_MEMSET", thread, time, duration);
                }
                Step::Graph(duration) => {
                    let work = self.work(thread, time, (0, 7, duration), false);
                    self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", work);
                }
            }
        }
        for (start, name, domain) in open.into_iter().rev() {
            time += 10;
            let end = (!thread.is_unclosed).then_some(time);
            self.event(thread, (start, end), 59, name);
            self.set_domain(domain);
        }
    }

    fn set_kernel(&mut self, kernel: i64, grid: i64) {
        let name = FIRST_KERNEL + 2 * kernel;
        let launches = self.tables.get_mut("CUPTI_ACTIVITY_KIND_KERNEL");
        let last = launches.and_then(|launches| launches.last_mut());
        last.expect("a launch").extend([
            ("demangledName", name.into()),
            ("shortName", (name + 1).into()),
            ("mangledName", (name + 1).into()),
            ("gridX", grid.into()),
            ("gridY", 1.into()),
            ("gridZ", 1.into()),
            ("blockX", 128.into()),
            ("graphNodeId", (grid - 1).into()),
        ]);
    }

    fn copy(&mut self, table: &'static str, thread: &Thread, time: i64, duration: i64) {
        let work = self.work(thread, time, (0, 7, duration), false);
        self.add(table, work);
        let rows = self.tables.get_mut(table).and_then(|rows| rows.last_mut());
        rows.expect("a copy").insert("bytes", 64.into());
    }

    /// Domains of both processes, strings, and the rows that the analyzer alone reads.
    fn add_facts(&mut self, has_more: bool) {
        for (domain, name) in [(1, Name::Text(11)), (2, Name::Absent)] {
            let thread = Thread {
                process: domain - 1,
                number: 0,
                start: 0,
                steps: Vec::new(),
                repeats: 0,
                is_unclosed: false,
            };
            self.event(&thread, (0, None), 75, name);
            self.set_domain(Some(domain));
        }
        let mut strings = vec![(1, "cudaLaunchKernel_v7000")];
        strings.extend((FIRST_NAME..).zip(NAMES));
        for (id, (name, short)) in (FIRST_KERNEL..).step_by(2).zip(KERNELS) {
            strings.extend([(id, name), (id + 1, short)]);
        }
        for (id, text) in strings {
            let text = text.to_owned().into();
            self.add("StringIds", [("id", id.into()), ("value", text)]);
        }
        if !has_more {
            return;
        }
        // Threads and processes in another order, and some that launch nothing.
        for (process, number) in [(2, 3), (1, 1), (1, 0), (0, 1)] {
            let thread = global(process, number);
            let node = [
                ("start", 5.into()),
                ("globalTid", thread.into()),
                ("graphNodeId", 1.into()),
            ];
            self.add("CUDA_GRAPH_NODE_EVENTS", node);
            let wait = [
                ("start", 5.into()),
                ("end", 9.into()),
                ("globalPid", thread.into()),
            ];
            self.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wait);
            let call = [
                ("start", 5.into()),
                ("end", 9.into()),
                ("globalTid", thread.into()),
                ("nameId", 1.into()),
            ];
            self.add("OSRT_API", call);
            let device = [
                ("gpuId", (1 - process).into()),
                ("cudaId", 0.into()),
                ("pid", (10 + process).into()),
            ];
            self.add("TARGET_INFO_CUDA_DEVICE", device);
        }
        let start = [("utcEpochNs", 7.into())];
        self.add("TARGET_INFO_SESSION_START_TIME", start);
    }
}

/// Changes a byte behind the first page, which holds the schema.
fn damage(path: &Path, place: usize, change: u8) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    // Most of a page is empty.
    let used: Vec<usize> = (PAGE..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    bytes[used[place % used.len()]] ^= change;
    fs::write(path, bytes)
}

/// The global id of a thread.
const fn global(process: i64, number: i64) -> i64 {
    0x0100_0000_0000_0000 | (10 + process) << 24 | (10 + process + number)
}

impl Thread {
    const fn id(&self) -> i64 {
        global(self.process, self.number)
    }
}

impl Export {
    /// Writes the export.
    pub(super) fn write(&self, path: &Path) -> rusqlite::Result<()> {
        let mut rows = Rows::default();
        for thread in &self.threads {
            rows.run(thread, self.origin);
        }
        rows.add_facts(self.has_more);
        let connection = Connection::open(path)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")?;
        for (table, columns) in TABLES {
            let mut rows = rows.tables.remove(table).unwrap_or_default();
            if rows.is_empty() {
                continue;
            }
            if self.is_reversed {
                rows.reverse();
            }
            self.write_table(&connection, (table, columns), rows)?;
        }
        for fault in &self.faults {
            fault.apply(&connection)?;
        }
        connection.execute_batch("COMMIT")?;
        drop(connection);
        if let Some((place, change)) = self.damage {
            damage(path, place, change).expect("writable");
        }
        Ok(())
    }

    fn write_table(
        &self,
        connection: &Connection,
        (table, columns): (&str, &[&str]),
        rows: Vec<Cells>,
    ) -> rusqlite::Result<()> {
        let mut columns = columns.to_vec();
        let rotation = self.rotation % columns.len();
        columns.rotate_left(rotation);
        let definition = |column: &&str| match *column {
            "id" if self.is_keyed => "id INTEGER NOT NULL PRIMARY KEY".to_owned(),
            "text" | "value" => format!("{column} TEXT"),
            column if self.is_typed => format!("{column} INTEGER"),
            column => column.to_owned(),
        };
        let definitions: Vec<String> = columns.iter().map(definition).collect();
        connection.execute_batch(&format!(
            "CREATE TABLE {table} ({})",
            definitions.join(", ")
        ))?;
        let places = vec!["?"; columns.len()].join(", ");
        let mut insert = connection.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
        for mut row in rows {
            let cells = columns
                .iter()
                .map(|column| row.remove(column).unwrap_or(Value::Null));
            insert.execute(params_from_iter(cells))?;
        }
        Ok(())
    }
}
