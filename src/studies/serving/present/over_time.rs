//! Requests in flight and tokens over the run of the first page, and what its engine said meanwhile.

use rooflens_document::chart::{Panel, Plot, Series};
use rooflens_document::{Block, Chart, SectionContent, Table, words};
use rooflens_schemas::Unit;

use super::Page;
use crate::model::{EngineSample, Request};

/// Stretches of the run over which tokens are counted.
const STRETCHES: usize = 120;

/// Both charts.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let run = page.results.headline;
    findings
        .main
        .extend(requests(page, &page.results.runs[run].requests).map(Block::Chart));
    let samples = page.results.engine_of(run);
    findings
        .main
        .extend(engine(page, samples).map(Block::Chart));
    if !samples.is_empty() {
        let table = Table::new(page.text, "serving_engine")
            .time("time_ns", |one: &EngineSample| one.time)
            .count("running", |one| one.running)
            .count("waiting", |one| one.waiting)
            .share("kv_cache_share", |one| one.kv_cache)
            .count("preemptions", |one| one.preemptions)
            .count("completed", |one| one.completed)
            .count("prompt_tokens", |one| one.prompt_tokens)
            .count("output_tokens", |one| one.output_tokens)
            .all_on_page();
        findings.blocks.push(Block::Table(
            table.view(words!(page, "serving.engine_table"), 20),
        ));
        findings.datasets.push(table.rows(samples));
    }
    findings
}

/// Requests in flight, those without a first token yet, and output tokens per second.
fn requests(page: &Page<'_>, requests: &[Request]) -> Option<Chart> {
    let times = |one: &Request| Some((one.due?, one.ttft, one.latency?, one.output_tokens));
    let known: Vec<_> = requests.iter().filter_map(times).collect();
    let duration = known
        .iter()
        .map(|one| one.0 + one.2)
        .max_by(f64::total_cmp)
        .filter(|end| *end > 0.0)?;
    if known.len() < 5 {
        return None;
    }
    let flight = steps(known.iter().map(|one| (one.0, one.0 + one.2)));
    let first = steps(known.iter().filter_map(|one| Some((one.0, one.0 + one.1?))));
    let panel = |label: String, unit: Unit, points: Vec<(i64, f64)>| Panel {
        label,
        unit,
        points,
        limit: None,
    };
    let mut panels = vec![
        panel(words!(page, "serving.panel.in_flight"), Unit::Count, flight),
        panel(words!(page, "serving.panel.no_token"), Unit::Count, first),
        panel(
            words!(page, "serving.panel.tokens"),
            Unit::TokensPerSecond,
            tokens(&known, duration),
        ),
    ];
    panels.retain(|panel| panel.points.iter().any(|point| point.1 > 0.0));
    Some(Chart {
        id: "requests-over-time".to_owned(),
        title: words!(page, "serving.over_time", run = page.which()),
        description: words!(page, "serving.over_time_text"),
        plot: Plot::Series(Series {
            panels,
            bands: Vec::new(),
            duration: duration as i64,
        }),
    })
}

/// How many of some intervals hold each moment, as points of a line.
fn steps(intervals: impl Iterator<Item = (f64, f64)>) -> Vec<(i64, f64)> {
    let mut changes: Vec<(i64, i64)> = intervals
        .flat_map(|(from, to)| [(from as i64, 1), (to as i64, -1)])
        .collect();
    changes.sort_unstable();
    let mut open = 0;
    let mut points = vec![(0, 0.0)];
    for (at, change) in changes {
        points.push((at, open as f64));
        open += change;
        points.push((at, open as f64));
    }
    points
}

/// Output tokens per second: each request's evenly from its first token to its end.
fn tokens(known: &[(f64, Option<f64>, f64, Option<f64>)], duration: f64) -> Vec<(i64, f64)> {
    let width = duration / STRETCHES as f64;
    let mut sums = [0.0; STRETCHES];
    for (due, ttft, latency, tokens) in known {
        let (from, to) = (due + ttft.unwrap_or(0.0), due + latency);
        let (Some(tokens), true) = (tokens, to > from) else {
            continue;
        };
        let (first, last) = ((from / width) as usize, (to / width) as usize);
        for (n, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let (begin, end) = (from.max(width * n as f64), to.min(width * (n + 1) as f64));
            *sum += tokens * (end - begin).max(0.0) / (to - from);
        }
    }
    let rate = |(n, sum): (usize, &f64)| ((width * (n as f64 + 0.5)) as i64, sum / (width / 1e9));
    sums.iter().enumerate().map(rate).collect()
}

/// Running and waiting requests and the KV cache.
fn engine(page: &Page<'_>, samples: &[EngineSample]) -> Option<Chart> {
    let start = samples.first()?.time?;
    let duration = samples.last()?.time? - start;
    let points = |of: fn(&EngineSample) -> Option<f64>| {
        let point = |one: &EngineSample| Some(((one.time? - start) as i64, of(one)?));
        samples.iter().filter_map(point).collect::<Vec<_>>()
    };
    let panel = |label: String, unit: Unit, points: Vec<(i64, f64)>| Panel {
        label,
        unit,
        points,
        limit: None,
    };
    let mut panels = vec![
        panel(
            words!(page, "serving.panel.running"),
            Unit::Count,
            points(|one| one.running),
        ),
        panel(
            words!(page, "serving.panel.waiting"),
            Unit::Count,
            points(|one| one.waiting),
        ),
        panel(
            words!(page, "serving.panel.kv"),
            Unit::Ratio,
            points(|one| one.kv_cache),
        ),
    ];
    panels.retain(|panel| panel.points.len() > 2);
    (!panels.is_empty() && duration > 0.0).then(|| Chart {
        id: "engine-over-time".to_owned(),
        title: words!(page, "serving.engine"),
        description: words!(page, "serving.engine_text"),
        plot: Plot::Series(Series {
            panels,
            bands: Vec::new(),
            duration: duration as i64,
        }),
    })
}
