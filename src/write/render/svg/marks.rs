//! Weighted points in a plane, the heaviest numbered, with a key beneath.

use crate::length::{Place, Pt};
use plotters::style::Color as _;
use plotters::style::text_anchor::HPos;

use super::labels::Labels;
use super::page::{Drawn, Page, Rect, Style, WIDTH};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::{Color, Point};
use rooflens_units::Ratio;

/// Points that get a number and a line in the key.
const NUMBERED: usize = 10;
const KEY_ROW: Pt = Pt(11.0);
/// Radius of marks without a share.
const UNWEIGHTED: Pt = Pt(3.2);

/// A point with its place on the canvas.
pub(super) struct Mark<'a> {
    point: &'a Point,
    x: Pt,
    y: Pt,
    detail: String,
}

impl<'a> Mark<'a> {
    /// A point at its place; `detail` is what its tooltip says after name and share.
    pub(super) fn new(point: &'a Point, (x, y): Place, detail: String) -> Self {
        Self {
            point,
            x,
            y,
            detail,
        }
    }

    /// The area is in proportion to the weight, down to a size that is still visible.
    fn radius(&self) -> Pt {
        let weight = self.point.weight;
        if weight < Ratio::ZERO {
            return UNWEIGHTED;
        }
        let weight = if weight.is_finite() {
            weight.0.clamp(0.0, 1.0)
        } else {
            0.0
        };
        Pt((weight.sqrt() * 18.0).clamp(1.8, 15.0))
    }

    /// Its share, if it has one.
    fn share(&self) -> Option<String> {
        let weight = self.point.weight;
        let has_share = weight.0.is_nan() || weight >= Ratio::ZERO;
        has_share.then(|| Quantity::from(weight).to_string())
    }

    fn bounds(&self) -> Rect {
        let radius = self.radius();
        Rect::new(self.x - radius, self.y - radius, radius * 2.0, radius * 2.0)
    }
}

/// Orders marks by weight, the heaviest first, so that light ones are drawn over them.
pub(super) fn by_weight(marks: &mut [Mark<'_>]) {
    marks.sort_by(|a, b| {
        let places = a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y));
        b.point
            .weight
            .total_cmp(&a.point.weight)
            .then(places)
            .then(a.point.label.cmp(&b.point.label))
    });
}

/// Draws the legend of the colour groups in `points` and of `others`; returns where it ends.
pub(super) fn draw_legend(
    page: &Page,
    points: &[Point],
    others: impl Iterator<Item = Color>,
) -> Drawn<Pt> {
    let mut colors: Vec<Color> = points.iter().map(|point| point.color).collect();
    colors.extend(others);
    colors.sort_unstable();
    colors.dedup();
    let mut entries = Vec::new();
    for color in colors {
        entries.push((palette::fill(color), color.label()));
    }
    legend::draw(page, &entries)
}

/// Tells `labels` where the marks are, largest ones only: small ones cannot all be avoided.
pub(super) fn avoid(labels: &mut Labels, marks: &[Mark<'_>]) {
    for mark in marks.iter().take(200) {
        labels.avoid(mark.bounds());
    }
}

/// Draws sorted marks and numbers for the heaviest; returns the numbered ones.
pub(super) fn draw<'m, 'a>(
    page: &Page,
    labels: &mut Labels,
    area: Rect,
    marks: &'m [Mark<'a>],
) -> Drawn<Vec<&'m Mark<'a>>> {
    for mark in marks {
        let point = mark.point;
        let parts = [
            Some(point.label.clone()),
            mark.share(),
            Some(mark.detail.clone()),
        ];
        let tooltip = parts
            .into_iter()
            .flatten()
            .collect::<Vec<String>>()
            .join(" · ");
        draw_mark(page, (mark.x, mark.y), mark.radius(), point, &tooltip)?;
    }
    let mut numbered = Vec::new();
    for mark in marks.iter().take(NUMBERED) {
        if draw_number(page, labels, area, mark, numbered.len() + 1)? {
            numbered.push(mark);
        }
    }
    Ok(numbered)
}

