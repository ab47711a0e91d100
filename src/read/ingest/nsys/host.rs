//! The host's side: CUDA calls, synchronizations, graph nodes.

use rooflens_exports::nsys::{CALL_COLUMNS, CALLS, CallRow};

use super::Import;
use super::local_keys::LocalKeys;
use crate::IngestError;
use crate::abi::without_abi_suffix;
use crate::database::{Row, RowError, Want};
use rooflens_session::mark_nested;
use rooflens_session::{
    ApiCall, ApiCalls, GraphCreation, GraphNode, Ns, ProcessId, StrId, Synchronization, ThreadId,
};

use Want::{May, Need};

#[derive(Default)]
struct Chunk {
    rows: ApiCalls,
    threads: LocalKeys<i64>,
    names: LocalKeys<i64>,
}

impl Import<'_> {
    /// Reads CUDA calls.
    pub(super) fn api_calls(&mut self) -> Result<(), IngestError> {
        let pass = self.pass;
        let read_call = |chunk: &mut Chunk, row: &Row<'_>| {
            let call = CallRow::read(row)?;
            chunk.rows.push(ApiCall {
                start: call.start,
                end: call.end,
                name: StrId(chunk.names.number(call.name)),
                level: call.level,
                nested: false,
                pass,
                process: ProcessId::default(),
                thread: ThreadId(chunk.threads.number(call.thread)),
                correlation: call.correlation,
            });
            Ok(())
        };
        let chunks = self.scan(CALLS, &CALL_COLUMNS, read_call)?;
        let first = self.session.api_calls.len();
        self.session
            .api_calls
            .reserve(chunks.iter().map(|chunk| chunk.rows.len()).sum());
        for Chunk {
            mut rows,
            threads,
            names,
        } in chunks
        {
            self.callers.extend(&threads.keys);
            let threads = self.threads(&threads);
            let names: Vec<StrId> = names.keys.iter().map(|id| self.api_name(*id)).collect();
            for row in 0..rows.len() {
                let thread = threads[rows.thread[row].index()];
                rows.thread[row] = thread;
                rows.process[row] = self.session.threads.process[thread.index()];
                rows.name[row] = names[rows.name[row].index()];
            }
            self.session.api_calls.append(rows);
        }
        mark_nested(&mut self.session.api_calls, first);
        Ok(())
    }

    fn api_name(&mut self, id: i64) -> StrId {
        let name = self.names.text(id);
        self.session.intern(without_abi_suffix(&name))
    }

    /// Reads waits.
    pub(super) fn synchronizations(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("start"),
            Need("end"),
            May(&["syncType"]),
            May(&["globalPid"]),
            May(&["streamId"]),
            May(&["correlationId"]),
        ];
        type Wait = (Ns, Ns, Option<i64>, i64, Option<i64>, Option<i64>);
        let read_wait = |out: &mut Vec<Wait>, row: &Row<'_>| {
            let (start, end) = row.interval()?;
            let (kind, process) = (row.maybe(2)?, row.maybe(3)?.unwrap_or(0));
            out.push((start, end, kind, process, row.maybe(4)?, row.maybe(5)?));
            Ok(())
        };
        let parts = self.scan("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &wants, read_wait)?;
        for (start, end, kind, process, stream, correlation) in parts.into_iter().flatten() {
            let (kind, process) = (self.session.intern(sync_kind(kind)), self.process(process));
            // CUPTI writes all ones where no stream is concerned.
            let stream = stream
                .and_then(|s| u64::try_from(s).ok())
                .filter(|s| *s < 0xffff_ffff);
            let pass = self.pass;
            let row = Synchronization {
                start,
                end,
                kind,
                pass,
                process,
                stream,
                correlation,
            };
            self.session.synchronizations.push(row);
        }
        Ok(())
    }

    /// Reads nodes of graphs as they were captured.
    pub(super) fn graph_nodes(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("start"),
            May(&["globalTid"]),
            Need("graphNodeId"),
            May(&["originalGraphNodeId"]),
        ];
        let read_node = |out: &mut Vec<Captured>, row: &Row<'_>| {
            out.push(captured(row)?);
            Ok(())
        };
        let parts = self.scan("CUDA_GRAPH_NODE_EVENTS", &wants, read_node)?;
        for (time, thread, node, original) in parts.into_iter().flatten() {
            let (pass, thread, node) = (self.pass, self.thread(thread), node as u64);
            let original = original.map(|node| node as u64);
            self.session.graph_nodes.push(GraphNode {
                time,
                pass,
                thread,
                node,
                original,
            });
        }
        Ok(())
    }

    /// Graphs as they were captured; a row with `graphExecId` tells of an instantiation and is no creation.
    pub(super) fn graph_creations(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("start"),
            May(&["globalTid"]),
            Need("graphId"),
            May(&["originalGraphId"]),
            May(&["graphExecId"]),
        ];
        let read_graph = |out: &mut Vec<Captured>, row: &Row<'_>| {
            if row.maybe(4)?.is_none() {
                out.push(captured(row)?);
            }
            Ok(())
        };
        let parts = self.scan("CUDA_GRAPH_EVENTS", &wants, read_graph)?;
        for (time, thread, graph, original) in parts.into_iter().flatten() {
            let (pass, thread, graph) = (self.pass, self.thread(thread), graph as u64);
            let original = original.map(|graph| graph as u64);
            let row = GraphCreation {
                time,
                pass,
                thread,
                graph,
                original,
            };
            self.session.graph_creations.push(row);
        }
        Ok(())
    }
}

/// A row about a graph or node as it was captured: time, thread, id, id of the original.
type Captured = (Ns, i64, i64, Option<i64>);

fn captured(row: &Row<'_>) -> Result<Captured, RowError> {
    let (time, thread) = (row.time(0)?, row.maybe(1)?.unwrap_or(0));
    Ok((time, thread, row.int(2)?, row.maybe(3)?))
}

/// `ENUM_CUPTI_SYNC_TYPE`.
const fn sync_kind(value: Option<i64>) -> &'static str {
    match value {
        Some(1) => "event synchronize",
        Some(2) => "stream wait event",
        Some(3) => "stream synchronize",
        Some(4) => "context synchronize",
        _ => "unknown",
    }
}
