//! One line a graph and stage: figures over the replays that count, as table and chart.

use rooflens_schemas::Unit;

use super::replays::{Gap, Replay, Replays};
use crate::analysis::Context;
use crate::analysis::engine::classify::KernelClass;
use crate::analysis::engine::intervals::total;
use crate::analysis::engine::stats::median;
use crate::analysis::time::stage_times::drop_empty_parts;
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Cell, Chart, Column, Dataset, Quantity};
use crate::model::{Ns, PassId};

/// Bars of the chart.
const SHOWN_BARS: usize = 12;

/// Replays of one graph in one stage.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    /// An index into [`Replays::graphs`].
    pub(super) graph: usize,
    /// An index into `Facts::stages`; absent for replays outside of all stages.
    pub(super) stage: Option<usize>,
    /// The replays by start.
    pub(super) replays: Vec<&'a Replay>,
}

/// Lines by (primary pass first, pass, time descending, graph, stage), without replays in instances that are
/// left out of the aggregates.
pub(super) fn lines<'a>(context: &Context<'_>, replays: &'a Replays) -> Vec<Line<'a>> {
    let facts = context.facts;
    let counts = |replay: &&Replay| {
        replay.instance.is_none_or(|instance| facts.instances[instance].excluded.is_none())
    };
    let mut rows: Vec<(usize, Option<usize>, usize)> = Vec::new();
    for (at, replay) in replays.all.iter().enumerate().filter(|(_, replay)| counts(replay)) {
        let stage = replay.instance.map(|instance| facts.instances[instance].stage);
        rows.push((replay.graph, stage, at));
    }
    rows.sort_unstable();
    let line = |rows: &[(usize, Option<usize>, usize)]| Line {
        graph: rows[0].0,
        stage: rows[0].1,
        replays: rows.iter().map(|(_, _, at)| &replays.all[*at]).collect(),
    };
    let same = |a: &(usize, Option<usize>, usize), b: &(usize, Option<usize>, usize)| {
        (a.0, a.1) == (b.0, b.1)
    };
    let mut lines: Vec<Line<'_>> = rows.chunk_by(same).map(line).collect();
    let primary = facts.primary_pass(context.session);
    lines.sort_by_key(|line| {
        let pass = replays.graphs[line.graph].pass;
        let time = std::cmp::Reverse(line.time());
        (Some(pass) != primary, pass, time, line.graph, line.stage.is_none(), line.stage)
    });
    lines
}

impl Line<'_> {
    /// Sum of the replays' times, nanoseconds.
    pub(super) fn time(&self) -> Ns {
        total(self.replays.iter().map(|replay| replay.end - replay.start))
    }

    fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.replays.iter().filter_map(|replay| replay.gap)
    }

    /// Time of the replays by class, in the order of [`KernelClass::ALL`]: sums of durations.
    fn classes(&self, context: &Context<'_>, replays: &Replays) -> Vec<(KernelClass, Ns)> {
        let (session, facts) = (context.session, context.facts);
        let mut times: Vec<(KernelClass, Ns)> =
            KernelClass::ALL.into_iter().map(|class| (class, 0)).collect();
        for op in self.replays.iter().flat_map(|replay| replays.ops(replay)) {
            let class = facts.class(session, *op as usize);
            let duration = facts.ops.end[*op as usize] - facts.ops.start[*op as usize];
            let sum = &mut times[class as usize].1;
            *sum = sum.saturating_add(duration);
        }
        times
    }

    fn label(&self, context: &Context<'_>, replays: &Replays) -> String {
        let graph = format!("graph {}", replays.graphs[self.graph].number);
        match self.stage {
            Some(stage) => format!("{} · {graph}", context.facts.stages[stage].name),
            None => graph,
        }
    }
}

/// Median time of replays, nanoseconds.
pub(super) fn median_time(replays: &[&Replay]) -> Option<f64> {
    median(&column(replays, |replay| Some(replay.end - replay.start)))
}

/// Median time since the replay before, nanoseconds.
pub(super) fn median_gap(replays: &[&Replay]) -> Option<f64> {
    median(&column(replays, |replay| Some(replay.gap?.length)))
}

/// Busy time and time × GPUs of replays, summed, nanoseconds.
pub(super) fn busy_of(replays: &[&Replay]) -> (Ns, Ns) {
    let whole =
        replays.iter().map(|one| (one.end - one.start).saturating_mul(one.gpus.max(1) as Ns));
    (total(replays.iter().map(|replay| replay.busy)), total(whole))
}

fn column(replays: &[&Replay], value: impl Fn(&Replay) -> Option<Ns>) -> Vec<f64> {
    replays.iter().filter_map(|replay| value(replay)).map(|value| value as f64).collect()
}

static COLUMNS: [Column; 15] = [
    Column::text("graph", "Graph"),
    Column::text("pass", "Pass"),
    Column::text("stage", "Stage"),
    Column::new("replays", "Replays", Unit::Count),
    Column::new("nodes", "Operations", Unit::Count),
    Column::new("replay_ns", "Replay", Unit::Nanoseconds),
    Column::new("busy_share", "Busy inside", Unit::Ratio),
    Column::new("gap_ns", "Between replays", Unit::Nanoseconds),
    Column::new("gap_idle_ns", "of it idle", Unit::Nanoseconds),
    Column::new("launch_ns", "Launch call", Unit::Nanoseconds),
    Column::new("total_ns", "Total", Unit::Nanoseconds),
    Column::text("class", "Largest class"),
    Column::new("class_share", "Its share", Unit::Ratio),
    Column::new("process", "Process", Unit::One),
    Column::new("graph_id", "Graph id", Unit::One),
];

