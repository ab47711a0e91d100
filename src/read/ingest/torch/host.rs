//! Processes and threads of a trace, and which process launched what.

use rustc_hash::FxHashMap;

use super::rows::{FileRows, GpuSpan, Key, Label};
use rooflens_session::{PassId, ProcessId, Session, StrId, ThreadId};

/// The calling process by correlation id.
struct Callers {
    /// The process, and whether others made a call of the same id.
    by_correlation: FxHashMap<i64, (ProcessId, bool)>,
}

/// The processes and threads of the pass, found by lane.
pub(super) struct Host {
    lanes: Vec<Option<(ProcessId, ThreadId)>>,
    callers: Callers,
    /// The process that made the most calls, operators and annotations.
    main: ProcessId,
}

/// What the joining of GPU work with calls came upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Joins {
    /// GPU operations whose call is not in the trace.
    pub(super) without_call: u64,
    /// GPU operations whose id several processes used.
    pub(super) ambiguous: u64,
    /// GPU operations that share their call with others before them.
    pub(super) shared: u64,
}

impl Host {
    /// Adds processes and threads of all host events, and names them.
    pub(super) fn commit(file: &FileRows, pass: PassId, session: &mut Session) -> Self {
        let mut events = vec![0_u64; file.lanes.len()];
        let rows = &file.rows;
        let spans = rows.annotations.iter().chain(&rows.frames);
        let spans = spans.chain(rows.calls.iter().map(|row| &row.span));
        for span in spans.chain(rows.operators.iter().map(|row| &row.span)) {
            events[span.lane as usize] += 1;
        }
        let mut of_process: FxHashMap<ProcessId, u64> = FxHashMap::default();
        let mut lanes = vec![None; file.lanes.len()];
        let mut main = None;
        for (lane, count) in events.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (process, thread) = add_lane(file, lane, pass, session);
            lanes[lane] = Some((process, thread));
            let total = of_process.entry(process).or_default();
            *total += count;
            // The first of equals stays.
            if main.is_none_or(|(most, _)| *total > most) {
                main = Some((*total, process));
            }
        }
        let main = main.map_or_else(|| gpu_only_process(file, pass, session), |(_, main)| main);
        let mut host = Self {
            lanes,
            callers: Callers {
                by_correlation: FxHashMap::default(),
            },
            main,
        };
        host.name(file, session);
        host.index_calls(file);
        host
    }

    /// The thread of a host event's lane.
    pub(super) fn thread(&self, lane: u32) -> Option<(ProcessId, ThreadId)> {
        self.lanes[lane as usize]
    }

    /// The process that launched an operation: that of its call, or else the main one.
    pub(super) fn launcher(&self, gpu: &GpuSpan, joins: &mut Joins) -> ProcessId {
        let call = gpu
            .correlation
            .and_then(|id| self.callers.by_correlation.get(&id));
        let Some((process, ambiguous)) = call else {
            joins.without_call += 1;
            return self.main;
        };
        joins.ambiguous += u64::from(*ambiguous);
        *process
    }

    /// The process of waits, which need no call.
    pub(super) fn waiter(&self, gpu: &GpuSpan) -> ProcessId {
        self.launcher(gpu, &mut Joins::default())
    }

    fn index_calls(&mut self, file: &FileRows) {
        for row in &file.rows.calls {
            let (Some(id), Some((process, _))) = (row.correlation, self.thread(row.span.lane))
            else {
                continue;
            };
            let (first, ambiguous) = self
                .callers
                .by_correlation
                .entry(id)
                .or_insert((process, false));
            *ambiguous |= *first != process;
        }
    }

    fn name(&self, file: &FileRows, session: &mut Session) {
        let lanes = file.lanes.iter().zip(&self.lanes);
        let processes: FxHashMap<Key, ProcessId> = lanes
            .filter_map(|(lane, ids)| Some((lane.0, (*ids)?.0)))
            .collect();
        for row in &file.rows.labels {
            let lane = row.lane as usize;
            let name = match row.label {
                Label::Process => processes
                    .get(&file.lanes[lane].0)
                    .map(|process| &mut session.processes.name[process.index()]),
                Label::Thread => {
                    self.lanes[lane].map(|(_, thread)| &mut session.threads.name[thread.index()])
                }
                Label::ProcessKind => None,
            };
            if let Some(name) = name {
                *name = session.strings.intern(file.text(row.text).trim());
            }
        }
    }
}

fn add_lane(
    file: &FileRows,
    lane: usize,
    pass: PassId,
    session: &mut Session,
) -> (ProcessId, ThreadId) {
    let (pid, tid) = file.lanes[lane];
    let process = session.process(pass, native(pid), number(pid));
    let thread = session.thread(process, native(tid));
    for (key, name) in [
        (pid, &mut session.processes.name[process.index()]),
        (tid, &mut session.threads.name[thread.index()]),
    ] {
        if let Key::Text(text) = key {
            *name = session.strings.intern(file.text(text));
        }
    }
    (process, thread)
}

/// Names instead of numbers get numbers that no operating system gives.
fn native(key: Key) -> i64 {
    match key {
        Key::Number(number) => number,
        Key::Text(text) => i64::MIN + i64::from(text),
    }
}

/// The number that the operating system gave; 0 where the trace has a name instead.
fn number(key: Key) -> i64 {
    match key {
        Key::Number(number) => number,
        Key::Text(_) => 0,
    }
}

/// The process of a trace of GPU work alone: the process labelled `CPU`, or else 0.
fn gpu_only_process(file: &FileRows, pass: PassId, session: &mut Session) -> ProcessId {
    let cpu = file.rows.labels.iter().find(|row| {
        row.label == Label::ProcessKind && file.text(row.text).eq_ignore_ascii_case("cpu")
    });
    let pid = cpu.map_or(Key::Number(0), |row| file.lanes[row.lane as usize].0);
    let process = session.process(pass, native(pid), number(pid));
    let name = file.rows.labels.iter().find(|row| {
        row.label == Label::Process && file.lanes[row.lane as usize].0 == pid && cpu.is_some()
    });
    session.processes.name[process.index()] = name.map_or(StrId::default(), |row| {
        session.strings.intern(file.text(row.text).trim())
    });
    process
}
