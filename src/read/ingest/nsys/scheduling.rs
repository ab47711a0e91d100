//! The scheduler's events: when no CPU ran a thread.

use super::Import;
use super::local_keys::LocalKeys;
use crate::IngestError;
use crate::database::{Row, RowError, Want};
use rooflens_session::{MAX_DURATION, MAX_TIME, Ns, OffCpuTime, ThreadId};

use Want::{May, Need};

/// `ENUM_SAMPLING_THREAD_STATE`: a thread that ended. Its number may be given to another one.
const TERMINATED: i64 = 5;

/// The effect of an event on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    In,
    Out,
    End,
}

/// Events of one chunk; the thread is a number of the chunk.
#[derive(Default)]
struct Chunk {
    rows: Vec<(Ns, u32, Switch)>,
    threads: LocalKeys<i64>,
}

impl Import<'_> {
    /// Reads the events of threads that call CUDA, or of all if nothing does: no analysis asks about others, of which a
    /// table holds millions.
    pub(super) fn scheduling(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("start"),
            Need("isSchedIn"),
            // An event of no thread tells nothing.
            May(&["globalTid"]),
            // Since 2023.
            May(&["threadState"]),
        ];
        let (callers, is_any_thread) = (&self.callers, self.host_only);
        let read_event = |chunk: &mut Chunk, row: &Row<'_>| {
            let Some(thread) = row
                .maybe(2)?
                .filter(|thread| is_any_thread || callers.contains(thread))
            else {
                return Ok(());
            };
            let switch = match (row.int(1)?, row.maybe(3)?) {
                (0, Some(TERMINATED)) => Switch::End,
                (0, _) => Switch::Out,
                _ => Switch::In,
            };
            chunk
                .rows
                .push((time(row, 0)?, chunk.threads.number(thread), switch));
            Ok(())
        };
        let table = "SCHED_EVENTS";
        let (chunks, bad) = self.database.scan(table, &wants, read_event)?;
        self.report_bad_rows(table, &bad);
        let mut events: Vec<(ThreadId, Ns, Switch)> = Vec::new();
        for Chunk { rows, threads } in chunks {
            let threads = self.threads(&threads);
            let event = |(time, thread, switch): (Ns, u32, Switch)| {
                (threads[thread as usize], time, switch)
            };
            events.extend(rows.into_iter().map(event));
        }
        // Stable: events at one time stay in the order of the file.
        events.sort_by_key(|(thread, time, _)| (*thread, *time));
        self.add_off_cpu(&events);
        Ok(())
    }

    /// A time lasts from an event that takes a thread off to the next one of the thread, if that brings it back:
    /// where events were lost, nothing is known of what lies between.
    fn add_off_cpu(&mut self, events: &[(ThreadId, Ns, Switch)]) {
        let pass = self.pass;
        for pair in events.windows(2) {
            let &[(thread, start, Switch::Out), (same, end, Switch::In)] = pair else {
                continue;
            };
            if thread == same && end > start && end - start <= MAX_DURATION {
                self.session.off_cpu.push(OffCpuTime {
                    start,
                    end,
                    pass,
                    thread,
                });
            }
        }
    }
}

/// A time on the pass's clock.
pub(super) fn time(row: &Row<'_>, column: usize) -> Result<Ns, RowError> {
    let time = row.time(column)?;
    if (-MAX_TIME..=MAX_TIME).contains(&time) {
        Ok(time)
    } else {
        Err(format!("{} is no time of a capture", time.0))
    }
}
