//! One stage of one process in one line: medians over the instances that count.

use rooflens_schemas::{Evidence, Scope, StageKind};

use crate::engine::facts::{Facts, Stage, StageInstance};
use rooflens_session::{Arrange, GpuId, PassId, ProcessId, Session};
use rooflens_stats::median;

/// A stage as one process ran it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Stage, an index into [`Facts::stages`].
    pub stage: usize,
    /// Process.
    pub process: ProcessId,
    /// Instances in all.
    pub instances: usize,
    /// Instances that count.
    pub counted: usize,
    /// Median projection, nanoseconds: the stage time.
    pub time: f64,
    /// Shortest and longest projection, nanoseconds.
    pub time_range: (f64, f64),
    /// Median host duration of the range, nanoseconds.
    pub host: f64,
    /// Median busy time, summed over GPUs, nanoseconds.
    pub busy: f64,
    /// Busy share: median busy time ÷ (median projection × GPUs).
    pub busy_share: f64,
    /// Median sum of operation durations, nanoseconds.
    pub sum: f64,
    /// Median number of GPU operations.
    pub operations: f64,
    /// Share of operations attributed by inference.
    pub inferred_share: f64,
    /// Median number of decode steps, where steps have a range of their own.
    pub steps: Option<f64>,
}

/// Summaries of all stages of a pass, in stage order, one a process. Stages without GPU work have none.
pub fn summaries(facts: &Facts, pass: PassId) -> &[Summary] {
    let summaries = &facts.summaries;
    let before = |until: &dyn Fn(PassId) -> bool| {
        summaries.partition_point(|one| until(one.stage(facts).pass))
    };
    &summaries[before(&|stage_pass| stage_pass < pass)..before(&|stage_pass| stage_pass <= pass)]
}

/// The summaries of all stages by pass: what becomes [`Facts::summaries`].
pub fn summarize(facts: &Facts) -> Vec<Summary> {
    let mut stages: Vec<(usize, &Stage)> = facts.stages.iter().enumerate().collect();
    stages.arrange_by_key(|(_, stage)| stage.pass);
    let mut summaries = Vec::new();
    for (index, stage) in stages {
        let mut processes: Vec<ProcessId> = facts
            .instances_of(stage)
            .iter()
            .map(|instance| instance.process)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        // In the order of their first GPUs, which is that of ranks.
        processes.arrange_by_key(|process| (first_gpu(facts, stage, *process), *process));
        summaries.extend(
            processes
                .into_iter()
                .filter_map(|process| summary(facts, index, process)),
        );
    }
    summaries
}

/// What represents a whole sequence: the one in the middle by `key`, which ends in something unique; of an even
/// number both middle ones, the lower first. Who needs one takes the first.
pub fn middle<T, K: Ord>(mut all: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    all.arrange_by_key(key);
    let (first, count) = (all.len().saturating_sub(1) / 2, 2 - all.len() % 2);
    all.into_iter().skip(first).take(count).collect()
}

fn first_gpu(facts: &Facts, stage: &Stage, process: ProcessId) -> Option<GpuId> {
    let mut instances = facts.instances_by(stage, process).iter();
    instances.find_map(|instance| instance.gpus.first().copied())
}

fn summary(facts: &Facts, stage: usize, process: ProcessId) -> Option<Summary> {
    let instances = facts.instances_by(&facts.stages[stage], process);
    let with_work = |instance: &&StageInstance| instance.projection.is_some();
    let counted: Vec<&StageInstance> = instances
        .iter()
        .filter(|instance| instance.excluded.is_none())
        .filter(with_work)
        .collect();
    let column = |value: &dyn Fn(&StageInstance) -> Option<f64>| -> Vec<f64> {
        counted
            .iter()
            .filter_map(|instance| value(instance))
            .collect()
    };
    let times = column(&|instance| instance.time().map(|time| time.time().0));
    let time = median(&times)?;
    let busy = median(&column(&|instance| Some(instance.busy.time().0)))?;
    let gpus = counted
        .iter()
        .map(|instance| instance.gpus.len())
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    let operations: usize = counted.iter().map(|instance| instance.ops.len()).sum();
    let inferred: u32 = counted.iter().map(|instance| instance.inferred).sum();
    Some(Summary {
        stage,
        process,
        instances: instances.len(),
        counted: counted.len(),
        time,
        time_range: (
            times.iter().copied().fold(f64::INFINITY, f64::min),
            times.iter().copied().fold(0.0, f64::max),
        ),
        host: median(&column(&|instance| {
            Some(
                instance
                    .host_end
                    .saturating_sub(instance.host_start)
                    .time()
                    .0,
            )
        }))?,
        busy,
        busy_share: if time > 0.0 {
            busy / (time * gpus)
        } else {
            0.0
        },
        sum: median(&column(&|instance| Some(instance.sum.time().0)))?,
        operations: median(&column(&|instance| Some(instance.ops.len() as f64)))?,
        inferred_share: if operations > 0 {
            f64::from(inferred) / operations as f64
        } else {
            0.0
        },
        steps: median(&column(&|instance| {
            instance.steps.map(|steps| steps as f64)
        })),
    })
}

