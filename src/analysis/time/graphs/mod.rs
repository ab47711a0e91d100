//! CUDA graphs: how long replays take, what the GPU does inside and between them, and what their kernels are.

pub(crate) mod align;
mod origins;
mod replays;
mod rows;
pub(crate) mod twins;

#[cfg(test)]
mod tests;

use rooflens_schemas::{Evidence, Metric, Polarity, Scope, Unit};

use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::{Analysis, Context};
use crate::findings::{
    Block, Findings, Inline, Method, Quantity, View, derived, measured, unavailable,
};
use crate::model::PassId;
use crate::prose;

use replays::{Replay, Replays};
use rows::{Line, busy_of, median_gap, median_time};

/// CUDA graphs. A bundle without graphs has no such section.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "graphs", title: "CUDA graphs", missing: |_| None, run };

/// Lines that a page shows.
const SHOWN: usize = 15;

/// What an artifact with graphs as single operations cannot tell.
const WHOLE: &str = "graphs were traced as single operations: capture with --cuda-graph-trace=node";

fn run(context: &Context<'_>) -> Findings {
    let replays = replays::find(context);
    let mut findings = Findings::default();
    let lines = rows::lines(context, &replays);
    let Some(first) = lines.first() else { return findings };
    let shown = replays.graphs[first.graph].pass;
    findings.blocks.push(Block::Prose(introduction(context, &replays, &lines, shown)));
    findings.blocks.push(Block::Chart(rows::chart(context, &replays, &lines, shown)));
    findings.blocks.push(Block::Table(View::new(
        "graphs",
        "Replays by graph and stage; times are medians",
        &[
            "graph",
            "pass",
            "stage",
            "replays",
            "nodes",
            "replay_ns",
            "busy_share",
            "gap_ns",
            "gap_idle_ns",
            "launch_ns",
        ],
        SHOWN,
    )));
    findings.blocks.extend(whole_graphs(context, &replays).map(Block::Prose));
    findings.datasets.push(rows::dataset(context, &replays, &lines));
    origins::add(context, &replays, &mut findings);
    add_metrics(context, &replays, &mut findings);
    findings.methods.push(method());
    findings
}

