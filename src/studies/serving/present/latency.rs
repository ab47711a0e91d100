//! Latencies: percentiles of each run, distribution functions and histograms.

use rooflens_document::chart::{Bar, Color, Line, Lines, Part, Plot, StackedBars, Track, Tracks};
use rooflens_document::{Block, Chart, Quantity, SectionContent, Table, columns, say, words};
use rooflens_schemas::Unit;
use rooflens_units::Time;

use super::{Page, add};
use crate::analysis::figures::{Dist, Measure};
use crate::runs::{Run, Tool};
use rooflens_stats::{Bin, cumulative_shares, histogram, quantile_from_nearer_end};

/// Rows of a table, points of a line, bars of a histogram.
const SHOWN: usize = 60;
const POINTS: usize = 300;
const BARS: usize = 12;

/// Mean time in a queue from which on it is shown: that of a generator which sends in time is less.
const NOTICEABLE: Time = Time(1e6);

/// Samples from which on a distribution has a chart.
const LEAST: usize = 5;

type RunLatency<'a> = (&'a Run, Measure, &'a Dist);

/// Percentiles and distributions.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let mut rows: Vec<RunLatency<'_>> = Vec::new();
    for measure in Measure::ALL {
        for (index, run) in page.runs() {
            let dist = page.results.figures[index].dist(measure);
            let is_noticeable = measure != Measure::Queued || dist.spread.mean > Some(NOTICEABLE);
            if !dist.spread.is_empty() && is_noticeable {
                rows.push((run, measure, dist));
            }
        }
    }
    if rows.is_empty() {
        content
            .main
            .push(Block::Missing(words!(page, "serving.no_latency")));
        return content;
    }
    add(
        &mut content,
        &table(page, &rows),
        &rows,
        words!(page, "serving.latencies"),
        SHOWN,
    );
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Latency, Measure::Itl] {
        content
            .main
            .extend(distribution(page, measure).map(Block::Chart));
    }
    for measure in [Measure::Ttft, Measure::Tpot, Measure::Itl, Measure::Latency] {
        content.blocks.extend(bars(page, measure).map(Block::Chart));
    }
    bins(page, &mut content);
    content
}

fn table<'t>(page: &'t Page<'_>, rows: &[RunLatency<'_>]) -> Table<'t, RunLatency<'t>> {
    let several = page.results.runs.len() > 1;
    let has_mixed = rows.iter().any(|(_, _, dist)| dist.samples.is_empty());
    columns! { page, "serving_latency", (run, measure, dist): &RunLatency<'_> => {
        let spread = &dist.spread;
        let [p50, p90, p95, p99] = spread.percentiles;
        text "measure" = name(page, *measure), page;
        name "run" = run.label.clone(), page if several;
        count "samples" = spread.count, page;
        time "mean_ns" = spread.mean, page;
        time "p50_ns" = p50, page;
        time "p90_ns" = p90, page;
        time "p95_ns" = p95, page;
        time "p99_ns" = p99, page;
        time "min_ns" = spread.min;
        time "max_ns" = spread.max;
        time "std_ns" = spread.std;
        text "basis" = basis(run, dist), page if has_mixed;
    } }
}

fn basis(run: &Run, dist: &Dist) -> &'static str {
    if !dist.samples.is_empty() {
        "raw samples"
    } else if run.tool == Tool::EngineMetrics {
        "histogram buckets"
    } else {
        "as stated"
    }
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
    let points = match page.results.sweep_of(headline) {
        Some(sweep) => sweep.points.as_slice(),
        None => &[],
    };
    let mut runs = Vec::new();
    for point in points.first().into_iter().chain(points.last()) {
        runs.push(point.run);
    }
    if runs.is_empty() {
        runs.push(headline);
    }
    runs.retain(|run| page.results.figures[*run].dist(measure).samples.len() >= LEAST);
    runs.dedup();
    runs
}

