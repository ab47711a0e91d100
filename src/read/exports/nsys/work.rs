//! GPU work: kernels, copies, memsets, whole graphs.

use rooflens_session::{
    Copy, CopyKind, Dim3, GpuId, GraphLaunch, KernelId, Launch, MemoryKind, Ns, PassId, ProcessId,
};

use crate::Want::{May, Need};
use crate::{MAX_GPUS, Row, RowError, Want};

/// Columns that all tables of GPU work begin with; decoded by [`Work::read`].
const START: Want = Need("start");
const END: Want = Need("end");
const DEVICE: Want = Need("deviceId");
const STREAM: Want = Need("streamId");
const CORRELATION: Want = May(&["correlationId"]);
const PROCESS: Want = May(&["globalPid"]);

/// The table of kernels.
pub const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

/// Its columns.
pub const KERNEL_COLUMNS: [Want; 19] = [
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

/// The table of copies.
pub const MEMCPYS: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";

/// The table of memsets.
pub const MEMSETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";

/// Columns of both.
pub const COPY_COLUMNS: [Want; 13] = [
    START,
    END,
    DEVICE,
    STREAM,
    CORRELATION,
    PROCESS,
    May(&["graphNodeId"]),
    May(&["graphId"]),
    Need("bytes"),
    May(&["copyKind"]),
    May(&["srcKind"]),
    May(&["dstKind"]),
    May(&["memKind"]),
];

/// The table of graphs that were traced as a whole.
pub const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

/// Its columns.
pub const GRAPH_COLUMNS: [Want; 7] = [
    START,
    END,
    DEVICE,
    STREAM,
    CORRELATION,
    PROCESS,
    May(&["graphId"]),
];

/// What all rows of GPU work have in common.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Start.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// CUDA ordinal of the GPU in its process.
    pub device: u32,
    /// CUDA stream.
    pub stream: u64,
    /// Joins with the API call of the same process.
    pub correlation: Option<i64>,
    /// Global id of the process; 0 where the export does not say.
    pub process: i64,
}

impl Work {
    #[inline]
    fn read(row: &Row<'_>) -> Result<Self, RowError> {
        let (start, end) = row.interval()?;
        let device = row.int(2)?;
        if !(0..MAX_GPUS as i64).contains(&device) {
            return Err(format!("deviceId is {device}"));
        }
        Ok(Self {
            start,
            end,
            device: device as u32,
            stream: row.int(3)? as u64,
            correlation: row.maybe(4)?,
            process: row.maybe(5)?.unwrap_or(0),
        })
    }
}

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelRow {
    /// When and where it ran.
    pub work: Work,
    /// Id of the demangled name.
    pub name: i64,
    /// Id of the name without arguments; that of the demangled name where there is none.
    pub short: i64,
    registers: Option<u32>,
    grid: Dim3,
    block: Dim3,
    shared_bytes: Option<u32>,
    graph_node: Option<u64>,
    graph: Option<u64>,
}

impl KernelRow {
    /// Decodes a row.
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn read(row: &Row<'_>) -> Result<Self, RowError> {
        let work = Work::read(row)?;
        let name = row.int(6)?;
        let shared = |index| row.maybe_fit::<u32>(index);
        let shared_bytes = match (shared(15)?, shared(16)?) {
            (None, None) => None,
            (fixed, dynamic) => Some(fixed.unwrap_or(0).saturating_add(dynamic.unwrap_or(0))),
        };
        Ok(Self {
            work,
            name,
            short: row.maybe(7)?.unwrap_or(name),
            registers: row.maybe_fit(8)?,
            grid: dimensions(row, 9)?,
            block: dimensions(row, 12)?,
            shared_bytes,
            graph_node: graph_number(row, 17)?,
            graph: graph_number(row, 18)?,
        })
    }

