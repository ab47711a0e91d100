//! What an nsys export says of kernels and ranges: enough to choose what ncu is to profile.
//!
//! `rooflens kernels --yaml` chooses the same, because both programs call `rooflens-stages`. This folder reads an export into a
//! session, and finds what the analyzer does not need: where in the workload ncu starts and stops, the unit that
//! repeats where no range says it, and how the clocks of hosts differ.
//!
//! The reader is not the analyzer's importer, which would bring SQLite's C code and threads to the GPU machine. Both decode
//! rows by `rooflens-exports`. What must hold: kernels, launches, API calls, ranges, processes and threads get the ids that
//! the importer gives them, because ties are decided by ids. An export that only SQLite can read is refused.

#[cfg(test)]
mod agreement;
mod clocks;
mod count;
mod filter;
mod instances;
mod list;
mod read;
mod stop;
mod unit;
mod workload;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rooflens_session::{KernelId, LaunchId, Ns, PassId, ProcessId, RangeId, Session};
use rooflens_stages::repeats;
use rooflens_stages::selection::{duration, first_process, in_order};
use rooflens_stages::{OpSource, Stage, StageInstance, StageTables};

use instances::Before;

pub(crate) use clocks::{Offset, offset};
pub(crate) use instances::Instance;
pub(crate) use list::{Listed, Place, list};
pub(crate) use stop::{Course, Profiled};

/// The one pass of the session.
const PASS: PassId = PassId(0);

/// The export of a bundle, and that of the nodes of its CUDA graphs.
pub(crate) const EXPORT: &str = "nsys/timeline.sqlite";
const NODES: &str = "nsys-nodes/timeline.sqlite";

/// An export with its stages.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    session: Session,
    tables: StageTables,
    /// The start and the thread of the call that issued each launch.
    calls: Vec<Option<Call>>,
    /// Names of kernels as the linker knows them, if the export says.
    mangled: Vec<Option<String>>,
    /// When it begins, nanoseconds since 1970.
    origin: Option<Ns>,
    /// What is skipped, and why.
    notes: Vec<String>,
    /// What of the run precedes it.
    before: Before,
}

/// The CUDA call that issued a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Call {
    start: Ns,
    thread: u32,
}

