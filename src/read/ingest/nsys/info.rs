//! Metadata of the capture: versions, GPUs, processes, threads, its own messages.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_exports::nsys::{self, SESSION_START_COLUMNS, SESSION_STARTS, pid_of};
use rustc_hash::FxHashMap;

use super::Import;
use super::local_keys::LocalKeys;
use crate::IngestError;
use crate::database::{Row, Want};
use rooflens_diagnostic::Severity;
use rooflens_session::{GpuId, Ns, ProcessId, StrId, ThreadId};

use Want::{May, Need};

/// How CUDA ordinals of processes map to the capture's own GPU numbers.
#[derive(Default)]
pub(super) struct Devices {
    by_process: FxHashMap<(i64, i64), u32>,
}

/// A GPU as one of the two generations of tables describes it.
#[derive(Default)]
struct GpuInfo {
    ordinal: i64,
    name: String,
    sm_count: Option<u32>,
    capability: Option<u32>,
    memory_bytes: Option<u64>,
    bandwidth: Option<u64>,
    clock_hz: Option<u64>,
}

const MIB: u64 = 1 << 20;

/// Less memory bandwidth, bytes per second, and a lower clock, hertz, no GPU with CUDA has.
const LEAST_BANDWIDTH: u64 = 5_000_000_000;
const LEAST_CLOCK: u64 = 50_000_000;

/// A dimension of a GPU in base units; none of 0. Exports of 2020 and 2021 hold memory in MiB, rates in kilobytes per
/// second and clocks in kilohertz, some of them and without a version that tells: what is below `least` is such one.
fn in_base(value: u64, least: u64, scale: u64) -> Option<u64> {
    let value = if value < least {
        value.checked_mul(scale)?
    } else {
        value
    };
    (value > 0).then_some(value)
}

/// The CUDA ordinal of each GPU, from the GPU of each process and CUDA ordinal; nothing where that depends on the process.
fn cuda_ordinals(cuda_devices: &[((i64, i64), u32)]) -> BTreeMap<u32, Option<u32>> {
    let (mut of_gpu, mut of_ordinal) = (
        BTreeMap::<u32, BTreeSet<i64>>::new(),
        BTreeMap::<i64, BTreeSet<u32>>::new(),
    );
    for ((_, ordinal), gpu) in cuda_devices {
        of_gpu.entry(*gpu).or_default().insert(*ordinal);
        of_ordinal.entry(*ordinal).or_default().insert(*gpu);
    }
    let single = |ordinals: BTreeSet<i64>| {
        let ordinal = ordinals
            .first()
            .filter(|ordinal| ordinals.len() == 1 && of_ordinal[ordinal].len() == 1);
        ordinal.and_then(|ordinal| u32::try_from(*ordinal).ok())
    };
    of_gpu
        .into_iter()
        .map(|(gpu, ordinals)| (gpu, single(ordinals)))
        .collect()
}