/// One row a line; times are medians.
pub(super) fn dataset(context: &Context<'_>, replays: &Replays, lines: &[Line<'_>]) -> Dataset {
    Dataset {
        id: "graphs",
        title: "Replays of CUDA graphs".to_owned(),
        columns: COLUMNS.to_vec(),
        rows: lines.iter().map(|line| row(context, replays, line)).collect(),
    }
}

fn row(context: &Context<'_>, replays: &Replays, line: &Line<'_>) -> Vec<Cell> {
    let session = context.session;
    let graph = &replays.graphs[line.graph];
    let inside = |value: Cell| if graph.whole { Cell::Missing } else { value };
    let own = &line.replays;
    let calls = &session.api_calls;
    let launch = |replay: &Replay| {
        let call = replay.call?.index();
        Some(calls.end[call] - calls.start[call])
    };
    let (busy, whole) = busy_of(own);
    let classes = line.classes(context, replays);
    let sum = total(classes.iter().map(|(_, time)| *time));
    let largest =
        classes.into_iter().max_by_key(|(class, time)| (*time, std::cmp::Reverse(*class)));
    let class = largest.map_or(Cell::Missing, |(class, _)| Cell::Text(class.label().to_owned()));
    let share = |part: Ns, whole: Ns| Cell::maybe((whole > 0).then(|| part as f64 / whole as f64));
    vec![
        Cell::Text(format!("graph {}", graph.number)),
        Cell::Text(session.pass_name(graph.pass).to_owned()),
        line.stage.map_or(Cell::Missing, |at| Cell::Text(context.facts.stages[at].name.clone())),
        Cell::Int(own.len() as i64),
        inside(Cell::maybe(median(&column(own, |replay| Some(replay.members.len() as Ns))))),
        Cell::maybe(median_time(own)),
        inside(share(busy, whole)),
        Cell::maybe(median_gap(own)),
        Cell::maybe(median(&column(own, |replay| Some(replay.gap?.idle)))),
        Cell::maybe(median(&column(own, launch))),
        Cell::Int(line.time()),
        inside(class),
        inside(share(largest.map_or(0, |(_, time)| time), sum)),
        Cell::Int(session.processes.pid[graph.process.index()]),
        graph.id.map_or(Cell::Missing, |id| Cell::Int(id as i64)),
    ]
}

/// Where the time from the first to the last replay goes, one bar a line of the pass.
pub(super) fn chart(
    context: &Context<'_>,
    replays: &Replays,
    lines: &[Line<'_>],
    pass: PassId,
) -> Chart {
    let own: Vec<&Line<'_>> =
        lines.iter().filter(|line| replays.graphs[line.graph].pass == pass).collect();
    let shown = &own[..own.len().min(SHOWN_BARS)];
    let colors = Color::KERNELS.into_iter().map(|color| (color.label(), color));
    let rest = [
        ("idle inside replays", Color::Idle),
        ("other work between replays", Color::Other),
        ("idle between replays", Color::Idle),
    ];
    let mut parts: Vec<Part> =
        colors.chain(rest).map(|(name, color)| Part { name: name.to_owned(), color }).collect();
    let mut bars: Vec<Bar> = shown.iter().map(|line| bar(context, replays, line)).collect();
    drop_empty_parts(&mut parts, &mut bars);
    let name = context.session.pass_name(pass);
    Chart {
        id: "graph-replays".to_owned(),
        title: format!("Inside and between replays, pass {name}"),
        description: format!(
            "One bar per stage and graph of the pass {name}: the shares of the time from first to last replay \
             in which a replay runs each class of kernels, in which the GPU is idle inside a replay, and what it \
             does between replays. The table holds the numbers."
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts,
            bars,
        }),
    }
}

/// Busy time is dealt out to the classes by their sums of durations.
fn bar(context: &Context<'_>, replays: &Replays, line: &Line<'_>) -> Bar {
    let (busy, whole) = busy_of(&line.replays);
    let classes = line.classes(context, replays);
    let sum = total(classes.iter().map(|(_, time)| *time)).max(1) as f64;
    let of_color = |color: Color| {
        let times = classes.iter().filter(|(class, _)| class.color() == color);
        total(times.map(|(_, time)| *time)) as f64 / sum * busy as f64
    };
    let mut values: Vec<f64> = Color::KERNELS.into_iter().map(of_color).collect();
    let gaps = total(line.gaps().map(|gap| gap.length));
    let idle = total(line.gaps().map(|gap| gap.idle));
    values.extend([(whole - busy) as f64, (gaps - idle) as f64, idle as f64]);
    let time = median_time(&line.replays).unwrap_or_default();
    let count = Quantity::count(line.replays.len() as u64);
    let note = format!("{count} × {}", Quantity::new(time, Unit::Nanoseconds));
    Bar { label: line.label(context, replays), values, note }
}
