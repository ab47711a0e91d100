//! GPU work: kernels, copies, memsets, whole graphs.

use rustc_hash::FxHashSet;

use super::Import;
use super::names::LocalKeys;
use crate::database::{Row, RowError, Want};
use crate::{IngestError, MAX_GPUS, check_count};
use rooflens_session::{
    Copies, Copy, CopyKind, Dim3, GpuId, GraphLaunch, GraphLaunches, KernelId, Launch, Launches,
    MemoryKind, PassId, ProcessId,
};

use Want::{May, Need};

/// Columns that all tables of GPU work begin with; read by [`Keys::of`].
const START: Want = Need("start");
const END: Want = Need("end");
const DEVICE: Want = Need("deviceId");
const STREAM: Want = Need("streamId");
const CORRELATION: Want = May(&["correlationId"]);
const PROCESS: Want = May(&["globalPid"]);

/// Processes and devices of one chunk, by local number.
#[derive(Default)]
struct Keys {
    processes: LocalKeys<i64>,
    devices: LocalKeys<(i64, i64)>,
}

impl Keys {
    /// Process and GPU of a row whose columns 2 and 5 are device and process, as local numbers.
    fn of(&mut self, row: &Row<'_>) -> Result<(ProcessId, GpuId), RowError> {
        let (device, process) = (row.int(2)?, row.maybe(5)?.unwrap_or(0));
        if !(0..MAX_GPUS as i64).contains(&device) {
            return Err(format!("deviceId is {device}"));
        }
        let process_number = self.processes.number(process);
        Ok((
            ProcessId(process_number),
            GpuId(self.devices.number((process, device))),
        ))
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
        self.memcpys()?;
        self.memsets()?;
        self.graphs()
    }

    fn kernels(&mut self) -> Result<(), IngestError> {
        let wants = [
            START,
            END,
            DEVICE,
            STREAM,
            CORRELATION,
            PROCESS,
            Need("demangledName"),
            May(&["shortName"]),
            May(&["registersPerThread"]),
            May(&["gridX"]),
            May(&["gridY"]),
            May(&["gridZ"]),
            May(&["blockX"]),
            May(&["blockY"]),
            May(&["blockZ"]),
            May(&["staticSharedMemory"]),
            May(&["dynamicSharedMemory"]),
            May(&["graphNodeId"]),
            May(&["graphId"]),
        ];
        let pass = self.pass;
        let read_kernel = |chunk: &mut Chunk<Launches>, row: &Row<'_>| kernel(chunk, row, pass);
        let table = "CUPTI_ACTIVITY_KIND_KERNEL";
        let (chunks, bad) = self.database.scan(table, &wants, read_kernel)?;
        self.report_bad_rows(table, &bad);
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

    fn memcpys(&mut self) -> Result<(), IngestError> {
        let wants = [
            START,
            END,
            DEVICE,
            STREAM,
            CORRELATION,
            PROCESS,
            May(&["graphNodeId"]),
            Need("bytes"),
            May(&["copyKind"]),
            May(&["srcKind"]),
            May(&["dstKind"]),
            May(&["graphId"]),
        ];
        let pass = self.pass;
        let read_copy = |chunk: &mut Chunk<Copies>, row: &Row<'_>| {
            let kind = copy_kind(row.maybe(8)?);
            copy(
                chunk,
                row,
                pass,
                kind,
                [row.maybe(9)?, row.maybe(10)?],
                graph_number(row, 11)?,
            )
        };
        self.copies("CUPTI_ACTIVITY_KIND_MEMCPY", &wants, read_copy)
    }

