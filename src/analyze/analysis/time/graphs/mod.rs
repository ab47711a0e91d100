//! CUDA graphs: how long replays take, what the GPU does inside and between them, and what their kernels are.

pub mod eager;
pub mod figures;
pub mod nodes;
pub mod replays;

use std::cmp::Reverse;

use crate::engine::classify::KernelClass;
use crate::engine::facts::OpIndex;
use crate::engine::intervals::total;
use crate::engine::stage_stats::{Summary, summaries};
use crate::{Context, Facts, Known};
use rooflens_session::{Arrange, KernelId, Ns};
use rooflens_units::Ratio;

use figures::Figures;
use nodes::PassNodes;
use replays::{Replay, Replays};

/// CUDA graphs of all passes.
#[derive(Default)]
pub struct Graphs {
    /// All replays.
    pub replays: Replays,
    /// Graphs by stage, without replays in instances that are excluded of the aggregates: by (primary pass first,
    /// pass, time descending, graph, stage).
    pub by_stage: Vec<StageGraph>,
    /// Outermost stages with replays that count, by pass.
    pub stages: Vec<StageReplays>,
    /// What the operations in graphs are, by pass, the primary one first.
    pub nodes: Vec<PassNodes>,
}

/// Replays of one graph in one stage.
pub struct StageGraph {
    /// An index into [`Replays::graphs`].
    pub graph: usize,
    /// An index into `Facts::stages`; absent for replays outside of all stages.
    pub stage: Option<usize>,
    /// Its replays.
    pub figures: Figures,
    /// Their sums of durations by class, in the order of [`KernelClass::ALL`], nanoseconds.
    pub classes: Vec<(KernelClass, Ns)>,
    /// An outermost stage of the same process that runs the same kernels without a graph.
    pub eager: Option<Summary>,
}

/// Replays of all graphs in one stage of one process.
pub struct StageReplays {
    /// The stage.
    pub summary: Summary,
    /// Its replays.
    pub figures: Figures,
    /// A graph among them was traced as one operation.
    pub whole: bool,
}

impl Graphs {
    /// Stages whose graphs were traced as a whole for times, and again by node for kernels: each first as a whole.
    pub fn traced_twice(&self, facts: &Facts) -> Vec<(&StageReplays, &StageReplays)> {
        let mut pairs = Vec::new();
        for nodes in &self.stages {
            let stage = nodes.summary.stage(facts);
            let is_whole = |whole: &&StageReplays| {
                let timed = whole.summary.stage(facts);
                whole.whole && facts.run.contains(&timed.pass) && timed.name == stage.name
            };
            if facts.graph_nodes == Some(stage.pass) {
                pairs.extend(
                    self.stages
                        .iter()
                        .find(is_whole)
                        .map(|whole| (whole, nodes)),
                );
            }
        }
        pairs
    }
}

impl StageGraph {
    /// The class with the most time, and that time.
    pub fn largest_class(&self) -> Option<(KernelClass, Ns)> {
        self.classes
            .iter()
            .copied()
            .max_by_key(|(class, time)| (*time, Reverse(*class)))
    }

    /// The stage that runs the same kernels without a graph, and how many times as long it takes.
    pub fn speedup(&self) -> Option<(&Summary, Ratio)> {
        let (eager, replay) = (self.eager.as_ref()?, self.figures.time?);
        let speedup = || Ratio(eager.time / replay);
        replay.is_positive().then(|| (eager, speedup()))
    }

    /// Sum of durations of all classes.
    pub fn operation_time(&self) -> Ns {
        total(self.classes.iter().map(|(_, time)| *time))
    }
}

/// Finds the replays; never missing, but empty without graphs.
pub fn compute(context: &Context<'_>) -> Known<Graphs> {
    let replays = replays::find(context);
    let by_stage = by_stage(context, &replays);
    let (stages, nodes) = match by_stage.is_empty() {
        true => (Vec::new(), Vec::new()),
        false => (stages(context, &replays), nodes::find(context, &replays)),
    };
    Ok(Graphs {
        replays,
        by_stage,
        stages,
        nodes,
    })
}

