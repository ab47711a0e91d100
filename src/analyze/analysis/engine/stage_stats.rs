//! One stage of one process in one line: medians over the instances that count.

use rooflens_schemas::{Evidence, Scope, StageKind};

use crate::engine::facts::{Facts, Stage, StageInstance};
use rooflens_session::{Arrange, GpuId, Ns, PassId, ProcessId, Session};
use rooflens_stats::median;
use rooflens_units::{Count, Ratio, Time};

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
    /// Median projection: the stage time.
    pub time: Time,
    /// Shortest and longest projection.
    pub time_range: (Time, Time),
    /// Median host duration of the range.
    pub host: Time,
    /// Median busy time, summed over GPUs.
    pub busy: Time,
    /// Busy share: median busy time ÷ (median projection × GPUs).
    pub busy_share: Ratio,
    /// Median sum of operation durations.
    pub sum: Time,
    /// Median number of GPU operations.
    pub operations: Count,
    /// Share of operations attributed by inference.
    pub inferred_share: Ratio,
    /// Median number of decode steps, where steps have a range of their own.
    pub steps: Option<Count>,
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
    let times = || counted.iter().filter_map(|instance| instance.time());
    let hosts = counted
        .iter()
        .map(|instance| instance.host_end.saturating_sub(instance.host_start));
    let time = median_time(times())?;
    let busy = median_time(counted.iter().map(|instance| instance.busy))?;
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
            times().min()?.time(),
            times().fold(Ns::ZERO, Ns::max).time(),
        ),
        host: median_time(hosts)?,
        busy,
        busy_share: if time.is_positive() {
            Ratio(busy / (time * gpus))
        } else {
            Ratio::ZERO
        },
        sum: median_time(counted.iter().map(|instance| instance.sum))?,
        operations: median_count(counted.iter().map(|instance| instance.ops.len() as u64))?,
        inferred_share: if operations > 0 {
            Ratio(f64::from(inferred) / operations as f64)
        } else {
            Ratio::ZERO
        },
        steps: median_count(counted.iter().filter_map(|instance| instance.steps)),
    })
}

/// Median of times in integer nanoseconds.
pub fn median_time(times: impl Iterator<Item = Ns>) -> Option<Time> {
    let times: Vec<f64> = times.map(|time| time.time().0).collect();
    median(&times).map(Time)
}

/// Typical figures of the iterations of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Means {
    /// First to last operation.
    pub time: Time,
    /// Busy time, mean over the GPUs.
    pub busy: Time,
    /// Operations.
    pub operations: Count,
    /// Sum of their durations.
    pub sum: Time,
}

fn median_count(counts: impl Iterator<Item = u64>) -> Option<Count> {
    let counts: Vec<f64> = counts.map(|count| count as f64).collect();
    median(&counts).map(Count)
}

impl Summary {
    /// The medians.
    pub fn medians(&self) -> Means {
        Means {
            time: self.time,
            busy: self.time * self.busy_share,
            operations: self.operations,
            sum: self.sum,
        }
    }

    /// Time, busy time, operations and their durations of an iteration, means: where iterations lie at two levels, the
    /// median is that of one of them.
    pub fn means(&self, facts: &Facts) -> Means {
        let mut means = Means::default();
        for instance in self.counted_instances(facts) {
            means.time += instance.time().unwrap_or_default().time();
            means.busy += instance.busy.time() / instance.gpus.len().max(1) as f64;
            means.operations += Count(instance.ops.len() as f64);
            means.sum += instance.sum.time();
        }
        let count = self.counted.max(1) as f64;
        Means {
            time: means.time / count,
            busy: means.busy / count,
            operations: means.operations * Ratio(1.0 / count),
            sum: means.sum / count,
        }
    }

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
        session.evidence(self.stage(facts).pass, tables, self.operations.0 as u64)
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
    named_by_rank(name, rank)
}

/// The name of a stage of a process, for pages and data files.
pub fn named_by_rank(stage: &str, rank: Option<u32>) -> String {
    match rank {
        Some(rank) => format!("{stage} · rank {rank}"),
        None => stage.to_owned(),
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
