//! Latencies: percentiles of each run, distribution functions and histograms.

use rooflens_document::chart::{Bar, Color, Line, Lines, Part, Plot, StackedBars, Track, Tracks};
use rooflens_document::{Block, Chart, Quantity, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::{Page, add, time};
use crate::analysis::figures::{Dist, Measure};
use crate::model::{Run, Tool};
use rooflens_stats::{Bin, cumulative_shares, histogram, quantile_from_nearer_end};

/// Rows of a table, points of a line, bars of a histogram.
const SHOWN: usize = 60;
const POINTS: usize = 300;
const BARS: usize = 12;

/// Mean time in a queue from which on it is shown, nanoseconds: that of a generator which sends in time is less.
const NOTICEABLE: f64 = 1e6;

/// Samples from which on a distribution has a chart.
const LEAST: usize = 5;

type Row<'a> = (&'a Run, Measure, &'a Dist);

/// Percentiles and distributions.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let rows: Vec<Row<'_>> = Measure::ALL
        .into_iter()
        .flat_map(|measure| page.runs().map(move |(index, run)| (index, run, measure)))
        .map(|(index, run, measure)| (run, measure, page.results.figures[index].dist(measure)))
        .filter(|(.., dist)| !dist.spread.is_empty())
        .filter(|(_, measure, dist)| {
            *measure != Measure::Queued || dist.spread.mean > Some(NOTICEABLE)
        })
        .collect();
    if rows.is_empty() {
        findings
            .main
            .push(Block::Missing(words!(page, "serving.no_latency")));
        return findings;
    }
    add(
        &mut findings,
        &table(page, &rows),
        &rows,
        words!(page, "serving.latencies"),
        SHOWN,
    );
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Latency, Measure::Itl] {
        findings
            .main
            .extend(distribution(page, measure).map(Block::Chart));
    }
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Itl, Measure::Latency] {
        findings
            .blocks
            .extend(bars(page, measure).map(Block::Chart));
    }
    bins(page, &mut findings);
    findings
}