    /// The row of the session.
    #[inline]
    pub fn launch(
        self,
        pass: PassId,
        (process, gpu): (ProcessId, GpuId),
        kernel: KernelId,
    ) -> Launch {
        Launch {
            start: self.work.start,
            end: self.work.end,
            kernel,
            pass,
            gpu,
            process,
            stream: self.work.stream,
            correlation: self.work.correlation,
            grid: self.grid,
            block: self.block,
            registers: self.registers,
            shared_bytes: self.shared_bytes,
            graph_node: self.graph_node,
            graph: self.graph,
        }
    }
}

/// A copy or memset.
#[derive(Clone, Copy, Debug)]
pub struct CopyRow {
    /// When and where it ran.
    pub work: Work,
    kind: CopyKind,
    bytes: u64,
    source: MemoryKind,
    destination: MemoryKind,
    graph_node: Option<u64>,
    graph: Option<u64>,
}

impl CopyRow {
    /// Decodes a row of [`MEMCPYS`].
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn memcpy(row: &Row<'_>) -> Result<Self, RowError> {
        let kind = copy_kind(row.maybe(9)?);
        Self::read(row, kind, (row.maybe(10)?, row.maybe(11)?))
    }

    /// Decodes a row of [`MEMSETS`].
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn memset(row: &Row<'_>) -> Result<Self, RowError> {
        Self::read(row, CopyKind::Memset, (None, row.maybe(12)?))
    }

    #[inline]
    fn read(
        row: &Row<'_>,
        kind: CopyKind,
        (source, destination): (Option<i64>, Option<i64>),
    ) -> Result<Self, RowError> {
        Ok(Self {
            work: Work::read(row)?,
            kind,
            bytes: row.fit(8)?,
            source: memory_kind(source),
            destination: memory_kind(destination),
            graph_node: graph_number(row, 6)?,
            graph: graph_number(row, 7)?,
        })
    }

    /// The row of the session.
    #[inline]
    pub fn copy(self, pass: PassId, (process, gpu): (ProcessId, GpuId)) -> Copy {
        Copy {
            start: self.work.start,
            end: self.work.end,
            kind: self.kind,
            bytes: self.bytes,
            source: self.source,
            destination: self.destination,
            pass,
            gpu,
            process,
            stream: self.work.stream,
            correlation: self.work.correlation,
            graph_node: self.graph_node,
            graph: self.graph,
        }
    }
}

/// A graph that was traced as a whole.
#[derive(Clone, Copy, Debug)]
pub struct GraphRow {
    /// When and where it ran.
    pub work: Work,
    graph: Option<u64>,
}

impl GraphRow {
    /// Decodes a row.
    ///
    /// # Errors
    /// A value makes no sense.
    #[inline]
    pub fn read(row: &Row<'_>) -> Result<Self, RowError> {
        Ok(Self {
            work: Work::read(row)?,
            graph: row.maybe(6)?.map(|graph| graph as u64),
        })
    }

    /// The row of the session.
    #[inline]
    pub fn launch(self, pass: PassId, (process, gpu): (ProcessId, GpuId)) -> GraphLaunch {
        GraphLaunch {
            start: self.work.start,
            end: self.work.end,
            pass,
            gpu,
            process,
            stream: self.work.stream,
            correlation: self.work.correlation,
            graph: self.graph,
        }
    }
}

/// The extents in three columns; 0 where the export has none.
#[inline]
fn dimensions(row: &Row<'_>, first: usize) -> Result<Dim3, RowError> {
    let extent = |index| {
        let extent = row.maybe_fit::<u32>(index);
        extent.map(|extent| extent.unwrap_or(0))
    };
    Ok(Dim3 {
        x: extent(first)?,
        y: extent(first + 1)?,
        z: extent(first + 2)?,
    })
}

/// A graph or a node of one. Some versions write 0 rather than `NULL` for work outside of graphs.
#[inline]
fn graph_number(row: &Row<'_>, index: usize) -> Result<Option<u64>, RowError> {
    let number = row.maybe(index)?.filter(|number| *number != 0);
    Ok(number.map(|number| number as u64))
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
