//! All tables of a bundle, and the ways in which importers fill them.

use std::cmp::Reverse;

use rooflens_schemas::{Evidence, PassKind, Workload, marks};
use rustc_hash::FxHashMap;

use super::budget::{PROFILE_BYTES, SUM_BYTES};
use super::ids::*;
use super::names::demangled;
use super::strings::Strings;
use super::table::Table;
use super::tables::*;
use rooflens_llm::Llm;

/// What all artifacts of a bundle say.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Interned strings of all tables.
    pub strings: Strings,
    /// Passes.
    pub passes: Passes,
    /// GPUs.
    pub gpus: Gpus,
    /// Processes.
    pub processes: Processes,
    /// Host threads.
    pub threads: Threads,
    /// Distinct kernels.
    pub kernels: Kernels,
    /// Kernel executions.
    pub launches: Launches,
    /// Copies and memsets.
    pub copies: Copies,
    /// What artifacts say of collectives.
    pub collectives: Collectives,
    /// Whole-graph executions.
    pub graph_launches: GraphLaunches,
    /// Nodes of CUDA graphs.
    pub graph_nodes: GraphNodes,
    /// Creations of CUDA graphs.
    pub graph_creations: GraphCreations,
    /// Host-side CUDA calls.
    pub api_calls: ApiCalls,
    /// Waits.
    pub synchronizations: Synchronizations,
    /// Calls of the operating system's libraries.
    pub os_calls: OsCalls,
    /// Times in which no CPU ran a thread.
    pub off_cpu: OffCpu,
    /// Samples of what CPUs ran.
    pub cpu_samples: CpuSamples,
    /// Time that profilers took for themselves.
    pub overheads: Overheads,
    /// User annotations.
    pub ranges: Ranges,
    /// Calls of the outermost model.
    pub model_calls: ModelCalls,
    /// Framework operators.
    pub operators: Operators,
    /// Which backward operator belongs to which forward one.
    pub backward_operators: BackwardOperators,
    /// Source frames.
    pub frames: Frames,
    /// Functions that call operators.
    pub callers: Callers,
    /// Hardware counters over time.
    pub counter_samples: CounterSamples,
    /// NVML samples.
    pub device_samples: DeviceSamples,
    /// States of GPUs at one moment.
    pub gpu_snapshots: GpuSnapshots,
    /// Their MIG devices.
    pub mig_devices: MigDevices,
    /// Processes on GPUs.
    pub process_samples: ProcessSamples,
    /// Allocator events.
    pub memory_events: MemoryEvents,
    /// Kernel sums of other tools.
    pub kernel_sums: KernelSums,
    /// Sums of calls and ranges of other tools.
    pub call_sums: CallSums,
    /// Launches profiled by Nsight Compute.
    pub kernel_profiles: KernelProfiles,
    /// Their metrics.
    pub profile_metrics: ProfileMetrics,
    /// Their rule remarks.
    pub profile_rules: ProfileRules,
    /// Metrics that the remarks rest on.
    pub profile_focus: ProfileFocus,
    /// Instances of metrics by name.
    pub profile_instances: ProfileInstances,
    /// Sections that were collected.
    pub profile_sections: ProfileSections,
    /// Reports of Nsight Compute that were read themselves.
    pub profile_reports: ProfileReports,
    /// Unprofiled repeats.
    pub timings: Timings,
    /// Artifact, stage and durations of the repeats that the capture program excluded from the timings as warm-up.
    pub excluded_repeats: Vec<(StrId, StrId, Vec<crate::Ns>)>,
    /// Runs of the whole command.
    pub command_runs: CommandRuns,
    /// Measured ceilings.
    pub measured_peaks: MeasuredPeaks,
    /// GEMMs of cuBLAS and cuBLASLt logs.
    pub gemm_calls: GemmCalls,
    /// Environment facts.
    pub environment: Environment,
    /// What ran, where the bundle says so.
    pub workload: Workload,
    /// The model's architecture, where the bundle holds its config.
    pub model: Option<Llm>,
    /// The analyst's notes: path of the artifact, and its Markdown.
    pub notes: Option<(String, String)>,
    /// Bytes that tables and texts may take; without one there is no limit.
    pub limit: Option<u64>,
    kernel_index: FxHashMap<StrId, KernelId>,
    process_index: FxHashMap<(PassId, i64), ProcessId>,
    thread_index: FxHashMap<(ProcessId, i64), ThreadId>,
    gpu_index: FxHashMap<(PassId, u32), GpuId>,
}

