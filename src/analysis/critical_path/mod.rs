//! The critical path of one step: what its length is made of, across streams, threads and ranks.

mod graph;
mod tables;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use super::communication::last_ranks;
use super::facts::{Facts, Stage, StageInstance};
use super::intervals::total;
use super::summary::middle;
use super::{Analysis, Context};
use crate::findings::chart::{Bar, Part, Plot, StackedBars};
use crate::findings::{Block, Chart, Findings, Inline, Method, Quantity, View, derived};
use crate::model::{Ns, PassId, ProcessId, Session};
use crate::prose;

use graph::{DEPENDENCY_NS, Graph, Step};
use tables::Category;
use walk::Segment;

/// The longest chain of a step.
pub(super) static ANALYSIS: Analysis =
    Analysis { id: "critical-path", title: "Critical path", missing, run };

/// Rows of each table on the page.
const SHOWN: usize = 10;

/// Without calls nothing is known of what waited for what; the section of stages says what is missing.
const fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let Some(pass) = context.facts.primary_pass(context.session) else { return findings };
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
    findings.blocks.push(Block::Prose(introduction(stage, ordinal, &step, &times)));
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
    findings.methods.push(method());
    findings
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

fn introduction(stage: &Stage, ordinal: u32, step: &Step, times: &[(Category, Ns)]) -> Vec<Inline> {
    let length = step.end - step.start;
    let mut text = prose![
        "The chain of operations, calls and code between them that decides how long instance ",
        Quantity::count(u64::from(ordinal)),
        " of ",
        Inline::Code(stage.name.clone()),
        ", the one of median length, takes: ",
        Quantity::ns(length),
    ];
    if step.processes.len() > 1 {
        text.push(format!(" on {} ranks", step.processes.len()).into());
    }
    text.push(". It consists of ".into());
    let mut largest: Vec<&(Category, Ns)> = times.iter().filter(|(_, time)| *time > 0).collect();
    largest.sort_by_key(|(category, time)| (std::cmp::Reverse(*time), *category));
    for (at, (category, time)) in largest.iter().take(4).enumerate() {
        let share = Quantity::ratio(*time as f64 / length.max(1) as f64);
        let comma = if at == 0 { "" } else { ", " };
        text.extend(prose![comma, share, format!(" {}", category.label())]);
    }
    text.push(". Only what lies on it makes the step shorter; the rest has slack.".into());
    text
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
        pass: Some(session.text(session.passes.name[stage.pass.index()]).to_owned()),
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
    let artifact = session.text(session.passes.artifact[stage.pass.index()]).to_owned();
    for metric in &mut all {
        let table = Some("launches, copies, api_calls".to_owned());
        metric.evidence.push(Evidence { artifact: artifact.clone(), table, rows: None });
    }
    all
}

fn method() -> Method {
    Method {
        title: "Critical path".to_owned(),
        text: prose![
            "From the last GPU operation of the step back to its first, always to what was waited for last. An \
             operation waits for the operation before it on its stream and for the call that issued it, which \
             takes at least the shortest time from call to operation that the step shows; one that begins more \
             than ",
            Quantity::ns(DEPENDENCY_NS),
            " later than both allow waited for the operation of another stream of its GPU that ended last before \
             it. A collective that waited is followed on the rank that came last. A synchronizing call waits for \
             the operation of its process that ended last while it ran; any other call follows the call of the \
             process that ended last before it began, among threads that issue work in the step, and the time \
             between is host code. The pieces fill the step to the nanosecond. Slack is by how much an operation \
             could end later without the step ending later, over the same edges, where host code takes as long as \
             it took. Dependencies that order does not show (events that did not delay anything) are unknown, so \
             slack is an upper bound.",
        ],
    }
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
