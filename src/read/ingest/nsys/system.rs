//! Calls of the operating system's libraries, and what nsys says of its own overhead.

use rooflens_exports::nsys::pid_of;
use rustc_hash::FxHashSet;

use super::Import;
use super::local_keys::LocalKeys;
use crate::IngestError;
use crate::database::{Row, Want};
use rooflens_session::{Ns, OsCall, Overhead, StrId, ThreadId};

use Want::{May, Need};

/// Rows of one chunk; thread and name are numbers of the chunk.
#[derive(Default)]
struct Chunk {
    rows: Vec<(Ns, Ns, u32, u32)>,
    threads: LocalKeys<i64>,
    names: LocalKeys<Option<i64>>,
}

impl Import<'_> {
    /// Reads both tables. Comes after CUDA calls and ranges, because reports cover
    /// only the processes that have some.
    pub(super) fn system(&mut self) -> Result<(), IngestError> {
        let pids: FxHashSet<i64> = self.known_pids().into_iter().collect();
        let pids = (!self.host_only).then_some(&pids);
        let pass = self.pass;
        self.host_spans("OSRT_API", pids, |import, (start, end, name, thread)| {
            import.session.os_calls.push(OsCall {
                start,
                end,
                name,
                pass,
                thread,
            });
        })?;
        self.host_spans(
            "PROFILER_OVERHEAD",
            pids,
            |import, (start, end, name, thread)| {
                let process = import.session.threads.process[thread.index()];
                import.session.overheads.push(Overhead {
                    start,
                    end,
                    name,
                    pass,
                    process,
                    thread,
                });
            },
        )
    }

    /// Adds the rows of a table with times, thread and name that belong to the processes `own`; all of them without.
    fn host_spans(
        &mut self,
        table: &str,
        pids: Option<&FxHashSet<i64>>,
        mut add: impl FnMut(&mut Self, (Ns, Ns, StrId, ThreadId)),
    ) -> Result<(), IngestError> {
        let wants = [
            Need("start"),
            Need("end"),
            May(&["globalTid"]),
            May(&["nameId"]),
        ];
        let read_span = |chunk: &mut Chunk, row: &Row<'_>| {
            let (start, end) = row.interval()?;
            let Some(thread) = row.maybe(2)? else {
                return Ok(());
            };
            if pids.is_none_or(|pids| pids.contains(&pid_of(thread))) {
                let name = chunk.names.number(row.maybe(3)?);
                chunk
                    .rows
                    .push((start, end, name, chunk.threads.number(thread)));
            }
            Ok(())
        };
        for Chunk {
            rows,
            threads,
            names,
        } in self.scan(table, &wants, read_span)?
        {
            let threads = self.threads(&threads);
            let text = |id: Option<i64>| id.map(|id| self.names.intern(id, self.session));
            let names: Vec<StrId> = names
                .keys
                .into_iter()
                .map(text)
                .map(Option::unwrap_or_default)
                .collect();
            for (start, end, name, thread) in rows {
                add(
                    self,
                    (start, end, names[name as usize], threads[thread as usize]),
                );
            }
        }
        Ok(())
    }
}
