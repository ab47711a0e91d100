//! Repeats: unprofiled end-to-end times per stage and of the whole command, their spread, and what profilers add.

use rooflens_schemas::{Metric, PassKind, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::baseline::{Baseline, Repeat, Series};
use rooflens_analysis::engine::command::Command;
use rooflens_document::catalogue::{COMMAND_TIME, STAGE_TIME, TIME_PER_STEP};
use rooflens_document::chart::{Dots, Plot};
use rooflens_document::{Block, Chart, Inline, Quantity, SectionContent, Table};
use rooflens_session::{Session, StrId};
use rooflens_stats::OUTLIER_Z;
use rooflens_units::{Ratio, Time};

/// Repeats.
pub(super) static SECTION: Section = Section {
    id: "repeats",
    show,
};

/// Rows of the table on the page.
const SHOWN: usize = 20;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let stages = context
        .results
        .baseline()
        .map(|baseline| of_stages(context, baseline));
    let command = context
        .results
        .command()
        .map(|command| of_command(context, command));
    match (stages, command) {
        (Ok(mut content), Ok(command)) => {
            content.blocks.extend(command.blocks);
            content.datasets.extend(command.datasets);
            content.metrics.extend(command.metrics);
            Ok(content)
        }
        (content, Err(_)) | (Err(_), content) => content,
    }
}

fn of_stages(context: &Context<'_>, baseline: &Baseline) -> SectionContent {
    let (session, all) = (context.session, &baseline.series);
    let statistics = statistics(context);
    let limit = Quantity::new(OUTLIER_Z, Unit::One);
    let single = all
        .iter()
        .flat_map(|series| series.repeats.iter().map(move |repeat| (series, repeat)));
    SectionContent {
        blocks: vec![
            Block::Prose(introduction(context, all)),
            Block::Chart(chart(context, all)),
            Block::Table(statistics.view(words!(context, "repeats.caption"), SHOWN)),
        ],
        datasets: vec![
            statistics.rows(all),
            repeats(context).rows(&single.collect::<Vec<_>>()),
        ],
        metrics: all
            .iter()
            .flat_map(|series| metrics(session, series))
            .collect(),
        methods: vec![method!(context, "repeats", limit = limit)],
        ..SectionContent::default()
    }
}

/// A pass in which the whole command ran.
struct CommandRow {
    pass: StrId,
    kind: PassKind,
    n: usize,
    /// Of the wall times.
    median: Time,
    interval: Option<(Time, Time)>,
    /// Median ÷ median of the first baseline.
    ratio: Ratio,
}

fn of_command(context: &Context<'_>, command: &Command) -> SectionContent {
    let first = command
        .baselines
        .first()
        .map(|first| first.statistics.median);
    let mut rows = Vec::new();
    for repeats in &command.baselines {
        let statistics = &repeats.statistics;
        rows.push(CommandRow {
            pass: repeats.pass,
            kind: PassKind::Baseline,
            n: statistics.n,
            median: statistics.median,
            interval: statistics.median_interval,
            ratio: Ratio::of(statistics.median, first.unwrap_or(statistics.median)),
        });
    }
    for run in &command.profiled {
        rows.push(CommandRow {
            pass: run.pass,
            kind: run.kind,
            n: 1,
            median: run.duration.time(),
            interval: None,
            ratio: run.ratio,
        });
    }
    let session = context.session;
    let table = columns! { context, "command_runs", row: &CommandRow => {
        name "pass" = session.text(row.pass), page;
        text "kind" = context.text.word(row.kind.label()), page;
        count "n" = row.n, page;
        time "median_ns" = row.median, page;
        time "median_low_ns" = row.interval.map(|(low, _)| low), page;
        time "median_high_ns" = row.interval.map(|(_, high)| high), page;
        text "ratio" = row.ratio.0, page;
    } };
    let caption = words!(context, "repeats.command_caption");
    let metrics = command.baselines.iter().map(|repeats| {
        let (n, median) = (repeats.statistics.n, repeats.statistics.median);
        let basis = format!("median of {n} wall times of the whole command");
        let mut metric = COMMAND_TIME.measured(repeats.scope(session), median.0, basis);
        metric.evidence.push(repeats.evidence(session));
        metric
    });
    SectionContent {
        blocks: vec![
            Block::Prose(summary(context, command)),
            Block::Table(table.view(caption, SHOWN)),
        ],
        datasets: vec![table.rows(&rows)],
        metrics: metrics.collect(),
        ..SectionContent::default()
    }
}

