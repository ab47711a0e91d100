//! Measurement quality: how many iterations each figure rests on, how far they spread, and what the profiler adds.

use super::Section;
use super::headline::of_baseline;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_document::{Block, Inline, SectionContent};
use rooflens_units::{Ratio, Time};

/// Measurement quality.
pub(super) static SECTION: Section = Section {
    id: "quality",
    show,
};

/// Rows that a page shows.
const SHOWN: usize = 16;

/// A stage with its unprofiled repeats and their median.
type Row<'a> = (&'a StageTime, Option<(&'a Series, Time)>);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let times = context.results.stage_times()?;
    let rows: Vec<Row<'_>> = times
        .of_primary()
        .map(|stage| {
            let baseline = of_baseline(context, &stage.summary);
            let median = |(series, time): (&'_ Series, Time)| {
                time * Ratio::of(series.median(), series.typical())
            };
            (
                stage,
                baseline.map(|(series, time)| (series, median((series, time)))),
            )
        })
        .collect();
    let (session, facts) = (context.session, context.facts);
    let repeats = rows.iter().any(|(_, series)| series.is_some());
    let table = columns! { context, "quality", (stage, series): &Row<'_> => {
        text "stage" = stage.summary.label(session, facts), page;
        text "instances" = {
            let (measured, all) = (stage.summary.counted, stage.summary.instances);
            words!(
                context,
                "measurement_quality.measured",
                measured = measured.to_string(),
                all = all.to_string()
            )
        }, page;
        "time_ns" = stage.summary.time, page;
        "time_min_ns" = stage.summary.time_range.0, page;
        "time_max_ns" = stage.summary.time_range.1, page;
        count "repeats" = series.map(|(one, _)| one.statistics.n), page if repeats;
        "unprofiled_ns" = series.map(|(_, time)| time), page if repeats;
        text "profiled_ratio" =
            series.map(|(_, time)| stage.summary.time / time), page if repeats;
    } };
    let caption = words!(
        context,
        "measurement_quality.caption",
        repeats = repeats.then_some("")
    );
    let mut content = SectionContent {
        describes_capture: true,
        ..SectionContent::default()
    };
    content
        .main
        .push(Block::Table(table.view(caption, rows.len().min(SHOWN))));
    content.datasets.push(table.rows(&rows));
    content
        .main
        .extend(profiled(context, &rows).map(Block::Prose));
    Ok(content)
}

/// Part of the baseline by which a profiled time may differ without a word.
const ALIKE: f64 = 0.05;

/// What it means that a stage is slower or faster under the profiler: readers compare the two times.
fn profiled(context: &Context<'_>, rows: &[Row<'_>]) -> Option<Vec<Inline>> {
    let (mut slower, mut faster) = (Vec::new(), Vec::new());
    for (stage, series) in rows {
        let summary = &stage.summary;
        let Some((_, unprofiled)) = series.filter(|_| summary.is_outermost(context.facts)) else {
            continue;
        };
        let (label, ratio) = (
            summary.label(context.session, context.facts),
            summary.time / unprofiled,
        );
        if ratio > 1.0 + ALIKE {
            slower.push(label);
        } else if ratio < 1.0 - ALIKE {
            faster.push(label);
        }
    }
    let joined = |stages: &[String]| {
        let comma = context.text.comma();
        (!stages.is_empty()).then(|| stages.join(comma))
    };
    let (slower, faster) = (joined(&slower), joined(&faster));
    (slower.is_some() || faster.is_some()).then(|| {
        say!(
            context,
            "measurement_quality.profiled",
            slower = slower,
            faster = faster
        )
    })
}