fn introduction(
    context: &Context<'_>,
    replays: &Replays,
    lines: &[Line<'_>],
    shown: PassId,
) -> Vec<Inline> {
    let own = || lines.iter().filter(|line| replays.graphs[line.graph].pass == shown);
    let counted: usize = own().map(|line| line.replays.len()).sum();
    let all = replays.all.iter().filter(|replay| replays.graphs[replay.graph].pass == shown);
    let left_out = all.count() - counted;
    let graphs = replays.graphs.iter().filter(|graph| graph.pass == shown).count();
    let name = context.session.pass_name(shown).to_owned();
    let mut text = prose![
        "A replay is all work of one graph launch. The pass ",
        Inline::Code(name),
        " has ",
        Quantity::count(counted as u64),
        if counted == 1 { " replay of " } else { " replays of " },
        Quantity::count(graphs as u64),
        if graphs == 1 { " graph. " } else { " graphs. " },
        "The time between replays runs from the end of one to the start of the next in the same stage instance."
    ];
    if left_out > 0 {
        text.extend(prose![
            " ",
            Quantity::count(left_out as u64),
            " more lie in instances that do not count."
        ]);
    }
    text
}

/// Says which passes have graphs as single operations, and what another trace would add.
fn whole_graphs(context: &Context<'_>, replays: &Replays) -> Option<Vec<Inline>> {
    let mut passes: Vec<PassId> =
        replays.graphs.iter().filter(|graph| graph.whole).map(|graph| graph.pass).collect();
    passes.dedup();
    let names = passes.iter().map(|pass| context.session.passes.name[pass.index()]);
    let names: Vec<&str> = names.map(|name| context.session.text(name)).collect();
    (!names.is_empty()).then(|| {
        prose![
            "In ",
            Inline::Code(names.join(", ")),
            " a graph is one operation that counts as busy from start to end; ",
            Inline::Code("nsys profile --cuda-graph-trace=node".to_owned()),
            " would show its kernels and the idle time inside, and slow its launches down."
        ]
    })
}

/// Metrics of all outermost stages with replays that count.
fn add_metrics(context: &Context<'_>, replays: &Replays, findings: &mut Findings) {
    let (session, facts) = (context.session, context.facts);
    for pass in session.passes.ids() {
        for summary in summaries(facts, pass).iter().filter(|line| line.is_outermost(facts)) {
            let counts = |replay: &&Replay| {
                replay.instance.is_some_and(|at| {
                    let instance = &facts.instances[at];
                    (instance.stage, instance.process) == (summary.stage, summary.process)
                        && instance.excluded.is_none()
                })
            };
            let own: Vec<&Replay> = replays.all.iter().filter(counts).collect();
            if own.is_empty() {
                continue;
            }
            let whole = own.iter().any(|replay| replays.graphs[replay.graph].whole);
            let mut metrics = metrics(&summary.scope(session, facts), &own, whole);
            for metric in &mut metrics {
                metric.evidence.push(Evidence {
                    artifact: session.artifact_of(pass).to_owned(),
                    table: Some("launches, copies, graph_launches, api_calls".to_owned()),
                    rows: Some(own.iter().map(|replay| replay.members.len() as u64).sum()),
                });
            }
            findings.metrics.extend(metrics);
        }
    }
}

fn metrics(scope: &Scope, own: &[&Replay], whole: bool) -> Vec<Metric> {
    let count = own.len();
    let over = format!("median of {count} replays");
    let mut all = vec![measured(
        "graph_replays",
        scope.clone(),
        Unit::Count,
        count as f64,
        "graph launches with work on the GPU, in the instances that count",
    )];
    if let Some(time) = median_time(own) {
        let basis = format!("first start to last end of a replay's operations, {over}");
        let mut metric =
            derived("graph_replay_time", scope.clone(), Unit::Nanoseconds, time, basis);
        metric.polarity = Polarity::Lower;
        all.push(metric);
    }
    let (busy, time) = busy_of(own);
    all.push(if whole {
        unavailable("graph_busy_share", scope.clone(), Unit::Ratio, WHOLE)
    } else if time > 0 {
        let basis = format!("{busy} ns busy / {time} ns of {count} replays");
        let share = busy as f64 / time as f64;
        let mut metric = derived("graph_busy_share", scope.clone(), Unit::Ratio, share, basis);
        metric.polarity = Polarity::Higher;
        metric
    } else {
        unavailable("graph_busy_share", scope.clone(), Unit::Ratio, "the replays take no time")
    });
    all.push(match median_gap(own) {
        Some(gap) => {
            let gaps = own.iter().filter(|replay| replay.gap.is_some()).count();
            let basis = format!(
                "end of the replay before to start of the next one in a stage instance on a GPU, median of {gaps}"
            );
            let mut metric = derived("graph_gap", scope.clone(), Unit::Nanoseconds, gap, basis);
            metric.polarity = Polarity::Lower;
            metric
        }
        None => {
            let reason = "no stage instance has two replays";
            unavailable("graph_gap", scope.clone(), Unit::Nanoseconds, reason)
        }
    });
    all
}

fn method() -> Method {
    Method {
        title: "CUDA graphs".to_owned(),
        text: prose![
            "A replay is the set of operations that share the process and correlation id of one graph launch. \
             Replays are of one graph if the artifact gives them one graph number; without it, if they share a \
             node; without nodes, if they run the same kernels equally often. Idle inside a replay is time in \
             which none of its own operations runs. What an operation is: its node, or the graph if that is one operation, is followed from clone to \
             original; the innermost range that was open on the creating thread when the original was created \
             is its range at capture. Contradicting or missing events leave it without a range, with the reason. \
             Kernels without one are aligned with those of a stage instance that ran without graphs, in this or \
             another pass, by the longest common subsequence over (kernel, grid, block); aligned kernels take the \
             range, operator and module of their partner."
        ],
    }
}
