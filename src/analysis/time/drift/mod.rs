//! Pace: how the time of repeated stages changes over the run.

mod series;
mod trend;

use rooflens_schemas::{Evidence, Metric, Unit};

use crate::analysis::engine::intervals::{Interval, union};
use crate::analysis::engine::stats::OUTLIER_Z;
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Line, Lines, Plot, Track, Tracks};
use crate::findings::{
    Block, Cell, Chart, Column, Dataset, Findings, Inline, Method, Quantity, View, derived,
    unavailable,
};
use crate::model::PassId;
use crate::prose;

use series::{Figures, LEAST, LEAST_FOR_TREND, Series};
use trend::grouped;

/// Pace.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "pace", title: "Pace", missing: |_| None, run };

/// Sequences with a chart, and rows of the table.
const MAX_CHARTS: usize = 2;
const SHOWN: usize = 16;

/// Points of a line, and outliers that are marked.
const MAX_POINTS: usize = 300;
const MAX_OUTLIERS: usize = 40;

/// From this many standard deviations on the balance of rising and falling pairs is a trend (p < 0.01).
const TREND_Z: f64 = 2.58;

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let primary = context.facts.primary_pass(session);
    let mut passes: Vec<PassId> = session.passes.ids().collect();
    passes.sort_by_key(|pass| (Some(*pass) != primary, *pass));
    let all: Vec<Series> =
        passes.into_iter().flat_map(|pass| series::of_pass(context, pass)).collect();
    let lines: Vec<(&Series, Figures)> =
        all.iter().filter_map(|series| Some((series, series.figures()?))).collect();
    let mut findings = Findings {
        metrics: lines.iter().flat_map(|line| metrics(context, line)).collect(),
        ..Findings::default()
    };
    let Some(first) = lines.first().map(|(series, _)| series.pass) else { return findings };
    let own = lines.iter().take_while(|(series, _)| series.pass == first).count().min(SHOWN);
    let shown = lines.len().min(SHOWN);
    findings.blocks.push(Block::Prose(introduction(&lines[..own])));
    let mut longest: Vec<&(&Series, Figures)> = lines[..own]
        .iter()
        .filter(|(series, _)| series.instances.len() >= LEAST_FOR_TREND)
        .collect();
    longest.sort_by_key(|(series, _)| (std::cmp::Reverse(series.total()), series.label.clone()));
    let charts = longest.iter().take(MAX_CHARTS).enumerate().map(|(n, line)| chart(n, line));
    findings.blocks.extend(charts.map(Block::Chart));
    let mut caption = "Time of repeated stages and ranges over the run".to_owned();
    if own == shown {
        let name = session.pass_name(first);
        caption.push_str(&format!(", pass {name}"));
    }
    let columns = shown_columns(&lines[..shown], own < shown);
    findings.blocks.push(Block::Table(View::new("pace", caption, &columns, shown)));
    findings.datasets.push(dataset(context, &lines));
    findings.methods.push(method());
    findings
}

/// Columns that pages show.
fn shown_columns(lines: &[(&Series, Figures)], several_passes: bool) -> Vec<&'static str> {
    let mut columns = vec!["stage"];
    columns.extend(several_passes.then_some("pass"));
    columns.push("n");
    let left_out = lines.iter().any(|(series, _)| !series.left_out.is_empty());
    columns.extend(left_out.then_some("left_out"));
    columns.extend(["median_ns", "first_ns", "last_ns", "slope_ns"]);
    columns.extend(["drift", "trend", "outliers", "worst_ns"]);
    columns
}

/// Whether the sequence rises or falls beyond chance.
fn direction(figures: &Figures) -> Option<&'static str> {
    let trend = figures.trend?;
    Some(match trend.z {
        z if z > TREND_Z => "rises",
        z if z < -TREND_Z => "falls",
        _ => "none",
    })
}

