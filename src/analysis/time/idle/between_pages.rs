//! The data set `between`, and what of it a page shows.

use rooflens_schemas::Unit;

use super::between::{Between, Pair};
use super::cause::Cause;
use crate::analysis::Context;
use crate::findings::chart::{Bar, Chart, Color, Part, Plot, StackedBars};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Inline, Method, Quantity, View};
use crate::prose;

/// Pairs of stages that a page shows at most.
const SHOWN: usize = 8;

/// Share of idle time between stages in the run from which on a chart shows it.
const WORTH_A_CHART: f64 = 0.01;

/// Adds the section's part about the times between stages, if there are any.
pub(super) fn add(context: &Context<'_>, all: &[Between], traced: bool, findings: &mut Findings) {
    if all.is_empty() {
        return;
    }
    findings.blocks.push(Block::Heading("Between the stages".to_owned()));
    findings.blocks.push(Block::Prose(introduction(context, all)));
    let dataset = dataset(context, all);
    let labelled = all.iter().any(|one| !one.label(context).is_empty());
    let mut columns = if labelled { vec!["rank"] } else { Vec::new() };
    columns.extend(["after", "before", "windows", "idle_ns", "run_share", "median_ns"]);
    columns.extend(["longest_ns", "cause", "range", "range_share"]);
    let caption = "Idle time of the GPU from the end of one stage to the start of the next";
    let rows = dataset.rows.len().min(SHOWN);
    findings.blocks.push(Block::Table(View::new("between", caption, &columns, rows)));
    if all.iter().any(|one| one.share(one.idle()) >= WORTH_A_CHART) {
        findings.blocks.push(Block::Chart(chart(context, all)));
    }
    findings.datasets.push(dataset);
    findings.metrics.extend(all.iter().flat_map(|one| one.metrics(context, traced)));
    findings.methods.push(method());
}

fn introduction(context: &Context<'_>, all: &[Between]) -> Vec<Inline> {
    let mut text = prose!["No stage contains what lies between two of them."];
    for one in all {
        let label = one.label(context);
        text.extend(match label.is_empty() {
            true => prose![" There the GPU is idle for "],
            false => prose![" On ", Inline::Strong(label), " the GPU is idle there for "],
        });
        text.extend(prose![
            Quantity::ns(one.idle()),
            " of the ",
            Quantity::ns(one.run),
            " of the run."
        ]);
    }
    text
}

/// One row a process, GPU and pair of stages, by idle time.
fn dataset(context: &Context<'_>, all: &[Between]) -> Dataset {
    let rows = all.iter().flat_map(|one| one.pairs.iter().map(move |pair| (one, pair)));
    Dataset {
        id: "between",
        title: "Idle time between stages".to_owned(),
        columns: vec![
            Column::text("rank", "Rank"),
            Column::text("after", "After"),
            Column::text("before", "Before"),
            Column::new("windows", "No.", Unit::Count),
            Column::new("time_ns", "Time between", Unit::Nanoseconds),
            Column::new("idle_ns", "Idle", Unit::Nanoseconds),
            Column::new("run_share", "Of the run", Unit::Ratio),
            Column::new("median_ns", "Median", Unit::Nanoseconds),
            Column::new("longest_ns", "Longest", Unit::Nanoseconds),
            Column::text("cause", "Most by"),
            Column::new("cause_ns", "That cause", Unit::Nanoseconds),
            Column::text("range", "Range on the host"),
            Column::new("range_share", "It covers", Unit::Ratio),
        ],
        rows: rows.map(|(one, pair)| row(context, one, pair)).collect(),
    }
}

fn row(context: &Context<'_>, one: &Between, pair: &Pair) -> Vec<Cell> {
    let range = pair.range(context);
    let covers = range.as_ref().map(|(_, time)| *time as f64 / pair.time.max(1) as f64);
    vec![
        Cell::Text(one.label(context)),
        Cell::Text(pair.after.clone()),
        Cell::Text(pair.before.clone()),
        Cell::Int(pair.windows() as i64),
        Cell::Int(pair.time),
        Cell::Int(pair.idle()),
        Cell::Float(one.share(pair.idle())),
        Cell::maybe(pair.median()),
        Cell::Int(pair.longest()),
        Cell::Text(pair.cause().label().to_owned()),
        Cell::Int(pair.of(pair.cause())),
        range.map_or(Cell::Missing, |(name, _)| Cell::Name(name)),
        Cell::maybe(covers),
    ]
}

/// One bar a pair: idle time by cause, and what the GPU does besides.
fn chart(context: &Context<'_>, all: &[Between]) -> Chart {
    let mut pairs: Vec<(&Between, &Pair)> =
        all.iter().flat_map(|one| one.pairs.iter().map(move |pair| (one, pair))).collect();
    pairs.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.idle()));
    pairs.truncate(SHOWN);
    let occurs = |cause: &Cause| pairs.iter().any(|(_, pair)| pair.of(*cause) > 0);
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(occurs).collect();
    let mut parts = vec![Part { name: "work of no stage".to_owned(), color: Color::Busy }];
    let part = |cause: &Cause| Part { name: cause.label().to_owned(), color: cause.color() };
    parts.extend(causes.iter().map(part));
    let bar = |(one, pair): &(&Between, &Pair)| {
        let label = one.label(context);
        let label = if label.is_empty() { label } else { format!(" · {label}") };
        let values = std::iter::once(pair.time - pair.idle());
        Bar {
            label: format!("{} → {}{label}", pair.after, pair.before),
            values: values
                .chain(causes.iter().map(|cause| pair.of(*cause)))
                .map(|time| time as f64)
                .collect(),
            note: format!("{} idle", Quantity::ns(pair.idle())),
        }
    };
    Chart {
        id: "between-stages".to_owned(),
        title: "Between the stages".to_owned(),
        description: "One bar for two stages that follow one another: the time from the end of the one to the start of \
                      the other, over all instances that count, in which the GPU runs other work, and in which it is \
                      idle, by cause. The table holds the numbers."
            .to_owned(),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars: pairs.iter().map(bar).collect(),
        }),
    }
}

fn method() -> Method {
    Method {
        title: "Idle time between stages".to_owned(),
        text: prose![
            "The outermost instances of a process follow one another by the start of their GPU work. From the latest end \
             so far to the next start is a time between stages, if both instances count; what the GPU does not work \
             in it is idle, by the causes of gaps. The run is the union of the instances that count and the times \
             between them. The range on the host is that of the thread of the next stage, begun after the range of \
             the stage before, that covers most of these times: a range around both is none."
        ],
    }
}
