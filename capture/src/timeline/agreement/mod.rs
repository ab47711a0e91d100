//! The analyzer's importer and the reader of this program, on the same exports: stages, instances, attribution, exclusions
//! and kernel lists must be equal, and so must what is refused.
//!
//! Both sides are libraries here, so cargo builds both before the test, and an export takes milliseconds.

mod corpus;
mod exports;
mod faults;
mod generated;
mod known;
mod workloads;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_exports::nsys;
use rooflens_schemas::workload;
use rooflens_session::{ApiCall, Copy, GpuId, GraphLaunch, Launch, Ns, Range, RangeId, Session};
use rooflens_stages::selection::{select, window, yaml};
use rooflens_stages::{Attribution, OpSource, StageInstance, StageTables};
use tempfile::TempDir;

use super::{EXPORT, Timeline, list};

/// Kernels of a list.
const TOP: usize = 20;

/// A folder with an export in a pass `nsys`, and the description of its workload.
struct Bundle {
    name: String,
    folder: TempDir,
}

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    /// Exports that both read.
    Read,
    /// Those of which both gave a list.
    Listed,
    /// Exports that both refuse.
    Refused,
    /// Tables of which both skip the same rows.
    Skipped,
    /// Stages of exports.
    Stages,
    /// Their instances.
    Instances,
    /// Those that are excluded.
    Excluded,
    /// Operations of instances that belong to them by inference.
    Inferred,
    /// Requests for a list.
    Requests,
    /// Lists that both gave.
    Lists,
    /// Ranges in which kernels of a list are profiled.
    Gates,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<Count, usize>);

impl Counts {
    fn add(&mut self, count: Count, number: usize) {
        *self.0.entry(count).or_default() += number;
    }

    fn of(&self, count: Count) -> usize {
        self.0.get(&count).copied().unwrap_or_default()
    }

    fn merge(&mut self, other: &Self) {
        for (count, number) in &other.0 {
            self.add(*count, *number);
        }
    }

    /// Fails if less was compared: where both refuse everything, they agree, too.
    fn expect(&self, least: &[(Count, usize)]) {
        for (count, number) in least {
            assert!(self.of(*count) >= *number, "{count:?}: {self:#?}");
        }
    }
}