fn by_stage(context: &Context<'_>, replays: &Replays) -> Vec<StageGraph> {
    let facts = context.facts;
    let counts = |replay: &&Replay| {
        replay
            .instance
            .is_none_or(|instance| facts.instances[instance].excluded.is_none())
    };
    let stage = |replay: &Replay| {
        replay
            .instance
            .map(|instance| facts.instances[instance].stage)
    };
    let mut counted: Vec<&Replay> = replays.all.iter().filter(counts).collect();
    counted.arrange_by_key(|replay| (replay.graph, stage(replay)));
    let same = |a: &&Replay, b: &&Replay| (a.graph, stage(a)) == (b.graph, stage(b));
    let group = |members: &[&Replay]| StageGraph {
        graph: members[0].graph,
        stage: stage(members[0]),
        figures: Figures::of(context, members),
        classes: classes(context, replays, members),
        eager: same_without_graph(context, replays, members[0]),
    };
    let mut graphs: Vec<StageGraph> = counted.chunk_by(same).map(group).collect();
    let primary = facts.primary_pass(context.session);
    graphs.arrange_by_key(|stage_graph| {
        let pass = replays.graphs[stage_graph.graph].pass;
        let time = Reverse(stage_graph.figures.total);
        (
            Some(pass) != primary,
            pass,
            time,
            stage_graph.graph,
            stage_graph.stage.is_none(),
            stage_graph.stage,
        )
    });
    graphs
}

fn classes(context: &Context<'_>, replays: &Replays, own: &[&Replay]) -> Vec<(KernelClass, Ns)> {
    let (session, facts) = (context.session, context.facts);
    let mut times: Vec<(KernelClass, Ns)> =
        KernelClass::ALL.map(|class| (class, Ns::ZERO)).to_vec();
    for op in own
        .iter()
        .flat_map(|replay| replays.ops(replay))
        .map(|op| *op as usize)
    {
        let sum = &mut times[facts.class(session, op) as usize].1;
        *sum = sum.saturating_add(facts.ops.end[op] - facts.ops.start[op]);
    }
    times
}

/// The outermost stage whose first counted instance runs the kernels of a replay, each as often, and no replay.
fn same_without_graph(
    context: &Context<'_>,
    replays: &Replays,
    replay: &Replay,
) -> Option<Summary> {
    let facts = context.facts;
    let graph = &replays.graphs[replay.graph];
    let kernels = |ops: &[OpIndex]| {
        let kernels = ops
            .iter()
            .filter_map(|op| facts.kernel(context.session, *op));
        let mut kernels: Vec<KernelId> = kernels.collect();
        kernels.sort_unstable();
        kernels
    };
    let replay_kernels = kernels(replays.ops(replay));
    let replaying = |stage: usize| {
        let stages = replays.all.iter().filter_map(|replay| replay.instance);
        stages
            .map(|instance| facts.instances[instance].stage)
            .any(|candidate| candidate == stage)
    };
    let is_same = |summary: &&Summary| {
        let instance = summary.counted_instances(facts).next();
        summary.process == graph.process
            && summary.is_outermost(facts)
            && instance.is_some_and(|instance| {
                !replay_kernels.is_empty() && kernels(&instance.ops) == replay_kernels
            })
            && !replaying(summary.stage)
    };
    summaries(facts, graph.pass).iter().find(is_same).cloned()
}

fn stages(context: &Context<'_>, replays: &Replays) -> Vec<StageReplays> {
    let facts = context.facts;
    let summaries = context
        .session
        .passes
        .ids()
        .flat_map(|pass| summaries(facts, pass))
        .cloned();
    let of_stage = |summary: Summary| {
        let counts = |replay: &&Replay| {
            replay
                .instance
                .map(|instance| &facts.instances[instance])
                .is_some_and(|instance| {
                    (instance.stage, instance.process) == (summary.stage, summary.process)
                        && instance.excluded.is_none()
                })
        };
        let counted: Vec<&Replay> = replays.all.iter().filter(counts).collect();
        let whole = counted
            .iter()
            .any(|replay| replays.graphs[replay.graph].whole);
        let figures = Figures::of(context, &counted);
        (!counted.is_empty()).then_some(StageReplays {
            summary,
            figures,
            whole,
        })
    };
    summaries
        .filter(|summary| summary.is_outermost(facts))
        .filter_map(of_stage)
        .collect()
}
