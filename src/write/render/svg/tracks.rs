//! Tracks that share a horizontal axis.

use crate::length::Pt;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use rooflens_schemas::Unit;

use super::backend::Svg;
use super::labels::Labels;
use super::page::{DASHED, Drawn, Page, Plane, Rect, Style, WIDTH, place};
use super::scale::{self, Axis};
use super::{legend, palette};
use rooflens_document::Quantity;
use rooflens_document::chart::{Areas, Lines, MarkRow, Part, Track, Tracks};

/// Room for the numbers of vertical axes, and the most that labels of rows may take.
const LEFT: Pt = Pt(34.0);
const LEFT_MOST: Pt = Pt(120.0);
/// Heights: of a track, of one that stands alone, of stacked areas where there are many, of a row of marks, of the
/// label above a track.
const TRACK: Pt = Pt(44.0);
const LONE_TRACK: Pt = Pt(80.0);
const LOW_TRACK: Pt = Pt(30.0);
const ROW: Pt = Pt(12.0);
pub(super) const TITLE: Pt = Pt(16.5);
/// Narrower bands have no edges.
const LEAST_BAND: Pt = Pt(8.0);
/// Narrower marks would not show in print.
const LEAST_MARK: Pt = Pt(0.35);

/// Draws all tracks; returns the chart's height.
pub(super) fn draw(page: &Page, chart: &Tracks) -> Drawn<Pt> {
    let mut parts: Vec<Part> = Vec::new();
    for track in &chart.tracks {
        // Rows of marks carry their names.
        let Track::Areas(areas) = track else { continue };
        for part in &areas.parts {
            if !parts.contains(part) {
                parts.push(part.clone());
            }
        }
    }
    let top = legend::draw(page, &legend::entries(&parts))?;
    let is_areas = |track: &&Track| matches!(track, Track::Areas(_));
    let areas = chart.tracks.iter().filter(is_areas).count();
    let mut rows = Vec::new();
    for track in &chart.tracks {
        rows.push(match track {
            Track::Marks(rows) => (ROW * rows.len() as f64, Content::Marks(rows)),
            Track::Areas(shares) if areas > 2 => (LOW_TRACK, Content::Areas(shares)),
            Track::Areas(shares) => (height(chart), Content::Areas(shares)),
            Track::Lines(lines) => (height(chart), Content::Lines(lines, None)),
        });
    }
    let shared = Shared::new(&chart.bands, chart.extent, chart.x_unit, &chart.x_label);
    let title = if matches!(rows.first(), Some((_, Content::Marks(_)))) {
        Pt(2.0)
    } else {
        TITLE
    };
    stack(page, top - Pt(2.0) + title, &shared, &rows)
}

/// Tracks are lower the more there are, so that the chart takes at most two fifths of a page: higher ones would leave the page
/// before them half empty.
fn height(chart: &Tracks) -> Pt {
    match chart.tracks.len() {
        0 | 1 => LONE_TRACK,
        2 | 3 => TRACK,
        _ => LOW_TRACK,
    }
}

/// What a track shows.
pub(super) enum Content<'a> {
    /// Stacked shares.
    Areas(&'a Areas),
    /// Lines, and a level to mark.
    Lines(&'a Lines, Option<&'a (String, f64)>),
    /// Rows of marks.
    Marks(&'a [MarkRow]),
}

/// What all tracks share: the horizontal axis and the bands.
pub(super) struct Shared<'a> {
    bands: &'a [(String, i64, i64)],
    extent: i64,
    factor: f64,
    title: String,
}

impl<'a> Shared<'a> {
    /// An axis from 0 to `extent` of `unit`.
    pub(super) fn new(
        bands: &'a [(String, i64, i64)],
        extent: i64,
        unit: Unit,
        label: &str,
    ) -> Self {
        let (factor, symbol) = Quantity::new(extent as f64, unit).scale();
        Self {
            bands,
            extent,
            factor,
            title: with_unit(label, symbol),
        }
    }

    /// The coordinate of a value, which is at an end of the axis if it lies beyond it.
    fn x(&self, value: i64) -> f64 {
        (value as f64).clamp(0.0, self.extent as f64) / self.factor
    }

    /// Start and end on the page of a stretch of the axis.
    fn ends(&self, plot: &Plane, (start, end): (i64, i64)) -> (Pt, Pt) {
        (
            place(plot, self.x(start), 0.0).0,
            place(plot, self.x(end), 0.0).0,
        )
    }
}

