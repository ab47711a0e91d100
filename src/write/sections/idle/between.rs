//! Idle time between the stages: the data set `between`, and what of it a page shows.

use std::cmp::Reverse;

use rooflens_schemas::Unit;

use super::causes::legend;
use super::metrics;
use crate::Context;
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_document::chart::{Bar, Chart, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Inline, Quantity, SectionContent, Table, View};
use rooflens_session::Arrange;

/// Pairs of stages that a page shows at most.
const SHOWN: usize = 8;

/// Share of idle time between stages in the run from which on a chart shows it.
const WORTH_A_CHART: f64 = 0.01;

/// A process and GPU, and a pair of stages.
type OfPair<'a> = (&'a Between, &'a Pair);

/// Adds the section's part about the times between stages, if there are any.
pub(super) fn add(context: &Context<'_>, all: &[Between], findings: &mut SectionContent) {
    if all.is_empty() {
        return;
    }
    findings
        .blocks
        .push(Block::Heading(words!(context, "between.heading")));
    findings
        .blocks
        .push(Block::Prose(introduction(context, all)));
    let pairs = all
        .iter()
        .flat_map(|one| one.pairs.iter().map(move |pair| (one, pair)));
    let mut pairs: Vec<OfPair<'_>> = pairs.collect();
    let labelled = all.iter().any(|one| !one.label(context).is_empty());
    let mut columns = if labelled { vec!["rank"] } else { Vec::new() };
    columns.extend([
        "after",
        "before",
        "windows",
        "idle_ns",
        "run_share",
        "median_ns",
    ]);
    columns.extend(["longest_ns", "cause", "range", "range_share"]);
    let caption = words!(context, "between.caption");
    let rows = pairs.len().min(SHOWN);
    findings
        .blocks
        .push(Block::Table(View::new("between", caption, &columns, rows)));
    findings.datasets.push(table(context).rows(&pairs));
    if all.iter().any(|one| one.share(one.idle()) >= WORTH_A_CHART) {
        pairs.arrange_by_key(|(_, pair)| Reverse(pair.idle()));
        pairs.truncate(SHOWN);
        findings.blocks.push(Block::Chart(chart(context, &pairs)));
    }
    findings
        .metrics
        .extend(all.iter().flat_map(|one| metrics::between(context, one)));
    findings.methods.push(method!(context, "between"));
}

fn introduction(context: &Context<'_>, all: &[Between]) -> Vec<Inline> {
    let mut text = say!(context, "between.introduction");
    for one in all {
        let (idle, run) = (Quantity::ns(one.idle()), Quantity::ns(one.run));
        let label = one.label(context);
        text.extend(match label.is_empty() {
            true => say!(context, "between.idle", idle = idle, run = run),
            false => {
                let gpu = Inline::strong(label);
                say!(
                    context,
                    "between.idle_on",
                    gpu = gpu,
                    idle = idle,
                    run = run
                )
            }
        });
    }
    text
}

/// One row a process, GPU and pair of stages, by idle time.
fn table<'t>(context: &'t Context<'_>) -> Table<'t, OfPair<'t>> {
    let (session, stages) = (context.session, &context.facts.stages);
    let range = move |pair: &Pair| pair.range(session);
    Table::new(context.text, "between")
        .text("rank", |(one, _): &OfPair<'t>| one.label(context))
        .text("after", |(_, pair)| stages[pair.after].name.clone())
        .text("before", |(_, pair)| stages[pair.before].name.clone())
        .count("windows", |(_, pair)| pair.windows())
        .time("time_ns", |(_, pair)| pair.time)
        .time("idle_ns", |(_, pair)| pair.idle())
        .share("run_share", |(one, pair)| one.share(pair.idle()))
        .time("median_ns", |(_, pair)| pair.median())
        .time("longest_ns", |(_, pair)| pair.longest())
        .text("cause", |(_, pair)| pair.causes.main().label())
        .time("cause_ns", |(_, pair)| pair.causes.of(pair.causes.main()))
        .name("range", move |(_, pair)| {
            range(pair).map(|(name, _)| session.text(name))
        })
        .share("range_share", move |(_, pair)| {
            range(pair).map(|(_, share)| share)
        })
}

/// One bar a pair: idle time by cause, and what the GPU does besides.
fn chart(context: &Context<'_>, pairs: &[OfPair<'_>]) -> Chart {
    let (causes, mut parts) =
        legend(|cause| pairs.iter().any(|(_, pair)| pair.causes.of(cause) > 0));
    parts.insert(
        0,
        Part {
            name: words!(context, "between.other_work"),
            color: Color::Busy,
        },
    );
    let name = |stage: usize| &context.facts.stages[stage].name;
    let bar = |(one, pair): &OfPair<'_>| {
        let label = one.label(context);
        let label = if label.is_empty() {
            label
        } else {
            format!(" · {label}")
        };
        let values = std::iter::once(pair.time - pair.idle());
        Bar {
            label: format!("{} → {}{label}", name(pair.after), name(pair.before)),
            values: values
                .chain(causes.iter().map(|cause| pair.causes.of(*cause)))
                .map(|time| time as f64)
                .collect(),
            note: words!(context, "between.bar", idle = Quantity::ns(pair.idle())),
        }
    };
    Chart {
        id: "between-stages".to_owned(),
        title: words!(context, "between.heading"),
        description: words!(context, "between.chart_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars: pairs.iter().map(bar).collect(),
        }),
    }
}