/// Share of the samples up to a value.
fn distribution(page: &Page<'_>, measure: Measure) -> Option<Chart> {
    let runs = drawn(page, measure);
    let mut samples_of_runs: Vec<(&Run, &[Time])> = Vec::new();
    // What lies beyond the 99th percentiles would squeeze all else.
    let mut end: Option<Time> = None;
    for run in runs {
        let samples = page.results.figures[run].dist(measure).samples.as_slice();
        let p99 = quantile_from_nearer_end(samples, 0.99)?;
        end = Some(end.map_or(p99, |end| end.max(p99)));
        samples_of_runs.push((&page.results.runs[run], samples));
    }
    let end = end?;
    let count = samples_of_runs.len();
    let mut curves = Vec::with_capacity(count);
    for (run, samples) in samples_of_runs {
        let mut points = Vec::new();
        for (value, share) in cumulative_shares(samples, POINTS) {
            if value <= end {
                points.push((value.round().0, share));
            }
        }
        // To the end of the axis, beyond the longest sample too.
        if let Some((_, share)) = points.last() {
            points.push((end.round().0, *share));
        }
        let load = || page.load_of(run).unwrap_or_else(|| run.label.clone());
        curves.push(Line {
            name: if count > 1 { load() } else { String::new() },
            filled: count > 1 && curves.is_empty(),
            points,
        });
    }
    let lines = Lines {
        label: words!(page, "serving.share_of_samples"),
        unit: Unit::Ratio,
        lines: curves,
        shades: None,
        outliers: Vec::new(),
    };
    let measure_name = name(page, measure);
    Some(Chart {
        id: format!("ecdf-{}", measure.id()),
        title: words!(page, "serving.ecdf", what = measure_name.as_str()),
        description: words!(
            page,
            "serving.ecdf_text",
            what = measure_name.as_str(),
            count = Quantity::count(count as u64)
        ),
        plot: Plot::Tracks(Tracks {
            x_label: measure_name,
            x_unit: Unit::Nanoseconds,
            extent: libm::ceil(end.0) as i64,
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
    let mut bars = Vec::with_capacity(bins.len());
    for bin in bins {
        bars.push(Bar {
            label: if bin.to.is_finite() {
                format!("{} – {}", Quantity::from(bin.from), Quantity::from(bin.to))
            } else {
                format!("≥ {}", Quantity::from(bin.from))
            },
            values: vec![bin.count as f64],
            note: Quantity::count(bin.count).to_string(),
        });
    }
    let measure_name = name(page, measure);
    Some(Chart {
        id: format!("histogram-{}", measure.id()),
        title: words!(
            page,
            "serving.histogram",
            what = measure_name.as_str(),
            run = page.which()
        ),
        description: words!(page, "serving.histogram_text", what = measure_name.as_str()),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Count,
            normalized: false,
            parts: vec![Part::new(words!(page, "serving.samples"), Color::Busy)],
            bars,
        }),
    })
}

/// The histograms of all runs, as data.
fn bins(page: &Page<'_>, content: &mut SectionContent) {
    let mut rows: Vec<(&Run, Measure, Bin<Time>)> = Vec::new();
    for (index, run) in page.runs() {
        for measure in Measure::ALL {
            let samples = &page.results.figures[index].dist(measure).samples;
            for bin in histogram(samples, 40) {
                rows.push((run, measure, bin));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    let table = columns! { page, "serving_histograms", (run, measure, bin): &(&Run, Measure, Bin<Time>) => {
        name "run" = run.label.clone(), page;
        text "measure" = name(page, *measure), page;
        time "from_ns" = bin.from, page;
        time "to_ns" = bin.to.is_finite().then_some(bin.to), page;
        count "samples" = bin.count, page;
    } };
    content
        .blocks
        .push(Block::Prose(say!(page, "serving.bins")));
    content.blocks.push(Block::Table(
        table.view(words!(page, "serving.histograms"), 40),
    ));
    content.datasets.push(table.rows(&rows));
}
