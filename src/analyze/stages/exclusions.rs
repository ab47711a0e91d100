//! Instances that are no part of the aggregates of their stage, and why.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_schemas::StageKind;
use rooflens_session::{Ns, PassId, ProcessId, Session};
use rooflens_stats::{modified_z_of_first, rises};

use crate::stages::{Spans, WARMUP_Z};
use crate::tables::{Exclusion, Stage, StageInstance, StageTables};

impl StageTables {
    /// Marks instances that are no part of the aggregates, with the reason: declared warm-up, a number of steps that is not
    /// the usual one, or a cold start. A part of another stage has the reason of the instance around it.
    pub(super) fn mark_excluded(&mut self, session: &Session) {
        for stage in 0..self.stages.len() {
            self.exclude_in(session, stage);
        }
        let passes: BTreeSet<PassId> = self.stages.iter().map(|stage| stage.pass).collect();
        for pass in passes {
            self.exclude_earlier_level(session, pass);
        }
        // A part of another stage counts if that counts.
        for stage in 0..self.stages.len() {
            if let Some(parent) = self.stages[stage].parent {
                let spans = Spans::new(self, &self.stages[parent]);
                for index in self.stages[stage].instances.clone() {
                    if let Some(outer) = spans.around(&self.instances[index])
                        && !self.instances[index]
                            .excluded
                            .is_some_and(Exclusion::is_refusal)
                    {
                        self.instances[index].excluded = self.instances[outer].excluded;
                    }
                }
            }
        }
    }

    fn exclude_in(&mut self, session: &Session, stage: usize) {
        let pass = session.text(session.passes.name[self.stages[stage].pass.index()]);
        let workload = session.workload.for_pass(pass);
        // The nodes of graphs are recorded in a window after the warm-up.
        let is_window = self.graph_nodes == Some(self.stages[stage].pass);
        let declared = workload.warmup.filter(|_| !is_window).unwrap_or(0);
        let stated = workload
            .output_tokens
            .filter(|_| self.stages[stage].kind == StageKind::Decode);
        let range = self.stages[stage].instances.clone();
        let processes: BTreeSet<ProcessId> = self.instances[range.clone()]
            .iter()
            .map(|instance| instance.process)
            .collect();
        for process in processes {
            let instances = &self.instances[range.clone()];
            let first =
                range.start + instances.partition_point(|instance| instance.process < process);
            let last =
                range.start + instances.partition_point(|instance| instance.process <= process);
            let group: Vec<usize> = (first..last).collect();
            // A capture that a gate cut out may hold fewer instances than the warm-up that was declared.
            let declared = if group.len() as u64 > declared {
                declared
            } else {
                0
            };
            let expected = self.usual_steps(&group, declared, stated);
            let warm = self.warm_from(stage, process, declared);
            for index in &group {
                let instance = &mut self.instances[*index];
                if instance.excluded.is_some() {
                    continue;
                }
                let is_early = warm.is_some_and(|warm| instance.host_start < warm);
                instance.excluded = if is_early || u64::from(instance.ordinal) < declared {
                    Some(Exclusion::DeclaredWarmup)
                } else {
                    step_mismatch(instance.steps, expected)
                };
            }
            self.exclude_cold_start(&group);
        }
    }

    /// Where the iterations of the longest stage rise to another level, those before it are no part of the aggregates: the
    /// program runs at the last level, and a figure of both is of neither. Ranks do so together or not at all, and so do
    /// unprofiled repeats.
    fn exclude_earlier_level(&mut self, session: &Session, pass: PassId) {
        let is_outermost = |stage: &&Stage| stage.pass == pass && stage.parent.is_none();
        let outermost: Vec<Stage> = self.stages.iter().filter(is_outermost).cloned().collect();
        let time = |stage: &&Stage| {
            let instances = self.instances_of(stage).iter();
            let counted = instances.filter(|instance| instance.excluded.is_none());
            counted.filter_map(StageInstance::time).sum::<Ns>()
        };
        let Some(longest) = outermost.iter().max_by_key(time) else {
            return;
        };
        let unprofiled = unprofiled(session, &longest.name);
        if !unprofiled.is_empty() && rises(&unprofiled).is_none() {
            return;
        }
        let mut changes = Vec::new();
        for instances in self
            .instances_of(longest)
            .chunk_by(|a, b| a.process == b.process)
        {
            let Some(first) = first_of_level(instances) else {
                return;
            };
            changes.push((
                first.process,
                first.ordinal,
                first.host_start,
                instances.len(),
            ));
        }
        for (process, ordinal, start, count) in changes {
            for stage in &outermost {
                let of_process = |index: &usize| self.instances[*index].process == process;
                let group: Vec<usize> = stage.instances.clone().filter(of_process).collect();
                let is_same = group.len() == count;
                let is_earlier = |instance: &StageInstance| match is_same {
                    true => instance.ordinal < ordinal,
                    false => instance.host_start < start,
                };
                let counted = |index: &usize| self.instances[*index].excluded.is_none();
                let (earlier, later): (Vec<usize>, Vec<usize>) = group
                    .into_iter()
                    .filter(counted)
                    .partition(|index| is_earlier(&self.instances[*index]));
                // A stage of the first part alone keeps its figures.
                if !later.is_empty() {
                    for index in earlier {
                        self.instances[index].excluded = Some(Exclusion::EarlierLevel);
                    }
                }
            }
        }
    }

