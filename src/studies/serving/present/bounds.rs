//! Measured against predicted.

use rooflens_document::{Block, Cell, Quantity, SectionContent, columns, say, words};
use rooflens_schemas::Unit;
use rooflens_units::Ratio;

use super::latency::name;
use super::{Page, add};
use crate::analysis::bottleneck::Bottleneck;
use crate::analysis::figures::Measure;
use crate::runs::Run;

/// A figure of a run next to its bound.
struct Comparison<'a> {
    run: &'a Run,
    figure: String,
    measured: Quantity,
    bound: Quantity,
    by: Option<&'a str>,
    factor: Ratio,
}

/// Figures next to bounds; without a prediction, what brings one.
pub(super) fn show(page: &Page<'_>) -> SectionContent {
    let mut content = SectionContent::default();
    if page.results.options.predicted.is_none() {
        content
            .blocks
            .push(Block::Missing(words!(page, "serving.no_prediction")));
        return content;
    }
    content
        .main
        .push(Block::Prose(say!(page, "serving.bounds")));
    let mut rows: Vec<Comparison<'_>> = Vec::new();
    for ((index, run), bottleneck) in page.runs().zip(&page.results.bottlenecks) {
        rows.extend(comparisons(page, index, run, bottleneck));
    }
    let impossible = rows.iter().filter(|row| match row.measured.unit {
        Unit::Nanoseconds => row.factor < Ratio::ONE,
        _ => row.factor > Ratio::ONE,
    });
    let count = impossible.count() as u64;
    if count > 0 {
        let count = Quantity::count(count);
        content.main.push(Block::Prose(say!(
            page,
            "serving.beyond_bound",
            count = count
        )));
    }
    let table = columns! { page, "serving_bounds", row: &Comparison<'_> => {
        name "run" = row.run.label.clone(), page;
        text "figure" = row.figure.clone(), page;
        text "measured" = Cell::Quantity(row.measured), page;
        text "bound" = Cell::Quantity(row.bound), page;
        text "set_by" = row.by.map(str::to_owned), page;
        One "factor" = row.factor, page;
    } };
    add(
        &mut content,
        &table,
        &rows,
        words!(page, "serving.bounds_table"),
        30,
    );
    content
}

fn comparisons<'a>(
    page: &Page<'a>,
    index: usize,
    run: &'a Run,
    bottleneck: &Bottleneck,
) -> Vec<Comparison<'a>> {
    let Some(predicted) = &page.results.options.predicted else {
        return Vec::new();
    };
    let figures = &page.results.figures[index];
    let times = [
        (Measure::Ttft, &predicted.ttft, bottleneck.ttft_factor),
        (Measure::Tpot, &predicted.tpot, bottleneck.tpot_factor),
    ];
    let mut rows = Vec::new();
    for (measure, bound, factor) in times {
        if let (Some(bound), Some(median), Some(factor)) = (bound, figures.typical(measure), factor)
        {
            rows.push(Comparison {
                run,
                figure: format!("{}, P50", name(page, measure)),
                measured: median.into(),
                bound: bound.time.into(),
                by: bound.by.as_deref(),
                factor,
            });
        }
    }
    if let (Some(rate), Some(bound)) = (figures.output_rate, predicted.output_rate) {
        rows.push(Comparison {
            run,
            figure: words!(page, "serving.figure.output"),
            measured: rate.into(),
            bound: bound.into(),
            by: None,
            factor: Ratio(rate / bound),
        });
    }
    rows
}
