//! Tracks that share a horizontal axis.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style, WIDTH, number};
use super::scale::{Axis, ceiling, tick_labels};
use super::series::{draw_axis, draw_bands, label_bands, place};
use super::{legend, measure, palette};
use crate::findings::Quantity;
use crate::findings::chart::{Areas, Lines, MarkRow, Part, Track, Tracks};

/// Room for the numbers of vertical axes, and the most that labels of rows may take.
const LEFT: f64 = 34.0;
const LEFT_MOST: f64 = 120.0;
/// Heights: of a track, of one that stands alone, of stacked areas where there are many, of a row of marks, of the
/// label above a track.
const TRACK: f64 = 44.0;
const LONE_TRACK: f64 = 80.0;
const LOW_TRACK: f64 = 30.0;
const ROW: f64 = 12.0;
const TITLE: f64 = 16.5;
/// Narrower bands have no edges.
const LEAST_BAND: f64 = 8.0;
/// Narrower marks would not show in print.
const LEAST_MARK: f64 = 0.35;

/// Draws all tracks; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &Tracks) -> f64 {
    let legend = legend::draw(canvas, 0.0, 2.0, &legend_entries(chart));
    let names = if chart.bands.is_empty() { 0.0 } else { 19.0 };
    let first = chart.tracks.first().map_or(0.0, |track| match track {
        Track::Marks(_) => 2.0,
        Track::Areas(_) | Track::Lines(_) => TITLE,
    });
    let top = legend + names + first;
    let left = left(chart);
    let heights = heights(&chart.tracks);
    let total = heights.iter().sum::<f64>() + TITLE * (heights.len().max(1) - 1) as f64;
    let all = Rect::new(left, top, WIDTH - left - 8.0, total);
    let x = Axis::linear(0.0, chart.extent as f64, all.x, all.right());
    let mut y = top;
    for (track, height) in chart.tracks.iter().zip(&heights) {
        let area = Rect::new(all.x, y, all.w, *height);
        draw_bands(canvas, area, &x, &chart.bands);
        match track {
            Track::Areas(areas) => draw_areas(canvas, area, areas),
            Track::Lines(lines) => draw_lines(canvas, area, &x, lines),
            Track::Marks(rows) => draw_marks(canvas, area, &x, rows),
        }
        draw_edges(canvas, area, &x, &chart.bands);
        y += height + TITLE;
    }
    label_bands(canvas, top, &x, &chart.bands);
    draw_axis(canvas, all, &x, chart.x_unit, &chart.x_label);
    all.bottom() + 26.0
}

/// Lines where bands begin and end: areas may hide the bands.
fn draw_edges(canvas: &mut Canvas, area: Rect, x: &Axis, bands: &[(String, i64, i64)]) {
    let wide = bands.iter().map(|(_, start, end)| (place(x, *start), place(x, *end)));
    for at in wide.filter(|(from, to)| to - from > LEAST_BAND).flat_map(|(from, to)| [from, to]) {
        canvas.line(&[(at, area.y), (at, area.bottom())], Stroke::solid(palette::AXIS, 0.4));
    }
}

