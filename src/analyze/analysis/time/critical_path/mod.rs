//! The critical path of one step: what its length is made of, across streams, threads and ranks.

pub mod graph;
mod sums;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;

use crate::engine::facts::{OpIndex, Stage, StageInstance};
use crate::engine::intervals::total;
use crate::engine::stage_stats::middle;
use crate::{Context, Known, Missing};
use rooflens_session::{Ns, PassId};

use graph::{Graph, Step};

pub use sums::{Category, PathSum, Slack, Subject};

/// The longest chain of a step.
pub struct CriticalPath {
    /// Passes that have steps; the path is of the first.
    pub passes: Vec<PassId>,
    /// The stage with the most time, an index into the facts' stages.
    pub stage: usize,
    /// Number of its iteration, from 0: the one nearest to the medians of idle time by cause.
    pub ordinal: u32,
    /// Processes that took part.
    pub processes: usize,
    /// First start to last end of its GPU operations, nanoseconds.
    pub length: Ns,
    /// The time of each category, nanoseconds; they add up to the length.
    pub times: Vec<(Category, Ns)>,
    /// What the path consists of, by category and subject.
    pub path: Vec<PathSum>,
    /// Slack of the step's operations, by kind and process.
    pub slack: Vec<Slack>,
}

/// Finds the path; missing without CUDA calls, because nothing is known of what waited for what.
pub fn compute(context: &Context<'_>) -> Known<CriticalPath> {
    find(context).ok_or(Missing("missing.stage_calls"))
}

fn find(context: &Context<'_>) -> Option<CriticalPath> {
    let passes = passes_with_steps(context);
    let pass = *passes.first()?;
    let partners = context
        .results
        .communication()
        .map(|communication| communication.last_ranks(pass));
    let partners = partners.unwrap_or_default();
    let (stage, ordinal, step) = step(context, pass, !partners.is_empty())?;
    let graph = Graph::new(context, &step, &partners);
    if graph.calls.is_empty() {
        return None;
    }
    let segments = walk::path(&graph, &step);
    let path = sums::path(context, &segments);
    let slack = sums::slack(context, &graph, &segments, &walk::slack(&graph, &step));
    Some(CriticalPath {
        passes,
        stage,
        ordinal,
        processes: step.processes.len(),
        length: step.end - step.start,
        times: sums::by_category(&path),
        path,
        slack,
    })
}

/// The passes that have a stage and CUDA calls that issue its operations, the primary one first.
fn passes_with_steps(context: &Context<'_>) -> Vec<PassId> {
    let (facts, ops) = (context.facts, &context.facts.ops);
    let issued = |op: &OpIndex| ops.api_call[*op as usize].is_some();
    let has_steps = |pass: &PassId| {
        let stages = facts.stages.iter().filter(|stage| stage.pass == *pass);
        let mut instances = stages.flat_map(|stage| facts.instances_of(stage));
        instances.any(|instance| instance.excluded.is_none() && instance.ops.iter().any(issued))
    };
    let mut passes = facts.passes_by_preference(context.session);
    passes.retain(has_steps);
    passes
}

/// Of the stage with the most time the instance whose shares of idle time are nearest to the medians on the first rank,
/// or else the one of median length. Ranks that meet in collectives are taken together, by ordinal; others are not.
fn step(context: &Context<'_>, pass: PassId, together: bool) -> Option<(usize, u32, Step)> {
    let facts = context.facts;
    let counted = |stage: &Stage| -> Vec<&StageInstance> {
        facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.excluded.is_none())
            .collect()
    };
    let time = |stage: &Stage| total(counted(stage).iter().filter_map(|instance| instance.time()));
    let stages = facts.stages.iter().enumerate();
    let (index, stage) = stages
        .filter(|(_, stage)| stage.pass == pass && stage.parent.is_none())
        .max_by_key(|(at, stage)| (time(stage), std::cmp::Reverse(*at)))?;
    let instances = counted(stage);
    let first = instances.iter().map(|instance| instance.process).min()?;
    let mut steps: BTreeMap<u32, Step> = BTreeMap::new();
    for instance in instances
        .iter()
        .filter(|instance| together || instance.process == first)
    {
        let Some((start, end)) = instance.projection else {
            continue;
        };
        let fresh = Step {
            pass,
            processes: Vec::new(),
            start,
            end,
        };
        let step = steps.entry(instance.ordinal).or_insert(fresh);
        (step.start, step.end) = (step.start.min(start), step.end.max(end));
        step.processes.push(instance.process);
    }
    let most = steps.values().map(|step| step.processes.len()).max()?;
    let mut list: Vec<(u32, Step)> = steps
        .into_iter()
        .filter(|(_, step)| step.processes.len() == most)
        .collect();
    let idle = context.results.idle().ok();
    let nearest = idle
        .and_then(|idle| idle.nearest(facts, index, first))
        .map(|instance| instance.ordinal);
    if list.iter().any(|(ordinal, _)| Some(*ordinal) == nearest) {
        list.retain(|(ordinal, _)| Some(*ordinal) == nearest);
    }
    let list = middle(list, |(ordinal, step): &(u32, Step)| {
        (step.end - step.start, *ordinal)
    });
    list.into_iter()
        .next()
        .map(|(ordinal, step)| (index, ordinal, step))
}