impl Timeline {
    /// Reads an export of a pass `nsys`, of which nothing describes the workload.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut timeline = read::read(path)?;
        timeline.find_stages();
        Ok(timeline)
    }

    /// Reads the export of a bundle with the description of its workload. Without one, and with a refused one, there are
    /// only built-in stages.
    pub(crate) fn of_bundle(bundle: &Path) -> io::Result<Self> {
        Self::of_export(bundle, EXPORT)
    }

    /// The export that shows all kernels: that of the nodes of graphs, if there is one.
    pub(crate) fn of_kernels(bundle: &Path) -> io::Result<Self> {
        let is_there = bundle.join(NODES).exists();
        Self::of_export(bundle, if is_there { NODES } else { EXPORT })
    }

    fn of_export(bundle: &Path, export: &str) -> io::Result<Self> {
        let mut timeline = read::read(&bundle.join(export))?;
        match workload::of_bundle(bundle) {
            Ok(workload) => timeline.session.workload = workload,
            Err(reason) => timeline.notes.push(reason),
        }
        if export == NODES {
            // They are recorded after the warm-up.
            timeline.session.workload.warmup = None;
        }
        timeline.find_stages();
        Ok(timeline)
    }

    /// What of the export and the description is skipped, and why.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    fn find_stages(&mut self) {
        let session = &self.session;
        self.tables = StageTables::new(session);
        self.calls = vec![None; session.launches.len()];
        for (source, call) in self.tables.ops.source.iter().zip(&self.tables.ops.api_call) {
            if let (OpSource::Launch(launch), Some(call)) = (source, call) {
                self.calls[launch.index()] = Some(Call {
                    start: session.api_calls.start[call.index()],
                    thread: session.api_calls.thread[call.index()].0,
                });
            }
        }
    }

    /// The name of a kernel as people know it.
    pub(crate) fn kernel_name(&self, kernel: KernelId) -> &str {
        self.session.kernel_name(kernel)
    }

    /// How many processes launch kernels.
    pub(crate) fn processes(&self) -> usize {
        let processes: BTreeSet<ProcessId> =
            self.session.launches.process.iter().copied().collect();
        processes.len()
    }

    /// Names of the stages with kernels that no other stage is a part of, those with the most GPU time first. A capture
    /// without ranges has none.
    pub(crate) fn innermost(&self, most: usize) -> Vec<String> {
        let process = first_process(&self.session, PASS);
        let mut stages: Vec<(Ns, &Stage)> = Vec::new();
        for (number, stage) in self.tables.stages.iter().enumerate() {
            let is_outer = self
                .tables
                .stages
                .iter()
                .any(|inner| inner.parent == Some(number));
            if is_outer || !self.is_named(stage) {
                continue;
            }
            let mut time = Ns::ZERO;
            for instance in self.counted(stage) {
                for launch in self.launches_of(instance) {
                    if Some(self.session.launches.process[launch.index()]) == process {
                        time += duration(&self.session, launch);
                    }
                }
            }
            if time > Ns::ZERO {
                stages.push((time, stage));
            }
        }
        stages.sort_by_key(|(time, _)| Reverse(*time));
        stages.truncate(most);
        stages
            .into_iter()
            .map(|(_, stage)| stage.name.clone())
            .collect()
    }

    /// Whether ranges mark a stage, or updates of the weights.
    fn is_named(&self, stage: &Stage) -> bool {
        let first = self.tables.instances_of(stage).first();
        let has_thread = first.is_some_and(|instance| instance.thread.is_some());
        has_thread && !repeats::is_repeating(stage)
    }

    fn stage(&self, name: &str) -> Option<&Stage> {
        self.tables.stages.iter().find(|stage| stage.name == name)
    }

    /// The instances of a stage that are neither warm-up nor otherwise excluded.
    fn counted(&self, stage: &Stage) -> impl Iterator<Item = &StageInstance> {
        let instances = self.tables.instances_of(stage).iter();
        instances.filter(|instance| instance.excluded.is_none())
    }

    /// The kernels of an instance.
    fn launches_of(&self, instance: &StageInstance) -> Vec<LaunchId> {
        let mut launches = Vec::new();
        for op in &instance.ops {
            if let OpSource::Launch(launch) = self.tables.ops.source[*op as usize] {
                launches.push(launch);
            }
        }
        launches
    }

    /// The launches of the first process by their start.
    fn in_order(&self) -> Vec<LaunchId> {
        in_order(&self.session, PASS)
    }

    /// The number of a range among those of its name, process and domain in the run, from 0: by their starts.
    fn ordinal(&self, range: RangeId) -> usize {
        let ranges = &self.session.ranges;
        let key = |range: RangeId| {
            let row = range.index();
            let process = self.session.threads.process[ranges.thread[row].index()];
            (ranges.name[row], ranges.domain[row], process)
        };
        let before = |other: &RangeId| {
            key(*other) == key(range)
                && (ranges.start[other.index()], *other) < (ranges.start[range.index()], range)
        };
        let name = self.session.text(ranges.name[range.index()]);
        self.before.ranges(name) + ranges.ids().filter(before).count()
    }
}

#[cfg(test)]
mod made {
    use std::collections::BTreeMap;

    use super::*;
    use rooflens_schemas::PassKind;
    use rooflens_session::{ApiCall, ApiLevel, Dim3, Launch, StrId, ThreadId};

    /// A launch of a kernel of one function.
    pub(super) struct Made {
        pub(super) name: &'static str,
        pub(super) time: (Ns, Ns),
        pub(super) grid: u32,
        /// Number of the call on the first thread, and its start.
        pub(super) call: Option<(i64, Ns)>,
    }

    pub(super) fn timeline(origin: Option<Ns>, launches: &[Made]) -> Timeline {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "");
        let (process, one) = (session.process(pass, 1, 1), Dim3 { x: 1, y: 1, z: 1 });
        let (thread, gpu) = (session.thread(process, 1), session.gpu(pass, 0));
        let mut calls: BTreeMap<i64, Ns> = BTreeMap::new();
        for made in launches {
            let kernel = session.kernel(made.name, made.name);
            session.launches.push(Launch {
                start: made.time.0,
                end: made.time.1,
                kernel,
                pass,
                gpu,
                process,
                stream: 7,
                correlation: made.call.map(|(number, _)| number),
                grid: Dim3 {
                    x: made.grid,
                    ..one
                },
                block: Dim3 { x: 32, ..one },
                registers: None,
                shared_bytes: None,
                graph_node: None,
                graph: None,
            });
            calls.extend(made.call);
        }
        for (number, start) in calls {
            session
                .api_calls
                .push(api_call(pass, process, thread, number, start));
        }
        let mut timeline = Timeline {
            session,
            origin,
            ..Timeline::default()
        };
        timeline.mangled = vec![None; timeline.session.kernels.len()];
        timeline.find_stages();
        timeline
    }

    fn api_call(
        pass: PassId,
        process: ProcessId,
        thread: ThreadId,
        number: i64,
        start: Ns,
    ) -> ApiCall {
        ApiCall {
            start,
            end: start + Ns(1),
            name: StrId::default(),
            level: ApiLevel::Runtime,
            nested: false,
            pass,
            process,
            thread,
            correlation: Some(number),
        }
    }
}
