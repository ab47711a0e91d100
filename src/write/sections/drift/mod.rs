//! Pace: how the time of repeated stages changes over the run.

#[cfg(test)]
mod tests;

use rooflens_schemas::{Metric, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::intervals::{Interval, union};
use rooflens_analysis::time::drift::{
    Change, Direction, Instance, LEAST, LEAST_FOR_TREND, Series, Subject, TREND_Z, grouped,
};
use rooflens_document::catalogue::{PACE_DRIFT, PACE_TREND_Z};
use rooflens_document::chart::{Line, Lines, Plot, Track, Tracks};
use rooflens_document::{Block, Chart, Inline, Quantity, SectionContent, Table, View};
use rooflens_stats::OUTLIER_Z;

/// Pace.
pub(super) static SECTION: Section = Section { id: "pace", show };

/// Sequences with a chart, and rows of the table.
const MAX_CHARTS: usize = 2;
const SHOWN: usize = 16;

/// Points of a line, and outliers that are marked.
const MAX_POINTS: usize = 300;
const MAX_OUTLIERS: usize = 40;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let all = &context.results.drift()?.series;
    let mut findings = SectionContent {
        metrics: all
            .iter()
            .flat_map(|series| metrics(context, series))
            .collect(),
        ..SectionContent::default()
    };
    let Some(first) = all.first().map(|series| series.pass) else {
        return Ok(findings);
    };
    let own = all
        .iter()
        .take_while(|series| series.pass == first)
        .count()
        .min(SHOWN);
    let shown = all.len().min(SHOWN);
    findings
        .blocks
        .push(Block::Prose(introduction(context, &all[..own])));
    let mut longest: Vec<&Series> = all[..own]
        .iter()
        .filter(|series| series.instances.len() >= LEAST_FOR_TREND)
        .collect();
    longest.sort_by_key(|series| (std::cmp::Reverse(series.total()), series.label(context)));
    let charts = longest.iter().take(MAX_CHARTS).enumerate();
    let charts = charts.map(|(number, series)| chart(context, number, series));
    findings.blocks.extend(charts.map(Block::Chart));
    let pass = (own == shown).then(|| context.session.pass_name(first));
    let caption = words!(context, "pace.caption", pass = pass);
    let columns = shown_columns(&all[..shown], own < shown);
    findings
        .blocks
        .push(Block::Table(View::new("pace", caption, &columns, shown)));
    findings.datasets.push(table(context).rows(all));
    findings.methods.push(method!(
        context,
        "pace",
        least = Quantity::count(LEAST as u64),
        least_for_trend = Quantity::count(LEAST_FOR_TREND as u64),
        trend = Quantity::new(TREND_Z, Unit::One),
        outlier = Quantity::new(OUTLIER_Z, Unit::One),
    ));
    Ok(findings)
}

/// Columns that pages show.
fn shown_columns(all: &[Series], several_passes: bool) -> Vec<&'static str> {
    let mut columns = vec!["stage"];
    columns.extend(several_passes.then_some("pass"));
    columns.push("n");
    columns.extend(
        all.iter()
            .any(|series| !series.left_out.is_empty())
            .then_some("left_out"),
    );
    columns.extend(["median_ns", "first_ns", "last_ns", "slope_ns"]);
    columns.extend(["drift", "trend", "outliers", "worst_ns"]);
    columns
}

