//! Stage times: how long each stage takes, how long the GPU is busy in it and with what, and what is attributed to
//! none.

pub mod attribution;

use crate::engine::classify::{ClassGroup, GroupTimes};
use crate::engine::segments::exclusive;
use crate::engine::stage_stats::{Summary, summaries};
use crate::results::no_gpu_work;
use crate::{Context, Known};
use rooflens_session::{Ns, PassId};
use rooflens_stats::doubtful_first;
use rooflens_units::{Ratio, Time};

use attribution::PassAttribution;

/// The stages of all passes.
pub struct StageTimes {
    /// The pass whose times a report shows first.
    pub primary: PassId,
    /// One a stage and process, by (pass, stage).
    pub stages: Vec<StageTime>,
    /// How operations were attributed, by pass; passes without operations are excluded.
    pub attribution: Vec<PassAttribution>,
}

/// A stage of one process.
pub struct StageTime {
    /// Pass.
    pub pass: PassId,
    /// Whether that is the primary pass or another rank of its run.
    pub is_primary: bool,
    /// Medians over the instances that count.
    pub summary: Summary,
    /// Busy time of the counted instances by group of classes, which adds up to busy time exactly; of the primary
    /// pass, and of the one that shows the nodes of its graphs.
    pub groups: Option<GroupTimes>,
    /// Of an outermost stage of the primary pass: how many times as long as the median of the others the first
    /// counted instance takes, and how many others there are, if these are too few to tell whether it is a cold one.
    pub doubtful_first: Option<(Ratio, usize)>,
}

impl StageTimes {
    /// The stages, those of the primary pass first.
    pub fn primary_first(&self) -> impl Iterator<Item = &StageTime> {
        let of_primary = |is: bool| self.stages.iter().filter(move |time| time.is_primary == is);
        of_primary(true).chain(of_primary(false))
    }

    /// The stages of the primary pass.
    pub fn of_primary(&self) -> impl Iterator<Item = &StageTime> {
        self.stages.iter().filter(|time| time.is_primary)
    }
}

impl StageTime {
    /// Busy time of the counted instances and its parts by group, as far as they last.
    pub fn parts(&self) -> Vec<(ClassGroup, Time)> {
        let groups = self.groups.iter().flatten();
        let parts = ClassGroup::ALL
            .into_iter()
            .zip(groups)
            .filter(|(_, time)| **time > Ns::ZERO);
        parts.map(|(group, time)| (group, time.time())).collect()
    }

    /// Busy time of a group of classes as a share of that of all.
    pub fn share(&self, group: ClassGroup) -> Ratio {
        let parts = self.parts();
        let part = parts.iter().find(|(part, _)| *part == group);
        part.map_or(Ratio::ZERO, |(_, time)| {
            Ratio(*time / parts.iter().map(|(_, time)| time).sum::<Time>())
        })
    }

    /// The group of classes with the most busy time, and its share.
    pub fn largest(&self) -> Option<(ClassGroup, Ratio)> {
        let (group, _) = self
            .parts()
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((group, self.share(group)))
    }
}

/// Sums up all stages.
pub fn compute(context: &Context<'_>) -> Known<StageTimes> {
    let primary = context.facts.primary_pass(context.session);
    let primary = primary.ok_or_else(|| no_gpu_work(context.session))?;
    let passes = || context.session.passes.ids();
    let stage = |pass: PassId, summary: Summary| {
        let is_primary = context.facts.run.contains(&pass);
        let shows_kernels = is_primary || context.facts.graph_nodes == Some(pass);
        let groups = shows_kernels.then(|| group_times(context, &summary));
        let doubtful_first = is_primary.then(|| doubtful(context, &summary)).flatten();
        StageTime {
            pass,
            is_primary,
            groups,
            doubtful_first,
            summary,
        }
    };
    let of_pass = |pass: PassId| {
        summaries(context.facts, pass)
            .iter()
            .cloned()
            .map(move |summary| stage(pass, summary))
    };
    let stages = passes().flat_map(of_pass).collect();
    let attribution = passes()
        .filter_map(|pass| attribution::of_pass(context, pass))
        .collect();
    Ok(StageTimes {
        primary,
        stages,
        attribution,
    })
}

fn doubtful(context: &Context<'_>, summary: &Summary) -> Option<(Ratio, usize)> {
    let times = summary
        .counted_instances(context.facts)
        .filter_map(|instance| Some(instance.time()?.time().0));
    let times: Vec<f64> = times.collect();
    let factor = doubtful_first(&times).filter(|_| summary.is_outermost(context.facts))?;
    Some((Ratio(factor), times.len() - 1))
}

fn group_times(context: &Context<'_>, summary: &Summary) -> GroupTimes {
    let ops = &context.facts.ops;
    let mut times = GroupTimes::default();
    for instance in summary.counted_instances(context.facts) {
        for gpu in &instance.gpus {
            let operations = instance
                .ops
                .iter()
                .map(|op| *op as usize)
                .filter(|op| ops.gpu[*op] == *gpu);
            for segment in exclusive(context, operations) {
                let time = &mut times[segment.group as usize];
                *time = time.saturating_add(segment.end - segment.start);
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{trace, with_results};

    /// A GEMM in [0, 10), an all-reduce in [5, 20), a copy in [15, 30): 10 + 10 + 10 = busy 30.
    #[test]
    fn overlap_belongs_to_computing_then_to_communication_then_to_copies() {
        let session = trace(
            "stream 7: ampere_sgemm_128x64_tn 0..10, memcpy HtoD 15..30
             stream 8: ncclDevKernel_AllReduce_Sum_f32_RING_LL 5..20",
        );
        let times = with_results(&session, |context| compute(context).expect("work"));
        let stage = &times.stages[0];
        let expected = [
            ClassGroup::Gemm,
            ClassGroup::Copy,
            ClassGroup::Communication,
        ];
        assert_eq!(stage.parts(), expected.map(|group| (group, Time(10.0))));
        assert_eq!(stage.summary.busy, Time(30.0));
    }
}
