//! Waterfalls: totals, the changes of their parts, the totals that they lead to.

use crate::length::Pt;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::page::{Drawn, Page, Plane, Rect, Style, WIDTH, place};
use super::palette;
use super::scale::{self, Axis};
use rooflens_document::Quantity;
use rooflens_document::chart::{Color as Group, Fall, Waterfall};
use rooflens_units::Ratio;

const PITCH: Pt = Pt(16.0);
/// White above and below a bar.
const MARGIN: Pt = Pt(3.0);
/// Share of the width that labels may take.
const LABELS: Ratio = Ratio(0.42);
/// Room for a face that is wider than the one that texts are measured in.
const SLACK: Ratio = Ratio(1.1);
/// Room right of the bars for the largest number.
const NUMBERS: Pt = Pt(52.0);
/// Share of the axis that the changes take at least: below it, the axis does not start at 0.
const CHANGES: f64 = 0.4;
/// Axis below the lowest level, as a multiple of the range of the levels.
const BELOW: f64 = 0.25;

/// A row: from one level to the next, or a total from the start of the axis.
struct Row<'a> {
    label: &'a str,
    from: f64,
    to: f64,
    is_total: bool,
}

/// Draws the rows; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Waterfall) -> Drawn<Pt> {
    let rows: Vec<Row<'_>> = chart.falls.iter().flat_map(rows).collect();
    let (low, high) = limits(&rows);
    let step = scale::step(&scale::linear(low, high), 6);
    let (low, high) = (
        libm::floor(low / step + 1e-9) * step,
        libm::ceil(high / step - 1e-9) * step,
    );
    let (factor, symbol) = Quantity::new(high.abs().max(low.abs()), chart.unit).scale();
    let widths = rows.iter().map(|row| Style::PLAIN.width(row.label));
    let left = (widths.fold(Pt::ZERO, Pt::max) * SLACK).min(WIDTH * LABELS) + Pt(10.0);
    let height = PITCH * rows.len() as f64;
    let area = Rect::new(left, Pt(2.0), WIDTH - left - NUMBERS, height);
    // A little longer, so that rounding does not lose the last tick.
    let x = scale::linear(low / factor, (high + 1e-6 * step) / factor);
    let mut plot = page.plot(
        area,
        (Pt::ZERO, Pt(14.0)),
        x.clone(),
        rows.len() as f64..0.0,
    )?;
    let last = scale::ticks(&x, 7).pop();
    let number = scale::tick_label(&x, 7);
    let label = |tick: &f64| match Some(*tick) == last && !symbol.is_empty() {
        true => format!("{} {symbol}", number(tick)),
        false => number(tick),
    };
    let axis = Axis {
        title: "",
        ticks: 7,
        label: &label,
        grid: true,
    };
    scale::draw(&mut plot, &axis, &Axis::NONE)?;
    for (index, row) in rows.iter().enumerate() {
        let start = if row.is_total { low.max(0.0) } else { row.from };
        let bar = Bar {
            row,
            index: index as f64,
            ends: (start / factor, row.to / factor),
            is_cut: row.is_total && low > 0.0,
            is_last: rows
                .get(index + 1)
                .is_none_or(|next| row.is_total && next.is_total),
        };
        bar.draw(page, &plot, chart, area)?;
    }
    Ok(area.bottom() + Pt(18.0))
}

fn rows(chart: &Fall) -> Vec<Row<'_>> {
    let total = |total: &'_ (String, f64)| (0.0, total.1);
    let row = |label, (from, to), is_total| Row {
        label,
        from,
        to,
        is_total,
    };
    let mut rows = vec![row(&*chart.before.0, total(&chart.before), true)];
    let mut level = chart.before.1;
    for (label, change) in &chart.changes {
        // What is no number changes nothing.
        let change = if change.is_finite() { *change } else { 0.0 };
        rows.push(row(label, (level, level + change), false));
        level += change;
    }
    rows.push(row(&*chart.after.0, total(&chart.after), true));
    rows
}