fn introduction(context: &Context<'_>, lines: &[Series]) -> Vec<Inline> {
    let mut text = say!(context, "pace.introduction");
    let drifting = lines
        .iter()
        .filter(|line| {
            line.direction()
                .is_some_and(|trend| trend != Direction::Neither)
        })
        .filter_map(|one| Some((one, one.drift?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    if let Some((series, drift)) = drifting {
        text.extend(say!(
            context,
            "pace.trend",
            stage = Inline::code(series.label(context)),
            drift = Quantity::ratio(drift),
            instances = Quantity::count(series.instances.len() as u64),
        ));
    } else if lines.iter().any(|line| line.trend.is_some()) {
        text.extend(say!(context, "pace.no_trend"));
    }
    text
}

fn chart(context: &Context<'_>, number: usize, series: &Series) -> Chart {
    let name = series.label(context);
    let line = |name: String, filled: bool, time: fn(&Instance) -> i64| {
        let points: Vec<(f64, f64)> = series
            .instances
            .iter()
            .map(|instance| (instance.number as f64, time(instance) as f64))
            .collect();
        let points = grouped(&points, MAX_POINTS);
        let points = points
            .into_iter()
            .map(|(x, y)| (libm::round(x) as i64, y))
            .collect();
        Line {
            name,
            filled,
            points,
        }
    };
    let lines = match series.subject {
        Subject::Stage(_) => vec![
            line(words!(context, "pace.host"), true, |one| one.host),
            line(words!(context, "pace.projection"), false, |one| one.time),
        ],
        Subject::Range(_) => vec![line(String::new(), false, |one| one.host)],
    };
    let mut outliers = series.outliers.clone();
    let distance = |place: &usize| (series.instances[*place].time as f64 - series.median).abs();
    outliers.sort_by(|a, b| distance(b).total_cmp(&distance(a)).then(a.cmp(b)));
    outliers.truncate(MAX_OUTLIERS);
    let mark = |place: &usize| {
        let one = &series.instances[*place];
        (one.number as i64, one.time as f64)
    };
    let numbers = series
        .instances
        .iter()
        .map(|instance| instance.number)
        .chain(series.left_out.iter().copied());
    let last = numbers.max().unwrap_or(0) as i64;
    let mut left_out: Vec<Interval> = series
        .left_out
        .iter()
        .map(|number| (*number as i64, *number as i64 + 1))
        .collect();
    let left_out = union(&mut left_out);
    let label = words!(context, "pace.time");
    let shades = (!left_out.is_empty()).then(|| (words!(context, "pace.left_out"), left_out));
    let outliers = outliers.iter().map(mark).collect();
    let tracks = vec![Track::Lines(Lines {
        label,
        unit: Unit::Nanoseconds,
        lines,
        shades,
        outliers,
    })];
    Chart {
        id: format!("pace-{number}"),
        title: words!(context, "pace.chart", stage = name.as_str()),
        description: description(context, &name, series),
        plot: Plot::Tracks(Tracks {
            x_label: words!(context, "pace.instance"),
            x_unit: Unit::Count,
            extent: last.max(1),
            bands: Vec::new(),
            tracks,
        }),
    }
}

fn description(context: &Context<'_>, name: &str, series: &Series) -> String {
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    words!(
        context,
        "pace.chart_text",
        instances = series.instances.len().to_string(),
        stage = name,
        median = time(series.median),
        first = series.thirds.map(|(first, _)| time(first)),
        last = series.thirds.map(|(_, last)| time(last)),
        outliers = series.outliers.len().to_string(),
    )
}

const fn words(direction: Direction) -> &'static str {
    match direction {
        Direction::Rises => "rises",
        Direction::Falls => "falls",
        Direction::Neither => "none",
    }
}

fn table<'t>(context: &'t Context<'t>) -> Table<'t, Series> {
    columns! { context, "pace", series: &Series => {
        name "stage" = series.label(context);
        name "pass" = context.session.pass_name(series.pass);
        count "n" = series.instances.len();
        count "left_out" = series.left_out.len();
        time "median_ns" = series.median;
        time "first_ns" = series.thirds.map(|(first, _)| first);
        time "last_ns" = series.thirds.map(|(_, last)| last);
        time "slope_ns" = series.trend.map(|trend| trend.slope);
        share "drift" = series.drift;
        text "trend_z" = series.trend.map(|trend| trend.z);
        text "trend" = series.direction().map(words);
        count "outliers" = series.outliers.len();
        count "worst" = series.longest().map(|one| one.number);
        time "worst_ns" = series.longest().map(|one| one.time);
    } }
}

fn metrics(context: &Context<'_>, series: &Series) -> Vec<Metric> {
    let Some(scope) = series.scope(context) else {
        return Vec::new();
    };
    let n = series.instances.len();
    let Change {
        drift,
        thirds: (first, last),
        trend,
    } = match series.change() {
        Ok(change) => change,
        Err(reason) => return vec![PACE_DRIFT.unavailable(scope, reason)],
    };
    let basis = format!(
        "median of the last third of {n} instances {last:.0} ns ÷ median of the first third {first:.0} ns − 1; \
         Theil–Sen slope {:.1} ns per instance",
        trend.slope
    );
    let balance = format!("balance of rising and falling pairs of {n} instances (Mann–Kendall)");
    let mut metrics = vec![
        PACE_DRIFT.derived(scope.clone(), drift, basis),
        PACE_TREND_Z.derived(scope, trend.z, balance),
    ];
    let evidence = series.evidence(context);
    metrics
        .iter_mut()
        .for_each(|metric| metric.evidence.push(evidence.clone()));
    metrics
}
