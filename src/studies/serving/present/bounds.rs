//! Measured against predicted.

use rooflens_document::{Block, Cell, Quantity, SectionContent, Table, say, words};
use rooflens_schemas::Unit;

use super::latency::name;
use super::{Page, add, time};
use crate::analysis::bottleneck::Bottleneck;
use crate::analysis::figures::Measure;
use crate::model::Run;

/// A figure of a run beside its bound.
struct Row<'a> {
    run: &'a Run,
    figure: String,
    measured: Quantity,
    bound: Quantity,
    by: Option<&'a str>,
    factor: f64,
}

/// Figures beside bounds; without a prediction, what brings one.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut findings = SectionContent::default();
    if page.results.options.predicted.is_none() {
        findings
            .blocks
            .push(Block::Missing(words!(page, "serving.no_prediction")));
        return findings;
    }
    findings
        .main
        .push(Block::Prose(say!(page, "serving.bounds")));
    let all = page.runs().zip(&page.results.bottlenecks);
    let rows: Vec<Row<'_>> = all
        .flat_map(|((index, run), found)| rows(page, index, run, found))
        .collect();
    let impossible = rows.iter().filter(|row| match row.measured.unit {
        Unit::Nanoseconds => row.factor < 1.0,
        _ => row.factor > 1.0,
    });
    let count = impossible.count() as u64;
    if count > 0 {
        let count = Quantity::count(count);
        findings.main.push(Block::Prose(say!(
            page,
            "serving.beyond_bound",
            count = count
        )));
    }
    let table = Table::new(page.text, "serving_bounds")
        .name("run", |row: &Row<'_>| row.run.label.clone())
        .text("figure", |row| row.figure.clone())
        .text("measured", |row| Cell::Quantity(row.measured))
        .text("bound", |row| Cell::Quantity(row.bound))
        .text("set_by", |row| row.by.map(str::to_owned))
        .column("factor", Unit::One, |row| row.factor)
        .all_on_page();
    add(
        &mut findings,
        &table,
        &rows,
        words!(page, "serving.bounds_table"),
        30,
    );
    findings
}

fn rows<'a>(page: &Page<'a>, index: usize, run: &'a Run, found: &Bottleneck) -> Vec<Row<'a>> {
    let Some(predicted) = &page.results.options.predicted else {
        return Vec::new();
    };
    let figures = &page.results.figures[index];
    let times = [
        (Measure::Ttft, &predicted.ttft, found.ttft_factor),
        (Measure::Tpot, &predicted.tpot, found.tpot_factor),
    ];
    let mut rows: Vec<Row<'a>> = times
        .into_iter()
        .filter_map(|(measure, bound, factor)| {
            let bound = bound.as_ref()?;
            Some(Row {
                run,
                figure: format!("{}, P50", name(page, measure)),
                measured: time(figures.typical(measure)?),
                bound: time(bound.time),
                by: bound.by.as_deref(),
                factor: factor?,
            })
        })
        .collect();
    let tokens = |rate: f64| Quantity::new(rate, Unit::TokensPerSecond);
    rows.extend(
        figures
            .output_rate
            .zip(predicted.output_rate)
            .map(|(rate, bound)| Row {
                run,
                figure: words!(page, "serving.figure.output"),
                measured: tokens(rate),
                bound: tokens(bound),
                by: None,
                factor: rate / bound,
            }),
    );
    rows
}
