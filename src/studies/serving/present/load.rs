//! Load and throughput of each run, its goodput, and all requests as data.

use rooflens_document::{Block, Cell, Quantity, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::{Page, add, time};
use crate::analysis::figures::Figures;
use crate::analysis::goodput::Goodput;
use crate::model::{Request, Run};

/// Runs that pages show.
const SHOWN: usize = 30;

/// Runs with their loads, throughputs and goodput.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let results = page.results;
    let rows: Vec<(&Run, &Figures)> = results.runs.iter().zip(&results.figures).collect();
    let failed: f64 = results.figures.iter().filter_map(|one| one.failed).sum();
    if failed > 0.0 {
        let failed = Quantity::new(failed, Unit::Count);
        findings
            .main
            .push(Block::Prose(say!(page, "serving.failed", count = failed)));
    }
    add(
        &mut findings,
        &table(page),
        &rows,
        words!(page, "serving.runs"),
        SHOWN,
    );
    goodput(page, &mut findings);
    let settings: Vec<(&str, &str, &str)> = results
        .runs
        .iter()
        .flat_map(|run| {
            run.settings
                .iter()
                .map(|(key, value)| (run.label.as_str(), key.as_str(), value.as_str()))
        })
        .collect();
    let table = Table::new(page.text, "serving_settings")
        .name("run", |row: &(&str, &str, &str)| row.0.to_owned())
        .name("setting", |row| row.1.to_owned())
        .name("value", |row| row.2.to_owned())
        .all_on_page();
    if !settings.is_empty() {
        findings.blocks.push(Block::Table(
            table.view(words!(page, "serving.settings"), 200),
        ));
        findings.datasets.push(table.rows(&settings));
    }
    findings
}

fn table<'t>(page: &'t Page<'_>) -> Table<'t, (&'t Run, &'t Figures)> {
    let has =
        |of: fn(&Figures) -> Option<f64>| page.results.figures.iter().any(|one| of(one).is_some());
    let several_tools = page
        .results
        .runs
        .iter()
        .any(|run| run.tool != page.results.runs[0].tool);
    Table::new(page.text, "serving_runs")
        .name("run", |(run, _): &(&Run, &Figures)| run.label.clone())
        .on_page()
        .text("format", |(run, _)| run.tool.label())
        .on_page_if(several_tools)
        .name("model", |(run, _)| run.model.clone())
        .name("gpu", |(run, _)| run.gpu.clone())
        .name("file", |(run, _)| run.artifact.clone())
        .text("started", |(run, _)| run.started.clone())
        .text("load", |(run, _)| page.load_of(run))
        .on_page()
        .column(
            "offered_requests_per_second",
            Unit::RequestsPerSecond,
            |(run, _)| run.load.rate,
        )
        .count("concurrency", |(run, _)| run.load.concurrency)
        .count("gpus", |(run, _)| run.gpus)
        .count("completed", |(_, one)| one.completed)
        .on_page()
        .count("failed", |(_, one)| one.failed)
        .on_page_if(
            page.results
                .figures
                .iter()
                .any(|one| one.failed.is_some_and(|count| count > 0.0)),
        )
        .time("duration_ns", |(_, one)| one.duration)
        .on_page()
        .column(
            "requests_per_second",
            Unit::RequestsPerSecond,
            |(_, one)| one.request_rate,
        )
        .on_page()
        .column(
            "output_tokens_per_second",
            Unit::TokensPerSecond,
            |(_, one)| one.output_rate,
        )
        .on_page()
        .column(
            "total_tokens_per_second",
            Unit::TokensPerSecond,
            |(_, one)| one.total_rate,
        )
        .on_page()
        .column("in_flight", Unit::One, |(_, one)| one.in_flight)
        .on_page_if(has(|one| one.in_flight))
        .column("prompt_tokens", Unit::Count, |(_, one)| one.prompt_tokens)
        .on_page()
        .column("output_tokens", Unit::Count, |(_, one)| one.output_tokens)
        .on_page()
        .share("cached_share", |(_, one)| one.cached)
        .on_page_if(has(|one| one.cached))
}

/// Answers that keep the limits.
fn goodput(page: &Page<'_>, findings: &mut SectionContent) {
    let slo = &page.results.options.slo;
    if slo.is_empty() {
        findings
            .main
            .push(Block::Prose(say!(page, "serving.no_slo")));
        return;
    }
    let all = page.results.runs.iter().zip(&page.results.goodput);
    let rows: Vec<(&Run, Goodput)> = all.filter_map(|(run, one)| Some((run, (*one)?))).collect();
    let [ttft, tpot, latency] = [slo.ttft, slo.tpot, slo.latency].map(|limit| limit.map(time));
    findings.main.push(Block::Prose(say!(
        page,
        "serving.slo",
        ttft = ttft,
        tpot = tpot,
        latency = latency
    )));
    if rows.len() < page.results.runs.len() {
        findings.main.push(Block::Prose(say!(
            page,
            "serving.no_goodput",
            count = Quantity::count((page.results.runs.len() - rows.len()) as u64)
        )));
    }
    let table = Table::new(page.text, "serving_goodput")
        .name("run", |(run, _): &(&Run, Goodput)| run.label.clone())
        .count("good", |(_, one)| one.good)
        .count("requests", |(_, one)| one.requests)
        .share("good_share", |(_, one)| one.share())
        .column("goodput_per_second", Unit::RequestsPerSecond, |(_, one)| {
            one.rate
        })
        .all_on_page();
    add(
        findings,
        &table,
        &rows,
        words!(page, "serving.goodput"),
        SHOWN,
    );
}

/// All requests, as data: nothing of them is on a page.
pub(super) fn requests(page: &Page<'_>) -> SectionContent {
    let all = page.results.runs.iter();
    let rows: Vec<(&Run, usize, &Request)> = all
        .flat_map(|run| {
            run.requests
                .iter()
                .enumerate()
                .map(move |(number, request)| (run, number, request))
        })
        .collect();
    let mut findings = SectionContent::default();
    if rows.is_empty() {
        return findings;
    }
    let table = Table::new(page.text, "serving_requests")
        .name("run", |(run, ..): &(&Run, usize, &Request)| {
            run.label.clone()
        })
        .count("number", |(_, number, _)| *number)
        .time("due_ns", |(.., one)| one.due)
        .time("queued_ns", |(.., one)| one.queued)
        .time("ttft_ns", |(.., one)| one.ttft)
        .time("tpot_ns", |(.., one)| one.tpot())
        .time("latency_ns", |(.., one)| one.latency)
        .count("prompt_tokens", |(.., one)| one.prompt_tokens)
        .count("output_tokens", |(.., one)| one.output_tokens)
        .text("failed", |(.., one)| Cell::Flag(one.failed))
        .all_on_page();
    findings.blocks.push(Block::Table(
        table.view(words!(page, "serving.requests"), 20),
    ));
    findings.datasets.push(table.rows(&rows));
    findings
}
