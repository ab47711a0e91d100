//! Measurement quality: how many iterations each figure rests on, how far they spread, and what the profiler adds.

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::baseline::Series;
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_document::{Block, SectionContent, Table};

/// Measurement quality.
pub(super) static SECTION: Section = Section {
    id: "quality",
    show,
};

/// Rows that a page shows.
const SHOWN: usize = 16;

/// A stage with its un-profiled repeats and their median, nanoseconds.
type Row<'a> = (&'a StageTime, Option<(&'a Series, f64)>);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let times = context.results.stage_times()?;
    let baseline = context.results.baseline().ok();
    let rows: Vec<Row<'_>> = times
        .of_primary()
        .map(|one| {
            (
                one,
                baseline.and_then(|all| all.of_summary(context, &one.summary)),
            )
        })
        .collect();
    let (session, facts) = (context.session, context.facts);
    let repeats = rows.iter().any(|(_, series)| series.is_some());
    let table = Table::new(context.text, "quality")
        .text("stage", |(stage, _): &Row<'_>| {
            stage.summary.label(session, facts)
        })
        .on_page()
        .text("instances", |(stage, _)| {
            let (measured, all) = (stage.summary.counted, stage.summary.instances);
            words!(
                context,
                "quality.measured",
                measured = measured.to_string(),
                all = all.to_string()
            )
        })
        .on_page()
        .time("time_ns", |(stage, _)| stage.summary.time)
        .on_page()
        .time("time_min_ns", |(stage, _)| stage.summary.time_range.0)
        .on_page()
        .time("time_max_ns", |(stage, _)| stage.summary.time_range.1)
        .on_page()
        .count("repeats", |(_, series)| {
            series.map(|(one, _)| one.statistics.n)
        })
        .on_page_if(repeats)
        .time("unprofiled_ns", |(_, series)| series.map(|(_, time)| time))
        .on_page_if(repeats)
        .column(
            "profiled_ratio",
            rooflens_schemas::Unit::One,
            |(stage, series)| series.map(|(_, time)| stage.summary.time / time),
        )
        .on_page_if(repeats);
    let caption = words!(context, "quality.caption", repeats = repeats.then_some(""));
    let mut findings = SectionContent::default();
    findings
        .main
        .push(Block::Table(table.view(caption, rows.len().min(SHOWN))));
    findings.datasets.push(table.rows(&rows));
    Ok(findings)
}