/// The ends of the axis. Small changes of large totals would not be seen on an axis from 0.
fn limits(rows: &[Row<'_>]) -> (f64, f64) {
    let levels = || rows.iter().map(|row| row.to);
    let (low, high) = (
        levels().fold(f64::MAX, f64::min),
        levels().fold(0.0, f64::max),
    );
    let range = high - low;
    match range < CHANGES * high && range > 0.0 {
        true => (low - BELOW * range, high),
        false => (low.min(0.0), high),
    }
}

/// A row with its place.
struct Bar<'a> {
    row: &'a Row<'a>,
    index: f64,
    ends: (f64, f64),
    /// The axis does not start at 0.
    is_cut: bool,
    is_last: bool,
}

impl Bar<'_> {
    fn draw(&self, page: &Page, plot: &Plane, chart: &Waterfall, area: Rect) -> Drawn {
        let row = self.row;
        let difference = row.to - row.from;
        let is_worse = difference > 0.0;
        let color = match (row.is_total, is_worse) {
            (true, _) => Group::Other,
            (false, true) => Group::More,
            (false, false) => Group::Less,
        };
        let number = Quantity::new(difference.abs(), chart.unit);
        let number = match (row.is_total, difference < 0.0) {
            (true, _) => number.to_string(),
            (false, true) => format!("−{number}"),
            (false, false) => format!("+{number}"),
        };
        let label = Style::PLAIN.fit(row.label, area.x - Pt(8.0));
        let (start, end) = (self.ends.0.min(self.ends.1), self.ends.0.max(self.ends.1));
        let (left, middle) = place(plot, start, self.index + 0.5);
        let (right, bottom) = place(plot, end, self.index + 1.0);
        let bar = Rect::new(
            left,
            bottom - PITCH + MARGIN,
            // A change that is shorter than a hair is still seen.
            (right - left).max(Pt(0.6)),
            PITCH - MARGIN - MARGIN,
        );
        let tooltip = format!("{} · {number}", row.label);
        page.rect(bar, palette::fill(color).filled(), &tooltip)?;
        if self.is_cut {
            let cut = [
                (left + Pt(5.0), bar.bottom() + Pt(1.0)),
                (left + Pt(9.0), bar.y - Pt(1.0)),
            ];
            page.line(&cut, WHITE.stroke_width(200), "")?;
        }
        if !self.is_last {
            let (level, _) = place(plot, self.ends.1, self.index);
            let link = [(level, bar.bottom()), (level, bottom + MARGIN)];
            page.line(&link, palette::AXIS.stroke_width(50), "")?;
        }
        let style = Style::PLAIN.at(HPos::Right);
        page.text(area.x - Pt(6.0), middle + Pt(2.8), &label, style)?;
        let note = Style::MUTED.halo();
        page.text(bar.right() + Pt(4.0), middle + Pt(2.5), &number, note)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fall(before: f64, changes: &[f64]) -> Fall {
        let named = |change: &f64| ("part".to_owned(), *change);
        Fall {
            before: ("before".to_owned(), before),
            changes: changes.iter().map(named).collect(),
            after: ("after".to_owned(), before + changes.iter().sum::<f64>()),
        }
    }

    #[test]
    fn changes_lead_from_one_total_to_the_other() {
        let fall = fall(100.0, &[-60.0, 10.0]);
        let rows = rows(&fall);
        let ends: Vec<_> = rows.iter().map(|row| (row.from, row.to)).collect();
        assert_eq!(
            ends,
            [(0.0, 100.0), (100.0, 40.0), (40.0, 50.0), (0.0, 50.0)]
        );
        assert_eq!(limits(&rows), (0.0, 100.0));
    }

    #[test]
    fn small_changes_of_large_totals_fill_the_axis() {
        // Levels from 1000 to 1040: a quarter of the range below them.
        assert_eq!(limits(&rows(&fall(1000.0, &[40.0]))), (990.0, 1040.0));
        // Nothing changed.
        assert_eq!(limits(&rows(&fall(1000.0, &[]))), (0.0, 1000.0));
    }
}