fn introduction(lines: &[(&Series, Figures)]) -> Vec<Inline> {
    let mut text = prose![
        "Whether the instances of a stage take as long at the end of the run as at its beginning. A drift changes every \
         mean with the length of the run: a growing cache, heat, fragmented memory."
    ];
    let drifting = lines
        .iter()
        .filter(|(_, figures)| direction(figures).is_some_and(|trend| trend != "none"))
        .filter_map(|(series, figures)| Some((series, figures.drift?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    if let Some((series, drift)) = drifting {
        text.extend(prose![
            " The greatest trend is that of ",
            Inline::Code(series.label.clone()),
            ": ",
            Quantity::ratio(drift),
            " from the first to the last third of ",
            Quantity::count(series.instances.len() as u64),
            " instances."
        ]);
    } else if lines.iter().any(|(_, figures)| figures.trend.is_some()) {
        text.push(" No stage has a trend beyond chance.".into());
    }
    text
}

fn chart(number: usize, (series, figures): &(&Series, Figures)) -> Chart {
    let line = |name: &str, filled: bool, time: fn(&series::Instance) -> i64| {
        let points: Vec<(f64, f64)> =
            series.instances.iter().map(|one| (one.number as f64, time(one) as f64)).collect();
        let points = grouped(&points, MAX_POINTS);
        let points = points.into_iter().map(|(x, y)| (libm::round(x) as i64, y)).collect();
        Line { name: name.to_owned(), filled, points }
    };
    let lines = match series.scope {
        Some(_) => vec![
            line("range on the host", true, |one| one.host),
            line("projection on the GPU", false, |one| one.time),
        ],
        None => vec![line("", false, |one| one.host)],
    };
    let mut outliers = figures.outliers.clone();
    let distance = |place: &usize| (series.instances[*place].time as f64 - figures.median).abs();
    outliers.sort_by(|a, b| distance(b).total_cmp(&distance(a)).then(a.cmp(b)));
    outliers.truncate(MAX_OUTLIERS);
    let mark = |place: &usize| {
        let one = &series.instances[*place];
        (one.number as i64, one.time as f64)
    };
    let numbers =
        series.instances.iter().map(|one| one.number).chain(series.left_out.iter().copied());
    let last = numbers.max().unwrap_or(0) as i64;
    let mut left_out: Vec<Interval> =
        series.left_out.iter().map(|number| (*number as i64, *number as i64 + 1)).collect();
    let left_out = union(&mut left_out);
    let label = "Time of an instance".to_owned();
    let shades = (!left_out.is_empty()).then(|| ("left out".to_owned(), left_out));
    let outliers = outliers.iter().map(mark).collect();
    let tracks =
        vec![Track::Lines(Lines { label, unit: Unit::Nanoseconds, lines, shades, outliers })];
    Chart {
        id: format!("pace-{number}"),
        title: format!("Pace of {}", series.label),
        description: description(series, figures),
        plot: Plot::Tracks(Tracks {
            x_label: "Number of the instance".to_owned(),
            x_unit: Unit::Count,
            extent: last.max(1),
            bands: Vec::new(),
            tracks,
        }),
    }
}

fn description(series: &Series, figures: &Figures) -> String {
    let mut text = format!(
        "Time of each of {} instances of {} in order of the run, median {}",
        series.instances.len(),
        series.label,
        Quantity::new(figures.median, Unit::Nanoseconds)
    );
    if let Some((first, last)) = figures.ends {
        let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
        text.push_str(&format!(
            "; median of the first third {}, of the last third {}",
            time(first),
            time(last)
        ));
    }
    text.push_str(&format!(
        "; {} outliers by modified z-score are ringed.",
        figures.outliers.len()
    ));
    text
}

fn dataset(context: &Context<'_>, lines: &[(&Series, Figures)]) -> Dataset {
    let session = context.session;
    let row = |(series, figures): &(&Series, Figures)| {
        let worst =
            series.instances.iter().max_by_key(|one| (one.time, std::cmp::Reverse(one.number)));
        vec![
            Cell::Name(series.label.clone()),
            Cell::Name(session.pass_name(series.pass).to_owned()),
            Cell::Int(series.instances.len() as i64),
            Cell::Int(series.left_out.len() as i64),
            Cell::Float(figures.median),
            Cell::maybe(figures.ends.map(|(first, _)| first)),
            Cell::maybe(figures.ends.map(|(_, last)| last)),
            Cell::maybe(figures.trend.map(|trend| trend.slope)),
            Cell::maybe(figures.drift),
            Cell::maybe(figures.trend.map(|trend| trend.z)),
            direction(figures).map_or(Cell::Missing, |trend| Cell::Text(trend.to_owned())),
            Cell::Int(figures.outliers.len() as i64),
            worst.map_or(Cell::Missing, |one| Cell::Int(one.number as i64)),
            worst.map_or(Cell::Missing, |one| Cell::Int(one.time)),
        ]
    };
    let time = |id, title| Column::new(id, title, Unit::Nanoseconds);
    let count = |id, title| Column::new(id, title, Unit::Count);
    Dataset {
        id: "pace",
        title: "Time of repeated stages and ranges over the run".to_owned(),
        columns: vec![
            Column::text("stage", "Stage or range"),
            Column::text("pass", "Pass"),
            count("n", "n"),
            count("left_out", "Left out"),
            time("median_ns", "Median"),
            time("first_ns", "First third"),
            time("last_ns", "Last third"),
            time("slope_ns", "Per instance"),
            Column::new("drift", "Drift", Unit::Ratio),
            Column::new("trend_z", "Mann–Kendall z", Unit::One),
            Column::text("trend", "Trend"),
            count("outliers", "Outliers"),
            count("worst", "Longest, no."),
            time("worst_ns", "Longest"),
        ],
        rows: lines.iter().map(row).collect(),
    }
}

fn metrics(context: &Context<'_>, (series, figures): &(&Series, Figures)) -> Vec<Metric> {
    let session = context.session;
    let Some(scope) = &series.scope else { return Vec::new() };
    let n = series.instances.len();
    let found = figures.trend.zip(figures.drift).zip(figures.ends);
    let Some(((trend, drift), (first, last))) = found else {
        let reason = format!("{n} instances count; a trend needs {LEAST_FOR_TREND}");
        return vec![unavailable("pace_drift", scope.clone(), Unit::Ratio, reason)];
    };
    let basis = format!(
        "median of the last third of {n} instances {last:.0} ns ÷ median of the first third {first:.0} ns − 1; \
         Theil–Sen slope {:.1} ns per instance",
        trend.slope
    );
    let balance = format!("balance of rising and falling pairs of {n} instances (Mann–Kendall)");
    let mut metrics = vec![
        derived("pace_drift", scope.clone(), Unit::Ratio, drift, basis),
        derived("pace_trend_z", scope.clone(), Unit::One, trend.z, balance),
    ];
    let evidence = Evidence {
        artifact: session.artifact_of(series.pass).to_owned(),
        table: Some("ranges".to_owned()),
        rows: Some(n as u64),
    };
    metrics.iter_mut().for_each(|metric| metric.evidence.push(evidence.clone()));
    metrics
}

fn method() -> Method {
    Method {
        title: "Pace".to_owned(),
        text: prose![
            "Instances that count, in order of the run; sequences of fewer than ",
            Quantity::count(LEAST as u64),
            " are not shown, a trend needs ",
            Quantity::count(LEAST_FOR_TREND as u64),
            ". Drift is the median of the last third ÷ the median of the first third − 1. Slope: the median of the slopes of all pairs of instances (Theil, 1950; Sen, 1968); of long sequences, of the \
             medians of up to 400 groups of neighbours. A sequence has a trend if the balance of rising and falling pairs (Mann, 1945; Kendall, 1975) lies \
             beyond ",
            Quantity::new(TREND_Z, Unit::One),
            " standard deviations. Outliers have a modified z-score beyond ",
            Quantity::new(OUTLIER_Z, Unit::One),
            ". Ranges that are no stage are measured on the host; of these, those are left out that end before \
             a stage's first instance after its warm-up begins, and then the first one if its modified z-score against the \
             others lies beyond the same limit."
        ],
    }
}

#[cfg(test)]
mod tests;
