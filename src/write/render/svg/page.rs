//! The page that a chart is drawn on: plotters' elements at places in points.

use crate::length::{Degrees, Place, Pt};
use rooflens_document::{Catalogue, Lang};
use rooflens_units::Ratio;
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters_backend::BackendCoord;

use super::backend::{Svg, With};
use super::palette;
use crate::measure::sans;
use crate::text::{escape, shorten};

/// Width of every chart in points: that of the text around it.
pub(super) const WIDTH: Pt = crate::measure::PAGE;

/// Size of a chart where nothing else sets it, on a page of Markdown say ÷ its size on paper: the smallest text has 9 points.
const ENLARGED: Ratio = Ratio(1.3);

/// Attributes of a dashed line.
pub(super) const DASHED: &str = r#" stroke-dasharray="3 2""#;

/// What drawing returns. Writing does not fail, but plotters' signatures allow for it.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<Infallible>>;

/// A plot with coordinates of its own.
pub(super) type Plot<X, Y> = ChartContext<'static, Svg, Cartesian2d<X, Y>>;

/// A plot with two linear axes.
pub(super) type Plane = Plot<RangedCoordf64, RangedCoordf64>;

/// An axis-parallel rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    /// Left edge.
    pub(super) x: Pt,
    /// Upper edge.
    pub(super) y: Pt,
    /// Width.
    pub(super) w: Pt,
    /// Height.
    pub(super) h: Pt,
}

impl Rect {
    /// A rectangle by its upper left corner and size.
    pub(super) const fn new(x: Pt, y: Pt, w: Pt, h: Pt) -> Self {
        Self { x, y, w, h }
    }

    /// Right edge.
    pub(super) fn right(&self) -> Pt {
        self.x + self.w
    }

    /// Lower edge.
    pub(super) fn bottom(&self) -> Pt {
        self.y + self.h
    }

    /// Whether the two share area.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }

    /// The least rectangle that holds all of these.
    pub(super) fn around(rects: &[Self]) -> Self {
        let mut rects = rects.iter();
        let first = rects.next().copied().unwrap_or_default();
        rects.fold(first, |all, rect| {
            let (x, y) = (all.x.min(rect.x), all.y.min(rect.y));
            let (right, bottom) = (
                all.right().max(rect.right()),
                all.bottom().max(rect.bottom()),
            );
            Self::new(x, y, right - x, bottom - y)
        })
    }

    /// Whether `other` lies inside.
    pub(super) fn contains(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && other.right() <= self.right()
            && other.bottom() <= self.bottom()
    }
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Font size.
    pub(super) size: Pt,
    /// Fill.
    pub(super) color: RGBColor,
    /// Semi-bold.
    pub(super) bold: bool,
    /// Which end of the text its place names.
    pub(super) anchor: HPos,
    /// White outline, so that the text stays readable over lines.
    pub(super) halo: bool,
    /// Angle by which it rises.
    pub(super) angle: Degrees,
}

impl Style {
    /// Ordinary text.
    pub(super) const PLAIN: Self = Self {
        size: Pt(8.0),
        color: palette::INK,
        bold: false,
        anchor: HPos::Left,
        halo: false,
        angle: Degrees(0.0),
    };

    /// Smaller text.
    pub(super) const SMALL: Self = Self {
        size: Pt(7.0),
        ..Self::PLAIN
    };

    /// Text of axes and notes.
    pub(super) const MUTED: Self = Self {
        color: palette::MUTED,
        ..Self::SMALL
    };

    /// Titles of tracks, numbers of marks.
    pub(super) const BOLD: Self = Self {
        bold: true,
        ..Self::SMALL
    };

    /// The same with another anchor.
    pub(super) const fn at(self, anchor: HPos) -> Self {
        Self { anchor, ..self }
    }

    /// The same with a white outline.
    pub(super) const fn halo(self) -> Self {
        Self { halo: true, ..self }
    }

    /// Width of a text.
    pub(super) fn width(self, text: &str) -> Pt {
        sans(text, self.size, self.bold)
    }

