//! Pace: how the time of repeated stages changes over the run.

#[cfg(test)]
mod tests;

use rooflens_schemas::{Metric, Unit};
use rooflens_session::Ns;

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
    let series = context.results.drift()?.series.as_slice();
    let mut content = SectionContent::default();
    for series in series {
        content.metrics.extend(metrics(context, series));
    }
    let Some(first) = series.first() else {
        return Ok(content);
    };
    let shown = series.len().min(SHOWN);
    let of_first_pass = series[..shown]
        .chunk_by(|a, b| a.pass == b.pass)
        .next()
        .unwrap_or_default();
    let several_passes = of_first_pass.len() < shown;
    content
        .blocks
        .push(Block::Prose(introduction(context, of_first_pass)));
    let mut longest: Vec<&Series> = of_first_pass
        .iter()
        .filter(|series| series.instances.len() >= LEAST_FOR_TREND)
        .collect();
    longest.sort_by_key(|series| (std::cmp::Reverse(series.total()), series.label(context)));
    for (number, series) in longest.into_iter().take(MAX_CHARTS).enumerate() {
        content
            .blocks
            .push(Block::Chart(chart(context, number, series)));
    }
    let pass = (!several_passes).then(|| context.session.pass_name(first.pass));
    let caption = words!(context, "pace.caption", pass = pass);
    let columns = shown_columns(&series[..shown], several_passes);
    content
        .blocks
        .push(Block::Table(View::new("pace", caption, &columns, shown)));
    content.datasets.push(table(context).rows(series));
    content.methods.push(method!(
        context,
        "pace",
        least = Quantity::count(LEAST as u64),
        least_for_trend = Quantity::count(LEAST_FOR_TREND as u64),
        trend = Quantity::new(TREND_Z, Unit::One),
        outlier = Quantity::new(OUTLIER_Z, Unit::One),
    ));
    Ok(content)
}

/// Columns that pages show.
fn shown_columns(series: &[Series], several_passes: bool) -> Vec<&'static str> {
    let mut columns = vec!["stage"];
    columns.extend(several_passes.then_some("pass"));
    columns.push("n");
    if series.iter().any(|series| !series.left_out.is_empty()) {
        columns.push("left_out");
    }
    columns.extend(["median_ns", "first_ns", "last_ns", "slope_ns"]);
    columns.extend(["drift", "trend", "outliers", "worst_ns"]);
    columns
}

fn introduction(context: &Context<'_>, lines: &[Series]) -> Vec<Inline> {
    let mut text = say!(context, "pace.introduction");
    let mut drifting = Vec::new();
    for series in lines {
        if let (Some(Direction::Rises | Direction::Falls), Some(drift)) =
            (series.direction(), series.drift)
        {
            drifting.push((series, drift));
        }
    }
    let drifting = drifting
        .into_iter()
        .max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
    if let Some((series, drift)) = drifting {
        text.extend(say!(
            context,
            "pace.trend",
            stage = Inline::code(series.label(context)),
            drift = drift,
            instances = Quantity::count(series.instances.len() as u64),
        ));
    } else if lines.iter().any(|line| line.trend.is_some()) {
        text.extend(say!(context, "pace.no_trend"));
    }
    text
}

fn chart(context: &Context<'_>, number: usize, series: &Series) -> Chart {
    let name = series.label(context);
    let line = |name: String, filled: bool, time: fn(&Instance) -> Ns| {
        let mut times = Vec::new();
        for instance in &series.instances {
            times.push((instance.number as f64, time(instance).time().0));
        }
        let mut points = Vec::new();
        for (x, y) in grouped(&times, MAX_POINTS) {
            points.push((libm::round(x) as i64, y));
        }
        Line {
            name,
            filled,
            points,
        }
    };
    let lines = match series.subject {
        Subject::Stage(_) => vec![
            line(words!(context, "pace.host"), true, |instance| instance.host),
            line(words!(context, "pace.projection"), false, |instance| {
                instance.time
            }),
        ],
        Subject::Range(_) => vec![line(String::new(), false, |instance| instance.host)],
    };
    let mut outliers = series.outliers.clone();
    let distance = |index: &usize| (series.instances[*index].time.time() - series.median).abs();
    outliers.sort_by(|a, b| distance(b).total_cmp(&distance(a)).then(a.cmp(b)));
    outliers.truncate(MAX_OUTLIERS);
    let mut marks = Vec::new();
    for index in outliers {
        let instance = &series.instances[index];
        marks.push((instance.number as i64, instance.time.time().0));
    }
    let numbers = series.instances.iter().map(|instance| instance.number);
    let numbers = numbers.chain(series.left_out.iter().copied());
    let last = numbers.max().unwrap_or(0) as i64;
    let mut left_out: Vec<Interval> = Vec::new();
    for number in &series.left_out {
        left_out.push((Ns(*number as i64), Ns(*number as i64 + 1)));
    }
    let mut shaded = Vec::new();
    for (start, end) in union(&mut left_out) {
        shaded.push((start.0, end.0));
    }
    let left_out = shaded;
    let label = words!(context, "pace.time");
    let shades = (!left_out.is_empty()).then(|| (words!(context, "pace.left_out"), left_out));
    let tracks = vec![Track::Lines(Lines {
        label,
        unit: Unit::Nanoseconds,
        lines,
        shades,
        outliers: marks,
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
    words!(
        context,
        "pace.chart_text",
        instances = series.instances.len().to_string(),
        stage = name,
        median = series.median,
        first = series.thirds.map(|(first, _)| first),
        last = series.thirds.map(|(_, last)| last),
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
        "median_ns" = series.median;
        "first_ns" = series.thirds.map(|(first, _)| first);
        "last_ns" = series.thirds.map(|(_, last)| last);
        "slope_ns" = series.trend.map(|trend| trend.slope);
        "drift" = series.drift;
        text "trend_z" = series.trend.map(|trend| trend.z);
        text "trend" = series.direction().map(words);
        count "outliers" = series.outliers.len();
        count "worst" = series.longest().map(|instance| instance.number);
        time "worst_ns" = series.longest().map(|instance| instance.time);
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
        "median of the last third of {n} instances {:.0} ns ÷ median of the first third {:.0} ns − 1; \
         Theil–Sen slope {:.1} ns per instance",
        last.0, first.0, trend.slope.0
    );
    let balance = format!("balance of rising and falling pairs of {n} instances (Mann–Kendall)");
    let mut metrics = vec![
        PACE_DRIFT.derived(scope.clone(), drift.0, basis),
        PACE_TREND_Z.derived(scope, trend.z, balance),
    ];
    let evidence = series.evidence(context);
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}