    /// Where the first request after the declared warm-up begins. A request has one prefill, and can have many decode steps
    /// without a range around them.
    fn warm_from(&self, stage: usize, process: ProcessId, declared: u64) -> Option<Ns> {
        let Stage { pass, kind, .. } = self.stages[stage];
        if declared == 0 || !matches!(kind, StageKind::Decode | StageKind::DecodeStep) {
            return None;
        }
        let mut stages = self.stages.iter();
        let prefill = stages.find(|of| of.pass == pass && of.kind == StageKind::Prefill)?;
        let mut prefills = self.instances_of(prefill).iter();
        let is_first =
            |of: &&StageInstance| of.process == process && u64::from(of.ordinal) == declared;
        Some(prefills.find(is_first)?.host_start)
    }

    /// The number of steps that a loop has unless it stopped early: the stated one, or the most frequent one. Prompts of
    /// different lengths have no usual number: then less than half of the loops after the warm-up have it, and a loop is
    /// excluded for its length no more than any other.
    fn usual_steps(&self, group: &[usize], declared: u64, stated: Option<u64>) -> Option<u64> {
        let steps = |index: &usize| self.instances[*index].steps;
        let expected = stated.or_else(|| most_frequent(group.iter().filter_map(steps)))?;
        let (mut loops, mut usual) = (0, 0);
        for index in group {
            let instance = &self.instances[*index];
            let is_warmup = u64::from(instance.ordinal) < declared;
            if instance.excluded.is_none() && !is_warmup {
                loops += u32::from(instance.steps.is_some());
                usual += u32::from(instance.steps == Some(expected));
            }
        }
        (usual * 2 >= loops).then_some(expected)
    }

    /// The first instance that counts is excluded if it is an outlier against the rest; of loops of different lengths, by
    /// the time of a step.
    fn exclude_cold_start(&mut self, group: &[usize]) {
        let counted: Vec<usize> = group
            .iter()
            .copied()
            .filter(|index| self.instances[*index].excluded.is_none())
            .collect();
        let first_steps = counted
            .first()
            .and_then(|index| self.instances[*index].steps);
        let differs = |index: &usize| self.instances[*index].steps != first_steps;
        let by_step = counted.iter().any(differs);
        let times: Vec<f64> = counted
            .iter()
            .filter_map(|index| {
                let instance = &self.instances[*index];
                let steps = if by_step { instance.steps? } else { 1 };
                Some(instance.time()?.time().0 / steps.max(1) as f64)
            })
            .collect();
        if times.len() == counted.len()
            && let Some(z) = modified_z_of_first(&times)
            && z > WARMUP_Z
        {
            self.instances[counted[0]].excluded = Some(Exclusion::ColdStart { z });
        }
    }
}

/// Unprofiled times of a stage, as the first artifact with some has them.
fn unprofiled(session: &Session, stage: &str) -> Vec<f64> {
    let timings = &session.timings;
    let is_of_stage = |row: &usize| {
        timings.profiled[*row] == Some(false) && session.text(timings.stage[*row]) == stage
    };
    let rows: Vec<usize> = (0..timings.len()).filter(is_of_stage).collect();
    let artifact = rows.first().map(|row| timings.artifact[*row]);
    let of_artifact = rows
        .into_iter()
        .filter(|row| Some(timings.artifact[*row]) == artifact);
    of_artifact
        .map(|row| timings.duration[row].time().0)
        .collect()
}

/// The first instance at a higher level than those before it, if all do the same work.
fn first_of_level(instances: &[StageInstance]) -> Option<&StageInstance> {
    let is_counted = |instance: &&StageInstance| instance.excluded.is_none();
    let counted: Vec<&StageInstance> = instances.iter().filter(is_counted).collect();
    let work = |instance: &StageInstance| (instance.sizes.of_work(), instance.steps);
    let is_alike = counted
        .windows(2)
        .all(|pair| work(pair[0]) == work(pair[1]));
    let times: Vec<f64> = counted
        .iter()
        .filter_map(|instance| Some(instance.time()?.time().0))
        .collect();
    let first = rises(&times).filter(|_| is_alike && times.len() == counted.len())?;
    Some(counted[first])
}

/// The most frequent value. Of equally frequent ones it is the largest: loops stop early more often than they run long.
fn most_frequent(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(value, count)| (*count, *value))
        .map(|(value, _)| value)
}

fn step_mismatch(steps: Option<u64>, usual: Option<u64>) -> Option<Exclusion> {
    let (steps, usual) = (steps?, usual?);
    (steps != usual).then_some(Exclusion::Steps { steps, usual })
}