fn table<'t>(page: &'t Page<'_>, rows: &[Row<'_>]) -> Table<'t, Row<'t>> {
    let has_mixed = rows.iter().any(|(.., dist)| dist.samples.is_empty());
    Table::new(page.text, "serving_latency")
        .text("measure", |(_, measure, _): &Row<'_>| name(page, *measure))
        .on_page()
        .name("run", |(run, ..)| run.label.clone())
        .on_page_if(page.results.runs.len() > 1)
        .count("samples", |(.., dist)| dist.spread.count)
        .on_page()
        .time("mean_ns", |(.., dist)| dist.spread.mean)
        .on_page()
        .time("p50_ns", |(.., dist)| dist.spread.percentiles[0])
        .on_page()
        .time("p90_ns", |(.., dist)| dist.spread.percentiles[1])
        .on_page()
        .time("p95_ns", |(.., dist)| dist.spread.percentiles[2])
        .on_page()
        .time("p99_ns", |(.., dist)| dist.spread.percentiles[3])
        .on_page()
        .time("min_ns", |(.., dist)| dist.spread.min)
        .time("max_ns", |(.., dist)| dist.spread.max)
        .time("std_ns", |(.., dist)| dist.spread.std)
        .text("basis", |(run, _, dist)| {
            match (dist.samples.is_empty(), run.tool) {
                (false, _) => "raw samples",
                (true, Tool::EngineMetrics) => "histogram buckets",
                (true, _) => "as stated",
            }
        })
        .on_page_if(has_mixed)
}

/// The name of a measure on pages.
pub(super) fn name(page: &Page<'_>, measure: Measure) -> String {
    match measure {
        Measure::Ttft => words!(page, "serving.measure.ttft"),
        Measure::Tpot => words!(page, "serving.measure.tpot"),
        Measure::Itl => words!(page, "serving.measure.itl"),
        Measure::Latency => words!(page, "serving.measure.e2e"),
        Measure::Queued => words!(page, "serving.measure.queue"),
    }
}

/// The runs of a distribution's chart: the least and the greatest load of the first page's sweep, else its run.
fn drawn(page: &Page<'_>, measure: Measure) -> Vec<usize> {
    let headline = page.results.headline;
    let has = |run: &usize| page.results.figures[*run].dist(measure).samples.len() >= LEAST;
    let sweep = page
        .results
        .sweep_of(headline)
        .map(|sweep| sweep.points.as_slice())
        .unwrap_or_default();
    let mut runs: Vec<usize> = [sweep.first(), sweep.last()]
        .into_iter()
        .flatten()
        .map(|point| point.run)
        .collect();
    if runs.is_empty() {
        runs.push(headline);
    }
    runs.retain(has);
    runs.dedup();
    runs
}

/// Share of the samples up to a value.
fn distribution(page: &Page<'_>, measure: Measure) -> Option<Chart> {
    let runs = drawn(page, measure);
    let samples = |run: &usize| page.results.figures[*run].dist(measure).samples.as_slice();
    // What lies beyond the 99th percentiles would squeeze all else.
    let end = runs
        .iter()
        .filter_map(|run| quantile_from_nearer_end(samples(run), 0.99))
        .max_by(f64::total_cmp)?;
    let several = runs.len() > 1;
    let line = |(n, run): (usize, &usize)| {
        let mut points = cumulative_shares(samples(run), POINTS);
        points.retain(|(value, _)| *value <= end);
        // To the end of the axis, beyond the longest sample too.
        points.extend(points.last().copied().map(|(_, share)| (end, share)));
        let own = &page.results.runs[*run];
        Line {
            name: if several {
                page.load_of(own).unwrap_or_else(|| own.label.clone())
            } else {
                String::new()
            },
            filled: several && n == 0,
            points: points
                .into_iter()
                .map(|(value, share)| (libm::round(value) as i64, share))
                .collect(),
        }
    };
    let lines = Lines {
        label: words!(page, "serving.share_of_samples"),
        unit: Unit::Ratio,
        lines: runs.iter().enumerate().map(line).collect(),
        shades: None,
        outliers: Vec::new(),
    };
    let what = name(page, measure);
    Some(Chart {
        id: format!("ecdf-{}", measure.id()),
        title: words!(page, "serving.ecdf", what = what.as_str()),
        description: words!(
            page,
            "serving.ecdf_text",
            what = what.as_str(),
            count = Quantity::count(runs.len() as u64)
        ),
        plot: Plot::Tracks(Tracks {
            x_label: what,
            x_unit: Unit::Nanoseconds,
            extent: libm::ceil(end) as i64,
            bands: Vec::new(),
            tracks: vec![Track::Lines(lines)],
        }),
    })
}

/// The histogram of the run of the first page.
fn bars(page: &Page<'_>, measure: Measure) -> Option<Chart> {
    let samples = &page.results.figures[page.results.headline]
        .dist(measure)
        .samples;
    let bins = histogram(samples, BARS);
    if samples.len() < LEAST || bins.len() < 2 {
        return None;
    }
    let label = |from: f64, to: f64| match to.is_finite() {
        true => format!("{} – {}", time(from), time(to)),
        false => format!("≥ {}", time(from)),
    };
    let bar = |bin: &Bin| Bar {
        label: label(bin.from, bin.to),
        values: vec![bin.count as f64],
        note: Quantity::count(bin.count).to_string(),
    };
    let what = name(page, measure);
    Some(Chart {
        id: format!("histogram-{}", measure.id()),
        title: words!(
            page,
            "serving.histogram",
            what = what.as_str(),
            run = page.which()
        ),
        description: words!(page, "serving.histogram_text", what = what.as_str()),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Count,
            normalized: false,
            parts: vec![Part {
                name: words!(page, "serving.samples"),
                color: Color::Busy,
            }],
            bars: bins.iter().map(bar).collect(),
        }),
    })
}

/// The histograms of all runs, as data.
fn bins(page: &Page<'_>, findings: &mut SectionContent) {
    let mut rows: Vec<(&Run, Measure, Bin)> = Vec::new();
    for (index, run) in page.runs() {
        for measure in Measure::ALL {
            let samples = &page.results.figures[index].dist(measure).samples;
            rows.extend(
                histogram(samples, 40)
                    .into_iter()
                    .map(|bin| (run, measure, bin)),
            );
        }
    }
    if rows.is_empty() {
        return;
    }
    let table = Table::new(page.text, "serving_histograms")
        .name("run", |row: &(&Run, Measure, Bin)| row.0.label.clone())
        .text("measure", |row| name(page, row.1))
        .time("from_ns", |row| row.2.from)
        .time("to_ns", |row| Some(row.2.to).filter(|to| to.is_finite()))
        .count("samples", |row| row.2.count)
        .all_on_page();
    findings
        .blocks
        .push(Block::Prose(say!(page, "serving.bins")));
    findings.blocks.push(Block::Table(
        table.view(words!(page, "serving.histograms"), 40),
    ));
    findings.datasets.push(table.rows(&rows));
}