impl Summary {
    /// The instances that it is of: those of its process that have GPU work and are not excluded.
    pub fn counted_instances<'a>(
        &self,
        facts: &'a Facts,
    ) -> impl Iterator<Item = &'a StageInstance> + use<'a> {
        let instances = facts.instances_by(self.stage(facts), self.process).iter();
        instances.filter(|instance| instance.excluded.is_none() && instance.projection.is_some())
    }

    /// The stage.
    pub fn stage<'a>(&self, facts: &'a Facts) -> &'a Stage {
        &facts.stages[self.stage]
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session, facts: &Facts) -> Evidence {
        let tables = "launches, copies, api_calls, ranges";
        session.evidence(self.stage(facts).pass, tables, self.operations as u64)
    }

    /// What the metrics of this line are about.
    pub fn scope(&self, session: &Session, facts: &Facts) -> Scope {
        let stage = self.stage(facts);
        Scope {
            pass: Some(session.pass_name(stage.pass).to_owned()),
            stage: Some(stage.name.clone()),
            rank: is_named_by_rank(session, facts, stage.pass)
                .then(|| rank_of(session, facts, self))
                .flatten(),
            ..Scope::default()
        }
    }

    /// The stage's name, with the rank where several processes ran.
    pub fn label(&self, session: &Session, facts: &Facts) -> String {
        label(session, facts, self.stage, self.process)
    }

    /// Whether it is a phase of its own rather than a part of another stage.
    pub fn is_outermost(&self, facts: &Facts) -> bool {
        self.stage(facts).parent.is_none()
    }

    /// What the stage computes.
    pub fn kind(&self, facts: &Facts) -> StageKind {
        self.stage(facts).kind
    }
}

/// The name of a stage, with the rank of the process where several processes ran.
pub fn label(session: &Session, facts: &Facts, stage: usize, process: ProcessId) -> String {
    let Stage { pass, name, .. } = &facts.stages[stage];
    let rank = is_named_by_rank(session, facts, *pass)
        .then(|| rank_in(session, facts, stage, process))
        .flatten();
    match rank {
        Some(rank) => format!("{name} · rank {rank}"),
        None => name.clone(),
    }
}

/// The process's rank: the recorded one, or the ordinal of its GPU.
pub fn rank_of(session: &Session, facts: &Facts, summary: &Summary) -> Option<u32> {
    rank_in(session, facts, summary.stage, summary.process)
}

fn rank_in(session: &Session, facts: &Facts, stage: usize, process: ProcessId) -> Option<u32> {
    let recorded = session.processes.rank[process.index()];
    recorded.or_else(|| {
        let gpu = first_gpu(facts, &facts.stages[stage], process)?;
        Some(session.gpus.ordinal[gpu.index()])
    })
}

/// A process without GPU work, as one that compiles or loads data, is no rank.
fn is_named_by_rank(session: &Session, facts: &Facts, pass: PassId) -> bool {
    session.passes.rank[pass.index()].is_some() || facts.shared.contains(&pass)
}

#[cfg(test)]
mod tests {
    use super::{middle, summaries};
    use crate::engine::facts::Facts;
    use crate::testing::trace;
    use rooflens_session::PassId;

    #[test]
    fn stages_are_named_by_rank_where_several_processes_have_gpu_work() {
        let label = |events: &str| {
            let session = trace(&format!(
                "range step 0..100
                 launch 10..15 -> gemm 20..60
                 {events}"
            ));
            let facts = Facts::new(&session);
            summaries(&facts, PassId(0))[0].label(&session, &facts)
        };
        // A process that compiles or loads data is no rank.
        assert_eq!(label("rank 1"), "step");
        assert_eq!(label("rank 1\nstream 7: gemm 20..60"), "step · rank 0");
    }

    #[test]
    fn of_an_even_number_both_middle_ones_stand_for_all() {
        let of = |times: &[i64]| {
            let all: Vec<(i64, usize)> = times.iter().copied().zip(0..).collect();
            middle(all, |one| *one)
                .into_iter()
                .map(|(_, number)| number)
                .collect::<Vec<_>>()
        };
        // 10, 20, 30: the second by time. 10, 20, 30, 40: the second and the third.
        assert_eq!(of(&[30, 10, 20]), [2]);
        assert_eq!(of(&[30, 10, 40, 20]), [3, 0]);
        // Of equal times the earlier comes first.
        assert_eq!(of(&[7, 7, 7]), [1]);
        assert_eq!(of(&[5]), [0]);
        assert_eq!(of(&[]), [0; 0]);
    }
}
