//! SVG text under construction: shapes in, one string out.

use std::fmt::Write;

use super::palette;
use crate::render::text::clean;

/// Width of every chart in points: that of the text around it.
pub(super) const WIDTH: f64 = crate::render::measure::PAGE;

/// Height of ordinary text.
pub(super) const TEXT: f64 = 8.0;

/// Height of text that is less important.
pub(super) const SMALL: f64 = 7.0;

/// An axis-parallel rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    /// Left edge.
    pub(super) x: f64,
    /// Upper edge.
    pub(super) y: f64,
    /// Width.
    pub(super) w: f64,
    /// Height.
    pub(super) h: f64,
}

impl Rect {
    /// A rectangle by its upper left corner and size.
    pub(super) const fn new(x: f64, y: f64, w: f64, h: f64) -> Self {
        Self { x, y, w, h }
    }

    /// Right edge.
    pub(super) fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub(super) fn bottom(&self) -> f64 {
        self.y + self.h
    }

    /// Whether the two share area.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }

    /// Whether `other` lies inside.
    pub(super) fn contains(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.right() <= self.right()
            && other.bottom() <= self.bottom()
    }
}

/// Which point of a text its position names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its left end.
    Start,
    /// Its centre.
    Middle,
    /// Its right end.
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Font size.
    pub(super) size: f64,
    /// Fill.
    pub(super) color: &'static str,
    /// Semi-bold.
    pub(super) bold: bool,
    /// Anchor.
    pub(super) anchor: Anchor,
    /// White outline, so that the text stays readable over lines.
    pub(super) halo: bool,
}

impl Style {
    /// Ordinary text.
    pub(super) const PLAIN: Self =
        Self { size: TEXT, color: palette::INK, bold: false, anchor: Anchor::Start, halo: false };

    /// Text of axes and notes.
    pub(super) const MUTED: Self = Self { size: SMALL, color: palette::MUTED, ..Self::PLAIN };

    /// The same with another anchor.
    pub(super) const fn at(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    /// The same, semi-bold.
    pub(super) const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    /// The same with a white outline.
    pub(super) const fn halo(mut self) -> Self {
        self.halo = true;
        self
    }

    /// The same in another colour.
    pub(super) const fn color(mut self, color: &'static str) -> Self {
        self.color = color;
        self
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    /// Colour.
    pub(super) color: &'static str,
    /// Width.
    pub(super) width: f64,
    /// Dashed.
    pub(super) dashed: bool,
}

impl Stroke {
    /// A solid line.
    pub(super) const fn solid(color: &'static str, width: f64) -> Self {
        Self { color, width, dashed: false }
    }

    /// A dashed line.
    pub(super) const fn dashed(color: &'static str, width: f64) -> Self {
        Self { color, width, dashed: true }
    }

    fn attributes(self) -> String {
        let dash = if self.dashed { r#" stroke-dasharray="3 2""# } else { "" };
        format!(
            r#"fill="none" stroke="{}" stroke-width="{}"{dash}"#,
            self.color,
            number(self.width)
        )
    }
}

/// A chart being drawn.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    /// A filled rectangle.
    pub(super) fn rect(&mut self, rect: Rect, fill: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{fill}"/>"#,
            number(rect.x),
            number(rect.y),
            number(rect.w.max(0.0)),
            number(rect.h.max(0.0)),
        );
    }

    /// A filled rectangle with a tooltip.
    pub(super) fn frame(&mut self, rect: Rect, fill: &str, tooltip: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{fill}"><title>{}</title></rect>"#,
            number(rect.x),
            number(rect.y),
            number(rect.w.max(0.0)),
            number(rect.h.max(0.0)),
            escape(tooltip),
        );
    }

    /// A line through points.
    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let coordinates: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" stroke-linejoin="round" {}/>"#,
            coordinates.join(" "),
            stroke.attributes(),
        );
    }

    /// A disc with a tooltip.
    pub(super) fn disc(&mut self, x: f64, y: f64, radius: f64, fill: &str, tooltip: &str) {
        let _ = writeln!(
            self.body,
            r##"<circle cx="{}" cy="{}" r="{}" fill="{fill}" fill-opacity="0.8" stroke="#ffffff" stroke-width="0.6"><title>{}</title></circle>"##,
            number(x),
            number(y),
            number(radius),
            escape(tooltip),
        );
    }

    /// A hollow circle.
    pub(super) fn ring(&mut self, x: f64, y: f64, radius: f64, stroke: Stroke) {
        let _ = writeln!(
            self.body,
            r#"<circle cx="{}" cy="{}" r="{}" {}/>"#,
            number(x),
            number(y),
            number(radius),
            stroke.attributes(),
        );
    }

    /// A line of text; `y` is its baseline.
    pub(super) fn text(&mut self, x: f64, y: f64, text: &str, style: Style) {
        self.write_text(x, y, text, style, "");
    }

    /// A line of text that rises by `degrees` around its anchor.
    pub(super) fn slanted_text(&mut self, x: f64, y: f64, degrees: f64, text: &str, style: Style) {
        let transform =
            format!(r#" transform="rotate({} {} {})""#, number(-degrees), number(x), number(y));
        self.write_text(x, y, text, style, &transform);
    }

    fn write_text(&mut self, x: f64, y: f64, text: &str, style: Style, transform: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = if style.bold { r#" font-weight="600""# } else { "" };
        let halo = if style.halo {
            r##" stroke="#ffffff" stroke-width="2" stroke-linejoin="round" paint-order="stroke""##
        } else {
            ""
        };
        let _ = writeln!(
            self.body,
            r#"<text x="{}" y="{}" font-size="{}" fill="{}"{anchor}{weight}{halo}{transform}>{}</text>"#,
            number(x),
            number(y),
            number(style.size),
            style.color,
            escape(text),
        );
    }

    /// The whole file.
    pub(super) fn finish(self, height: f64, title: &str, description: &str) -> String {
        let (width, height) = (number(WIDTH), number(height));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="{}">
<title>{}</title>
<desc>{}</desc>
<rect x="0" y="0" width="{width}" height="{height}" fill="#ffffff"/>
{}</svg>
"##,
            palette::FACE,
            escape(title),
            escape(description),
            self.body,
        )
    }
}

/// A coordinate with at most two decimals, so that files do not depend on a float's last bits.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text for XML: markup in names stays text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_have_two_decimals_and_no_negative_zero() {
        assert_eq!(number(1.005_1), "1.01");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(120.0), "120");
        assert_eq!(number(f64::NAN), "0");
    }

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<b>&\"\u{1}"), "&lt;b&gt;&amp;&quot;\u{fffd}");
    }

    #[test]
    fn touching_rectangles_do_not_overlap() {
        let left = Rect::new(0.0, 0.0, 1.0, 1.0);
        assert!(!left.overlaps(&Rect::new(1.0, 0.0, 1.0, 1.0)));
        assert!(left.overlaps(&Rect::new(0.9, 0.9, 1.0, 1.0)));
    }
}