/// The time of the command, by the first baseline.
fn summary(context: &Context<'_>, command: &Command) -> Vec<Inline> {
    let Some(repeats) = command.baselines.first() else {
        return Vec::new();
    };
    let statistics = &repeats.statistics;
    let time = |time: Time| Quantity::from(time);
    let interval = statistics.median_interval;
    let runs = |count: usize| Quantity::new(count as f64, Unit::Count);
    let some_runs = |count: usize| (count > 0).then(|| runs(count));
    let mut text = say!(
        context,
        "repeats.command",
        median = time(statistics.median),
        count = runs(statistics.n),
        pass = Inline::code(context.session.text(repeats.pass)),
        low = interval.map(|(low, _)| time(low)),
        high = interval.map(|(_, high)| time(high)),
        warmup = some_runs(repeats.warmup),
        failed = some_runs(repeats.failed)
    );
    if command
        .profiled
        .iter()
        .any(|run| run.kind == PassKind::Counters)
    {
        text.extend(say!(context, "repeats.counters"));
    }
    text
}

fn introduction(context: &Context<'_>, all: &[Series]) -> Vec<Inline> {
    let pass = |conditions: Option<bool>| {
        let series = all.iter().find(|series| series.profiled == conditions);
        series.map(|series| Inline::code(context.session.text(series.pass)))
    };
    let (profiled, unknown) = (pass(Some(true)), pass(None));
    let mut text = say!(
        context,
        "repeats.introduction",
        profiled = profiled,
        unknown = unknown
    );
    if all.iter().any(|series| series.repeats.len() == 1) {
        text.extend(say!(context, "repeats.single"));
    }
    text
}

fn chart(context: &Context<'_>, all: &[Series]) -> Chart {
    let row = |series: &Series| {
        let (stage, pass) = (
            context.session.text(series.stage),
            context.session.text(series.pass),
        );
        let label = match series.profiled {
            Some(true) => words!(context, "repeats.profiled", stage = stage, pass = pass),
            Some(false) => format!("{stage} ({pass})"),
            None => words!(context, "repeats.unknown", stage = stage, pass = pass),
        };
        let dot = |repeat: &Repeat| (repeat.duration.time().0, repeat.is_outlier());
        (label, series.repeats.iter().map(dot).collect())
    };
    Chart {
        id: "repeats".to_owned(),
        title: words!(context, "repeats.chart"),
        description: words!(context, "repeats.chart_text"),
        plot: Plot::Dots(Dots {
            unit: Unit::Nanoseconds,
            rows: all.iter().map(row).collect(),
        }),
    }
}

fn statistics<'t>(context: &Context<'t>) -> Table<'t, Series> {
    let session = context.session;
    columns! { context, "repeat_statistics", series: &Series => {
        let interval = series.statistics.median_interval;
        name "stage" = session.text(series.stage), page;
        name "pass" = session.text(series.pass), page;
        text "profiled" = series.profiled;
        count "n" = series.statistics.n, page;
        time "median_ns" = series.statistics.median, page;
        time "median_low_ns" = interval.map(|(low, _)| low), page;
        time "median_high_ns" = interval.map(|(_, high)| high), page;
        time "mean_ns" = series.statistics.mean;
        time "std_ns" = series.statistics.std;
        time "mad_ns" = series.statistics.mad, page;
        time "min_ns" = series.statistics.min, page;
        time "p5_ns" = series.statistics.p5;
        time "p95_ns" = series.statistics.p95;
        time "max_ns" = series.statistics.max, page;
        count "outliers" = series.outliers().count();
        time "median_per_step_ns" = Series::median_per_step(series);
    } }
}

fn repeats<'t>(context: &Context<'t>) -> Table<'t, (&'t Series, &'t Repeat)> {
    let session = context.session;
    let table = columns! { context, "repeats", (series, repeat): &(&Series, &Repeat) => {
        name "stage" = session.text(series.stage);
        name "pass" = session.text(series.pass);
        count "repeat" = repeat.number;
        time "duration_ns" = repeat.duration;
        time "per_step_ns" = repeat.per_step();
        text "modified_z" = repeat.z;
        text "outlier" = repeat.is_outlier();
    } };
    let timings = &session.timings;
    let mut sizes = timings
        .batch
        .iter()
        .chain(&timings.tokens)
        .chain(&timings.keys);
    if sizes.all(Option::is_none) {
        return table;
    }
    columns! { table, (_, repeat): &(&Series, &Repeat) => {
        count "batch" = repeat.sizes.batch;
        count "sequence_tokens" = repeat.sizes.tokens;
        count "keys" = repeat.sizes.keys;
    } }
}

