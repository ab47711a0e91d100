//! The frame of a plot in a plane: grid, ticks, axis titles.

use super::canvas::{Anchor, Canvas, Rect, SMALL, Stroke, Style};
use super::scale::{Axis, tick_labels};
use super::{measure, palette};

/// Draws grid, ticks and titles of a plot.
pub(super) fn draw(canvas: &mut Canvas, area: Rect, x: (&Axis, &str), y: (&Axis, &str)) {
    grid(canvas, area, x.0, true);
    grid(canvas, area, y.0, false);
    let corner = [(area.x, area.y), (area.x, area.bottom()), (area.right(), area.bottom())];
    canvas.line(&corner, Stroke::solid(palette::AXIS, 0.8));
    let middle = area.x + area.w / 2.0;
    canvas.text(middle, area.bottom() + 23.0, x.1, Style::PLAIN.at(Anchor::Middle));
    let style = Style::PLAIN;
    let title = measure::fit(y.1, area.right() - 2.0, style);
    canvas.text(0.5, area.y - 7.0, &title, style);
}

fn grid(canvas: &mut Canvas, area: Rect, axis: &Axis, vertical: bool) {
    let line = |canvas: &mut Canvas, at: f64, width: f64| {
        let ends = if vertical {
            [(at, area.y), (at, area.bottom())]
        } else {
            [(area.x, at), (area.right(), at)]
        };
        canvas.line(&ends, Stroke::solid(palette::GRID, width));
    };
    if axis.log {
        for (at, width) in minor_lines(axis) {
            line(canvas, at, width);
        }
        for exponent in axis.decades() {
            let at = axis.at(libm::pow(10.0, f64::from(exponent)));
            line(canvas, at, 0.8);
            power_of_ten(canvas, area, at, exponent, vertical);
        }
        return;
    }
    let ticks = axis.ticks(5);
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        let at = axis.at(*tick);
        line(canvas, at, 0.6);
        let (x, y, anchor) = tick_place(area, at, vertical);
        canvas.text(x, y, &label, Style::MUTED.at(anchor));
    }
}

/// Lines between the decades; none if they would blacken the plot.
fn minor_lines(axis: &Axis) -> Vec<(f64, f64)> {
    let decades = axis.decades();
    if decades.len() > 6 {
        return Vec::new();
    }
    let first = decades.first().map_or(0, |d| d - 1);
    let last = decades.last().copied().unwrap_or(0);
    (first..=last)
        .flat_map(|exponent| {
            (2..10).map(move |n| f64::from(n) * libm::pow(10.0, f64::from(exponent)))
        })
        .filter(|value| axis.holds(*value))
        .map(|value| (axis.at(value), 0.3))
        .collect()
}

fn tick_place(area: Rect, at: f64, vertical: bool) -> (f64, f64, Anchor) {
    if vertical {
        (at, area.bottom() + 10.5, Anchor::Middle)
    } else {
        (area.x - 4.0, at + 2.5, Anchor::End)
    }
}

/// `10` and a raised exponent: two texts, because not every viewer shifts baselines.
fn power_of_ten(canvas: &mut Canvas, area: Rect, at: f64, exponent: i32, vertical: bool) {
    let base = Style::MUTED.at(Anchor::End);
    let raised = Style { size: SMALL * 0.75, ..Style::MUTED };
    let exponent = exponent.to_string().replace('-', "−");
    let tail = measure::width(&exponent, raised) + 0.4;
    let (x, y, _) = tick_place(area, at, vertical);
    let half = (measure::width("10", base) + tail) / 2.0;
    let join = if vertical { x + half - tail } else { x - tail };
    canvas.text(join, y, "10", base);
    canvas.text(join + 0.4, y - 2.6, &exponent, raised);
}
