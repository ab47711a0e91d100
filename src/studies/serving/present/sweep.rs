//! Sweeps over load: throughput, latency, and the knee.

use rooflens_document::chart::{Color, NO_SHARE, Plot, Point as Mark, Scatter};
use rooflens_document::{
    Block, Chart, Inline, Quantity, SectionContent, Table, columns, say, words,
};
use rooflens_units::{Ratio, RequestsPerSecond, Time};

use super::{Page, add};
use crate::analysis::figures::Measure;
use crate::analysis::sweep::{Axis, Point, Sweep, elasticity};

/// Rows that pages show, and sweeps with charts.
const SHOWN: usize = 40;
const CHARTS: usize = 3;

/// Length of an axis over the greatest value on it.
const MARGIN: Ratio = Ratio(1.08);

/// A point with its sweep's number, and the growth from the point before.
struct SweepStep<'a> {
    number: usize,
    point: &'a Point,
    growth: Option<Ratio>,
    is_knee: bool,
}

/// All sweeps.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    let sweeps = &page.results.sweeps;
    for (number, sweep) in sweeps.iter().enumerate() {
        content.main.push(Block::Prose(statement(page, sweep)));
        content
            .main
            .extend(best_goodput(page, sweep).map(Block::Prose));
        if number < CHARTS {
            content
                .main
                .extend(throughput(page, number, sweep).map(Block::Chart));
            // That of the first page stands there.
            let other = latency(page, number, sweep).filter(|_| !is_of_first_page(page, sweep));
            content.main.extend(other.map(Block::Chart));
        }
    }
    let mut rows: Vec<SweepStep<'_>> = Vec::new();
    for (number, sweep) in sweeps.iter().enumerate() {
        rows.extend(steps(number, sweep));
    }
    add(
        &mut content,
        &table(page),
        &rows,
        words!(page, "serving.sweeps"),
        SHOWN,
    );
    content
}

/// Whether the run of the first page is a point of this sweep.
fn is_of_first_page(page: &Page<'_>, sweep: &Sweep) -> bool {
    let mut points = sweep.points.iter();
    points.any(|point| point.run == page.results.headline)
}

/// Latency against throughput, for the first page.
pub(super) fn first_page(page: &Page<'_>) -> Option<Chart> {
    let mut sweeps = page.results.sweeps.iter().enumerate();
    let (number, sweep) = sweeps.find(|(_, sweep)| is_of_first_page(page, sweep))?;
    latency(page, number, sweep)
}

fn steps(number: usize, sweep: &Sweep) -> Vec<SweepStep<'_>> {
    let mut steps = Vec::new();
    let mut before: Option<&Point> = None;
    for (index, point) in sweep.points.iter().enumerate() {
        steps.push(SweepStep {
            number,
            point,
            growth: before.map(|before| elasticity(before, point)),
            is_knee: sweep.knee == Some(index),
        });
        before = Some(point);
    }
    steps
}

fn table<'t>(page: &'t Page<'_>) -> Table<'t, SweepStep<'t>> {
    let results = page.results;
    let several = results.sweeps.len() > 1;
    let sweeps = &results.sweeps;
    let mut points = sweeps.iter().flat_map(|sweep| &sweep.points);
    let has_offered = points.any(|point| point.sustained.is_some());
    let has_goodput = results.goodput.iter().any(Option::is_some);
    columns! { page, "serving_sweep", step: &SweepStep<'_> => {
        let run = step.point.run;
        let figures = &results.figures[run];
        let ttft = &figures.dist(Measure::Ttft).spread;
        count "sweep" = step.number + 1, page if several;
        text "load" = page.load(step.point.load), page;
        name "run" = results.runs[run].label.clone();
        RequestsPerSecond "requests_per_second" = figures.request_rate, page;
        TokensPerSecond "output_tokens_per_second" = figures.output_rate, page;
        One "elasticity" = step.growth, page;
        share "sustained_share" = step.point.sustained, page if has_offered;
        time "ttft_p50_ns" = ttft.p50(), page;
        time "ttft_p99_ns" = ttft.p99(), page;
        time "tpot_p50_ns" = figures.dist(Measure::Tpot).spread.p50(), page;
        time "e2e_p50_ns" = figures.dist(Measure::Latency).spread.p50();
        RequestsPerSecond "goodput_per_second" = results.goodput_rate(run), page if has_goodput;
        text "knee" = step.is_knee, page;
    } }
}

