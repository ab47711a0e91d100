//! The charts of profiled kernels in depth: histograms and warp states.

use rooflens_schemas::Unit;

use super::tables::GROUPS;
use crate::Context;
use rooflens_analysis::counters::details::figures::{Figure, PERCENTAGES};
use rooflens_analysis::counters::details::groups::Group;
use rooflens_analysis::counters::details::histograms::{BINS, Histogram};
use rooflens_analysis::counters::details::stalls::{STATES, Shares, ranked};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Chart, Quantity};
use rooflens_session::Arrange;
use rooflens_units::Seconds;

/// Bars of the chart of warp states.
const SHOWN_BARS: usize = 8;

/// Warp states that charts tell apart, next to issuing.
const TOLD_STATES: usize = 6;

/// Colours of the chart's bins, which are pairs of those of a histogram, from the lowest.
const COLORS: [Color; BINS / 2] = [
    Color::Idle,
    Color::Elementwise,
    Color::Gemm,
    Color::Copy,
    Color::Attention,
];

/// What the bars of a chart weigh.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Launches,
    Time,
}

/// One bar a percentage: which share of the launches or of their time lies in each fifth.
pub(super) fn histograms(
    context: &Context<'_>,
    id: String,
    pass: &str,
    histograms: &[Histogram],
    weight: Weight,
) -> Option<Chart> {
    let weigh = |(launches, seconds): &(u64, Seconds)| match weight {
        Weight::Launches => *launches as f64,
        Weight::Time => seconds.0,
    };
    let bar = |histogram: &Histogram| {
        let pairs = histogram.bins.chunks(2);
        let values: Vec<f64> = pairs.map(|pair| pair.iter().map(weigh).sum()).collect();
        let label = heading(context, histogram.figure).to_owned();
        let has_some = values.iter().sum::<f64>() > 0.0;
        has_some.then(|| Bar {
            label,
            note: String::new(),
            values,
        })
    };
    let shown = histograms
        .iter()
        .filter(|histogram| PERCENTAGES.contains(&histogram.figure));
    let bars: Vec<Bar> = shown.filter_map(bar).collect();
    if bars.is_empty() {
        return None;
    }
    let low = |bar: &Bar| {
        let share = bar.values[0] / bar.values.iter().sum::<f64>();
        format!("{} {}", bar.label, Quantity::ratio(share))
    };
    let low = bars
        .iter()
        .map(low)
        .collect::<Vec<_>>()
        .join(context.text.comma());
    let (title, description) = match weight {
        Weight::Launches => (
            words!(context, "deep_dive.chart.launches", pass = pass),
            words!(
                context,
                "deep_dive.chart.launches_description",
                pass = pass,
                low = low
            ),
        ),
        Weight::Time => (
            words!(context, "deep_dive.chart.time", pass = pass),
            words!(
                context,
                "deep_dive.chart.time_description",
                pass = pass,
                low = low
            ),
        ),
    };
    let part = |(fifth, color): (usize, &Color)| {
        let (from, to) = ((fifth * 20).to_string(), ((fifth + 1) * 20).to_string());
        Part::new(
            words!(context, "deep_dive.chart.fifth", from = from, to = to),
            *color,
        )
    };
    let parts = COLORS.iter().enumerate().map(part).collect();
    let plot = Plot::StackedBars(StackedBars {
        unit: Unit::One,
        normalized: true,
        parts,
        bars,
    });
    Some(Chart {
        id,
        title,
        description,
        plot,
    })
}

/// The heading of a figure's column.
pub(super) fn heading(context: &Context<'_>, figure: Figure) -> &'static str {
    context.text.column(GROUPS, figure.column().0)
}

/// What warps of the longest groups wait for.
pub(super) fn stalls(
    context: &Context<'_>,
    number: usize,
    name: &str,
    groups: &[Group],
) -> Option<Chart> {
    let with = groups
        .iter()
        .filter_map(|group| Some((group, group.stalls.as_ref()?)));
    let bars: Vec<(String, String, &Shares)> = with
        .take(SHOWN_BARS)
        .map(|(group, shares)| {
            (
                group.short.clone(),
                Quantity::from(group.share).to_string(),
                shares,
            )
        })
        .collect();
    let title = words!(context, "deep_dive.chart.stalls", pass = name);
    states(context, format!("deep-dive-stalls-p{number}"), title, &bars)
}

/// Warp states, one bar a group: issuing, the states with most of all bars, the rest.
pub(super) fn states(
    context: &Context<'_>,
    id: String,
    title: String,
    bars: &[(String, String, &Shares)],
) -> Option<Chart> {
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
    let sum = |state: usize| bars.iter().map(|(.., shares)| shares[state]).sum::<f64>();
    let mut order: Vec<usize> = (1..STATES.len())
        .filter(|state| sum(*state) > 0.0)
        .collect();
    // Equal sums keep the order of the table.
    order.arrange_by(|a, b| sum(*b).total_cmp(&sum(*a)));
    order.truncate(TOLD_STATES);
    let mut parts = vec![Part::new(
        words!(context, "deep_dive.chart.issuing"),
        Color::Normalization,
    )];
    let told = order.iter().zip(COLORS);
    parts.extend(told.map(|(at, color)| Part::new(STATES[*at].reason, color)));
    parts.push(Part::new(
        words!(context, "deep_dive.chart.other"),
        Color::Idle,
    ));
    let bar = |(label, note, shares): &(String, String, &Shares)| {
        let told = std::iter::once(shares[0]).chain(order.iter().map(|state| shares[*state]));
        let mut values: Vec<f64> = told.collect();
        values.push((1.0 - values.iter().sum::<f64>()).max(0.0));
        Bar {
            label: label.clone(),
            values,
            note: note.clone(),
        }
    };
    let largest = |(label, _, shares): &(String, String, &Shares)| {
        let (state, share) = ranked(shares).first().copied()?;
        Some(
            format!("{label} {} {}", state.reason, Quantity::ratio(share))
                .trim()
                .to_owned(),
        )
    };
    let largest = bars
        .iter()
        .filter_map(largest)
        .collect::<Vec<_>>()
        .join(context.text.semicolon());
    let description = words!(
        context,
        "deep_dive.chart.states_description",
        largest = largest
    );
    Some(Chart {
        id,
        title,
        description,
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::One,
            normalized: true,
            parts,
            bars: bars.iter().map(bar).collect(),
        }),
    })
}