/// A label with the symbol of its unit, if it has one.
fn with_unit(label: &str, symbol: &str) -> String {
    if symbol.is_empty() {
        label.to_owned()
    } else {
        format!("{label} ({symbol})")
    }
}

/// Draws tracks of given heights below `top`, and room for the names of bands; returns the chart's height.
pub(super) fn stack(
    page: &Page,
    top: Pt,
    shared: &Shared<'_>,
    tracks: &[(Pt, Content<'_>)],
) -> Drawn<Pt> {
    let top = top
        + if shared.bands.is_empty() {
            Pt::ZERO
        } else {
            Pt(19.0)
        };
    let left = left(tracks);
    let mut area = Rect::new(left, top, WIDTH - left - Pt(8.0), Pt::ZERO);
    for (n, (height, content)) in tracks.iter().enumerate() {
        area.h = *height;
        let below = if n + 1 == tracks.len() {
            Pt(24.0)
        } else {
            Pt::ZERO
        };
        let plot = draw_track(page, area, below, shared, content)?;
        if n == 0 {
            label_bands(page, area, &plot, shared)?;
        }
        area.y += *height + TITLE;
    }
    Ok(area.y - TITLE + Pt(27.0))
}

/// Room for the labels of rows of marks.
fn left(tracks: &[(Pt, Content<'_>)]) -> Pt {
    let mut widest = Pt::ZERO;
    for (_, content) in tracks {
        if let Content::Marks(rows) = content {
            let labels = rows.iter().map(|row| &row.label);
            widest = widest.max(Style::MUTED.widest(labels));
        }
    }
    (widest + Pt(8.0)).clamp(LEFT, LEFT_MOST)
}

fn draw_track(
    page: &Page,
    area: Rect,
    below: Pt,
    shared: &Shared<'_>,
    content: &Content<'_>,
) -> Drawn<Plane> {
    let (label, symbol, factor, y, count) = vertical(content);
    let x = scale::linear(0.0, shared.x(shared.extent));
    let mut plot = page.plot(area, (area.x, below), x.clone(), y.clone())?;
    for (n, (_, start, end)) in shared.bands.iter().enumerate() {
        let corners = [(shared.x(*start), y.start), (shared.x(*end), y.end)];
        let fill = palette::BANDS.get(n % 2).copied().unwrap_or(palette::GRID);
        plot.plotting_area()
            .draw(&Rectangle::new(corners, fill.filled()))?;
    }
    if let Content::Lines(lines, _) = content {
        for (start, end) in lines.shades.iter().flat_map(|(_, shades)| shades) {
            let (from, to) = shared.ends(&plot, (*start, *end));
            let shade = Rect::new(from, area.y, (to - from).max(LEAST_MARK), area.h);
            page.rect(shade, palette::SHADE.into(), "")?;
        }
    }
    let (x_label, y_label) = (scale::tick_label(&x, 9), scale::tick_label(&y, count));
    scale::draw(
        &mut plot,
        &Axis {
            title: &shared.title,
            ticks: 9,
            label: &x_label,
            grid: false,
        },
        &Axis {
            title: "",
            ticks: count,
            label: &y_label,
            grid: true,
        },
    )?;
    let title = Style::BOLD.fit(&with_unit(label, symbol), WIDTH * 0.5);
    page.text(Pt(0.5), area.y - Pt(6.0), &title, Style::BOLD)?;
    match content {
        Content::Areas(areas) => draw_areas(&mut plot, areas, x.end)?,
        Content::Lines(lines, limit) => {
            draw_lines(page, area, &mut plot, (shared, factor), lines)?;
            draw_limit(page, area, &plot, factor, *limit)?;
        }
        Content::Marks(rows) => draw_marks(page, area, &plot, shared, rows)?,
    }
    // Areas may hide the bands.
    for (_, start, end) in shared.bands {
        let (from, to) = shared.ends(&plot, (*start, *end));
        for x in [from, to].into_iter().filter(|_| to - from > LEAST_BAND) {
            page.line(
                &[(x, area.y), (x, area.bottom())],
                palette::AXIS.stroke_width(40),
                "",
            )?;
        }
    }
    Ok(plot)
}

/// Share of a clock that its axis shows below it at least.
const SHOWN_OF_CLOCK: f64 = 0.05;

/// The vertical axis of a track: label, symbol and factor of the unit, range, the most ticks.
fn vertical<'a>(
    content: &Content<'a>,
) -> (&'a str, &'static str, f64, std::ops::Range<f64>, usize) {
    match content {
        Content::Areas(areas) => (&areas.label, "%", 1.0, 0.0..100.0, 3),
        Content::Lines(lines, limit) => {
            let (mut low, mut high, mut least) = (0.0, 0.0, f64::INFINITY);
            let points = lines.lines.iter().flat_map(|line| &line.points);
            let values = points.chain(&lines.outliers).map(|(_, value)| value);
            for value in values.chain(limit.map(|(_, value)| value)) {
                if value.is_finite() {
                    (low, high) = (value.min(low), value.max(high));
                    least = value.min(least);
                }
            }
            // On an axis from 0, a clock that falls by a twentieth would look even.
            if lines.unit == Unit::Hertz && least.is_finite() {
                low = f64::max(0.0, least - f64::max(high - least, high * SHOWN_OF_CLOCK));
            }
            let (factor, symbol) = Quantity::new(f64::max(high, -low), lines.unit).scale();
            let range = scale::linear(low / factor, scale::ceiling(high / factor, 4));
            (&lines.label, symbol, factor, range, 5)
        }
        Content::Marks(rows) => ("", "", 1.0, rows.len() as f64..0.0, 0),
    }
}

/// Names the bands in two rows above the first track, the widest first; those without room stay unnamed.
fn label_bands(page: &Page, area: Rect, plot: &Plane, shared: &Shared<'_>) -> Drawn {
    let style = Style::MUTED.at(HPos::Center);
    let mut bands: Vec<_> = shared.bands.iter().collect();
    bands.sort_by_key(|(label, start, end)| (start.saturating_sub(*end), *start, label.clone()));
    let mut labels = Labels::default();
    for (label, start, end) in bands.into_iter().take(200) {
        let (from, to) = shared.ends(plot, (*start, *end));
        let text = style.fit(label, (to - from).max(Pt(70.0)));
        let half = style.width(&text) / 2.0;
        if half * 2.0 > to - from && half * 2.0 > Pt(70.0) {
            continue;
        }
        let least = area.x + half;
        let x = from
            .midpoint(to)
            .clamp(least, (area.right() - half).max(least));
        let rows = [area.y - Pt(15.0), area.y - Pt(24.5)];
        let boxes = rows.map(|y| {
            let tight = style.bounds(x, y, &text);
            vec![Rect::new(
                tight.x - Pt(3.0),
                tight.y,
                tight.w + Pt(6.0),
                tight.h,
            )]
        });
        if let Some(y) = labels.place(&boxes).and_then(|row| rows.get(row)) {
            page.text(x, *y, &text, style)?;
        }
    }
    Ok(())
}

/// Every part is drawn from the bottom to the top of its stack, the uppermost first, so that each covers
/// what lies below it and no seam shows.
fn draw_areas(plot: &mut Plane, areas: &Areas, end: f64) -> Drawn {
    let stretches = areas.shares.iter().map(Vec::len).min().unwrap_or(0);
    let mut stack = vec![0.0; stretches];
    let mut series = Vec::new();
    for (part, shares) in areas.parts.iter().zip(&areas.shares) {
        for (sum, share) in stack.iter_mut().zip(shares) {
            *sum += if share.is_finite() {
                share.max(0.0)
            } else {
                0.0
            };
        }
        let x = |n: usize| n as f64 / stretches as f64 * end;
        let mut steps = Vec::with_capacity(2 * stretches);
        for (n, sum) in stack.iter().enumerate() {
            let top = f64::min(*sum, 1.0) * 100.0;
            steps.extend([(x(n), top), (x(n + 1), top)]);
        }
        let fill = palette::fill(part.color).stroke_width(25).filled();
        series.push(AreaSeries::<Svg, _, _>::new(steps, 0.0, fill));
    }
    plot.draw_series(series.into_iter().rev().flatten())?;
    Ok(())
}

fn draw_lines(
    page: &Page,
    area: Rect,
    plot: &mut Plane,
    (shared, factor): (&Shared<'_>, f64),
    lines: &Lines,
) -> Drawn {
    let scaled = |(x, value): &(i64, f64)| (shared.x(*x), value / factor);
    for (n, line) in lines.lines.iter().enumerate() {
        let color = palette::line(number(lines, n));
        let points = line
            .points
            .iter()
            .filter(|(_, value)| value.is_finite())
            .map(scaled);
        match line.filled {
            true => plot.draw_series(AreaSeries::new(points, 0.0, palette::AREA.filled()))?,
            false => plot.draw_series(LineSeries::new(points, color.stroke_width(80)))?,
        };
    }
    for (x, y) in lines.outliers.iter().map(scaled) {
        page.ring(place(plot, x, y))?;
    }
    draw_key(page, area, lines)
}

/// How many lines come before the `n`-th, without areas.
fn number(lines: &Lines, n: usize) -> usize {
    let before = lines.lines[..n].iter();
    before.filter(|line| !line.filled).count()
}

fn draw_limit(
    page: &Page,
    area: Rect,
    plot: &Plane,
    factor: f64,
    limit: Option<&(String, f64)>,
) -> Drawn {
    let Some((label, value)) = limit.filter(|(_, value)| value.is_finite()) else {
        return Ok(());
    };
    let (_, y) = place(plot, 0.0, value / factor);
    page.line(
        &[(area.x, y), (area.right(), y)],
        palette::ALERT.stroke_width(80),
        DASHED,
    )?;
    let style = Style {
        color: palette::ALERT,
        ..Style::MUTED.at(HPos::Right)
    };
    let label = style.fit(&format!("– – {label}"), WIDTH * 0.35);
    page.text(area.right(), area.y - Pt(6.0), &label, style)
}

/// What lines, shades and rings mean, at the right above the track.
fn draw_key(page: &Page, area: Rect, lines: &Lines) -> Drawn {
    let (mut x, y) = (area.right(), area.y - Pt(6.0));
    let mut entry = |name: &str, draw: &dyn Fn(Pt) -> Drawn| {
        let name = Style::MUTED.fit(name, Pt(110.0));
        x -= Style::MUTED.width(&name);
        page.text(x, y, &name, Style::MUTED)?;
        x -= Pt(13.0);
        let drawn = draw(x);
        x -= Pt(10.0);
        drawn
    };
    let swatch = |x, color: RGBColor| {
        let area = Rect::new(x, y - Pt(5.5), Pt(10.0), Pt(6.0));
        page.rect(area, color.into(), "")
    };
    if !lines.outliers.is_empty() {
        entry("outliers", &|x| page.ring((x + Pt(6.0), y - Pt(2.5))))?;
    }
    if let Some((name, shades)) = &lines.shades
        && !shades.is_empty()
    {
        entry(name, &|x| swatch(x, palette::SHADE))?;
    }
    for (n, line) in lines.lines.iter().enumerate().rev() {
        if line.name.is_empty() {
            continue;
        }
        entry(&line.name, &|x| match line.filled {
            true => swatch(x, palette::AREA),
            false => {
                let ends = [(x, y - Pt(2.5)), (x + Pt(10.0), y - Pt(2.5))];
                page.line(&ends, palette::line(number(lines, n)).stroke_width(110), "")
            }
        })?;
    }
    Ok(())
}

fn draw_marks(
    page: &Page,
    area: Rect,
    plot: &Plane,
    shared: &Shared<'_>,
    rows: &[MarkRow],
) -> Drawn {
    for (n, row) in rows.iter().enumerate() {
        let y = area.y + ROW * n as f64;
        let style = Style::MUTED.at(HPos::Right);
        page.text(
            area.x - Pt(5.0),
            y + Pt(8.3),
            &style.fit(&row.label, area.x - Pt(6.0)),
            style,
        )?;
        let floor = [(area.x, y + ROW), (area.right(), y + ROW)];
        page.line(&floor, palette::GRID.stroke_width(50), "")?;
        for mark in &row.marks {
            let (from, to) = shared.ends(plot, *mark);
            let mark = Rect::new(
                from,
                y + Pt(1.5),
                (to - from).max(LEAST_MARK),
                ROW - Pt(3.0),
            );
            page.rect(mark, palette::fill(row.color).into(), "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_captures_stay_small() {
        let shares = |n: usize| {
            (0..300)
                .map(|i| ((i * 7 + n) % 13) as f64 / 100.0)
                .collect()
        };
        let colors = rooflens_document::chart::Color::KERNELS;
        let part = |color: rooflens_document::chart::Color| Part::new(color.label(), color);
        let areas = Areas {
            label: "busy".to_owned(),
            parts: colors.into_iter().map(part).collect(),
            shares: (0..colors.len()).map(shares).collect(),
        };
        let shared = Shared::new(&[], 300, rooflens_schemas::Unit::Count, "");
        let page = Page::new(rooflens_document::Catalogue::english());
        stack(
            &page,
            Pt(20.0),
            &shared,
            &[(Pt(44.0), Content::Areas(&areas))],
        )
        .expect("drawn");
        let size = page.finish(Pt(100.0), "", "").len();
        assert!(size < 40_000, "{size} bytes");
    }
}