    fn memsets(&mut self) -> Result<(), IngestError> {
        let wants = [
            START,
            END,
            DEVICE,
            STREAM,
            CORRELATION,
            PROCESS,
            May(&["graphNodeId"]),
            Need("bytes"),
            May(&["memKind"]),
            May(&["graphId"]),
        ];
        let pass = self.pass;
        let read_memset = |chunk: &mut Chunk<Copies>, row: &Row<'_>| {
            copy(
                chunk,
                row,
                pass,
                CopyKind::Memset,
                [None, row.maybe(8)?],
                graph_number(row, 9)?,
            )
        };
        self.copies("CUPTI_ACTIVITY_KIND_MEMSET", &wants, read_memset)
    }

    fn copies(
        &mut self,
        table: &str,
        wants: &[Want],
        each: impl Fn(&mut Chunk<Copies>, &Row<'_>) -> Result<(), RowError> + Sync,
    ) -> Result<(), IngestError> {
        let (chunks, bad) = self.database.scan(table, wants, each)?;
        self.report_bad_rows(table, &bad);
        few_processes(&chunks)?;
        for Chunk { mut rows, keys, .. } in chunks {
            self.globalize(&keys, &mut rows.process, &mut rows.gpu);
            self.session.copies.append(rows);
        }
        Ok(())
    }

    fn graphs(&mut self) -> Result<(), IngestError> {
        let wants = [
            START,
            END,
            DEVICE,
            STREAM,
            CORRELATION,
            PROCESS,
            May(&["graphId"]),
        ];
        let pass = self.pass;
        let read_launch = |chunk: &mut Chunk<GraphLaunches>, row: &Row<'_>| {
            let (start, end) = row.interval()?;
            let (process, gpu) = chunk.keys.of(row)?;
            let (stream, correlation) = (row.int(3)? as u64, row.maybe(4)?);
            let graph = row.maybe(6)?.map(|graph| graph as u64);
            let launch = GraphLaunch {
                start,
                end,
                pass,
                gpu,
                process,
                stream,
                correlation,
                graph,
            };
            chunk.rows.push(launch);
            Ok(())
        };
        let table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
        let (chunks, bad) = self.database.scan(table, &wants, read_launch)?;
        self.report_bad_rows(table, &bad);
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

fn kernel(chunk: &mut Chunk<Launches>, row: &Row<'_>, pass: PassId) -> Result<(), RowError> {
    let (start, end) = row.interval()?;
    let name = row.int(6)?;
    let short = row.maybe(7)?.unwrap_or(name);
    let dim = |first: usize| -> Result<Dim3, RowError> {
        let extent = |index| {
            row.maybe_fit::<u32>(index)
                .map(|extent| extent.unwrap_or(0))
        };
        Ok(Dim3 {
            x: extent(first)?,
            y: extent(first + 1)?,
            z: extent(first + 2)?,
        })
    };
    let (grid, block) = (dim(9)?, dim(12)?);
    let registers = row.maybe_fit(8)?;
    let shared = |index| row.maybe_fit::<u32>(index);
    let shared_bytes = match (shared(15)?, shared(16)?) {
        (None, None) => None,
        (fixed, dynamic) => Some(fixed.unwrap_or(0).saturating_add(dynamic.unwrap_or(0))),
    };
    let (process, gpu) = chunk.keys.of(row)?;
    chunk.rows.push(Launch {
        start,
        end,
        kernel: KernelId(chunk.kernels.number((name, short))),
        pass,
        gpu,
        process,
        stream: row.int(3)? as u64,
        correlation: row.maybe(4)?,
        grid,
        block,
        registers,
        shared_bytes,
        graph_node: graph_number(row, 17)?,
        graph: graph_number(row, 18)?,
    });
    Ok(())
}

fn copy(
    chunk: &mut Chunk<Copies>,
    row: &Row<'_>,
    pass: PassId,
    kind: CopyKind,
    [source, destination]: [Option<i64>; 2],
    graph: Option<u64>,
) -> Result<(), RowError> {
    let (start, end) = row.interval()?;
    let bytes = row.fit(7)?;
    let graph_node = graph_number(row, 6)?;
    let (process, gpu) = chunk.keys.of(row)?;
    chunk.rows.push(Copy {
        start,
        end,
        kind,
        bytes,
        source: memory_kind(source),
        destination: memory_kind(destination),
        pass,
        gpu,
        process,
        stream: row.int(3)? as u64,
        correlation: row.maybe(4)?,
        graph_node,
        graph,
    });
    Ok(())
}

/// A graph or a node of one. Some versions write 0 rather than `NULL` for work outside of graphs.
fn graph_number(row: &Row<'_>, index: usize) -> Result<Option<u64>, RowError> {
    Ok(row
        .maybe(index)?
        .filter(|number| *number != 0)
        .map(|number| number as u64))
}

/// `ENUM_CUDA_MEMCPY_OPER`; the numbers are those of CUPTI and the same in all versions.
const fn copy_kind(value: Option<i64>) -> CopyKind {
    match value {
        Some(1) => CopyKind::HostToDevice,
        Some(2) => CopyKind::DeviceToHost,
        Some(3..=7) => CopyKind::Array,
        Some(8 | 13) => CopyKind::DeviceToDevice,
        Some(9) => CopyKind::HostToHost,
        Some(10) => CopyKind::PeerToPeer,
        Some(11) => CopyKind::MigrateToDevice,
        Some(12) => CopyKind::MigrateToHost,
        _ => CopyKind::Unknown,
    }
}

/// `ENUM_CUDA_MEM_KIND`.
const fn memory_kind(value: Option<i64>) -> MemoryKind {
    match value {
        Some(0) => MemoryKind::Pageable,
        Some(1) => MemoryKind::Pinned,
        Some(2 | 5) => MemoryKind::Device,
        Some(3) => MemoryKind::Array,
        Some(4 | 6) => MemoryKind::Managed,
        _ => MemoryKind::Unknown,
    }
}