impl Bundle {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let name = name.to_owned();
        let bundle = Self { name, folder };
        let pass = bundle.export();
        fs::create_dir(pass.parent().expect("a pass")).expect("writable");
        bundle
    }

    fn export(&self) -> PathBuf {
        self.folder.path().join(EXPORT)
    }

    fn describe(&self, workload: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(workload::FILE_NAME), workload).expect("writable");
    }

    /// Compares what both programs say of the export, and the lists of all its stages and of others.
    fn compare(&self, others: &[&str]) -> Counts {
        let (analyzer, diagnostics) = self.import();
        let is_refused = errors_of(&diagnostics, EXPORT) > 0;
        let timeline = match Timeline::of_bundle(self.folder.path()) {
            Ok(timeline) => timeline,
            Err(error) => {
                assert!(is_refused, "{}: {error}", self.name);
                return Counts([(Count::Refused, 1)].into());
            }
        };
        assert!(!is_refused, "{}: {diagnostics:#?}", self.name);
        let tables = StageTables::new(&analyzer);
        self.compare_tables(&analyzer, &timeline.session);
        self.compare_stages((&analyzer, &tables), &timeline);
        let mut counts = Counts::default();
        counts.add(Count::Read, 1);
        counts.add(Count::Skipped, self.compare_notes(&timeline, &diagnostics));
        counts.add(Count::Stages, tables.stages.len());
        counts.add(Count::Instances, tables.instances.len());
        for instance in &tables.instances {
            counts.add(Count::Excluded, usize::from(instance.excluded.is_some()));
            counts.add(Count::Inferred, instance.inferred as usize);
        }
        let mut stages: Vec<Option<&str>> = vec![None];
        stages.extend(tables.stages.iter().map(|stage| Some(stage.name.as_str())));
        stages.extend(others.iter().map(|name| Some(*name)));
        for stage in stages {
            self.compare_lists((&analyzer, &tables), &timeline, stage, &mut counts);
        }
        counts.add(Count::Listed, usize::from(counts.of(Count::Lists) > 0));
        counts
    }

    fn import(&self) -> (Session, Vec<Diagnostic>) {
        let mut diagnostics = Diagnostics::default();
        let folder = self.folder.path().to_owned();
        let mut bundle = rooflens_bundle::open(&[folder], &mut diagnostics).expect("it opens");
        rooflens_ingest::identify(&mut bundle, &mut diagnostics);
        let session = rooflens_ingest::import(&bundle, &mut diagnostics, &mut |_| ());
        (session, diagnostics.iter().cloned().collect())
    }

    /// Both skip the same rows, and say so in the same words. Gives the number of tables with such rows.
    fn compare_notes(&self, timeline: &Timeline, diagnostics: &[Diagnostic]) -> usize {
        let mut skipped = Vec::new();
        for diagnostic in diagnostics {
            let (message, count) = (&diagnostic.message, diagnostic.count);
            let is_read = TABLES
                .iter()
                .any(|table| message.starts_with(&of_table(table)));
            if diagnostic.code == "nsys/bad-rows" && is_read {
                skipped.push(format!("{message} ({count} in all)"));
            }
        }
        let of_rows = |note: &&String| note.starts_with("rows of ");
        let mut notes: Vec<&String> = timeline.notes().iter().filter(of_rows).collect();
        notes.sort();
        skipped.sort();
        assert_eq!(notes, skipped.iter().collect::<Vec<_>>(), "{}", self.name);
        let of_workload = |note: &&String| note.starts_with(workload::FILE_NAME);
        let refusals = timeline.notes().iter().filter(of_workload).count();
        assert_eq!(
            refusals,
            errors_of(diagnostics, workload::FILE_NAME),
            "{}",
            self.name
        );
        skipped.len()
    }

    /// Both have the same rows under the same ids.
    fn compare_tables(&self, analyzer: &Session, capture: &Session) {
        let name = &self.name;
        assert_eq!(kernels(analyzer), kernels(capture), "{name}");
        assert_eq!(launches(analyzer), launches(capture), "{name}");
        assert_eq!(copies(analyzer), copies(capture), "{name}");
        assert_eq!(graphs(analyzer), graphs(capture), "{name}");
        assert_eq!(calls(analyzer), calls(capture), "{name}");
        assert_eq!(ranges(analyzer), ranges(capture), "{name}");
        // The analyzer reads more tables, after these.
        let (pids, tids) = (&capture.processes.pid, &capture.threads.tid);
        assert!(analyzer.processes.pid.starts_with(pids), "{name}");
        assert!(analyzer.threads.tid.starts_with(tids), "{name}");
        let processes = &capture.threads.process;
        assert!(analyzer.threads.process.starts_with(processes), "{name}");
    }

    fn compare_stages(&self, (session, tables): (&Session, &StageTables), timeline: &Timeline) {
        let (name, capture) = (&self.name, &timeline.tables);
        assert_eq!(attributions(tables), attributions(capture), "{name}");
        let classes = |tables: &StageTables| -> Vec<_> {
            tables
                .identities
                .iter()
                .map(|identity| identity.class)
                .collect()
        };
        assert_eq!(classes(tables), classes(capture), "{name}");
        assert_eq!(tables.stages, capture.stages, "{name}");
        assert_eq!(instances(tables), instances(capture), "{name}");
        assert_eq!(session.workload, timeline.session.workload, "{name}");
    }

    fn compare_lists(
        &self,
        (session, tables): (&Session, &StageTables),
        timeline: &Timeline,
        stage: Option<&str>,
        counts: &mut Counts,
    ) {
        let selected = select(session, tables, stage, TOP);
        let analyzer =
            selected.map(|selected| yaml(&selected, window(session, tables, stage, &selected)));
        let capture = list(timeline, stage, false, TOP).ok();
        let listed = capture.as_ref().map(|listed| listed.yaml.clone());
        assert_eq!(analyzer, listed, "{}, stage {stage:?}", self.name);
        counts.add(Count::Requests, 1);
        counts.add(Count::Lists, usize::from(listed.is_some()));
        // ncu starts at the range with this number: it must be there.
        if let Some(place) = capture.and_then(|listed| listed.place) {
            let start = start_of(session, &place.range, place.ordinal);
            assert_eq!(start, Some(place.start), "{}: {place:?}", self.name);
            counts.add(Count::Gates, 1);
        }
    }
}

