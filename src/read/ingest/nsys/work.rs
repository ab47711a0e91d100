//! GPU work: kernels, copies, memsets, whole graphs.

use rooflens_exports::nsys::{
    COPY_COLUMNS, CopyRow, GRAPH_COLUMNS, GRAPHS, GraphRow, KERNEL_COLUMNS, KERNELS, KernelRow,
    MEMCPYS, MEMSETS, Work,
};
use rustc_hash::FxHashSet;

use super::Import;
use super::local_keys::LocalKeys;
use crate::database::{Row, RowError};
use crate::{IngestError, check_count};
use rooflens_session::{Copies, GpuId, GraphLaunches, KernelId, Launches, ProcessId};

/// Processes and devices of one chunk, by local number.
#[derive(Default)]
struct Keys {
    processes: LocalKeys<i64>,
    devices: LocalKeys<(i64, u32)>,
}

impl Keys {
    /// Process and GPU of a row, as local numbers.
    fn of(&mut self, work: &Work) -> (ProcessId, GpuId) {
        let process = self.processes.number(work.process);
        let device = self.devices.number((work.process, work.device));
        (ProcessId(process), GpuId(device))
    }
}

/// A chunk of a table of GPU work, with local numbers in place of the session's.
#[derive(Default)]
struct Chunk<T> {
    rows: T,
    keys: Keys,
    kernels: LocalKeys<(i64, i64)>,
}

impl Import<'_> {
    /// Reads all GPU work.
    pub(super) fn work(&mut self) -> Result<(), IngestError> {
        self.kernels()?;
        self.copies(MEMCPYS, CopyRow::memcpy)?;
        self.copies(MEMSETS, CopyRow::memset)?;
        self.graphs()
    }

    fn kernels(&mut self) -> Result<(), IngestError> {
        let pass = self.pass;
        let read_kernel = |chunk: &mut Chunk<Launches>, row: &Row<'_>| {
            let kernel = KernelRow::read(row)?;
            let number = chunk.kernels.number((kernel.name, kernel.short));
            let ids = chunk.keys.of(&kernel.work);
            chunk.rows.push(kernel.launch(pass, ids, KernelId(number)));
            Ok(())
        };
        let chunks = self.scan(KERNELS, &KERNEL_COLUMNS, read_kernel)?;
        few_processes(&chunks)?;
        self.session
            .launches
            .reserve(chunks.iter().map(|chunk| chunk.rows.len()).sum());
        for Chunk {
            mut rows,
            keys,
            kernels,
        } in chunks
        {
            self.globalize(&keys, &mut rows.process, &mut rows.gpu);
            let ids: Vec<KernelId> = kernels
                .keys
                .iter()
                .map(|(name, short)| self.kernel(*name, *short))
                .collect();
            for kernel in &mut rows.kernel {
                *kernel = ids[kernel.index()];
            }
            self.session.launches.append(rows);
        }
        Ok(())
    }

    fn kernel(&mut self, name: i64, short: i64) -> KernelId {
        let (name, short) = (self.names.text(name), self.names.text(short));
        self.session.kernel(&name, &short)
    }

    fn copies(
        &mut self,
        table: &str,
        read: impl Fn(&Row<'_>) -> Result<CopyRow, RowError> + Sync,
    ) -> Result<(), IngestError> {
        let pass = self.pass;
        let read_copy = |chunk: &mut Chunk<Copies>, row: &Row<'_>| {
            let copy = read(row)?;
            let ids = chunk.keys.of(&copy.work);
            chunk.rows.push(copy.copy(pass, ids));
            Ok(())
        };
        let chunks = self.scan(table, &COPY_COLUMNS, read_copy)?;
        few_processes(&chunks)?;
        for Chunk { mut rows, keys, .. } in chunks {
            self.globalize(&keys, &mut rows.process, &mut rows.gpu);
            self.session.copies.append(rows);
        }
        Ok(())
    }

    fn graphs(&mut self) -> Result<(), IngestError> {
        let pass = self.pass;
        let read_graph = |chunk: &mut Chunk<GraphLaunches>, row: &Row<'_>| {
            let graph = GraphRow::read(row)?;
            let ids = chunk.keys.of(&graph.work);
            chunk.rows.push(graph.launch(pass, ids));
            Ok(())
        };
        let chunks = self.scan(GRAPHS, &GRAPH_COLUMNS, read_graph)?;
        few_processes(&chunks)?;
        for Chunk { mut rows, keys, .. } in chunks {
            self.globalize(&keys, &mut rows.process, &mut rows.gpu);
            self.session.graph_launches.append(rows);
        }
        Ok(())
    }

    /// Replaces a chunk's local numbers by the session's ids.
    fn globalize(&mut self, keys: &Keys, processes: &mut [ProcessId], gpus: &mut [GpuId]) {
        let process_ids: Vec<ProcessId> = keys
            .processes
            .keys
            .iter()
            .map(|native| self.process(*native))
            .collect();
        let gpu_ids: Vec<GpuId> = keys
            .devices
            .keys
            .iter()
            .map(|(process, device)| self.gpu(*process, *device))
            .collect();
        for process in processes {
            *process = process_ids[process.index()];
        }
        for gpu in gpus {
            *gpu = gpu_ids[gpu.index()];
        }
    }
}

/// Refuses a table of work of more processes than a machine runs.
fn few_processes<T>(chunks: &[Chunk<T>]) -> Result<(), IngestError> {
    let keys = chunks.iter().flat_map(|chunk| &chunk.keys.processes.keys);
    check_count("processes", keys.collect::<FxHashSet<_>>().len())
}
