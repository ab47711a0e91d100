//! All loads of all setups in one plane: tokens per second against time per token.

use rooflens_document::chart::{Color, NO_SHARE, Plot, Point, Scatter};
use rooflens_document::{Chart, words};
use rooflens_units::{Ratio, Time, TokensPerSecond};

use super::Page;
use crate::analysis::figures::Measure;

/// Length of an axis over the greatest value on it.
const MARGIN: Ratio = Ratio(1.08);

/// A load of a setup.
#[derive(Clone, Copy)]
struct Mark {
    run: usize,
    tpot: Time,
    rate: TokensPerSecond,
}

/// The plane, if setups differ.
pub(super) fn chart(page: &Page<'_>) -> Option<Chart> {
    let results = page.results;
    let mut marks = Vec::new();
    for (run, figures) in results.figures.iter().enumerate() {
        let is_whole = results.runs[run].is_whole_test();
        if let (true, Some(tpot), Some(rate)) = (
            is_whole,
            figures.typical(Measure::Tpot),
            figures.output_rate,
        ) {
            marks.push(Mark { run, tpot, rate });
        }
    }
    let settings = |mark: &Mark| &results.runs[mark.run].settings;
    let first = marks.first()?;
    if marks.iter().all(|mark| settings(mark) == settings(first)) {
        return None;
    }
    let (mut slowest, mut most) = (Time::ZERO, TokensPerSecond::ZERO);
    let mut points = Vec::new();
    for mark in &marks {
        (slowest, most) = (slowest.max(mark.tpot), most.max(mark.rate));
        let is_beaten = marks.iter().any(|other| beats(other, mark));
        points.push(Point {
            label: results.runs[mark.run].label.clone(),
            x: mark.tpot.0 / 1e6,
            y: mark.rate.0,
            weight: NO_SHARE,
            color: if is_beaten { Color::Run } else { Color::Knee },
            hollow: is_beaten,
        });
    }
    Some(Chart {
        id: "serving-pareto".to_owned(),
        title: words!(page, "serving.pareto"),
        description: words!(page, "serving.pareto_text"),
        plot: Plot::Scatter(Scatter {
            x_label: words!(page, "serving.axis.tpot"),
            y_label: words!(page, "serving.axis.output"),
            x_max: slowest.0 / 1e6 * MARGIN.0,
            y_max: most.0 * MARGIN.0,
            diagonal: false,
            points,
        }),
    })
}

/// Whether one is at least as good in both figures, and better in one.
fn beats(one: &Mark, other: &Mark) -> bool {
    let is_as_good = one.tpot <= other.tpot && one.rate >= other.rate;
    is_as_good && (one.tpot < other.tpot || one.rate > other.rate)
}