impl Session {
    /// Text of an interned string.
    #[inline]
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// Bytes that tables and texts may still take.
    pub fn room(&self) -> u64 {
        let Some(limit) = self.limit else {
            return u64::MAX;
        };
        let tables: u64 = self.tables().iter().map(|table| table.bytes()).sum();
        let profiles = self.kernel_profiles.len() as u64 * PROFILE_BYTES;
        let sums = (self.kernel_sums.len() + self.call_sums.len()) as u64 * SUM_BYTES;
        limit.saturating_sub(tables + self.strings.bytes() + profiles + sums)
    }

    /// Name of a kernel.
    pub fn kernel_name(&self, kernel: KernelId) -> &str {
        self.text(self.kernels.name[kernel.index()])
    }

    /// Name of a pass.
    pub fn pass_name(&self, pass: PassId) -> &str {
        self.text(self.passes.name[pass.index()])
    }

    /// Path of the artifact that a pass was read from.
    pub fn artifact_of(&self, pass: PassId) -> &str {
        self.text(self.passes.artifact[pass.index()])
    }

    /// What a number rests on: `rows` rows of a table of a pass.
    pub fn evidence(&self, pass: PassId, table: &str, rows: u64) -> Evidence {
        Evidence {
            artifact: self.artifact_of(pass).to_owned(),
            table: Some(table.to_owned()),
            rows: Some(rows),
        }
    }

    /// Interns a string.
    pub fn intern(&mut self, text: &str) -> StrId {
        self.strings.intern(text)
    }

    /// The function of Python that calls an operator most often, if a pass with stacks tells.
    pub fn caller(&self, operator: StrId) -> Option<StrId> {
        let table = &self.callers;
        let calls = (0..table.len()).filter(|row| table.operator[*row] == operator);
        let most =
            calls.max_by_key(|row| (table.calls[*row], Reverse(self.text(table.function[*row]))));
        most.map(|row| table.function[row])
    }

    /// Opens a pass.
    pub fn add_pass(&mut self, name: &str, kind: PassKind, artifact: &str) -> PassId {
        let (name, artifact) = (self.intern(name), self.intern(artifact));
        self.passes.push(Pass {
            name,
            kind,
            artifact,
            producer: StrId::default(),
            command: StrId::default(),
            rank: None,
            utc_origin: None,
        })
    }

    /// Tells passes of one name apart, such as the traces of several ranks in one folder.
    ///
    /// What the workload description says of the name holds for all of them.
    pub fn tell_passes_apart(&mut self) {
        let names = self.passes.name.clone();
        let (mut uses, mut before) = (FxHashMap::default(), FxHashMap::default());
        for name in &names {
            *uses.entry(*name).or_insert(0) += 1;
        }
        for (row, id) in names.iter().enumerate().filter(|(_, id)| uses[*id] > 1) {
            let number = before.entry(*id).or_insert(0);
            *number += 1;
            let name = self.text(*id).to_owned();
            let label = match self.passes.rank[row] {
                Some(rank) => format!("{name} · rank {rank}"),
                None => format!("{name} · {number}"),
            };
            if let Some(change) = self.workload.passes.get(&name).cloned() {
                self.workload.passes.insert(label.clone(), change);
            }
            self.passes.name[row] = self.intern(&label);
        }
    }

    /// The kernel of that name, which is demangled if it is not yet.
    pub fn kernel(&mut self, name: &str, short_name: &str) -> KernelId {
        let (name, short_name) = (self.intern(&demangled(name)), self.intern(short_name));
        let kernels = &mut self.kernels;
        *self
            .kernel_index
            .entry(name)
            .or_insert_with(|| kernels.push(Kernel { name, short_name }))
    }

    /// The process `native` of a pass: the artifact's own number for it, from which `pid` was read.
    pub fn process(&mut self, pass: PassId, native: i64, pid: i64) -> ProcessId {
        let processes = &mut self.processes;
        *self.process_index.entry((pass, native)).or_insert_with(|| {
            processes.push(Process {
                pass,
                pid,
                name: StrId::default(),
                rank: None,
            })
        })
    }

    /// The thread `tid` of a process.
    pub fn thread(&mut self, process: ProcessId, tid: i64) -> ThreadId {
        let threads = &mut self.threads;
        *self.thread_index.entry((process, tid)).or_insert_with(|| {
            threads.push(Thread {
                process,
                tid,
                name: StrId::default(),
            })
        })
    }

