//! Queueing against service, and what limits each run.

use rooflens_document::{Block, SectionContent, columns, say, words};

use super::{Page, add};
use crate::analysis::bottleneck::{Bottleneck, Waiting};
use crate::runs::Run;

/// Rows that pages show.
const SHOWN: usize = 30;

/// Queueing and bottlenecks.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let runs = page.results.runs.iter();
    let rows: Vec<(&Run, &Bottleneck)> = runs.zip(&page.results.bottlenecks).collect();
    let mut waits: Vec<(&Run, &Bottleneck, Waiting)> = Vec::new();
    for (run, bottleneck) in &rows {
        if let Some(waiting) = bottleneck.waiting {
            waits.push((run, bottleneck, waiting));
        }
    }
    let key = if waits.is_empty() {
        say!(page, "serving.no_queue")
    } else {
        say!(page, "serving.queueing")
    };
    content.main.push(Block::Prose(key));
    let table = columns! { page, "serving_queue", (run, _, waiting): &(&Run, &Bottleneck, Waiting) => {
        name "run" = run.label.clone(), page;
        text "load" = page.load_of(run), page;
        time "queue_ns" = waiting.queue, page;
        time "service_ns" = waiting.service, page;
        share "queue_share" = waiting.share(), page;
        text "queue_source" = waiting.source.id(), page;
    } };
    add(
        &mut content,
        &table,
        &waits,
        words!(page, "serving.queue_table"),
        SHOWN,
    );
    let has_engine = page.results.bottlenecks.iter().any(Bottleneck::has_engine);
    let bottlenecks = &page.results.bottlenecks;
    let has_steps = bottlenecks
        .iter()
        .any(|bottleneck| bottleneck.steps.is_some());
    let has_offered = bottlenecks
        .iter()
        .any(|bottleneck| bottleneck.sustained.is_some());
    let has_bounds = page.results.options.predicted.is_some();
    let table = columns! { page, "serving_bottlenecks", (run, bottleneck): &(&Run, &Bottleneck) => {
        let gauges = bottleneck.engine.unwrap_or_default();
        name "run" = run.label.clone(), page;
        text "bottleneck" = bottleneck.limit.id(), page;
        share "queue_share" = bottleneck.waiting.as_ref().map(Waiting::share), page;
        share "sustained_share" = bottleneck.sustained, page if has_offered;
        share "fixed_share" = bottleneck.steps.map(|steps| steps.fixed), page if has_steps;
        share "per_request_share" = bottleneck.steps.map(|steps| steps.per_request), page if has_steps;
        share "prefill_share" = bottleneck.steps.map(|steps| steps.prefill), page if has_steps;
        One "tpot_factor" = bottleneck.tpot_factor, page if has_bounds;
        One "stalls" = bottleneck.stalls, page;
        share "kv_cache_p95" = gauges.kv_p95, page if has_engine;
        One "running" = gauges.running, page if has_engine;
        One "waiting" = gauges.waiting, page if has_engine;
        count "preemptions" = gauges.preemptions, page if has_engine;
    } };
    add(
        &mut content,
        &table,
        &rows,
        words!(page, "serving.bottlenecks"),
        SHOWN,
    );
    content
}