    /// Width of the widest text.
    pub(super) fn widest<'a>(self, texts: impl IntoIterator<Item = &'a String>) -> Pt {
        texts
            .into_iter()
            .map(|text| self.width(text))
            .fold(Pt::ZERO, Pt::max)
    }

    /// The box of a text at `x` on the baseline `y`.
    pub(super) fn bounds(self, x: Pt, y: Pt, text: &str) -> Rect {
        let width = self.width(text);
        let left = match self.anchor {
            HPos::Left => x,
            HPos::Center => x - width / 2.0,
            HPos::Right => x - width,
        };
        Rect::new(left, y - self.size * 0.78, width, self.size)
    }

    /// `text` shortened in the middle until it is at most `limit` wide.
    pub(super) fn fit(self, text: &str, limit: Pt) -> String {
        let mut length = text.chars().count();
        let mut fitted = text.to_owned();
        while length > 1 && self.width(&fitted) > limit {
            // A guess from the mean width, which ends within a few rounds.
            let guess = (limit * length as f64 / self.width(&fitted)) as usize;
            length = guess.clamp(1, length - 1);
            fitted = shorten(text, length);
        }
        fitted
    }
}

impl From<Style> for TextStyle<'static> {
    fn from(style: Style) -> Self {
        let weight = if style.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        let font = FontDesc::new(FontFamily::SansSerif, style.size.0 * 100.0, weight);
        font.color(&style.color)
            .pos(Pos::new(style.anchor, VPos::Bottom))
    }
}

/// Coordinates in points.
struct Points;

impl CoordTranslate for Points {
    type From = Place;

    fn translate(&self, (x, y): &Self::From) -> BackendCoord {
        (hundredths(*x), hundredths(*y))
    }
}

/// Points in the backend's unit; what is not a number is 0.
fn hundredths(length: Pt) -> i32 {
    libm::round(length.0 * 100.0) as i32
}

/// A page; it grows downwards.
pub(super) struct Page {
    /// The words of axes and notes.
    pub(super) text: &'static Catalogue,
    body: Rc<RefCell<String>>,
    whole: DrawingArea<Svg, Shift>,
    area: DrawingArea<Svg, Points>,
}

impl Page {
    /// An empty drawing with the words of a language.
    pub(super) fn new(text: &'static Catalogue) -> Self {
        let body = Rc::default();
        let whole = Svg::new(&body).into_drawing_area();
        Self {
            text,
            body,
            area: whole.apply_coord_spec(Points),
            whole,
        }
    }
}

