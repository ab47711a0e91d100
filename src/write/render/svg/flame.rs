//! Flame graphs: frames of equal height, each as wide as its time, callers above what they call.

use crate::length::Pt;
use plotters::prelude::*;

use super::page::{Drawn, Page, Rect, Style, WIDTH};
use super::scale::{self, Axis};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::{Flame, FlameFrame};
use rooflens_units::Time;

/// Height of a row, and what of it stays white.
const ROW: Pt = Pt(13.0);
const GAP: Pt = Pt(0.8);

/// Space on each side of a label, and the least width that a label needs.
const PADDING: Pt = Pt(2.0);
const READABLE: Pt = Pt(15.0);

/// Letters of a shortened label that a reader may recognize.
const LEGIBLE: usize = 8;

/// Draws the frames; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Flame) -> Drawn<Pt> {
    let top = legend::draw(page, &legend::entries(&chart.parts))?;
    let rows = chart
        .frames
        .iter()
        .map(|frame| frame.depth + 1)
        .max()
        .unwrap_or(0);
    let area = Rect::new(Pt::ZERO, top, WIDTH, ROW * f64::from(rows) + Pt(1.0));
    for frame in &chart.frames {
        draw_frame(page, chart, frame, top)?;
    }
    let (factor, symbol) = Quantity::from(chart.total).scale();
    let x = scale::linear(0.0, chart.total.0 / factor);
    let mut plot = page.plot(area, (Pt::ZERO, Pt(16.0)), x.clone(), 0.0..1.0)?;
    let number = scale::tick_label(&x, 7);
    let label = |tick: &f64| format!("{} {symbol}", number(tick));
    scale::draw(
        &mut plot,
        &Axis {
            title: "",
            ticks: 7,
            label: &label,
            grid: false,
        },
        &Axis::NONE,
    )?;
    Ok(area.bottom() + Pt(15.0))
}

fn draw_frame(page: &Page, chart: &Flame, frame: &FlameFrame, top: Pt) -> Drawn {
    let x = |time: Time| WIDTH * (time / chart.total).clamp(0.0, 1.0);
    let (from, to) = (x(frame.start), x(frame.start + frame.time));
    if to.0.is_nan() || to <= from {
        return Ok(());
    }
    let y = top + ROW * f64::from(frame.depth);
    let area = Rect::new(from, y, (to - from - GAP).max(Pt(0.3)), ROW - GAP);
    let part = frame.part.and_then(|part| chart.parts.get(part));
    let fill = match part {
        Some(part) => palette::fill(part.color),
        None => palette::CALLERS
            .get(frame.depth as usize % 2)
            .copied()
            .unwrap_or(palette::GRID),
    };
    let tooltip = format!(
        "{} · {} · {}",
        frame.label,
        Quantity::from(frame.time),
        Quantity::ratio(frame.time / chart.total)
    );
    page.rect(area, fill.filled(), &tooltip)?;
    let style = Style {
        color: palette::on(fill),
        ..Style::SMALL
    };
    let room = area.w - PADDING * 2.0;
    match fitted(&frame.label, room, style).filter(|_| area.w >= READABLE) {
        Some(label) => page.text(area.x + PADDING, y + Pt(8.6), &label, style),
        None => Ok(()),
    }
}

/// The name, the name without its namespace, or what fits of that, unless it says nothing.
fn fitted(name: &str, room: Pt, style: Style) -> Option<String> {
    if style.width(name) <= room {
        return Some(name.to_owned());
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let label = style.fit(last, room);
    (label == last || label.chars().count() >= LEGIBLE).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rooflens_document::chart::{Color, Part};
    use rooflens_schemas::Unit;

    #[test]
    fn narrow_frames_keep_their_name_in_the_tooltip() {
        let frame = |label: &str, depth, start, time, part| FlameFrame {
            label: label.to_owned(),
            depth,
            start: Time(start),
            time: Time(time),
            part,
        };
        let chart = Flame {
            unit: Unit::Nanoseconds,
            total: Time(1000.0),
            parts: vec![Part::new("matrix products", Color::Gemm)],
            frames: vec![
                frame("decode", 0, 0.0, 1000.0, None),
                frame("a_kernel_of_no_width", 1, 0.0, 10.0, Some(0)),
                frame("nothing", 1, 10.0, f64::NAN, Some(0)),
            ],
        };
        let page = Page::new(rooflens_document::Catalogue::english());
        draw(&page, &chart).expect("drawn");
        let svg = page.finish(Pt(100.0), "", "");
        assert!(
            svg.contains("<title>a_kernel_of_no_width · 10.0 ns · 1.00 %</title>"),
            "{svg}"
        );
        // 10 of 1000 ns are 4.82 of 482 points: no room for a label.
        assert_eq!(svg.matches("a_k").count(), 1, "{svg}");
        assert!(svg.contains(">decode</text>"));
        assert!(!svg.contains("nothing"));
    }
}