/// The parts of all stacked areas, each once; rows of marks carry their names.
fn legend_entries(chart: &Tracks) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for track in &chart.tracks {
        let Track::Areas(areas) = track else { continue };
        for part in &areas.parts {
            let entry = (palette::fill(part.color).to_owned(), part.name.clone());
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    entries
}

fn left(chart: &Tracks) -> f64 {
    let rows = chart.tracks.iter().filter_map(|track| match track {
        Track::Marks(rows) => Some(rows),
        Track::Areas(_) | Track::Lines(_) => None,
    });
    let widths = rows.flatten().map(|row| measure::width(&row.label, Style::MUTED) + 8.0);
    widths.fold(LEFT, f64::max).min(LEFT_MOST)
}

fn heights(tracks: &[Track]) -> Vec<f64> {
    let areas = tracks.iter().filter(|track| matches!(track, Track::Areas(_))).count();
    let height = |track: &Track| match track {
        Track::Marks(rows) => rows.len() as f64 * ROW,
        Track::Areas(_) if areas > 2 => LOW_TRACK,
        Track::Areas(_) | Track::Lines(_) if tracks.len() > 1 => TRACK,
        Track::Areas(_) | Track::Lines(_) => LONE_TRACK,
    };
    tracks.iter().map(height).collect()
}

/// A vertical axis with its grid, and the label of the track.
fn vertical(canvas: &mut Canvas, area: Rect, axis: &Axis, label: &str) {
    let ticks = axis.ticks(2);
    for (tick, text) in ticks.iter().zip(tick_labels(&ticks)) {
        let at = axis.at(*tick);
        canvas.line(&[(area.x, at), (area.right(), at)], Stroke::solid(palette::GRID, 0.6));
        canvas.text(area.x - 4.0, at + 2.5, &text, Style::MUTED.at(Anchor::End));
    }
    title(canvas, area, label);
}

fn title(canvas: &mut Canvas, area: Rect, label: &str) {
    let style = Style { size: SMALL, ..Style::PLAIN.bold() };
    canvas.text(0.5, area.y - 6.0, &measure::fit(label, WIDTH * 0.5, style), style);
}

/// Every part is drawn from the bottom to the top of its stack, the uppermost first, so that each covers
/// what lies below it and no seam shows.
fn draw_areas(canvas: &mut Canvas, area: Rect, areas: &Areas) {
    let axis = Axis::linear(0.0, 100.0, area.bottom(), area.y);
    vertical(canvas, area, &axis, &format!("{} (%)", areas.label));
    let stretches = areas.shares.iter().map(Vec::len).min().unwrap_or(0);
    let mut stack = vec![0.0; stretches];
    let mut tops: Vec<(&Part, Vec<f64>)> = Vec::new();
    for (part, shares) in areas.parts.iter().zip(&areas.shares) {
        for (sum, share) in stack.iter_mut().zip(shares) {
            *sum += if share.is_finite() { share.max(0.0) } else { 0.0 };
        }
        tops.push((part, stack.clone()));
    }
    for (part, top) in tops.iter().rev() {
        let at = |share: &f64| axis.at(share.min(1.0) * 100.0);
        let path = steps(area, top.iter().map(at));
        if !path.is_empty() {
            canvas.edged_shape(&path, palette::fill(part.color));
        }
    }
}

/// The outline of an area of steps, one a stretch of the axis, above the lower edge.
fn steps(area: Rect, tops: impl ExactSizeIterator<Item = f64>) -> String {
    let count = tops.len().max(1) as f64;
    let (floor, mut path, mut last) = (number(area.bottom()), String::new(), String::new());
    for (n, top) in tops.enumerate() {
        let top = tenth(top);
        if n == 0 {
            let _ = write!(path, "M{} {floor}V{top}", number(area.x));
        } else if top != last {
            let _ = write!(path, "H{}V{top}", tenth(area.x + area.w * n as f64 / count));
        }
        last = top;
    }
    if !path.is_empty() {
        let _ = write!(path, "H{}V{floor}z", number(area.right()));
    }
    path
}

/// A coordinate with one decimal: files stay small, and no printer shows less.
fn tenth(value: f64) -> String {
    number(libm::round(value * 10.0) / 10.0)
}

fn draw_lines(canvas: &mut Canvas, area: Rect, x: &Axis, lines: &Lines) {
    let values = lines.lines.iter().flat_map(|line| &line.points).chain(&lines.outliers);
    let highest = values.map(|(_, value)| *value).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let (factor, symbol) = Quantity::new(highest, lines.unit).scale();
    let axis = Axis::linear(0.0, ceiling(highest / factor, 2), area.bottom(), area.y);
    if let Some((_, shades)) = &lines.shades {
        for (start, end) in shades {
            let (from, to) = (place(x, *start), place(x, *end));
            let shade = Rect::new(from, area.y, (to - from).max(LEAST_MARK), area.h);
            canvas.rect(shade, palette::SHADE);
        }
    }
    let label =
        if symbol.is_empty() { lines.label.clone() } else { format!("{} ({symbol})", lines.label) };
    vertical(canvas, area, &axis, &label);
    let at = |(t, value): &(i64, f64)| (place(x, *t), axis.at(value / factor));
    for line in &lines.lines {
        let finite = line.points.iter().filter(|(_, value)| value.is_finite());
        let points: Vec<(f64, f64)> = finite.map(at).collect();
        match line.filled {
            true => canvas.shape(&below(area, &points), palette::AREA),
            false => canvas.line(&points, Stroke::solid(palette::LINE, 0.8)),
        }
    }
    for (px, py) in lines.outliers.iter().map(at) {
        canvas.ring(px, py, 2.2, Stroke::solid(palette::ALERT, 0.9));
    }
    draw_key(canvas, area, lines);
}

/// The outline of the area below a line.
fn below(area: Rect, points: &[(f64, f64)]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let mut path = format!("M{} {}", tenth(first.0), number(area.bottom()));
    for (x, y) in points {
        let _ = write!(path, "L{} {}", tenth(*x), tenth(*y));
    }
    let _ = write!(path, "L{} {}z", tenth(last.0), number(area.bottom()));
    path
}

/// What lines, shades and rings mean, at the right above the track.
fn draw_key(canvas: &mut Canvas, area: Rect, lines: &Lines) {
    let mut x = area.right();
    let y = area.y - 6.0;
    let mut entry = |name: &str, draw: &dyn Fn(&mut Canvas, f64)| {
        let name = measure::fit(name, 110.0, Style::MUTED);
        x -= measure::width(&name, Style::MUTED);
        canvas.text(x, y, &name, Style::MUTED);
        x -= 13.0;
        draw(canvas, x);
        x -= 10.0;
    };
    if !lines.outliers.is_empty() {
        entry("outliers", &|canvas, x| {
            canvas.ring(x + 6.0, y - 2.5, 2.2, Stroke::solid(palette::ALERT, 0.9));
        });
    }
    if let Some((name, _)) = lines.shades.as_ref().filter(|(_, shades)| !shades.is_empty()) {
        entry(name, &|canvas, x| canvas.rect(Rect::new(x, y - 5.5, 10.0, 6.0), palette::SHADE));
    }
    for line in lines.lines.iter().rev().filter(|line| !line.name.is_empty()) {
        entry(&line.name, &|canvas, x| match line.filled {
            true => canvas.rect(Rect::new(x, y - 5.5, 10.0, 6.0), palette::AREA),
            false => {
                let ends = [(x, y - 2.5), (x + 10.0, y - 2.5)];
                canvas.line(&ends, Stroke::solid(palette::LINE, 1.1));
            }
        });
    }
}

fn draw_marks(canvas: &mut Canvas, area: Rect, x: &Axis, rows: &[MarkRow]) {
    for (n, row) in rows.iter().enumerate() {
        let y = area.y + n as f64 * ROW;
        let style = Style::MUTED.at(Anchor::End);
        let label = measure::fit(&row.label, area.x - 6.0, style);
        canvas.text(area.x - 5.0, y + 8.3, &label, style);
        let floor = y + ROW;
        canvas.line(&[(area.x, floor), (area.right(), floor)], Stroke::solid(palette::GRID, 0.5));
        let (top, height) = (number(y + 1.5), number(ROW - 3.0));
        let mut path = String::new();
        for (start, end) in &row.marks {
            let (from, to) = (place(x, *start), place(x, *end));
            let width = number((to - from).max(LEAST_MARK));
            let _ = write!(path, "M{} {top}h{width}v{height}h-{width}z", number(from));
        }
        if !path.is_empty() {
            canvas.shape(&path, palette::fill(row.color));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_steps_are_one_line() {
        // Four stretches of 10 points; the second and third are equally high.
        let area = Rect::new(0.0, 0.0, 40.0, 20.0);
        let path = steps(area, [5.0, 10.0, 10.0, 20.0].into_iter());
        assert_eq!(path, "M0 20V5H10V10H30V20H40V20z");
        assert_eq!(steps(area, [0.0; 0].into_iter()), "");
    }

    #[test]
    fn long_captures_stay_small() {
        let shares = |n: usize| (0..300).map(|i| ((i * 7 + n) % 13) as f64 / 100.0).collect();
        let colors = crate::findings::chart::Color::KERNELS;
        let part =
            |color: crate::findings::chart::Color| Part { name: color.label().into(), color };
        let areas = Areas {
            label: "busy".to_owned(),
            parts: colors.into_iter().map(part).collect(),
            shares: (0..colors.len()).map(shares).collect(),
        };
        let mut canvas = Canvas::default();
        draw_areas(&mut canvas, Rect::new(34.0, 20.0, 440.0, 44.0), &areas);
        let size = canvas.finish(100.0, "", "").len();
        assert!(size < 40_000, "{size} bytes");
    }
}