    /// The GPU that a pass calls `ordinal`.
    pub fn gpu(&mut self, pass: PassId, ordinal: u32) -> GpuId {
        let gpus = &mut self.gpus;
        *self.gpu_index.entry((pass, ordinal)).or_insert_with(|| {
            gpus.push(Gpu {
                pass,
                ordinal,
                cuda_ordinal: Some(ordinal),
                name: StrId::default(),
                sm_count: None,
                compute_capability: None,
                memory_bytes: None,
                memory_bandwidth: None,
                clock_hz: None,
            })
        })
    }

    /// Whether anything was measured: GPU work, operators, profiled kernels, samples, timings, runs, peaks.
    pub fn is_measured(&self) -> bool {
        let rows = [
            self.launches.len(),
            self.copies.len(),
            self.graph_launches.len(),
            self.operators.len(),
            self.kernel_profiles.len(),
            self.kernel_sums.len(),
            self.device_samples.len(),
            self.counter_samples.len(),
            self.timings.len(),
            self.command_runs.len(),
            self.measured_peaks.len(),
        ];
        rows.iter().any(|rows| *rows > 0)
    }

    /// Whether the host's side of a capture was recorded: calls, ranges, samples, its scheduler.
    pub fn has_host_work(&self) -> bool {
        let rows = [
            self.api_calls.len(),
            self.ranges.len(),
            self.os_calls.len(),
            self.cpu_samples.len(),
            self.off_cpu.len(),
            self.call_sums.len(),
        ];
        rows.iter().any(|rows| *rows > 0)
    }

    /// Adds a range. A mark of the injected modules gets their domain, and a model call a row with its sizes. A mark that
    /// says nothing else of the host is no range.
    pub fn add_range(&mut self, range: Range) -> Option<RangeId> {
        let name = self.text(range.name);
        if !name.starts_with(marks::PREFIX) {
            return Some(self.ranges.push(range));
        }
        let name = name.to_owned();
        let mark = marks::mark(&name)?;
        if let Some(call) = mark.call {
            let phase = self.intern(call.phase);
            self.model_calls.push(ModelCall {
                start: range.start,
                end: range.end,
                phase,
                batch: call.batch,
                tokens: call.tokens,
                keys: call.keys,
                pass: range.pass,
                thread: range.thread,
            });
        }
        let (name, domain) = (self.intern(mark.host?), self.intern(marks::DOMAIN));
        Some(self.ranges.push(Range {
            name,
            domain,
            ..range
        }))
    }

    /// Adds an environment fact; empty values are excluded.
    pub fn add_fact(&mut self, artifact: &str, subject: &str, key: &str, value: &str) {
        if value.trim().is_empty() {
            return;
        }
        let fact = Fact {
            artifact: self.intern(artifact),
            subject: self.intern(subject),
            key: self.intern(key),
            value: self.intern(value.trim()),
        };
        self.environment.push(fact);
    }

    /// All tables, for output that treats them alike.
    pub fn tables(&self) -> Vec<&dyn Table> {
        TABLES.iter().map(|table| table(self)).collect()
    }
}

/// A table of a session.
pub type TableOf = fn(&Session) -> &dyn Table;

/// All tables, in the order in which documents and files have them.
pub const TABLES: &[TableOf] = &[
    |session| &session.passes,
    |session| &session.gpus,
    |session| &session.processes,
    |session| &session.threads,
    |session| &session.kernels,
    |session| &session.launches,
    |session| &session.copies,
    |session| &session.collectives,
    |session| &session.graph_launches,
    |session| &session.graph_nodes,
    |session| &session.graph_creations,
    |session| &session.api_calls,
    |session| &session.synchronizations,
    |session| &session.os_calls,
    |session| &session.off_cpu,
    |session| &session.cpu_samples,
    |session| &session.overheads,
    |session| &session.ranges,
    |session| &session.model_calls,
    |session| &session.operators,
    |session| &session.backward_operators,
    |session| &session.frames,
    |session| &session.callers,
    |session| &session.counter_samples,
    |session| &session.device_samples,
    |session| &session.gpu_snapshots,
    |session| &session.mig_devices,
    |session| &session.process_samples,
    |session| &session.memory_events,
    |session| &session.kernel_sums,
    |session| &session.call_sums,
    |session| &session.kernel_profiles,
    |session| &session.profile_metrics,
    |session| &session.profile_rules,
    |session| &session.profile_focus,
    |session| &session.profile_instances,
    |session| &session.profile_sections,
    |session| &session.profile_reports,
    |session| &session.timings,
    |session| &session.command_runs,
    |session| &session.measured_peaks,
    |session| &session.gemm_calls,
    |session| &session.environment,
];
