//! CUDA calls that allocate or free memory while a stage runs: each may wait for the GPU.

use std::collections::BTreeMap;

use crate::engine::facts::{Stage, StageInstance};
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Facts};
use rooflens_session::{Arrange, Ns, PassId, ProcessId, StrId};
use rooflens_stats::median;
use rooflens_units::Count;

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
pub struct InstanceCalls {
    /// The stage.
    pub stage: Summary,
    /// Number of the instance, from 0.
    pub instance: u32,
    /// The instance counts.
    pub counted: bool,
    /// Name of the call.
    pub name: StrId,
    /// Number.
    pub calls: u64,
    /// Sum of their durations, nanoseconds.
    pub time: Ns,
}

/// Such calls of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageCalls {
    /// The stage.
    pub stage: Summary,
    /// Median number of such calls of a counted instance.
    pub calls: Count,
    /// Sum of their durations in all counted instances.
    pub time: Ns,
}

/// Such calls of all passes.
#[derive(Default)]
pub struct AllocatorCalls {
    /// Calls by (counted first, stage, process, instance, name), without those of an instance that lies within one
    /// of the stage that it is a part of.
    pub rows: Vec<InstanceCalls>,
    /// Stages of passes with CUDA calls.
    pub stages: Vec<StageCalls>,
}

/// Finds them in all stages.
pub(super) fn find(context: &Context<'_>) -> AllocatorCalls {
    let session = context.session;
    let calls = &session.api_calls;
    let mut traced = vec![false; session.passes.len()];
    let of_name = |name: StrId| {
        ALLOCATING
            .iter()
            .any(|prefix| session.text(name).starts_with(prefix))
    };
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
        (
            calls.process[*row as usize],
            calls.start[*row as usize],
            *row,
        )
    });
    let mut allocator_calls = AllocatorCalls::default();
    let passes: Vec<PassId> = session
        .passes
        .ids()
        .filter(|pass| traced[pass.index()])
        .collect();
    for pass in passes {
        for line in summaries(context.facts, pass) {
            allocator_calls.add(context, &order, line.clone());
        }
    }
    allocator_calls.rows.arrange_by_key(|row| {
        (
            !row.counted,
            row.stage.stage,
            row.stage.process,
            row.instance,
            session.text(row.name),
        )
    });
    allocator_calls
}

/// Whether an instance of a stage lies within one of the stage that it is a part of; some run outside.
fn is_part(facts: &Facts, stage: &Stage, instance: &StageInstance) -> bool {
    let Some(parent) = stage.parent else {
        return false;
    };
    let outer = facts.instances_of(&facts.stages[parent]);
    let key = |outermost: &StageInstance| (outermost.process, outermost.host_start);
    let after = outer.partition_point(|outermost| key(outermost) <= key(instance));
    let around = after.checked_sub(1).map(|index| &outer[index]);
    around.is_some_and(|outermost| {
        outermost.process == instance.process && outermost.host_end >= instance.host_end
    })
}

impl AllocatorCalls {
    fn add(&mut self, context: &Context<'_>, order: &[u32], line: Summary) {
        let calls = &context.session.api_calls;
        let facts = context.facts;
        let (mut counts, mut total) = (Vec::new(), Ns::ZERO);
        for instance in facts.instances_of(line.stage(facts)) {
            if instance.process != line.process {
                continue;
            }
            let position = |time: Ns| {
                order.partition_point(|row| {
                    let row = *row as usize;
                    (calls.process[row], calls.start[row]) < (line.process, time)
                })
            };
            let mut by_name: BTreeMap<StrId, (u64, Ns)> = BTreeMap::new();
            for row in order[position(instance.host_start)
                ..position(instance.host_end.max(instance.host_start))]
                .iter()
            {
                let row = *row as usize;
                let time = calls.end[row]
                    .saturating_sub(calls.start[row])
                    .max(Ns::ZERO);
                let sum = by_name.entry(calls.name[row]).or_default();
                *sum = (sum.0 + 1, sum.1.saturating_add(time));
            }
            let counted = instance.excluded.is_none() && instance.projection.is_some();
            if counted {
                counts.push(by_name.values().map(|(calls, _)| *calls as f64).sum());
                for (_, time) in by_name.values() {
                    total = total.saturating_add(*time);
                }
            }
            // Parts of stages would show the calls of the whole again.
            let part = is_part(facts, line.stage(facts), instance);
            let by_name = by_name.into_iter().filter(|_| !part);
            self.rows
                .extend(by_name.map(|(name, (calls, time))| InstanceCalls {
                    stage: line.clone(),
                    instance: instance.ordinal,
                    counted,
                    name,
                    calls,
                    time,
                }));
        }
        let calls = median(&counts);
        self.stages.extend(calls.map(|calls| StageCalls {
            stage: line,
            calls: Count(calls),
            time: total,
        }));
    }

    /// Number of such calls in instances that are excluded.
    pub fn left_out(&self) -> u64 {
        self.rows
            .iter()
            .filter(|row| !row.counted)
            .map(|row| row.calls)
            .sum()
    }

    /// Number of the calls in the counted instances of a stage of a process, and the sum of their durations,
    /// nanoseconds.
    pub fn counted(&self, stage: usize, process: ProcessId) -> (u64, Ns) {
        let is_own = |row: &&InstanceCalls| {
            row.counted && (row.stage.stage, row.stage.process) == (stage, process)
        };
        self.rows
            .iter()
            .filter(is_own)
            .fold((0, Ns::ZERO), |(calls, time), row| {
                (calls + row.calls, time.saturating_add(row.time))
            })
    }
}