impl Import<'_> {
    /// The session's id of a global process id (or of any global id of a thread of it).
    pub(super) fn process(&mut self, global: i64) -> ProcessId {
        nsys::process(self.session, self.pass, global)
    }

    /// The session's id of a global thread id.
    pub(super) fn thread(&mut self, global: i64) -> ThreadId {
        nsys::thread(self.session, self.pass, global)
    }

    /// The threads of a chunk by their numbers.
    pub(super) fn threads(&mut self, keys: &LocalKeys<i64>) -> Vec<ThreadId> {
        let mut threads = Vec::with_capacity(keys.keys.len());
        for global in &keys.keys {
            threads.push(self.thread(*global));
        }
        threads
    }

    /// The GPU that a process calls by this CUDA ordinal.
    pub(super) fn gpu(&mut self, process: i64, cuda_ordinal: u32) -> GpuId {
        let key = (pid_of(process), i64::from(cuda_ordinal));
        let ordinal = self.devices.by_process.get(&key).copied();
        self.session.gpu(self.pass, ordinal.unwrap_or(cuda_ordinal))
    }

    /// Versions of nsys and of the export.
    pub(super) fn versions(&mut self) -> Result<(), IngestError> {
        let wants = [Need("name"), Need("value")];
        let mut facts = Vec::new();
        for table in ["EXPORT_META_DATA", "META_DATA_EXPORT"] {
            let (parts, _) =
                self.database
                    .scan(table, &wants, |out: &mut Vec<(String, String)>, row| {
                        if let (Some(name), Some(value)) = (row.text(0), row.text(1)) {
                            out.push((name.to_owned(), value.to_owned()));
                        }
                        Ok(())
                    })?;
            facts.extend(parts.into_iter().flatten());
        }
        let find = |key: &str| {
            facts
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value)
        };
        let producer = match find("EXPORT_PRODUCT_VERSION") {
            Some(version) => format!("nsys {version}"),
            None => "nsys, exported before 2022".to_owned(),
        };
        let schema = find("EXPORT_SCHEMA_VERSION").cloned();
        self.session.passes.producer[self.pass.index()] = self.session.intern(&producer);
        let subject = self.file.pass.clone();
        self.session
            .add_fact(&self.file.path, &subject, "exported by", &producer);
        if let Some(schema) = schema {
            self.session
                .add_fact(&self.file.path, &subject, "export schema", &schema);
        }
        Ok(())
    }

    /// Adds the traced APIs as a fact where the export states them. Returns if CUDA is among them.
    pub(super) fn traced(&mut self) -> bool {
        let wants = [Need("name"), Need("value")];
        let kinds = self.database.scan(
            "META_DATA_CAPTURE",
            &wants,
            |out: &mut BTreeSet<String>, row| {
                if row.text(0) == Some("CAPTURE_EVENT_TYPE") {
                    out.extend(
                        row.text(1)
                            .map(|kind| kind.chars().take(64).collect::<String>()),
                    );
                }
                Ok(())
            },
        );
        // An export that does not tell has no such table, or another one.
        let Ok((parts, _)) = kinds else { return false };
        let kinds: BTreeSet<String> = parts.into_iter().flatten().take(32).collect();
        let cuda = kinds.contains("Cuda");
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        let subject = self.file.pass.clone();
        self.session
            .add_fact(&self.file.path, &subject, "traced", &kinds);
        cuda
    }

    /// Time zero of the capture in UTC.
    pub(super) fn session_start(&mut self) -> Result<(), IngestError> {
        let read_start = |out: &mut Option<Ns>, row: &Row<'_>| {
            *out = row.maybe_time(0)?.or(*out);
            Ok(())
        };
        let parts = self.scan(SESSION_STARTS, &SESSION_START_COLUMNS, read_start)?;
        self.session.passes.utc_origin[self.pass.index()] = parts.into_iter().flatten().next();
        Ok(())
    }

    /// GPUs as the capture describes them.
    pub(super) fn gpus(&mut self) -> Result<(), IngestError> {
        let wants = [
            May(&["id", "deviceId"]),
            May(&["name"]),
            May(&["smCount"]),
            May(&["computeMajor"]),
            May(&["computeMinor"]),
            May(&["totalMemory"]),
            May(&["memoryBandwidth"]),
            May(&["clockRate"]),
        ];
        let mut gpus = self.read_gpus("TARGET_INFO_GPU", &wants)?;
        let wants = [
            May(&["deviceId"]),
            May(&["name"]),
            May(&["numMultiprocessors"]),
            May(&["computeCapabilityMajor"]),
            May(&["computeCapabilityMinor"]),
            May(&["globalMemorySize"]),
            May(&["globalMemoryBandwidth"]),
            May(&["coreClockRate"]),
        ];
        // 2020 and 2021: the first table names the GPUs, the second describes them, in the same order.
        let details = self.read_gpus("TARGET_INFO_CUDA_GPU", &wants)?;
        if gpus.is_empty() {
            gpus = details;
        } else if gpus.len() == details.len() {
            for (gpu, mut detail) in gpus.iter_mut().zip(details) {
                detail.ordinal = gpu.ordinal;
                detail.name.clone_from(&gpu.name);
                *gpu = detail;
            }
        }
        // By ordinal, so that ids follow the numbers that people know.
        gpus.sort_by_key(|gpu| gpu.ordinal);
        for (position, gpu) in gpus.into_iter().enumerate() {
            self.add_gpu(position, &gpu);
        }
        Ok(())
    }

    fn read_gpus(&mut self, table: &str, wants: &[Want]) -> Result<Vec<GpuInfo>, IngestError> {
        let parts = self.scan(table, wants, |out: &mut Vec<GpuInfo>, row| {
            let capability = match (row.maybe_fit::<u32>(3)?, row.maybe_fit::<u32>(4)?) {
                (Some(major), Some(minor)) if (1..1000).contains(&major) && minor < 10 => {
                    Some(major * 10 + minor)
                }
                _ => None,
            };
            out.push(GpuInfo {
                ordinal: row.maybe(0)?.unwrap_or(-1),
                name: row.text(1).unwrap_or_default().trim().to_owned(),
                sm_count: row.maybe_fit(2)?.filter(|count| *count > 0),
                capability,
                memory_bytes: row.maybe_fit(5)?.and_then(|size| in_base(size, MIB, MIB)),
                bandwidth: row
                    .maybe_fit(6)?
                    .and_then(|rate| in_base(rate, LEAST_BANDWIDTH, 1000)),
                clock_hz: row
                    .maybe_fit(7)?
                    .and_then(|rate| in_base(rate, LEAST_CLOCK, 1000)),
            });
            Ok(())
        })?;
        Ok(parts.into_iter().flatten().collect())
    }

    fn add_gpu(&mut self, position: usize, info: &GpuInfo) {
        let ordinal = if info.ordinal >= 0 {
            info.ordinal
        } else {
            position as i64
        };
        let gpu = self
            .session
            .gpu(self.pass, ordinal.clamp(0, 0xffff) as u32)
            .index();
        let name = self.session.intern(&info.name);
        let gpus = &mut self.session.gpus;
        gpus.name[gpu] = name;
        gpus.sm_count[gpu] = info.sm_count;
        gpus.compute_capability[gpu] = info.capability;
        gpus.memory_bytes[gpu] = info.memory_bytes;
        gpus.memory_bandwidth[gpu] = info.bandwidth;
        gpus.clock_hz[gpu] = info.clock_hz;
    }

    /// The GPU of each CUDA ordinal of a process.
    pub(super) fn device_map(&mut self) -> Result<(), IngestError> {
        let wants = [Need("gpuId"), Need("cudaId"), Need("pid")];
        let read_device = |out: &mut Vec<((i64, i64), u32)>, row: &Row<'_>| {
            if let Some(gpu) = row.maybe_fit(0)? {
                out.push(((row.int(2)?, row.int(1)?), gpu));
            }
            Ok(())
        };
        let parts = self.scan("TARGET_INFO_CUDA_DEVICE", &wants, read_device)?;
        let cuda_devices: Vec<((i64, i64), u32)> = parts.into_iter().flatten().collect();
        for (gpu, ordinal) in cuda_ordinals(&cuda_devices) {
            let row = self.session.gpu(self.pass, gpu).index();
            self.session.gpus.cuda_ordinal[row] = ordinal;
        }
        self.devices.by_process = cuda_devices.into_iter().collect();
        Ok(())
    }

    /// Names of the processes that the tables before this one mention; the export names every process of the machine.
    pub(super) fn process_names(&mut self) -> Result<(), IngestError> {
        let wants = [Need("globalPid"), May(&["name"])];
        let (parts, _) =
            self.database
                .scan("PROCESSES", &wants, |out: &mut Vec<(i64, String)>, row| {
                    if let (Some(process), Some(name)) = (row.maybe(0)?, row.text(1)) {
                        out.push((process, name.to_owned()));
                    }
                    Ok(())
                })?;
        let pids = self.known_pids();
        for (global, name) in parts.into_iter().flatten() {
            if pids.contains(&pid_of(global)) {
                let process = self.process(global);
                self.session.processes.name[process.index()] = self.session.intern(&name);
            }
        }
        Ok(())
    }

    /// The same of threads.
    pub(super) fn thread_names(&mut self) -> Result<(), IngestError> {
        let wants = [Need("nameId"), Need("globalTid")];
        let (parts, _) = self
            .database
            .scan("ThreadNames", &wants, |out: &mut Vec<_>, row| {
                if let (Some(name), Some(thread)) = (row.maybe(0)?, row.maybe(1)?) {
                    out.push((name, thread));
                }
                Ok(())
            })?;
        let pids = self.known_pids();
        for (name, global) in parts.into_iter().flatten() {
            if pids.contains(&pid_of(global)) {
                let thread = self.thread(global);
                let name: StrId = self.names.intern(name, self.session);
                self.session.threads.name[thread.index()] = name;
            }
        }
        Ok(())
    }

    pub(super) fn known_pids(&self) -> Vec<i64> {
        let processes = &self.session.processes;
        let rows = processes
            .pass
            .iter()
            .zip(&processes.pid)
            .filter(|(pass, _)| **pass == self.pass);
        rows.map(|(_, pid)| *pid).collect()
    }

    /// Warnings and errors that nsys itself recorded: they name the reason where data is absent. Comes after the GPU
    /// work, whose processes are known then, and before other processes are.
    pub(super) fn messages(&mut self) -> Result<(), IngestError> {
        let pids = self.known_pids();
        let wants = [Need("severity"), Need("text"), May(&["globalPid"])];
        let (parts, _) = self.database.scan(
            "DIAGNOSTIC_EVENT",
            &wants,
            |out: &mut Vec<(i64, String, Option<i64>)>, row| {
                if let Some(text) = row.text(1) {
                    out.push((row.int(0)?, text.to_owned(), row.maybe(2)?));
                }
                Ok(())
            },
        )?;
        for (level, text, process) in parts.into_iter().flatten() {
            let severity = match level {
                2 => Severity::Notice,
                3 => Severity::DataLoss,
                _ => continue,
            };
            let process = process.map(pid_of);
            if is_of_no_use(&text) && is_other(process, &pids) {
                continue;
            }
            // Messages are paragraphs: one line each here.
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let text: String = line.chars().take(300).collect();
            self.say(
                severity,
                "nsys/message",
                format!("nsys says: {text}"),
                None,
                1,
            );
        }
        Ok(())
    }
}

