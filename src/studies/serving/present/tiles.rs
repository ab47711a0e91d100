//! The title of a load test, and the few figures by which a reader decides: those of the run of the first page.

use rooflens_document::{Quantity, Tile, words};
use rooflens_units::{Count, Ratio};

use super::{Page, summary};
use crate::analysis::figures::Measure;

/// What the user demands first, then failures, for they make all other figures those of the requests that were answered; else throughput at its load.
pub(super) fn conclusion(page: &Page<'_>) -> Option<String> {
    let figures = &page.results.figures[page.results.headline];
    let run = &page.results.runs[page.results.headline];
    let rate = match (figures.output_rate, figures.request_rate) {
        (Some(rate), _) => Quantity::from(rate),
        (None, rate) => Quantity::from(rate?),
    };
    let failed = failed(page).map(|(failed, _)| failed);
    let kept = page.results.goodput[page.results.headline].map(|goodput| goodput.share());
    Some(words!(
        page,
        "serving.title_conclusion",
        subject = summary::title(page),
        kept = kept,
        failed = failed,
        rate = rate,
        load = page.load_of(run),
    ))
}

/// Share of requests without an answer, and their number; none if all were answered or nobody counted.
fn failed(page: &Page<'_>) -> Option<(Ratio, Count)> {
    let figures = &page.results.figures[page.results.headline];
    let failed = figures.failed.filter(Count::is_positive)?;
    let all = failed + figures.completed.unwrap_or_default();
    Some((Ratio(failed.0 / all.0), failed))
}

pub(super) fn tiles(page: &Page<'_>) -> Vec<Tile> {
    let figures = &page.results.figures[page.results.headline];
    let mut tiles = Vec::new();
    let mut tile = |key: &str, now: Option<Quantity>, others: Vec<(String, Quantity)>| {
        tiles.extend(now.map(|now| Tile {
            label: page.text.line(key, &[]),
            now,
            others,
        }));
    };
    if let Some(goodput) = page.results.goodput[page.results.headline] {
        let rate = goodput.rate.map(|rate| {
            let name = words!(page, "serving.figure.goodput");
            (name, Quantity::from(rate))
        });
        let share = Some(goodput.share().into());
        tile("serving.tile_kept", share, rate.into_iter().collect());
    }
    let failures = failed(page);
    let count = failures.map(|(_, count)| {
        let name = words!(page, "serving.tile_requests");
        (name, Quantity::from(count))
    });
    let share = failures.map(|(share, _)| share.into());
    tile("serving.tile_failed", share, count.into_iter().collect());
    let requests = figures.request_rate.map(|rate| {
        let name = words!(page, "serving.tile_answered");
        (name, Quantity::from(rate))
    });
    let rate = figures.output_rate.map(Into::into);
    tile("serving.tile_rate", rate, requests.into_iter().collect());
    for (key, measure) in [
        ("serving.tile_ttft", Measure::Ttft),
        ("serving.tile_tpot", Measure::Tpot),
        ("serving.tile_latency", Measure::Latency),
    ] {
        let spread = figures.dist(measure).spread;
        let p99 = spread.percentiles[3].map(|time| {
            let name = words!(page, "serving.tile_p99");
            (name, Quantity::from(time))
        });
        tile(key, spread.p50().map(Into::into), p99.into_iter().collect());
    }
    tiles
}
