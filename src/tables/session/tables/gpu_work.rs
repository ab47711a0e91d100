//! Work on the GPU: kernels, copies, graphs.

use std::fmt;

use crate::table::{label_element, table};
use crate::{CopyId, GpuId, GraphLaunchId, KernelId, LaunchId, Ns, PassId, ProcessId, StrId};

/// Grid or block dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim3 {
    /// Extent in x.
    pub x: u32,
    /// Extent in y.
    pub y: u32,
    /// Extent in z.
    pub z: u32,
}

impl Dim3 {
    /// Number of blocks or threads.
    pub const fn volume(self) -> u64 {
        self.x as u64 * self.y as u64 * self.z as u64
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

/// What moves in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyKind {
    /// Host to device.
    HostToDevice,
    /// Device to host.
    DeviceToHost,
    /// Within one device.
    DeviceToDevice,
    /// Between devices.
    PeerToPeer,
    /// Host to host.
    HostToHost,
    /// Unified-memory migration to the device.
    MigrateToDevice,
    /// Unified-memory migration to the host.
    MigrateToHost,
    /// To, from or between CUDA arrays.
    Array,
    /// Fill with a value.
    Memset,
    /// Not stated.
    Unknown,
}

impl CopyKind {
    /// The words that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::HostToDevice => "memcpy HtoD",
            Self::DeviceToHost => "memcpy DtoH",
            Self::DeviceToDevice => "memcpy DtoD",
            Self::PeerToPeer => "memcpy PtoP",
            Self::HostToHost => "memcpy HtoH",
            Self::MigrateToDevice => "unified memory HtoD",
            Self::MigrateToHost => "unified memory DtoH",
            Self::Array => "memcpy array",
            Self::Memset => "memset",
            Self::Unknown => "memcpy",
        }
    }
}

label_element!(CopyKind);

/// Where host memory of a copy lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Not stated.
    #[default]
    Unknown,
    /// Pageable host memory.
    Pageable,
    /// Pinned host memory.
    Pinned,
    /// Device memory.
    Device,
    /// CUDA array.
    Array,
    /// Unified memory.
    Managed,
}

impl MemoryKind {
    /// The kind that tools over CUPTI call so: `Device Static`, or `device_static` in XLA.
    pub fn of_name(name: &str) -> Self {
        match name.trim() {
            "Pageable" | "pageable" => Self::Pageable,
            "Pinned" | "pinned" => Self::Pinned,
            "Device" | "Device Static" | "device" | "device_static" => Self::Device,
            "Array" | "array" => Self::Array,
            "Managed" | "Managed Static" | "managed" | "managed_static" => Self::Managed,
            _ => Self::Unknown,
        }
    }

    /// The word that reports print.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Pageable => "pageable",
            Self::Pinned => "pinned",
            Self::Device => "device",
            Self::Array => "array",
            Self::Managed => "managed",
        }
    }
}

label_element!(MemoryKind);

table! {
    /// Distinct GPU functions of the session.
    Kernels "kernels" { row: Kernel, id: KernelId,
        /// Demangled name with arguments; the identity of the kernel.
        name: StrId,
        /// Name without template arguments; empty if the artifact has none.
        short_name: StrId,
    }
}

table! {
    /// Executions of kernels on a GPU.
    Launches "launches" { row: Launch, id: LaunchId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Kernel.
        kernel: KernelId,
        /// Pass.
        pass: PassId,
        /// GPU.
        gpu: GpuId,
        /// Process that launched it.
        process: ProcessId,
        /// CUDA stream as the artifact numbers it.
        stream: u64,
        /// Joins with the API call of the same process.
        correlation: Option<i64>,
        /// Blocks in the grid.
        grid: Dim3,
        /// Threads in a block.
        block: Dim3,
        /// Registers per thread.
        registers: Option<u32>,
        /// Static and dynamic shared memory per block, bytes.
        shared_bytes: Option<u32>,
        /// Node of a CUDA graph that this execution replays.
        graph_node: Option<u64>,
        /// The graph, as the artifact numbers it; many artifacts give only the node.
        graph: Option<u64>,
    }
}

table! {
    /// Copies and memsets on a GPU.
    Copies "copies" { row: Copy, id: CopyId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Direction, or memset.
        kind: CopyKind,
        /// Bytes moved or set.
        bytes: u64,
        /// Memory copied from.
        source: MemoryKind,
        /// Memory copied to.
        destination: MemoryKind,
        /// Pass.
        pass: PassId,
        /// GPU.
        gpu: GpuId,
        /// Process that issued it.
        process: ProcessId,
        /// CUDA stream as the artifact numbers it.
        stream: u64,
        /// Joins with the API call of the same process.
        correlation: Option<i64>,
        /// Node of a CUDA graph that this execution replays.
        graph_node: Option<u64>,
        /// The graph, as the artifact numbers it; many artifacts give only the node.
        graph: Option<u64>,
    }
}

table! {
    /// Executions of whole CUDA graphs that were traced as one operation: their content is unknown.
    GraphLaunches "graph_launches" { row: GraphLaunch, id: GraphLaunchId,
        /// Start on the pass's clock, nanoseconds.
        start: Ns,
        /// End on the pass's clock, nanoseconds.
        end: Ns,
        /// Pass.
        pass: PassId,
        /// GPU.
        gpu: GpuId,
        /// Process that launched it.
        process: ProcessId,
        /// CUDA stream as the artifact numbers it.
        stream: u64,
        /// Joins with the API call of the same process.
        correlation: Option<i64>,
        /// Graph, as the artifact numbers it.
        graph: Option<u64>,
    }
}
