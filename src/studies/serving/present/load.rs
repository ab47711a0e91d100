//! Load and throughput of each run, its goodput, and all requests as data.

use std::collections::BTreeMap;

use rooflens_document::{Block, Cell, Quantity, SectionContent, Table, columns, say, words};
use rooflens_units::Count;

use super::{Page, add};
use crate::analysis::figures::Figures;
use crate::analysis::goodput::Goodput;
use crate::runs::{Request, Run};

/// Runs that pages show.
const SHOWN: usize = 30;

/// Runs with their loads, throughputs and goodput.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let results = page.results;
    let rows: Vec<(&Run, &Figures)> = results.runs.iter().zip(&results.figures).collect();
    let failures = results.figures.iter().filter_map(|figures| figures.failed);
    let failed: Count = failures.sum();
    if failed.is_positive() {
        content
            .main
            .push(Block::Prose(say!(page, "serving.failed", count = failed)));
    }
    add(
        &mut content,
        &table(page),
        &rows,
        words!(page, "serving.runs"),
        SHOWN,
    );
    goodput(page, &mut content);
    let mut runs_of: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for run in results.runs {
        for (setting, value) in &run.settings {
            runs_of
                .entry((setting, value))
                .or_default()
                .push(&run.label);
        }
    }
    let with_settings = results.runs.iter().filter(|run| !run.settings.is_empty());
    let all = with_settings.count();
    let mut settings = Vec::new();
    for ((setting, value), runs) in runs_of {
        let is_shared = runs.len() == all && all > 1;
        let runs = match is_shared {
            true => words!(page, "serving.all_runs"),
            false => runs.join(page.text.comma()),
        };
        settings.push((setting, value, runs));
    }
    let table = columns! { page, "serving_settings", (setting, value, runs): &(&str, &str, String) => {
        name "setting" = (*setting).to_owned(), page;
        name "value" = (*value).to_owned(), page;
        text "runs" = runs.clone(), page;
    } };
    if !settings.is_empty() {
        content.blocks.push(Block::Table(
            table.view(words!(page, "serving.settings"), 200),
        ));
        content.datasets.push(table.rows(&settings));
    }
    content
}

fn table<'t>(page: &'t Page<'_>) -> Table<'t, (&'t Run, &'t Figures)> {
    let (runs, figures) = (page.results.runs, &page.results.figures);
    let has_tools = runs.iter().any(|run| run.tool != runs[0].tool);
    let has_failures = figures
        .iter()
        .any(|figures| figures.failed > Some(Count::ZERO));
    let has_flight = figures.iter().any(|figures| figures.in_flight.is_some());
    let has_cached = figures.iter().any(|figures| figures.cached.is_some());
    columns! { page, "serving_runs", (run, figures): &(&Run, &Figures) => {
        name "run" = run.label.clone(), page;
        text "format" = run.tool.label(), page if has_tools;
        name "model" = run.model.clone();
        name "gpu" = run.gpu.clone();
        name "file" = run.artifact.clone();
        text "started" = run.started.clone();
        text "load" = page.load_of(run), page;
        RequestsPerSecond "offered_requests_per_second" = run.load.rate;
        count "concurrency" = run.load.concurrency;
        count "gpus" = run.gpus;
        count "completed" = figures.completed, page;
        count "failed" = figures.failed, page if has_failures;
        time "duration_ns" = figures.duration, page;
        RequestsPerSecond "requests_per_second" = figures.request_rate, page;
        TokensPerSecond "output_tokens_per_second" = figures.output_rate, page;
        TokensPerSecond "total_tokens_per_second" = figures.total_rate, page;
        One "in_flight" = figures.in_flight, page if has_flight;
        count "prompt_tokens" = figures.prompt_tokens, page;
        count "output_tokens" = figures.output_tokens, page;
        share "cached_share" = figures.cached, page if has_cached;
    } }
}

/// Answers that keep the limits.
fn goodput(page: &Page<'_>, content: &mut SectionContent) {
    let slo = &page.results.options.slo;
    if slo.is_empty() {
        content
            .main
            .push(Block::Prose(say!(page, "serving.no_slo")));
        return;
    }
    let mut rows: Vec<(&Run, Goodput)> = Vec::new();
    for (run, goodput) in page.results.runs.iter().zip(&page.results.goodput) {
        rows.extend(goodput.map(|goodput| (run, goodput)));
    }
    content.main.push(Block::Prose(say!(
        page,
        "serving.slo",
        ttft = slo.ttft,
        tpot = slo.tpot,
        latency = slo.latency
    )));
    if rows.len() < page.results.runs.len() {
        content.main.push(Block::Prose(say!(
            page,
            "serving.no_goodput",
            count = Quantity::count((page.results.runs.len() - rows.len()) as u64)
        )));
    }
    let table = columns! { page, "serving_goodput", (run, goodput): &(&Run, Goodput) => {
        name "run" = run.label.clone(), page;
        count "good" = goodput.good, page;
        count "requests" = goodput.requests, page;
        share "good_share" = goodput.share(), page;
        RequestsPerSecond "goodput_per_second" = goodput.rate, page;
    } };
    add(
        content,
        &table,
        &rows,
        words!(page, "serving.goodput"),
        SHOWN,
    );
}

/// All requests, as data: nothing of them is on a page.
pub(super) fn requests(page: &Page<'_>) -> SectionContent {
    let mut rows: Vec<(&Run, usize, &Request)> = Vec::new();
    for run in page.results.runs {
        for (number, request) in run.requests.iter().enumerate() {
            rows.push((run, number, request));
        }
    }
    let mut content = SectionContent::default();
    if rows.is_empty() {
        return content;
    }
    let table = columns! { page, "serving_requests", (run, number, request): &(&Run, usize, &Request) => {
        name "run" = run.label.clone(), page;
        count "number" = *number, page;
        time "due_ns" = request.due, page;
        time "queued_ns" = request.queued, page;
        time "ttft_ns" = request.ttft, page;
        time "tpot_ns" = request.tpot(), page;
        time "latency_ns" = request.latency, page;
        count "prompt_tokens" = request.prompt_tokens, page;
        count "output_tokens" = request.output_tokens, page;
        text "failed" = Cell::Flag(request.failed), page;
    } };
    content.blocks.push(Block::Table(
        table.view(words!(page, "serving.requests"), 20),
    ));
    content.datasets.push(table.rows(&rows));
    content
}
