//! How figures spread over the launches of a pass: by number of launches and by their time.

use rooflens_schemas::Unit;

use super::figures::{Figure, PERCENTAGES};
use super::groups::Launch;
use crate::findings::chart::{Bar, Color, Part, Plot, StackedBars};
use crate::findings::{Cell, Chart, Column, Dataset};

/// Name of the data set.
pub(super) const ID: &str = "deep_dive_histograms";

/// Bins of a histogram; those of the chart are pairs of them.
const BINS: usize = 10;

/// Colours of the chart's bins, from the lowest.
const COLORS: [Color; BINS / 2] =
    [Color::Idle, Color::Elementwise, Color::Gemm, Color::Copy, Color::Attention];

/// A histogram of equal bins.
pub(super) struct Histogram {
    pub(super) figure: Figure,
    /// Lower end of the first bin, and width of each.
    range: (f64, f64),
    /// Number of launches and their seconds.
    pub(super) bins: [(u64, f64); BINS],
}

/// The histograms of a pass. Percentages are over 0 to 100, what is above lies in the last bin;
/// others from the least to the greatest value.
pub(super) fn of(launches: &[Launch]) -> Vec<Histogram> {
    let others = [Figure::Duration, Figure::DramRate];
    let figures = PERCENTAGES.into_iter().chain(others);
    figures
        .filter_map(|figure| {
            let values: Vec<(f64, f64)> = launches
                .iter()
                .filter_map(|launch| Some((launch.figures.get(figure)?, launch.seconds())))
                .collect();
            let least = values.iter().map(|(value, _)| *value).reduce(f64::min)?;
            let most = values.iter().map(|(value, _)| *value).reduce(f64::max)?;
            let (low, high) = if others.contains(&figure) { (least, most) } else { (0.0, 100.0) };
            let width = (high - low) / BINS as f64;
            let mut bins = [(0, 0.0); BINS];
            for (value, seconds) in values {
                let bin = if width > 0.0 { ((value - low) / width) as usize } else { 0 };
                let bin = &mut bins[bin.min(BINS - 1)];
                *bin = (bin.0 + 1, bin.1 + seconds);
            }
            Some(Histogram { figure, range: (low, width), bins })
        })
        .collect()
}

pub(super) fn dataset() -> Dataset {
    Dataset {
        id: ID,
        title: "Histograms of figures over profiled launches".to_owned(),
        columns: vec![
            Column::text("figure", "Figure"),
            Column::text("pass", "Pass"),
            Column::new("from", "From", Unit::One),
            Column::new("to", "To", Unit::One),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
        ],
        rows: Vec::new(),
    }
}

pub(super) fn rows(pass: &str, histogram: &Histogram) -> Vec<Vec<Cell>> {
    let (low, width) = histogram.range;
    let row = |(bin, (launches, seconds)): (usize, &(u64, f64))| {
        vec![
            Cell::Text(histogram.figure.column().id.to_owned()),
            Cell::Text(pass.to_owned()),
            Cell::Float(low + width * bin as f64),
            Cell::Float(low + width * (bin + 1) as f64),
            Cell::Int(*launches as i64),
            Cell::Float(seconds * 1e9),
        ]
    };
    histogram.bins.iter().enumerate().map(row).collect()
}

/// What the bars of a chart weigh.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Launches,
    Time,
}

/// One bar a percentage: which share of the launches or of their time lies in each fifth.
pub(super) fn chart(
    id: &str,
    pass: &str,
    histograms: &[Histogram],
    weight: Weight,
) -> Option<Chart> {
    let weigh = |(launches, seconds): &(u64, f64)| match weight {
        Weight::Launches => *launches as f64,
        Weight::Time => *seconds,
    };
    let bar = |histogram: &Histogram| {
        let values: Vec<f64> =
            histogram.bins.chunks(2).map(|pair| pair.iter().map(weigh).sum()).collect();
        let bar =
            Bar { label: histogram.figure.column().title.to_owned(), note: String::new(), values };
        (bar.values.iter().sum::<f64>() > 0.0).then_some(bar)
    };
    let shown = histograms.iter().filter(|histogram| PERCENTAGES.contains(&histogram.figure));
    let bars: Vec<Bar> = shown.filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    let what = match weight {
        Weight::Launches => "launches",
        Weight::Time => "profiled time",
    };
    let low = |bar: &Bar| {
        let share = bar.values[0] / bar.values.iter().sum::<f64>();
        format!("{} {}", bar.label, crate::findings::Quantity::ratio(share))
    };
    let description = format!(
        "Share of the {what} of pass {pass} by value of each figure, in fifths from 0 to 100 %. Below 20 %: {}.",
        bars.iter().map(low).collect::<Vec<_>>().join(", ")
    );
    let part = |(fifth, color): (usize, &Color)| Part {
        name: format!("{} to {} %", fifth * 20, (fifth + 1) * 20),
        color: *color,
    };
    Some(Chart {
        id: id.to_owned(),
        title: format!("Figures by share of {what}, pass {pass}"),
        description,
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::One,
            normalized: true,
            parts: COLORS.iter().enumerate().map(part).collect(),
            bars,
        }),
    })
}
