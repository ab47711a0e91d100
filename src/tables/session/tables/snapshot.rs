//! What a GPU was doing when nvidia-smi was asked, and its MIG devices.

use crate::table::table;
use crate::{GpuSnapshotId, MigDeviceId, ProcessSampleId, StrId};

table! {
    /// States of GPUs at one moment, as `nvidia-smi -q -x` tells them.
    GpuSnapshots "gpu_snapshots" { row: GpuSnapshot, id: GpuSnapshotId,
        /// Path of the artifact.
        artifact: StrId,
        /// Local time of the query, as the file writes it.
        time: Option<StrId>,
        /// Device index: place in the file.
        device: u32,
        /// Product name.
        name: Option<StrId>,
        /// Driver version.
        driver: Option<StrId>,
        /// Newest CUDA version that the driver supports.
        cuda: Option<StrId>,
        /// Performance state, `P0` to `P15`.
        performance_state: Option<StrId>,
        /// SM clock in megahertz.
        sm_mhz: Option<u32>,
        /// Highest SM clock in megahertz.
        sm_max_mhz: Option<u32>,
        /// Memory clock in megahertz.
        memory_mhz: Option<u32>,
        /// Highest memory clock in megahertz.
        memory_max_mhz: Option<u32>,
        /// Board power in milliwatts.
        power_mw: Option<u64>,
        /// Power limit in force, in milliwatts.
        power_limit_mw: Option<u64>,
        /// Power limit of the product, in milliwatts.
        power_default_mw: Option<u64>,
        /// Temperature in degrees Celsius.
        temperature: Option<u32>,
        /// Temperature from which on clocks are lowered, in degrees Celsius.
        slowdown_temperature: Option<u32>,
        /// Device memory in use, bytes.
        memory_used: Option<u64>,
        /// Device memory, bytes.
        memory_total: Option<u64>,
        /// Share of the last sample period with a kernel resident, percent.
        gpu_util: Option<u32>,
        /// Share of the last sample period with memory being read or written, percent.
        memory_util: Option<u32>,
        /// Bit mask of clock-throttle (clock-event) reasons as NVML defines them.
        throttle_reasons: Option<u64>,
        /// Whether ECC is on.
        ecc: Option<bool>,
        /// Corrected ECC errors since the driver was loaded.
        ecc_corrected: Option<u64>,
        /// Uncorrectable ECC errors since the driver was loaded.
        ecc_uncorrectable: Option<u64>,
        /// Uncorrectable ECC errors over the life of the board.
        ecc_uncorrectable_total: Option<u64>,
        /// Whether a page retirement or row remapping waits for a reset of the GPU.
        repair_pending: Option<bool>,
        /// PCIe generation of the link.
        pcie_generation: Option<u32>,
        /// Highest PCIe generation of GPU and system.
        pcie_generation_max: Option<u32>,
        /// PCIe lanes of the link.
        pcie_width: Option<u32>,
        /// Most PCIe lanes.
        pcie_width_max: Option<u32>,
        /// Whether MIG is on.
        mig: Option<bool>,
        /// Processes that use the GPU.
        processes: Option<u32>,
    }
}

impl GpuSnapshot {
    /// A state of which nothing is known but the GPU.
    pub const fn of(artifact: StrId, device: u32) -> Self {
        Self {
            artifact,
            time: None,
            device,
            name: None,
            driver: None,
            cuda: None,
            performance_state: None,
            sm_mhz: None,
            sm_max_mhz: None,
            memory_mhz: None,
            memory_max_mhz: None,
            power_mw: None,
            power_limit_mw: None,
            power_default_mw: None,
            temperature: None,
            slowdown_temperature: None,
            memory_used: None,
            memory_total: None,
            gpu_util: None,
            memory_util: None,
            throttle_reasons: None,
            ecc: None,
            ecc_corrected: None,
            ecc_uncorrectable: None,
            ecc_uncorrectable_total: None,
            repair_pending: None,
            pcie_generation: None,
            pcie_generation_max: None,
            pcie_width: None,
            pcie_width_max: None,
            mig: None,
            processes: None,
        }
    }
}

table! {
    /// MIG devices of the GPUs in `gpu_snapshots`.
    MigDevices "mig_devices" { row: MigDevice, id: MigDeviceId,
        /// Path of the artifact.
        artifact: StrId,
        /// Device index of the GPU.
        device: u32,
        /// GPU instance.
        gpu_instance: Option<u32>,
        /// Compute instance.
        compute_instance: Option<u32>,
        /// Streaming multiprocessors.
        sm_count: Option<u32>,
        /// Device memory in use, bytes.
        memory_used: Option<u64>,
        /// Device memory, bytes.
        memory_total: Option<u64>,
    }
}

table! {
    /// Processes on GPUs, as `nvidia-smi pmon` lists them, in the order of the file.
    ProcessSamples "process_samples" { row: ProcessSample, id: ProcessSampleId,
        /// Path of the artifact.
        artifact: StrId,
        /// Device index.
        device: u32,
        /// Process number.
        pid: i64,
        /// Command.
        command: StrId,
        /// Share of the sample period with a kernel of the process resident, percent.
        gpu_util: Option<u32>,
        /// Share of the sample period in which the process read or wrote memory, percent.
        memory_util: Option<u32>,
    }
}