/// Tables that both read.
const TABLES: [&str; 8] = [
    nsys::STRINGS,
    nsys::KERNELS,
    nsys::MEMCPYS,
    nsys::MEMSETS,
    nsys::GRAPHS,
    nsys::CALLS,
    nsys::EVENTS,
    nsys::SESSION_STARTS,
];

fn of_table(table: &str) -> String {
    format!("rows of {table} ")
}

/// Errors of a file.
fn errors_of(diagnostics: &[Diagnostic], path: &str) -> usize {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    let of_file = |error: &&Diagnostic| error.artifact.as_deref() == Some(path);
    errors.filter(of_file).count()
}

fn kernels(session: &Session) -> Vec<(&str, &str)> {
    let kernels = session.kernels.ids().map(|id| session.kernels.row(id));
    kernels
        .map(|kernel| (session.text(kernel.name), session.text(kernel.short_name)))
        .collect()
}

// The analyzer numbers GPUs as the machine does, and this program as each process does. No stage depends on it.

fn launches(session: &Session) -> Vec<Launch> {
    let rows = session.launches.ids().map(|id| session.launches.row(id));
    rows.map(|row| Launch {
        gpu: GpuId(0),
        ..row
    })
    .collect()
}

fn copies(session: &Session) -> Vec<Copy> {
    let rows = session.copies.ids().map(|id| session.copies.row(id));
    rows.map(|row| Copy {
        gpu: GpuId(0),
        ..row
    })
    .collect()
}

fn graphs(session: &Session) -> Vec<GraphLaunch> {
    let table = &session.graph_launches;
    let rows = table.ids().map(|id| table.row(id));
    rows.map(|row| GraphLaunch {
        gpu: GpuId(0),
        ..row
    })
    .collect()
}

/// Calls without their names, which this program does not read.
fn calls(session: &Session) -> Vec<ApiCall> {
    let rows = session.api_calls.ids().map(|id| session.api_calls.row(id));
    rows.map(|row| ApiCall {
        name: Default::default(),
        ..row
    })
    .collect()
}

/// Ranges with the texts of name and domain.
fn ranges(session: &Session) -> Vec<(Range, &str, &str)> {
    let rows = session.ranges.ids().map(|id| session.ranges.row(id));
    rows.map(|row| {
        let (name, domain) = (session.text(row.name), session.text(row.domain));
        let row = Range {
            name: Default::default(),
            domain: Default::default(),
            ..row
        };
        (row, name, domain)
    })
    .collect()
}

/// The source, the call and the range of each operation.
fn attributions(tables: &StageTables) -> Vec<(OpSource, Option<u32>, Attribution)> {
    let ops = &tables.ops;
    let rows = ops.source.iter().zip(&ops.api_call).zip(&ops.range);
    rows.map(|((source, call), range)| (*source, call.map(|call| call.0), *range))
        .collect()
}

/// Instances without what depends on the numbers of GPUs.
fn instances(tables: &StageTables) -> Vec<StageInstance> {
    let mut instances = tables.instances.clone();
    for instance in &mut instances {
        instance.gpus.clear();
        instance.busy = Ns::ZERO;
    }
    instances
}

/// The start of the range with this number among those of its name, of the process that launches first, in no domain.
fn start_of(session: &Session, name: &str, ordinal: usize) -> Option<Ns> {
    let process = session.launches.process.iter().min()?;
    let table = &session.ranges;
    let is_named = |range: &RangeId| {
        let row = range.index();
        let range_process = session.threads.process[table.thread[row].index()];
        session.text(table.name[row]) == name
            && session.text(table.domain[row]).is_empty()
            && range_process == *process
    };
    let named = table.ids().filter(is_named);
    let mut starts: Vec<Ns> = named.map(|range| table.start[range.index()]).collect();
    starts.sort();
    starts.get(ordinal).copied()
}

/// The path of the fixtures.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}
