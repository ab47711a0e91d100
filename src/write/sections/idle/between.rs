//! Idle time between the stages: the data set `between`, and what of it a page shows.

use std::cmp::Reverse;

use rooflens_schemas::{Metric, Unit};

use super::charts::legend;
use super::with_evidence;
use crate::Context;
use rooflens_analysis::time::idle::between::{Between, Pair};
use rooflens_document::catalogue::{BETWEEN_HOST, BETWEEN_IDLE, BETWEEN_IDLE_SHARE};
use rooflens_document::chart::{Bar, Chart, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Inline, Quantity, SectionContent, Table, View};
use rooflens_session::{Arrange, Ns};
use rooflens_units::Ratio;

/// Pairs of stages that a page shows at most.
const SHOWN: usize = 8;

/// Share of idle time between stages in the run from which on a chart shows it.
const WORTH_A_CHART: Ratio = Ratio(0.01);

/// A process and GPU, and a pair of stages.
type GpuPair<'a> = (&'a Between, &'a Pair);

/// Adds the section's part about the times between stages, if there are any.
pub(super) fn add(context: &Context<'_>, gpus: &[Between], content: &mut SectionContent) {
    if gpus.is_empty() {
        return;
    }
    content
        .blocks
        .push(Block::Heading(words!(context, "between.heading")));
    content
        .blocks
        .push(Block::Prose(introduction(context, gpus)));
    let mut pairs: Vec<GpuPair<'_>> = Vec::new();
    for gpu in gpus {
        for pair in &gpu.pairs {
            pairs.push((gpu, pair));
        }
        content.metrics.extend(metrics(context, gpu));
    }
    content.blocks.push(view(context, gpus, pairs.len()));
    content.datasets.push(table(context).rows(&pairs));
    if gpus.iter().any(is_worth_a_chart) {
        pairs.arrange_by_key(|(_, pair)| Reverse(pair.idle()));
        pairs.truncate(SHOWN);
        content.blocks.push(Block::Chart(chart(context, &pairs)));
    }
    content.methods.push(method!(context, "between"));
}

fn is_worth_a_chart(gpu: &Between) -> bool {
    gpu.share(gpu.idle()) >= WORTH_A_CHART
}

fn view(context: &Context<'_>, gpus: &[Between], pairs: usize) -> Block {
    let is_labelled = gpus.iter().any(|gpu| !gpu.label(context).is_empty());
    let mut columns = Vec::new();
    columns.extend(is_labelled.then_some("rank"));
    columns.extend(["after", "before", "windows", "idle_ns", "run_share"]);
    columns.extend(["median_ns", "longest_ns", "cause", "range", "range_share"]);
    let caption = words!(context, "between.caption");
    Block::Table(View::new("between", caption, &columns, pairs.min(SHOWN)))
}

fn introduction(context: &Context<'_>, gpus: &[Between]) -> Vec<Inline> {
    let mut text = say!(context, "between.introduction");
    for gpu in gpus {
        let (idle, run) = (Quantity::ns(gpu.idle()), Quantity::ns(gpu.run));
        let label = gpu.label(context);
        text.extend(if label.is_empty() {
            say!(context, "between.idle", idle = idle, run = run)
        } else {
            let label = Inline::strong(label);
            say!(
                context,
                "between.idle_on",
                gpu = label,
                idle = idle,
                run = run
            )
        });
    }
    text
}

/// One row a process, GPU and pair of stages, by idle time.
fn table<'t>(context: &'t Context<'_>) -> Table<'t, GpuPair<'t>> {
    let (session, stages) = (context.session, &context.facts.stages);
    columns! { context, "between", (gpu, pair): &GpuPair<'_> => {
        let range = pair.range(session);
        let cause = pair.causes.main();
        text "rank" = gpu.label(context);
        text "after" = stages[pair.from].name.as_str();
        text "before" = stages[pair.to].name.as_str();
        count "windows" = pair.windows();
        time "time_ns" = pair.time;
        time "idle_ns" = pair.idle();
        share "run_share" = gpu.share(pair.idle());
        time "median_ns" = pair.median();
        time "longest_ns" = pair.longest();
        text "cause" = cause.label();
        time "cause_ns" = pair.causes.of(cause);
        name "range" = range.map(|(name, _)| session.text(name));
        share "range_share" = range.map(|(_, share)| share);
    } }
}

/// Idle time between the stages, and its share of the run.
fn metrics(context: &Context<'_>, gpu: &Between) -> Vec<Metric> {
    let scope = gpu.scope(context);
    let (windows, idle, run) = (gpu.windows(), gpu.idle(), gpu.run);
    let host = gpu.host().map(|host| {
        (
            host.time().0,
            basis!("basis.between_host", windows = windows),
        )
    });
    let basis = basis!("basis.between_idle", windows = windows);
    let share = basis!(
        "basis.between_idle_share",
        idle = idle,
        run = run,
        windows = windows
    );
    let metrics = vec![
        BETWEEN_IDLE.derived(scope.clone(), idle.time().0, basis),
        BETWEEN_IDLE_SHARE.derived(scope.clone(), gpu.share(idle).0, share),
        BETWEEN_HOST.known(scope, context.reason_if_missing(host)),
    ];
    with_evidence(metrics, &gpu.evidence(context))
}

/// One bar per pair: idle time by cause, and time in which the GPU works.
fn chart(context: &Context<'_>, pairs: &[GpuPair<'_>]) -> Chart {
    let (causes, mut parts) = legend(|cause| {
        pairs
            .iter()
            .any(|(_, pair)| pair.causes.of(cause) > Ns::ZERO)
    });
    let other_work = Part::new(words!(context, "between.other_work"), Color::Busy);
    parts.insert(0, other_work);
    let mut bars = Vec::new();
    for (gpu, pair) in pairs {
        let mut values = vec![(pair.time - pair.idle()).time().0];
        values.extend(causes.iter().map(|cause| pair.causes.of(*cause).time().0));
        bars.push(Bar {
            label: bar_label(context, gpu, pair),
            values,
            note: words!(context, "between.bar", idle = Quantity::ns(pair.idle())),
        });
    }
    Chart {
        id: "between-stages".to_owned(),
        title: words!(context, "between.heading"),
        description: words!(context, "between.chart_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: false,
            parts,
            bars,
        }),
    }
}

/// `prefill → decode · rank 0`.
fn bar_label(context: &Context<'_>, gpu: &Between, pair: &Pair) -> String {
    let stages = &context.facts.stages;
    let (after, before) = (&stages[pair.from].name, &stages[pair.to].name);
    let rank = gpu.label(context);
    if rank.is_empty() {
        format!("{after} → {before}")
    } else {
        format!("{after} → {before} · {rank}")
    }
}
