//! The charts of profiled kernels in depth: histograms and warp states.

use rooflens_schemas::Unit;

use rooflens_analysis::counters::details::figures::PERCENTAGES;
use rooflens_analysis::counters::details::groups::Group;
use rooflens_analysis::counters::details::histograms::{BINS, Histogram};
use rooflens_analysis::counters::details::stalls::{STATES, Shares, ranked};
use rooflens_findings::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_findings::{Chart, Quantity};

/// Bars of the chart of warp states.
const SHOWN_BARS: usize = 8;

/// Warp states that charts tell apart, beside issuing.
const TOLD_STATES: usize = 6;

/// Colours of the chart's bins, which are pairs of those of a histogram, from the lowest.
const COLORS: [Color; BINS / 2] =
    [Color::Idle, Color::Elementwise, Color::Gemm, Color::Copy, Color::Attention];

/// What the bars of a chart weigh.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Launches,
    Time,
}

/// One bar a percentage: which share of the launches or of their time lies in each fifth.
pub(super) fn histograms(
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
            Bar { label: histogram.figure.column().1.to_owned(), note: String::new(), values };
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
        format!("{} {}", bar.label, Quantity::ratio(share))
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

/// What warps of the longest groups wait for.
pub(super) fn stalls(number: usize, name: &str, groups: &[Group]) -> Option<Chart> {
    let with = groups.iter().filter_map(|group| Some((group, group.stalls.as_ref()?)));
    let bars: Vec<(String, String, &Shares)> = with
        .take(SHOWN_BARS)
        .map(|(group, shares)| {
            (group.short.clone(), Quantity::ratio(group.share).to_string(), shares)
        })
        .collect();
    let title = format!("What warps wait for, pass {name}");
    states(&format!("deep-dive-stalls-p{number}"), title, &bars)
}

/// Warp states, one bar a group: issuing, the states with most of all bars, the rest.
pub(super) fn states(id: &str, title: String, bars: &[(String, String, &Shares)]) -> Option<Chart> {
    const COLORS: [Color; TOLD_STATES] = [
        Color::Attention,
        Color::Copy,
        Color::Gemm,
        Color::Communication,
        Color::Elementwise,
        Color::Other,
    ];
    if bars.is_empty() {
        return None;
    }
    let sum = |at: usize| bars.iter().map(|(.., shares)| shares[at]).sum::<f64>();
    let mut order: Vec<usize> = (1..STATES.len()).filter(|at| sum(*at) > 0.0).collect();
    // Equal sums keep the order of the table.
    order.sort_by(|a, b| sum(*b).total_cmp(&sum(*a)));
    order.truncate(TOLD_STATES);
    let part = |name: &str, color| Part { name: name.to_owned(), color };
    let mut parts = vec![part("issuing", Color::Normalization)];
    parts.extend(order.iter().zip(COLORS).map(|(at, color)| part(STATES[*at].reason, color)));
    parts.push(part("other", Color::Idle));
    let bar = |(label, note, shares): &(String, String, &Shares)| {
        let told = std::iter::once(shares[0]).chain(order.iter().map(|at| shares[*at]));
        let mut values: Vec<f64> = told.collect();
        values.push((1.0 - values.iter().sum::<f64>()).max(0.0));
        Bar { label: label.clone(), values, note: note.clone() }
    };
    let largest = |(label, _, shares): &(String, String, &Shares)| {
        let (state, share) = ranked(shares).first().copied()?;
        Some(format!("{label} {} {}", state.reason, Quantity::ratio(share)).trim().to_owned())
    };
    let described: Vec<String> = bars.iter().filter_map(largest).collect();
    Some(Chart {
        id: id.to_owned(),
        title,
        description: format!(
            "Share of the cycles of resident warps by warp state. Largest stall: {}.",
            described.join("; ")
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::One,
            normalized: true,
            parts,
            bars: bars.iter().map(bar).collect(),
        }),
    })
}
