//! Synchronization: calls in which the host waits for the GPU, and what that costs the GPU.

#[cfg(test)]
mod tests;

use std::ops::Range;

use rooflens_schemas::Metric;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::sync::{PassSync, Place, StageSync, Sum};
use rooflens_document::catalogue::{SYNC_CALLS, SYNC_IDLE, SYNC_TIME};
use rooflens_document::{Block, Dataset, Inline, MetricDef, Quantity, SectionContent, Table, View};
use rooflens_session::{Ns, PassId};

/// Waits of the host; without synchronizing calls there is no section.
pub(super) static SECTION: Section = Section {
    id: "synchronization",
    show,
};

/// Rows that a page shows of calls in stages, and of others.
const SHOWN: usize = 12;
const SHOWN_OUTSIDE: usize = 6;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent::default();
    let passes = &context.results.sync()?.passes;
    let Some(first) = passes.first() else {
        return Ok(content);
    };
    for pass in passes {
        let metrics = pass
            .stages
            .iter()
            .flat_map(|stage| metrics(context, pass, stage));
        content.metrics.extend(metrics);
    }
    content
        .blocks
        .push(Block::Prose(introduction(context, first)));
    let rows = passes
        .iter()
        .flat_map(|pass| pass.places.iter().map(|place| (pass.pass, place)));
    let data = table(context).rows(&rows.collect::<Vec<_>>());
    let in_stages = first
        .places
        .iter()
        .take_while(|sum| sum.stage.is_some())
        .count();
    let caption = words!(context, "sync.caption_in_stages");
    let shown = 0..in_stages.min(SHOWN);
    content
        .blocks
        .extend(view(&data, shown, &["stage"], &["in_stage_ns"], caption));
    let caption = words!(context, "sync.caption_outside");
    let shown = in_stages..first.places.len().min(in_stages + SHOWN_OUTSIDE);
    content.blocks.extend(view(&data, shown, &[], &[], caption));
    content.datasets.push(data);
    content.methods.push(method!(context, "sync"));
    Ok(content)
}

/// The page's view of some rows; none of none.
fn view(
    data: &Dataset,
    shown: Range<usize>,
    first: &[&'static str],
    last: &[&'static str],
    caption: String,
) -> Option<Block> {
    let mut columns = first.to_vec();
    columns.extend(["call", "range"]);
    columns.extend(data.filled(shown.clone(), &["operator"]));
    columns.extend(["count", "time_ns", "idle_ns", "after_ns"]);
    columns.extend(last);
    let view = View::new(data.id, caption, &columns, shown.len());
    (!shown.is_empty()).then_some(Block::Table(View {
        skip: shown.start,
        ..view
    }))
}

/// A place of a pass.
type OfPass<'a> = (PassId, &'a Place);

fn table<'t>(context: &Context<'t>) -> Table<'t, OfPass<'t>> {
    let (session, stages) = (context.session, &context.facts.stages);
    columns! { context, "synchronization", (pass, place): &OfPass<'_> => {
        name "stage" = place.stage.map(|stage| stages[stage].name.as_str());
        name "call" = session.text(place.call);
        text "pass" = session.pass_name(*pass);
        name "range" = place.path(session);
        name "operator" = place.operator_name(session);
        count "count" = place.sum.count;
        time "time_ns" = place.sum.time;
        time "idle_ns" = place.sum.idle;
        time "after_ns" = place.sum.after;
        time "in_stage_ns" = place.sum.in_stage;
    } }
}

/// `sync_calls`, `sync_time` and `sync_idle` of a stage.
fn metrics(context: &Context<'_>, pass: &PassSync, stage: &StageSync) -> [Metric; 3] {
    let scope = stage.summary.scope(context.session, context.facts);
    let evidence = pass.evidence(context.session);
    let metric = |metric: &MetricDef, median: Quantity, what: &str| {
        let basis = format!("{what}; median of {} instances", stage.instances);
        let metric = metric.derived(scope.clone(), median.value, basis);
        Metric {
            evidence: vec![evidence.clone()],
            ..metric
        }
    };
    let calls = "synchronizing calls of the process that start within the range on the host";
    let idle = "Σ gaps within the projection, between operations of the GPU, charged to a synchronizing call";
    [
        metric(&SYNC_CALLS, stage.calls.into(), calls),
        metric(&SYNC_TIME, stage.time.into(), "Σ durations of those calls"),
        metric(&SYNC_IDLE, stage.idle.into(), idle),
    ]
}

fn introduction(context: &Context<'_>, own: &PassSync) -> Vec<Inline> {
    let calls = &own.charges.calls;
    let inside = Sum::of(calls.iter().filter(|call| call.stage.is_some()));
    let outside = Sum::of(calls.iter().filter(|call| call.stage.is_none()));
    let pass = Inline::code(context.session.pass_name(own.pass));
    let mut text = match inside.count {
        0 => say!(context, "sync.none_in_stages", pass = pass),
        count => say!(
            context,
            "sync.in_stages",
            pass = pass,
            calls = Quantity::count(count),
            time = Quantity::ns(inside.time),
            idle = (inside.idle > Ns::ZERO).then(|| Quantity::ns(inside.idle)),
            after = Quantity::ns(inside.after),
            in_stage = Quantity::ns(inside.in_stage),
        ),
    };
    if outside.count > 0 {
        text.extend(say!(
            context,
            "sync.outside",
            calls = Quantity::count(outside.count),
            time = Quantity::ns(outside.time),
            idle = Quantity::ns(outside.idle),
        ));
    }
    text
}