impl Page {
    /// Text at `x` on the baseline `y`.
    pub(super) fn text(&self, x: Pt, y: Pt, text: &str, style: Style) -> Drawn {
        let mut attributes = String::new();
        if style.halo {
            attributes.push_str(
                r##" stroke="#ffffff" stroke-width="2" stroke-linejoin="round" paint-order="stroke""##,
            );
        }
        if style.angle != Degrees(0.0) {
            let rounded = |number| f64::from(hundredths(Pt(number))) / 100.0;
            let [degrees, x, y] = [-style.angle.0, x.0, y.0].map(rounded);
            attributes.push_str(&format!(r#" transform="rotate({degrees} {x} {y})""#));
        }
        self.draw(
            Text::new(text.to_owned(), (x, y), style).into_dyn(),
            "",
            attributes,
        )
    }

    /// A filled rectangle.
    pub(super) fn rect(&self, rect: Rect, style: ShapeStyle, tooltip: &str) -> Drawn {
        let corners = [(rect.x, rect.y), (rect.right(), rect.bottom())];
        self.draw(
            Rectangle::new(corners, style.filled()).into_dyn(),
            tooltip,
            String::new(),
        )
    }

    /// A line through points.
    pub(super) fn line(&self, points: &[Place], style: ShapeStyle, attributes: &str) -> Drawn {
        self.draw(
            PathElement::new(points, style).into_dyn(),
            "",
            attributes.to_owned(),
        )
    }

    /// A translucent disc with a tooltip.
    pub(super) fn disc(&self, at: Place, radius: Pt, color: RGBColor, tooltip: &str) -> Drawn {
        let style = color.mix(0.8).stroke_width(60).filled();
        let disc = Circle::new(at, hundredths(radius), style);
        self.draw(disc.into_dyn(), tooltip, String::new())
    }

    /// A circle with a tooltip, nothing in it.
    pub(super) fn circle(&self, at: Place, radius: Pt, color: RGBColor, tooltip: &str) -> Drawn {
        let circle = Circle::new(at, hundredths(radius), color.stroke_width(130));
        self.draw(circle.into_dyn(), tooltip, String::new())
    }

    /// A diamond with a tooltip.
    pub(super) fn diamond(&self, at: Place, radius: Pt, color: RGBColor, tooltip: &str) -> Drawn {
        let r = radius * 1.4;
        let corners = vec![
            (at.0 - r, at.1),
            (at.0, at.1 - r),
            (at.0 + r, at.1),
            (at.0, at.1 + r),
        ];
        let diamond = Polygon::new(corners, color.filled());
        self.draw(diamond.into_dyn(), tooltip, String::new())
    }

    fn draw(
        &self,
        element: DynElement<'static, Svg, Place>,
        tooltip: &str,
        attributes: String,
    ) -> Drawn {
        self.area.draw(&With {
            element,
            tooltip: tooltip.to_owned(),
            attributes,
        })
    }

    /// A hollow circle, which marks an outlier.
    pub(super) fn ring(&self, at: Place) -> Drawn {
        self.area
            .draw(&Circle::new(at, 230, palette::ALERT.stroke_width(100)))
    }

    /// A plot whose axes enclose `area`, with room of `left` and `below` for the labels of the axes.
    pub(super) fn plot<X: AsRangedCoord, Y: AsRangedCoord>(
        &self,
        area: Rect,
        (left, below): (Pt, Pt),
        x: X,
        y: Y,
    ) -> Drawn<Plot<X::CoordDescType, Y::CoordDescType>> {
        let corner = (hundredths(area.x - left), hundredths(area.y));
        let whole = (
            hundredths(area.w + left) + 1,
            hundredths(area.h + below) + 1,
        );
        ChartBuilder::on(&self.whole.clone().shrink(corner, whole))
            .set_label_area_size(LabelAreaPosition::Left, hundredths(left))
            .set_label_area_size(LabelAreaPosition::Bottom, hundredths(below))
            .build_cartesian_2d(x, y)
    }

    /// The whole file.
    pub(super) fn finish(self, height: Pt, title: &str, description: &str) -> String {
        let _ = self.whole.present();
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{:.1}pt" height="{:.1}pt" viewBox="0 0 {WIDTH} {height:.0}" role="img" font-family="{}">
<title>{}</title>
<desc>{}</desc>
<rect width="{WIDTH}" height="{height:.0}" fill="#ffffff"/>
{}</svg>
"##,
            WIDTH * ENLARGED,
            height.ceil() * ENLARGED,
            face(self.text.lang()),
            escape(title),
            escape(description),
            self.body.borrow(),
            height = height.ceil(),
        )
    }
}

const fn face(lang: Lang) -> &'static str {
    match lang {
        Lang::En => palette::FACE,
        Lang::Zh => palette::CHINESE_FACE,
    }
}

/// The place on the page of a value in a plot.
pub(super) fn place<X, Y>(plot: &Plot<X, Y>, x: f64, y: f64) -> Place
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let (x, y) = plot.backend_coord(&(x, y));
    (Pt(f64::from(x) / 100.0), Pt(f64::from(y) / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_rectangles_do_not_overlap() {
        let square = |x| Rect::new(Pt(x), Pt::ZERO, Pt(1.0), Pt(1.0));
        let left = square(0.0);
        assert!(!left.overlaps(&square(1.0)));
        assert!(left.overlaps(&Rect::new(Pt(0.9), Pt(0.9), Pt(1.0), Pt(1.0))));
    }

    #[test]
    fn texts_of_a_chart_that_stands_alone_have_nine_points() {
        let svg = Page::new(Catalogue::english()).finish(Pt(100.0), "t", "d");
        // 482 × 1.3 and 100 × 1.3.
        assert!(
            svg.contains(r#"width="626.6pt" height="130.0pt" viewBox="0 0 482 100""#),
            "{svg}"
        );
        const { assert!(Style::SMALL.size.0 * ENLARGED.0 >= 9.0) };
    }

    #[test]
    fn fitted_texts_fit() {
        for limit in [10.0, 40.0, 200.0].map(Pt) {
            let fitted = Style::PLAIN.fit(&"kernel_".repeat(40), limit);
            assert!(
                Style::PLAIN.width(&fitted) <= limit,
                "{fitted} over {limit}"
            );
        }
        assert_eq!(Style::PLAIN.fit("short", Pt(100.0)), "short");
    }
}
