//! The critical path of one step: what its length is made of, across streams, threads and ranks.

mod graph;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod walk;

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use crate::analysis::communication::last_ranks;
use crate::analysis::engine::facts::{Facts, OpIndex, Stage, StageInstance};
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stage_stats::middle;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Bar, Part, Plot, StackedBars};
use crate::findings::{Block, Chart, Findings, Quantity, View, derived};
use crate::model::{Ns, PassId, ProcessId, Session};

use graph::{Graph, Step};
use tables::Category;
use walk::Segment;

/// The longest chain of a step.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "critical-path", title: "Critical path", missing, run };

/// Rows of each table on the page.
const SHOWN: usize = 10;

/// Without calls nothing is known of what waited for what; the section of stages says what is missing.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let passes = passes_with_steps(context);
    let Some(pass) = passes.first().copied() else { return findings };
    let partners = last_ranks(context, pass);
    let Some((stage, ordinal, step)) = step(context.facts, pass, !partners.is_empty()) else {
        return findings;
    };
    let graph = Graph::new(context, &step, &partners);
    if graph.calls.is_empty() {
        return findings;
    }
    let segments = walk::path(&graph, &step);
    let times = tables::by_category(context, &segments);
    findings.blocks.push(Block::Prose(text::introduction(stage, ordinal, &step, &times)));
    findings.blocks.extend(text::choice(context, &passes).map(Block::Prose));
    findings.blocks.push(Block::Chart(chart(stage, &step, &times)));
    findings.metrics.extend(metrics(context, stage, ordinal, &step, &times));
    let path = tables::path(context, &segments);
    let columns = ["name", "category", "rank", "count", "time_ns", "share"];
    let caption = "What the critical path consists of";
    let shown = path.rows.len().min(SHOWN);
    findings.blocks.push(Block::Table(View::new("critical_path", caption, &columns, shown)));
    findings.datasets.push(path);
    let slack = tables::slack(context, &graph, &segments, &walk::slack(&graph, &step));
    let columns = ["class", "rank", "count", "time_ns", "on_path_ns", "slack_median_ns"];
    let caption = "Operations of the step and their slack";
    let shown = slack.rows.len().min(2 * SHOWN);
    findings.blocks.push(Block::Table(View::new("slack", caption, &columns, shown)));
    findings.datasets.push(slack);
    findings.methods.push(text::method());
    findings
}

/// The passes that have a stage and CUDA calls that issue its operations, the primary one first.
fn passes_with_steps(context: &Context<'_>) -> Vec<PassId> {
    let (facts, ops) = (context.facts, &context.facts.ops);
    let issued = |op: &OpIndex| ops.api_call[*op as usize].is_some();
    let has_steps = |pass: &PassId| {
        let stages = facts.stages.iter().filter(|stage| stage.pass == *pass);
        let mut instances = stages.flat_map(|stage| facts.instances_of(stage));
        instances.any(|one| one.excluded.is_none() && one.ops.iter().any(issued))
    };
    let mut passes = facts.passes_by_preference(context.session);
    passes.retain(has_steps);
    passes
}

/// The instance of median length of the stage with the most time. Ranks that meet in collectives are taken
/// together, by ordinal; others are not.
fn step(facts: &Facts, pass: PassId, together: bool) -> Option<(&Stage, u32, Step)> {
    let counted = |stage: &Stage| -> Vec<&StageInstance> {
        facts.instances_of(stage).iter().filter(|one| one.excluded.is_none()).collect()
    };
    let time = |stage: &Stage| total(counted(stage).iter().filter_map(|one| one.time()));
    let stages = facts.stages.iter().enumerate();
    let (_, stage) = stages
        .filter(|(_, stage)| stage.pass == pass && stage.parent.is_none())
        .max_by_key(|(at, stage)| (time(stage), std::cmp::Reverse(*at)))?;
    let instances = counted(stage);
    let first = instances.iter().map(|one| one.process).min()?;
    let mut steps: BTreeMap<u32, Step> = BTreeMap::new();
    for one in instances.iter().filter(|one| together || one.process == first) {
        let Some((start, end)) = one.projection else { continue };
        let fresh = Step { pass, processes: Vec::new(), start, end };
        let step = steps.entry(one.ordinal).or_insert(fresh);
        (step.start, step.end) = (step.start.min(start), step.end.max(end));
        step.processes.push(one.process);
    }
    let most = steps.values().map(|step| step.processes.len()).max()?;
    let list = steps.into_iter().filter(|(_, step)| step.processes.len() == most).collect();
    let list = middle(list, |(ordinal, step): &(u32, Step)| (step.end - step.start, *ordinal));
    list.into_iter().next().map(|(ordinal, step)| (stage, ordinal, step))
}

fn chart(stage: &Stage, step: &Step, times: &[(Category, Ns)]) -> Chart {
    let part = |(category, _): &(Category, Ns)| Part {
        name: category.label().to_owned(),
        color: category.color(),
    };
    let shown: Vec<(Category, Ns)> = times.iter().copied().filter(|(_, time)| *time > 0).collect();
    Chart {
        id: "critical-path".to_owned(),
        title: "The critical path of one step".to_owned(),
        description: format!(
            "One bar: the parts of the critical path of {}, as shares of its length. The text above names the \
             largest.",
            stage.name
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: shown.iter().map(part).collect(),
            bars: vec![Bar {
                label: stage.name.clone(),
                values: shown.iter().map(|(_, time)| *time as f64).collect(),
                note: Quantity::ns(step.end - step.start).to_string(),
            }],
        }),
    }
}

/// `critical_path` and the share of each category.
fn metrics(
    context: &Context<'_>,
    stage: &Stage,
    ordinal: u32,
    step: &Step,
    times: &[(Category, Ns)],
) -> Vec<Metric> {
    let session = context.session;
    let scope = Scope {
        pass: Some(session.pass_name(stage.pass).to_owned()),
        stage: Some(stage.name.clone()),
        ..Scope::default()
    };
    let length = step.end - step.start;
    let basis = format!(
        "instance {} on {} processes, first to last GPU operation",
        ordinal + 1,
        step.processes.len()
    );
    let mut all =
        vec![derived("critical_path", scope.clone(), Unit::Nanoseconds, length as f64, basis)];
    let share = |(category, time): &(Category, Ns)| {
        let basis =
            format!("{time} ns of {length} ns of the critical path of instance {}", ordinal + 1);
        derived(
            category.metric(),
            scope.clone(),
            Unit::Ratio,
            *time as f64 / length.max(1) as f64,
            basis,
        )
    };
    all.extend(times.iter().map(share));
    let artifact = session.artifact_of(stage.pass).to_owned();
    for metric in &mut all {
        let table = Some("launches, copies, api_calls".to_owned());
        metric.evidence.push(Evidence { artifact: artifact.clone(), table, rows: None });
    }
    all
}

/// The rank of a process, for tables: the recorded one, or the number of its first GPU.
fn rank(context: &Context<'_>, process: ProcessId) -> u32 {
    let (session, ops) = (context.session, &context.facts.ops);
    session.processes.rank[process.index()].unwrap_or_else(|| {
        let first = ops.process.iter().position(|its| *its == process);
        first.map_or(0, |op| session.gpus.ordinal[ops.gpu[op].index()])
    })
}

impl Segment {
    const fn length(&self) -> Ns {
        self.end - self.start
    }
}
