//! Sweeps over load: throughput, latency, and the knee.

use rooflens_document::chart::{Color, Plot, Point as Mark, Scatter};
use rooflens_document::{Block, Chart, Inline, Quantity, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::{Page, add, time};
use crate::analysis::figures::Measure;
use crate::analysis::sweep::{Axis, Point, Sweep, elasticity};

/// Rows that pages show, and sweeps with charts.
const SHOWN: usize = 40;
const CHARTS: usize = 3;

/// Weight of marks that are no shares of anything.
const NO_SHARE: f64 = -1.0;

/// A point with its sweep's number, and the growth from the point before.
struct Row<'a> {
    sweep: &'a Sweep,
    number: usize,
    point: &'a Point,
    grown: Option<f64>,
    is_knee: bool,
}

/// All sweeps.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    let sweeps = &page.results.sweeps;
    for (number, sweep) in sweeps.iter().enumerate() {
        findings.main.push(Block::Prose(statement(page, sweep)));
        findings
            .main
            .extend(best_goodput(page, sweep).map(Block::Prose));
        if number < CHARTS {
            findings
                .main
                .extend(throughput(page, number, sweep).map(Block::Chart));
            findings
                .main
                .extend(latency(page, number, sweep).map(Block::Chart));
        }
    }
    let rows: Vec<Row<'_>> = sweeps
        .iter()
        .enumerate()
        .flat_map(|(number, sweep)| rows(number, sweep))
        .collect();
    add(
        &mut findings,
        &table(page),
        &rows,
        words!(page, "serving.sweeps"),
        SHOWN,
    );
    findings
}

fn rows(number: usize, sweep: &Sweep) -> Vec<Row<'_>> {
    let point = |(n, point): (usize, &'_ Point)| {
        let before = n.checked_sub(1).and_then(|before| sweep.points.get(before));
        let grown = before.map(|before| elasticity(before, point));
        (n, grown)
    };
    let all = sweep
        .points
        .iter()
        .enumerate()
        .map(point)
        .zip(&sweep.points);
    all.map(|((n, grown), point)| Row {
        sweep,
        number,
        point,
        grown,
        is_knee: sweep.knee == Some(n),
    })
    .collect()
}

fn table<'t>(page: &'t Page<'_>) -> Table<'t, Row<'t>> {
    let several = page.results.sweeps.len() > 1;
    let of = |measure: Measure, percent: usize| {
        move |row: &Row<'_>| {
            page.results.figures[row.point.run]
                .dist(measure)
                .spread
                .percentiles[percent]
        }
    };
    let goodput = |row: &Row<'_>| page.results.goodput[row.point.run].and_then(|one| one.rate);
    Table::new(page.text, "serving_sweep")
        .count("sweep", |row: &Row<'_>| row.number + 1)
        .on_page_if(several)
        .text("load", |row| page.load(row.sweep.axis, row.point.load))
        .on_page()
        .name("run", |row| page.results.runs[row.point.run].label.clone())
        .column("requests_per_second", Unit::RequestsPerSecond, |row| {
            page.results.figures[row.point.run].request_rate
        })
        .on_page()
        .column("output_tokens_per_second", Unit::TokensPerSecond, |row| {
            page.results.figures[row.point.run].output_rate
        })
        .on_page()
        .column("elasticity", Unit::One, |row| row.grown)
        .on_page()
        .time("ttft_p50_ns", of(Measure::Ttft, 0))
        .on_page()
        .time("ttft_p99_ns", of(Measure::Ttft, 3))
        .on_page()
        .time("tpot_p50_ns", of(Measure::Tpot, 0))
        .on_page()
        .time("e2e_p50_ns", of(Measure::Latency, 0))
        .column("goodput_per_second", Unit::RequestsPerSecond, goodput)
        .on_page_if(page.results.goodput.iter().any(Option::is_some))
        .text("knee", |row| row.is_knee)
        .on_page()
}

