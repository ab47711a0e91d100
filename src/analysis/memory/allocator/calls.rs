//! CUDA calls that allocate or free memory while a stage runs: each may wait for the GPU.

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, Unit};

use crate::analysis::engine::facts::{Stage, StageInstance};
use crate::analysis::engine::stage_stats::{Summary, summaries};
use crate::analysis::engine::stats::median;
use crate::analysis::{Context, Facts};
use crate::findings::{Cell, Column, Dataset, derived};
use crate::model::{Ns, PassId, Session, StrId};

/// Beginnings of the names of such calls; what follows is a variant, such as `Async` or `Pitch`.
const ALLOCATING: [&str; 15] = [
    "cudaMalloc",
    "cudaFree",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

/// Such calls of one name in one instance of a stage.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    stage: Summary,
    instance: u32,
    counted: bool,
    name: StrId,
    calls: u64,
    time: Ns,
}

/// Such calls of all passes.
pub(super) struct Calls {
    rows: Vec<Row>,
    /// Stages of passes with CUDA calls, with the median number of such calls of a counted instance and the
    /// time of all in counted instances.
    pub(super) stages: Vec<(Summary, f64, Ns)>,
}

/// Finds them in all stages.
pub(super) fn calls(context: &Context<'_>) -> Calls {
    let session = context.session;
    let calls = &session.api_calls;
    let mut traced = vec![false; session.passes.len()];
    let of_name = |name: StrId| ALLOCATING.iter().any(|one| session.text(name).starts_with(one));
    let mut allocates: Vec<Option<bool>> = vec![None; session.strings.len()];
    // By (process, start): few, where an allocator caches.
    let mut order: Vec<u32> = Vec::new();
    for row in 0..calls.len() {
        traced[calls.pass[row].index()] = true;
        let name = calls.name[row];
        let allocating = *allocates[name.index()].get_or_insert_with(|| of_name(name));
        if allocating && !calls.nested[row] {
            order.push(row as u32);
        }
    }
    order.sort_unstable_by_key(|row| {
        (calls.process[*row as usize], calls.start[*row as usize], *row)
    });
    let mut found = Calls { rows: Vec::new(), stages: Vec::new() };
    let passes: Vec<PassId> = session.passes.ids().filter(|pass| traced[pass.index()]).collect();
    for pass in passes {
        for line in summaries(context.facts, pass) {
            found.add(context, &order, line);
        }
    }
    found
}

/// Whether an instance of a stage lies within one of the stage that it is a part of; some run outside.
fn is_part(facts: &Facts, stage: &Stage, instance: &StageInstance) -> bool {
    let Some(parent) = stage.parent else { return false };
    let outer = facts.instances_of(&facts.stages[parent]);
    let key = |one: &StageInstance| (one.process, one.host_start);
    let after = outer.partition_point(|one| key(one) <= key(instance));
    let around = after.checked_sub(1).map(|at| &outer[at]);
    around.is_some_and(|one| one.process == instance.process && one.host_end >= instance.host_end)
}

impl Calls {
    fn add(&mut self, context: &Context<'_>, order: &[u32], line: &Summary) {
        let calls = &context.session.api_calls;
        let facts = context.facts;
        let (mut counts, mut all) = (Vec::new(), 0);
        for one in facts.instances_of(line.stage(facts)) {
            if one.process != line.process {
                continue;
            }
            let at = |time: Ns| {
                order.partition_point(|row| {
                    let row = *row as usize;
                    (calls.process[row], calls.start[row]) < (line.process, time)
                })
            };
            let mut by_name: BTreeMap<StrId, (u64, Ns)> = BTreeMap::new();
            for row in order[at(one.host_start)..at(one.host_end.max(one.host_start))].iter() {
                let row = *row as usize;
                let time = calls.end[row].saturating_sub(calls.start[row]).max(0);
                let sum = by_name.entry(calls.name[row]).or_default();
                *sum = (sum.0 + 1, sum.1.saturating_add(time));
            }
            let counted = one.excluded.is_none() && one.projection.is_some();
            if counted {
                counts.push(by_name.values().map(|(calls, _)| *calls as f64).sum());
                all = by_name.values().fold(all, |all: Ns, (_, time)| all.saturating_add(*time));
            }
            // Parts of stages would show the calls of the whole again.
            let part = is_part(facts, line.stage(facts), one);
            let by_name = by_name.into_iter().filter(|_| !part);
            self.rows.extend(by_name.map(|(name, (calls, time))| Row {
                stage: line.clone(),
                instance: one.ordinal,
                counted,
                name,
                calls,
                time,
            }));
        }
        if let Some(count) = median(&counts) {
            self.stages.push((line.clone(), count, all));
        }
    }

    /// Whether an instance that counts has such calls.
    pub(super) fn any_counted(&self) -> bool {
        self.rows.iter().any(|row| row.counted)
    }

    /// Number of such calls in instances that are left out, of a pass.
    pub(super) fn left_out(&self) -> u64 {
        self.rows.iter().filter(|row| !row.counted).map(|row| row.calls).sum()
    }

    /// `allocator_calls` of each stage.
    pub(super) fn metrics(&self, context: &Context<'_>) -> Vec<Metric> {
        let session = context.session;
        let metric = |(line, count, time): &(Summary, f64, Ns)| {
            let scope = line.scope(session, context.facts);
            let basis = format!(
                "median number of CUDA calls of the process that allocate or free memory within the \
                 range of an instance, over {} of {} instances; {time} ns in all",
                line.counted, line.instances
            );
            let mut metric = derived("allocator_calls", scope, Unit::Count, *count, basis);
            let artifact = session.passes.artifact[line.stage(context.facts).pass.index()];
            metric.evidence.push(Evidence {
                artifact: session.text(artifact).to_owned(),
                table: Some("api_calls".to_owned()),
                rows: None,
            });
            metric
        };
        self.stages.iter().map(metric).collect()
    }

    /// One row per (pass, stage, process, instance, call).
    pub(super) fn dataset(&self, session: &Session, context: &Context<'_>) -> Dataset {
        let columns = vec![
            Column::text("call", "Call"),
            Column::text("pass", "Pass"),
            Column::text("stage", "Stage"),
            Column::new("instance", "Instance", Unit::Count),
            Column::text("counted", "Counted"),
            Column::new("calls", "Calls", Unit::Count),
            Column::new("time_ns", "Host time", Unit::Nanoseconds),
        ];
        let row = |row: &Row| {
            let pass = row.stage.stage(context.facts).pass;
            vec![
                Cell::Name(session.text(row.name).to_owned()),
                Cell::Text(session.pass_name(pass).to_owned()),
                Cell::Text(row.stage.label(session, context.facts)),
                Cell::Int(i64::from(row.instance)),
                Cell::Text(if row.counted { "yes" } else { "no" }.to_owned()),
                Cell::Int(i64::try_from(row.calls).unwrap_or(i64::MAX)),
                Cell::Int(row.time),
            ]
        };
        let mut sorted: Vec<&Row> = self.rows.iter().collect();
        // Counted instances first; names of one instance by text.
        sorted.sort_by_key(|row| {
            (!row.counted, row.stage.stage, row.stage.process, row.instance, session.text(row.name))
        });
        let title = "CUDA calls that allocate or free memory, within stages".to_owned();
        let rows = sorted.into_iter().map(row).collect();
        Dataset { id: "allocator_calls", title, columns, rows }
    }
}
