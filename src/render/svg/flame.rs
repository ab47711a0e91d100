//! Flame graphs: frames of equal height, each as wide as its time, callers above what they call.

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style, WIDTH};
use super::scale::{Axis, tick_labels};
use super::{legend, measure, palette};
use crate::findings::Quantity;
use crate::findings::chart::{Flame, FlameFrame};

/// Height of a row, and what of it stays white.
const ROW: f64 = 13.0;
const GAP: f64 = 0.8;

/// Space on each side of a label, and the least width that a label needs.
const PADDING: f64 = 2.0;
const READABLE: f64 = 15.0;

/// Letters of a shortened label that a reader may recognize.
const LEGIBLE: usize = 8;

/// Draws the frames; returns the chart's height.
pub(super) fn draw(canvas: &mut Canvas, chart: &Flame) -> f64 {
    let entries: Vec<(String, String)> = chart
        .parts
        .iter()
        .map(|part| (palette::fill(part.color).to_owned(), part.name.clone()))
        .collect();
    let top = 2.0 + legend::draw(canvas, 0.0, 2.0, &entries);
    let rows = chart.frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    let bottom = top + f64::from(rows) * ROW;
    for frame in &chart.frames {
        draw_frame(canvas, chart, frame, top);
    }
    axis(canvas, chart, bottom);
    bottom + 18.0
}

fn draw_frame(canvas: &mut Canvas, chart: &Flame, frame: &FlameFrame, top: f64) {
    let place = |value: f64| (value / chart.total).clamp(0.0, 1.0) * WIDTH;
    let (from, to) = (place(frame.start), place(frame.start + frame.time));
    if to.is_nan() || to <= from {
        return;
    }
    let y = top + f64::from(frame.depth) * ROW;
    let area = Rect::new(from, y, (to - from - GAP).max(0.3), ROW - GAP);
    let part = frame.part.and_then(|part| chart.parts.get(part));
    let fill = match part {
        Some(part) => palette::fill(part.color),
        None => palette::CALLERS.get(frame.depth as usize % 2).copied().unwrap_or(palette::GRID),
    };
    let tooltip = format!(
        "{} · {} · {}",
        frame.label,
        Quantity::new(frame.time, chart.unit),
        Quantity::ratio(frame.time / chart.total)
    );
    canvas.frame(area, fill, &tooltip);
    let color = part.map_or(palette::INK, |part| palette::on_fill(part.color));
    let style = Style { size: SMALL, color, ..Style::PLAIN };
    let room = area.w - 2.0 * PADDING;
    if let Some(label) = fitted(&frame.label, room, style).filter(|_| area.w >= READABLE) {
        canvas.text(area.x + PADDING, y + 8.6, &label, style);
    }
}

/// The name, the name without its namespace, or what fits of that, unless it says nothing.
fn fitted(name: &str, room: f64, style: Style) -> Option<String> {
    if measure::width(name, style) <= room {
        return Some(name.to_owned());
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let label = measure::fit(last, room, style);
    (label == last || label.chars().count() >= LEGIBLE).then_some(label)
}

/// The scale of the width beneath the frames.
fn axis(canvas: &mut Canvas, chart: &Flame, bottom: f64) {
    let (factor, symbol) = Quantity::new(chart.total, chart.unit).scale();
    let axis = Axis::linear(0.0, chart.total / factor, 0.0, WIDTH);
    canvas.line(&[(0.0, bottom + 2.0), (WIDTH, bottom + 2.0)], Stroke::solid(palette::AXIS, 0.6));
    let ticks = axis.ticks(6);
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        let x = axis.at(*tick);
        canvas.line(&[(x, bottom + 2.0), (x, bottom + 4.5)], Stroke::solid(palette::AXIS, 0.6));
        let label = format!("{label} {symbol}");
        let half = measure::width(&label, Style::MUTED) / 2.0;
        let (x, anchor) = if x < half {
            (0.0, Anchor::Start)
        } else if x > WIDTH - half {
            (WIDTH, Anchor::End)
        } else {
            (x, Anchor::Middle)
        };
        canvas.text(x, bottom + 12.5, &label, Style::MUTED.at(anchor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::chart::{Color, Part};
    use rooflens_schemas::Unit;

    #[test]
    fn narrow_frames_keep_their_name_in_the_tooltip() {
        let frame = |label: &str, depth, start, time, part| FlameFrame {
            label: label.to_owned(),
            depth,
            start,
            time,
            part,
        };
        let chart = Flame {
            unit: Unit::Nanoseconds,
            total: 1000.0,
            parts: vec![Part { name: "matrix products".to_owned(), color: Color::Gemm }],
            frames: vec![
                frame("decode", 0, 0.0, 1000.0, None),
                frame("a_kernel_of_no_width", 1, 0.0, 10.0, Some(0)),
                frame("nothing", 1, 10.0, f64::NAN, Some(0)),
            ],
        };
        let mut canvas = Canvas::default();
        draw(&mut canvas, &chart);
        let svg = canvas.finish(100.0, "", "");
        assert!(svg.contains("<title>a_kernel_of_no_width · 10.00 ns · 1.00 %</title>"), "{svg}");
        // 10 of 1000 ns are 4.82 of 482 points: no room for a label.
        assert_eq!(svg.matches("a_k").count(), 1, "{svg}");
        assert!(svg.contains(">decode</text>"));
        assert!(!svg.contains("nothing"));
    }
}
