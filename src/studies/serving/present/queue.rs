//! Queueing against service, and what limits each run.

use rooflens_document::{Block, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::{Page, add};
use crate::analysis::bottleneck::Bottleneck;
use crate::model::Run;

/// Rows that pages show.
const SHOWN: usize = 30;

/// Queueing and bottlenecks.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let all = page.results.runs.iter().zip(&page.results.bottlenecks);
    let rows: Vec<(&Run, &Bottleneck)> = all.collect();
    let waits: Vec<(&Run, &Bottleneck)> = rows
        .iter()
        .filter(|(_, one)| one.waiting.is_some())
        .copied()
        .collect();
    let key = if waits.is_empty() {
        say!(page, "serving.no_queue")
    } else {
        say!(page, "serving.queueing")
    };
    findings.main.push(Block::Prose(key));
    let table = Table::new(page.text, "serving_queue")
        .name("run", |(run, _): &(&Run, &Bottleneck)| run.label.clone())
        .text("load", |(run, _)| page.load_of(run))
        .time("queue_ns", |(_, one)| one.waiting.map(|one| one.queue))
        .time("service_ns", |(_, one)| one.waiting.map(|one| one.service))
        .share("queue_share", |(_, one)| one.waiting.map(|one| one.share()))
        .text("queue_source", |(_, one)| {
            one.waiting.map(|one| one.source.id())
        })
        .all_on_page();
    add(
        &mut findings,
        &table,
        &waits,
        words!(page, "serving.queue_table"),
        SHOWN,
    );
    let engine = |of: fn(&crate::analysis::bottleneck::Engine) -> Option<f64>| {
        move |row: &(&Run, &Bottleneck)| row.1.engine.as_ref().and_then(of)
    };
    let has_engine = rows.iter().any(|(_, one)| one.engine.is_some());
    let table = Table::new(page.text, "serving_bottlenecks")
        .name("run", |(run, _): &(&Run, &Bottleneck)| run.label.clone())
        .on_page()
        .text("bottleneck", |(_, one)| one.limit.id())
        .on_page()
        .share("queue_share", |(_, one)| one.waiting.map(|one| one.share()))
        .on_page()
        .column("tpot_factor", Unit::One, |(_, one)| one.tpot_factor)
        .on_page_if(page.results.options.predicted.is_some())
        .column("stalls", Unit::One, |(_, one)| one.stalls)
        .on_page()
        .share("kv_cache_p95", engine(|one| one.kv_p95))
        .on_page_if(has_engine)
        .column("running", Unit::One, engine(|one| one.running))
        .on_page_if(has_engine)
        .column("waiting", Unit::One, engine(|one| one.waiting))
        .on_page_if(has_engine)
        .count("preemptions", engine(|one| one.preemptions))
        .on_page_if(has_engine);
    add(
        &mut findings,
        &table,
        &rows,
        words!(page, "serving.bottlenecks"),
        SHOWN,
    );
    findings
}