/// Where throughput stops to follow the load.
fn statement(page: &Page<'_>, sweep: &Sweep) -> Vec<Inline> {
    let (first, last) = (&sweep.points[0], &sweep.points[sweep.points.len() - 1]);
    let load = |point: &Point| page.load(sweep.axis, point.load);
    match sweep.knee.map(|knee| &sweep.points[knee]) {
        Some(knee) => say!(
            page,
            "serving.knee_at",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            knee = Inline::strong(load(knee)),
            throughput = rate(sweep, knee),
            at_last = rate(sweep, last),
        ),
        None => say!(
            page,
            "serving.no_knee",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            throughput = rate(sweep, last),
        ),
    }
}

/// The load with the most good requests per second.
pub(super) fn best_goodput(page: &Page<'_>, sweep: &Sweep) -> Option<Vec<Inline>> {
    let good = |point: &Point| page.results.goodput[point.run].and_then(|one| one.rate);
    let known = sweep
        .points
        .iter()
        .filter_map(|point| Some((point, good(point)?)));
    let (point, rate) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let rate = Quantity::new(rate, Unit::RequestsPerSecond);
    Some(say!(
        page,
        "serving.best_goodput",
        load = page.load(sweep.axis, point.load),
        rate = rate
    ))
}

/// The throughput of a point with its unit.
pub(super) const fn rate(sweep: &Sweep, point: &Point) -> Quantity {
    let unit = if sweep.in_tokens {
        Unit::TokensPerSecond
    } else {
        Unit::RequestsPerSecond
    };
    Quantity::new(point.throughput, unit)
}

fn marks(page: &Page<'_>, sweep: &Sweep, at: impl Fn(&Point) -> Option<(f64, f64)>) -> Vec<Mark> {
    let mark = |(n, point): (usize, &Point)| {
        let (x, y) = at(point)?;
        let color = if sweep.knee == Some(n) {
            Color::Knee
        } else {
            Color::Run
        };
        Some(Mark {
            label: page.load(sweep.axis, point.load),
            x,
            y,
            weight: NO_SHARE,
            color,
        })
    };
    sweep.points.iter().enumerate().filter_map(mark).collect()
}

fn plane(x_label: String, y_label: String, points: Vec<Mark>) -> Option<Plot> {
    let end = |of: fn(&Mark) -> f64| points.iter().map(of).fold(0.0, f64::max) * 1.08;
    let (x_max, y_max) = (end(|one| one.x), end(|one| one.y));
    (points.len() > 1 && x_max > 0.0 && y_max > 0.0).then_some(Plot::Scatter(Scatter {
        x_label,
        y_label,
        x_max,
        y_max,
        diagonal: false,
        points,
    }))
}

/// Throughput against load.
fn throughput(page: &Page<'_>, number: usize, sweep: &Sweep) -> Option<Chart> {
    let x = match sweep.axis {
        Axis::Rate => words!(page, "serving.axis.rate"),
        Axis::Concurrency => words!(page, "serving.axis.concurrency"),
    };
    let points = marks(page, sweep, |point| Some((point.load, point.throughput)));
    Some(Chart {
        id: format!("sweep-throughput-{}", number + 1),
        title: words!(page, "serving.sweep_throughput"),
        description: words!(page, "serving.sweep_throughput_text"),
        plot: plane(x, y_label(page, sweep), points)?,
    })
}

fn y_label(page: &Page<'_>, sweep: &Sweep) -> String {
    match sweep.in_tokens {
        true => words!(page, "serving.axis.output"),
        false => words!(page, "serving.axis.requests"),
    }
}

/// Median TTFT against throughput: the curve of which one wants the lower right.
fn latency(page: &Page<'_>, number: usize, sweep: &Sweep) -> Option<Chart> {
    let ttft = |point: &Point| page.results.figures[point.run].typical(Measure::Ttft);
    let points = marks(page, sweep, |point| {
        Some((point.throughput, ttft(point)? / 1e6))
    });
    Some(Chart {
        id: format!("sweep-latency-{}", number + 1),
        title: words!(page, "serving.sweep_latency"),
        description: words!(
            page,
            "serving.sweep_latency_text",
            best = sweep
                .points
                .iter()
                .filter_map(ttft)
                .min_by(f64::total_cmp)
                .map(time),
        ),
        plot: plane(
            y_label(page, sweep),
            words!(page, "serving.axis.ttft"),
            points,
        )?,
    })
}