/// A disc; hollow if the point is; of a whole stage a diamond.
fn draw_mark(page: &Page, at: Place, radius: Pt, point: &Point, tooltip: &str) -> Drawn {
    let color = palette::fill(point.color);
    match (point.color, point.hollow) {
        (Color::Stage, _) => page.diamond(at, radius, color, tooltip),
        (_, true) => page.circle(at, radius, color, tooltip),
        (_, false) => page.disc(at, radius, color, tooltip),
    }
}

/// Draws a number in or near its mark; false if there is no room at all.
fn draw_number(
    page: &Page,
    labels: &mut Labels,
    area: Rect,
    mark: &Mark<'_>,
    number: usize,
) -> Drawn<bool> {
    let text = number.to_string();
    let style = Style::BOLD.at(HPos::Center);
    // Two numbers side by side must not read as one.
    let wide = format!(" {text} ");
    let bounds = |(x, y): &Place| style.bounds(*x, *y + Pt(2.5), &wide);
    let mut places = places(mark);
    places.retain(|center| area.contains(&bounds(center)));
    let boxes: Vec<Vec<Rect>> = places.iter().map(|center| vec![bounds(center)]).collect();
    let Some(best) = labels.place(&boxes) else {
        return Ok(false);
    };
    let (x, y) = places[best];
    let distance = (x - mark.x).hypot(y - mark.y);
    if distance > mark.radius() + Pt(9.0) {
        let share = (distance - Pt(4.5)) / distance;
        let end = (mark.x + (x - mark.x) * share, mark.y + (y - mark.y) * share);
        page.line(
            &[(mark.x, mark.y), end],
            palette::MUTED.stroke_width(40),
            "",
        )?;
    }
    page.text(x, y + Pt(2.5), &text, style.halo())?;
    Ok(true)
}

/// Places for a number around a mark, the nearest first.
fn places(mark: &Mark<'_>) -> Vec<Place> {
    const DIRECTIONS: [(f64, f64); 8] = [
        (0.71, -0.71),
        (1.0, 0.0),
        (0.0, -1.0),
        (-0.71, -0.71),
        (-1.0, 0.0),
        (0.71, 0.71),
        (0.0, 1.0),
        (-0.71, 0.71),
    ];
    let mut places = Vec::new();
    for ring in 0..12 {
        let distance = mark.radius() + Pt(5.0) + Pt(7.0) * f64::from(ring);
        for (dx, dy) in DIRECTIONS {
            places.push((mark.x + distance * dx, mark.y + distance * dy));
        }
    }
    places
}

/// Draws the key of the numbered marks in two columns; returns its height.
pub(super) fn draw_key(page: &Page, top: Pt, numbered: &[&Mark<'_>]) -> Drawn<Pt> {
    let rows = numbered.len().div_ceil(2);
    let column = WIDTH / 2.0;
    let style = Style::MUTED;
    for (n, mark) in numbered.iter().enumerate() {
        let left = column * (n / rows.max(1)) as f64;
        let y = top + KEY_ROW * (n % rows.max(1)) as f64 + Pt(7.0);
        page.text(
            left + Pt(10.0),
            y,
            &(n + 1).to_string(),
            Style::BOLD.at(HPos::Right),
        )?;
        let center = (left + Pt(16.5), y - Pt(2.5));
        draw_mark(page, center, Pt(2.8), mark.point, "")?;
        let share = mark.share().unwrap_or_default();
        let right = left + column - Pt(8.0);
        page.text(right, y, &share, style.at(HPos::Right))?;
        let room = right - style.width(&share) - Pt(6.0) - (left + Pt(22.0));
        page.text(
            left + Pt(22.0),
            y,
            &style.fit(&mark.point.label, room),
            style,
        )?;
    }
    Ok(KEY_ROW * rows as f64)
}