/// Where throughput stops to follow the load.
fn statement(page: &Page<'_>, sweep: &Sweep) -> Vec<Inline> {
    let (first, last) = (&sweep.points[0], &sweep.points[sweep.points.len() - 1]);
    let load = |point: &Point| page.load(point.load);
    match sweep.knee.map(|knee| &sweep.points[knee]) {
        Some(knee) if knee.sustained.is_some() => say!(
            page,
            "serving.sustained_to",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            knee = Inline::strong(load(knee)),
            throughput = knee.throughput,
            at_last = last.throughput,
        ),
        Some(knee) => say!(
            page,
            "serving.knee_at",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            knee = Inline::strong(load(knee)),
            throughput = knee.throughput,
            at_last = last.throughput,
        ),
        None if sweep.is_saturated => say!(
            page,
            "serving.overloaded",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            throughput = last.throughput,
        ),
        None => say!(
            page,
            "serving.no_knee",
            count = Quantity::count(sweep.points.len() as u64),
            first = load(first),
            last = load(last),
            throughput = last.throughput,
        ),
    }
}

/// The load above those of the sweep that ended early, with its reason.
pub(super) fn ended_early(page: &Page<'_>, sweep: &Sweep) -> Option<Vec<Inline>> {
    let (load, run) = sweep.ended_early?;
    let reason = page.results.runs[run].cut.clone();
    Some(say!(
        page,
        "serving.ended_early",
        load = page.load(load),
        reason = reason
    ))
}

/// The load with the most good requests per second.
pub(super) fn best_goodput(page: &Page<'_>, sweep: &Sweep) -> Option<Vec<Inline>> {
    let mut best: Option<(&Point, RequestsPerSecond)> = None;
    for point in &sweep.points {
        if let Some(rate) = page.results.goodput_rate(point.run)
            && best.is_none_or(|(_, most)| most.total_cmp(&rate).is_le())
        {
            best = Some((point, rate));
        }
    }
    let (point, rate) = best?;
    Some(say!(
        page,
        "serving.best_goodput",
        load = page.load(point.load),
        rate = rate
    ))
}

/// Marks of the points whose position is known.
fn marks(
    page: &Page<'_>,
    sweep: &Sweep,
    position: impl Fn(&Point) -> Option<(f64, f64)>,
) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (index, point) in sweep.points.iter().enumerate() {
        let Some((x, y)) = position(point) else {
            continue;
        };
        let is_knee = sweep.knee == Some(index);
        marks.push(Mark {
            label: page.load(point.load),
            x,
            y,
            weight: NO_SHARE,
            hollow: false,
            color: if is_knee { Color::Knee } else { Color::Run },
        });
    }
    marks
}

fn plane(x_label: String, y_label: String, points: Vec<Mark>) -> Option<Plot> {
    let (mut x_max, mut y_max) = (0.0_f64, 0.0_f64);
    for mark in &points {
        (x_max, y_max) = (x_max.max(mark.x), y_max.max(mark.y));
    }
    let (x_max, y_max) = (x_max * MARGIN.0, y_max * MARGIN.0);
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
    let points = marks(page, sweep, |point| {
        Some((point.load.value, point.throughput.value))
    });
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
        Some((point.throughput.value, ttft(point)?.0 / 1e6))
    });
    Some(Chart {
        id: format!("sweep-latency-{}", number + 1),
        title: words!(page, "serving.sweep_latency"),
        description: words!(
            page,
            "serving.sweep_latency_text",
            best = sweep.points.iter().filter_map(ttft).min_by(Time::total_cmp),
        ),
        plot: plane(
            y_label(page, sweep),
            words!(page, "serving.axis.ttft"),
            points,
        )?,
    })
}