fn metrics(session: &Session, series: &Series) -> Vec<Metric> {
    let (n, median) = (series.statistics.n, series.statistics.median);
    let scope = series.scope(session);
    let how = match series.profiled {
        Some(true) => "profiled",
        Some(false) => "unprofiled",
        None => "profiled or unprofiled (not stated)",
    };
    let basis = format!("median of {n} {how} wall times of the whole stage");
    let mut metrics = vec![STAGE_TIME.measured(scope.clone(), median, basis.clone())];
    if let Some((steps, time)) = series.steps.zip(series.median_per_step()) {
        let basis = format!("{basis} / {steps} steps");
        metrics.push(TIME_PER_STEP.measured(scope, time.0, basis));
    }
    metrics
        .iter_mut()
        .for_each(|metric| metric.evidence.push(series.evidence(session)));
    metrics
}

#[cfg(test)]
mod tests {
    use rooflens_schemas::MetricValue;

    use super::*;
    use crate::testing::{column, dataset, show};
    use rooflens_analysis::testing::{command_runs, repeats, repeats as session};
    use rooflens_document::Cell;
    use rooflens_session::CommandRun;

    #[test]
    fn stage_time_is_the_median_and_a_step_its_part() {
        let found = show(
            &SECTION,
            &session(&[("decode", "baseline", Some(10), &[20, 30, 40])]),
        );
        let value = |metric: &Metric| (metric.id.clone(), metric.value.clone());
        let values: Vec<_> = found.metrics.iter().map(value).collect();
        let expected = [("stage_time", 30.0), ("time_per_step", 3.0)];
        let expected = expected.map(|(id, value)| (id.to_owned(), MetricValue::Measured { value }));
        assert_eq!(values, expected);
    }

    #[test]
    fn a_single_repeat_has_no_spread() {
        let found = show(&SECTION, &session(&[("prefill", "baseline", None, &[7])]));
        let cell = |id| column(dataset(&found, "repeat_statistics"), id).remove(0);
        assert_eq!(cell("median_ns"), Cell::Float(7.0));
        for id in ["median_low_ns", "std_ns", "mad_ns"] {
            assert_eq!(cell(id), Cell::Missing, "{id}");
        }
        assert_eq!(found.metrics.len(), 1);
    }

    #[test]
    fn repeats_show_their_sizes_where_these_are_known() {
        let mut session = session(&[("prefill", "baseline", None, &[7, 5])]);
        let found = show(&SECTION, &session);
        let columns = &dataset(&found, "repeats").columns;
        assert!(columns.iter().all(|column| column.id != "batch"));
        session.timings.batch = vec![Some(8), Some(3)];
        session.timings.tokens = vec![Some(512), None];
        let found = show(&SECTION, &session);
        let column = |id| column(dataset(&found, "repeats"), id);
        assert_eq!(column("batch"), [8, 3].map(Cell::Int));
        assert_eq!(column("sequence_tokens"), [Cell::Int(512), Cell::Missing]);
    }

    #[test]
    fn the_command_has_a_median_and_each_profiler_its_ratio() {
        let passes = [
            ("nsys", PassKind::Timeline, 26),
            ("ncu", PassKind::Counters, 70),
        ];
        let session = command_runs(&[10, 30, 20], &passes);
        let found = show(&SECTION, &session);
        let rows = |id| column(dataset(&found, "command_runs"), id);
        assert_eq!(rows("median_ns"), [20.0, 26.0, 70.0].map(Cell::Float));
        assert_eq!(rows("ratio"), [1.0, 1.3, 3.5].map(Cell::Float));
        assert_eq!(rows("median_low_ns")[1], Cell::Missing);
        let metric = &found.metrics[0];
        assert_eq!(metric.id, "command_time");
        assert_eq!(metric.value, MetricValue::Measured { value: 20.0 });
        // With stages, both are there.
        let mut both = repeats(&[("decode", "baseline", None, &[7])]);
        let pass = both.intern("baseline");
        for row in session.command_runs.ids() {
            let run = CommandRun {
                pass,
                artifact: pass,
                ..session.command_runs.row(row)
            };
            both.command_runs.push(run);
        }
        let content = show(&SECTION, &both);
        let ids: Vec<&str> = content.datasets.iter().map(|data| data.id).collect();
        assert_eq!(ids, ["repeat_statistics", "repeats", "command_runs"]);
    }

    #[test]
    fn outliers_and_profiled_times_are_marked() {
        let mut session = session(&[
            ("decode", "baseline", None, &[90, 31, 30, 29, 30]),
            ("decode", "torch", None, &[2]),
        ]);
        session.timings.profiled[5] = Some(true);
        let found = show(&SECTION, &session);
        let outlier = column(dataset(&found, "repeats"), "outlier");
        assert_eq!(
            outlier,
            [true, false, false, false, false, false].map(Cell::Flag)
        );
        let profiled = column(dataset(&found, "repeat_statistics"), "profiled");
        assert_eq!(profiled, [false, true].map(Cell::Flag));
        assert!(found.metrics[1].basis.contains("1 profiled wall times"));
    }
}