/// True if a message says that a process made no use of something but CUDA, such as NVTX.
fn is_of_no_use(text: &str) -> bool {
    let kind = text
        .strip_prefix("No ")
        .and_then(|rest| rest.split_once(" events collected"));
    kind.is_some_and(|(kind, _)| kind != "CUDA")
}

/// True if a process is none of those with GPU work, if there are any: it launched them.
fn is_other(process: Option<i64>, with_work: &[i64]) -> bool {
    !with_work.is_empty() && process.is_some_and(|pid| !with_work.contains(&pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_old_exports_come_in_base_units() {
        // A V100 of 32 510 MiB at 1 380 000 kHz, an A100 with 42 505 273 344 bytes and 1 555 200 000 kB/s.
        assert_eq!(in_base(32_510, MIB, MIB), Some(34_089_205_760));
        assert_eq!(in_base(42_505_273_344, MIB, MIB), Some(42_505_273_344));
        assert_eq!(in_base(1_380_000, LEAST_CLOCK, 1000), Some(1_380_000_000));
        assert_eq!(
            in_base(1_410_000_000, LEAST_CLOCK, 1000),
            Some(1_410_000_000)
        );
        assert_eq!(
            in_base(1_555_200_000, LEAST_BANDWIDTH, 1000),
            Some(1_555_200_000_000)
        );
        assert_eq!(
            in_base(29_376_000_000, LEAST_BANDWIDTH, 1000),
            Some(29_376_000_000)
        );
        assert_eq!(in_base(0, MIB, MIB), None);
    }

    #[test]
    fn cuda_numbers_are_those_that_all_processes_share() {
        let swapped = [((7, 0), 1), ((7, 1), 0), ((8, 0), 1)];
        assert_eq!(
            cuda_ordinals(&swapped),
            BTreeMap::from([(0, Some(1)), (1, Some(0))])
        );
        let one_each = [((7, 0), 0), ((8, 0), 1)];
        assert_eq!(
            cuda_ordinals(&one_each),
            BTreeMap::from([(0, None), (1, None)])
        );
        let two_names = [((7, 0), 0), ((8, 3), 0)];
        assert_eq!(cuda_ordinals(&two_names), BTreeMap::from([(0, None)]));
    }
}
