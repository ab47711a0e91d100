//! The backend of plotters that writes SVG. Its pixels are hundredths of a point.

use crate::length::{Place, Pt};
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::{Arguments, Write};
use std::rc::Rc;

use plotters::element::{Drawable, DynElement, PointCollection};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle,
};

use crate::measure::{PAGE, sans};
use crate::text::escape;

/// Writing into memory does not fail.
type Written<T = ()> = Result<T, DrawingErrorKind<Infallible>>;

/// SVG elements under construction.
#[derive(Default)]
pub(super) struct Svg {
    body: Rc<RefCell<String>>,
    tooltip: String,
    attributes: String,
    /// Colour of the path of rectangles that the body ends with; the path is still open.
    run: Option<String>,
}

/// An element on a page, with what plotters lacks.
pub(super) struct With {
    /// The element.
    pub(super) element: DynElement<'static, Svg, Place>,
    /// Tooltip; empty: none.
    pub(super) tooltip: String,
    /// Further attributes.
    pub(super) attributes: String,
}

impl<'a> PointCollection<'a, Place> for &'a With {
    type Point = &'a Place;
    type IntoIter = &'a Vec<Place>;

    fn point_iter(self) -> Self::IntoIter {
        self.element.point_iter()
    }
}

impl Drawable<Svg> for With {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        points: I,
        backend: &mut Svg,
        size: (u32, u32),
    ) -> Written {
        backend.tooltip.clone_from(&self.tooltip);
        backend.attributes.clone_from(&self.attributes);
        let drawn = self.element.draw(points, backend, size);
        backend.tooltip.clear();
        backend.attributes.clear();
        drawn
    }
}

impl Svg {
    /// A backend that appends to `body`.
    pub(super) fn new(body: &Rc<RefCell<String>>) -> Self {
        Self {
            body: Rc::clone(body),
            ..Self::default()
        }
    }

    fn element(&mut self, tag: &str, shape: Arguments<'_>, paint: &str) -> Written {
        self.present()?;
        let end = match self.tooltip.as_str() {
            "" => "/>".to_owned(),
            text => format!("><title>{}</title></{tag}>", escape(text)),
        };
        let _ = writeln!(
            self.body.borrow_mut(),
            "<{tag} {shape} {paint}{}{end}",
            self.attributes
        );
        Ok(())
    }
}

impl DrawingBackend for Svg {
    type ErrorType = Infallible;

    /// The page's width; no chart is higher than a hundred pages.
    fn get_size(&self) -> (u32, u32) {
        (PAGE.0 as u32 * 100, PAGE.0 as u32 * 10_000)
    }

    fn ensure_prepared(&mut self) -> Written {
        Ok(())
    }

    /// Ends what is open.
    fn present(&mut self) -> Written {
        if let Some(fill) = self.run.take() {
            let _ = writeln!(self.body.borrow_mut(), "\" {fill}/>");
        }
        Ok(())
    }

    /// Nothing that we draw has pixels.
    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Written {
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Written {
        self.draw_path([from, to], style)
    }

    /// Neighbours of one colour become one path, which keeps tracks of thousands of marks small.
    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        _: bool,
    ) -> Written {
        let (width, height) = (points(right - left), points(bottom - top));
        let path = format!(
            "M{} {}h{width}v{height}h-{width}z",
            points(left),
            points(top)
        );
        let fill = fill(style);
        if !self.tooltip.is_empty() {
            return self.element("path", format_args!(r#"d="{path}""#), &fill);
        }
        if self.run.as_ref() != Some(&fill) {
            self.present()?;
            self.body.borrow_mut().push_str("<path d=\"");
            self.run = Some(fill);
        }
        self.body.borrow_mut().push_str(&path);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Written {
        let pairs = path
            .into_iter()
            .map(|(x, y)| format!("{},{}", points(x), points(y)));
        let line = pairs.collect::<Vec<_>>().join(" ");
        let paint = format!(r#"stroke-linejoin="round" {}"#, stroke(style));
        match style.color().alpha > 0.0 && !line.is_empty() {
            true => self.element("polyline", format_args!(r#"points="{line}""#), &paint),
            false => Ok(()),
        }
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        filled: bool,
    ) -> Written {
        let paint = if filled { fill(style) } else { stroke(style) };
        let (x, y, radius) = (points(x), points(y), points(radius as i32));
        self.element(
            "circle",
            format_args!(r#"cx="{x}" cy="{y}" r="{radius}""#),
            &paint,
        )
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vertices: I,
        style: &S,
    ) -> Written {
        let outline = outline(&vertices.into_iter().collect::<Vec<_>>());
        match outline.is_empty() {
            true => Ok(()),
            false => self.element("path", format_args!(r#"d="{outline}z""#), &fill(style)),
        }
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Written {
        self.present()?;
        let (width, _) = self.estimate_text_size(text, style)?;
        let (anchor, before) = match style.anchor().h_pos {
            HPos::Left => ("", 0),
            HPos::Center => (r#" text-anchor="middle""#, width / 2),
            HPos::Right => (r#" text-anchor="end""#, width),
        };
        let (before, rest) = (before as i32, (width - before) as i32);
        // No upright text leaves the page.
        let x = match self.attributes.contains("rotate") {
            true => x,
            false => x.min(self.get_size().0 as i32 - rest).max(before),
        };
        // `Bottom` is the baseline: descenders do not count.
        let baseline = match style.anchor().v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.35,
            VPos::Bottom => 0.0,
        };
        let y = y + libm::round(baseline * style.size()) as i32;
        let weight = if is_bold(style) {
            r#" font-weight="600""#
        } else {
            ""
        };
        let _ = writeln!(
            self.body.borrow_mut(),
            r#"<text x="{}" y="{}" font-size="{}" fill="{}"{anchor}{weight}{}>{}</text>"#,
            points(x),
            points(y),
            style.size() / 100.0,
            hex(style.color()),
            self.attributes,
            in_runs(text),
        );
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Written<(u32, u32)> {
        let width = libm::ceil(sans(text, Pt(style.size()), is_bold(style)).0);
        Ok((width as u32, style.size() as u32))
    }
}

/// The commands of an SVG path through the vertices, without those in the middle of upright and level edges.
fn outline(vertices: &[BackendCoord]) -> String {
    let mut path = String::new();
    let straight = |a: BackendCoord, b: BackendCoord, c: BackendCoord| {
        (a.0 == b.0 && b.0 == c.0) || (a.1 == b.1 && b.1 == c.1)
    };
    for (n, &(x, y)) in vertices.iter().enumerate() {
        let (before, after) = (n.checked_sub(1).map(|n| vertices[n]), vertices.get(n + 1));
        let _ = match (before, after) {
            (Some(before), Some(after)) if straight(before, (x, y), *after) => Ok(()),
            (None, _) => write!(path, "M{} {}", points(x), points(y)),
            (Some(before), _) if before.0 == x => write!(path, "V{}", points(y)),
            (Some(before), _) if before.1 == y => write!(path, "H{}", points(x)),
            _ => write!(path, "L{} {}", points(x), points(y)),
        };
    }
    path
}

/// Hundredths of a point as points; `{}` shows at most the two decimals that there are.
fn points(hundredths: i32) -> f64 {
    f64::from(hundredths) / 100.0
}

fn hex(color: BackendColor) -> String {
    let (red, green, blue) = color.rgb;
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn is_bold(style: &impl BackendTextStyle) -> bool {
    matches!(style.style(), FontStyle::Bold)
}

fn stroke(style: &impl BackendStyle) -> String {
    let width = points(style.stroke_width() as i32);
    format!(
        r#"fill="none" stroke="{}" stroke-width="{width}""#,
        hex(style.color())
    )
}

/// The stroke of a filled shape is a white edge, which parts it from neighbours of the same grey.
fn fill(style: &impl BackendStyle) -> String {
    let color = style.color();
    let mut paint = format!(r#"fill="{}""#, hex(color));
    if color.alpha < 1.0 {
        let _ = write!(paint, r#" fill-opacity="{}""#, color.alpha);
    }
    if style.stroke_width() > 1 {
        let width = points(style.stroke_width() as i32);
        let _ = write!(paint, r##" stroke="#ffffff" stroke-width="{width}""##);
    }
    paint
}

/// Text with East Asian characters in runs of their own where it holds a ligature: the renderer of the PDF finds them no
/// other face there.
fn in_runs(text: &str) -> String {
    let is_east = |letter: char| letter >= '\u{2e80}';
    let has_ligature = ["fi", "fl", "ff"].iter().any(|pair| text.contains(pair));
    let mut runs = escape(text).to_string();
    if !has_ligature || !text.contains(is_east) {
        return runs;
    }
    let mut done = 0;
    while let Some(length) = runs[done..].find(is_east) {
        let start = done + length;
        let end = match runs[start..].find(|letter| !is_east(letter)) {
            Some(length) => start + length,
            None => runs.len(),
        };
        let run = format!(
            "<tspan font-family=\"Droid Sans Fallback\">{}</tspan>",
            &runs[start..end]
        );
        runs.replace_range(start..end, &run);
        done = start + run.len();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_have_two_decimals_and_no_negative_zero() {
        assert_eq!(
            [101, -0, 12_000, -5].map(|n| points(n).to_string()),
            ["1.01", "0", "120", "-0.05"]
        );
    }

    #[test]
    fn equal_steps_are_one_line() {
        // Four stretches of 10 points; the second and third are equally high.
        let tops = [5, 10, 10, 20];
        let mut vertices: Vec<_> = tops
            .iter()
            .enumerate()
            .flat_map(|(n, top)| [(n, top), (n + 1, top)])
            .map(|(n, top)| (n as i32 * 1000, top * 100))
            .collect();
        vertices.extend([(4000, 2000), (0, 2000)]);
        assert_eq!(outline(&vertices), "M0 5H10V10H30V20H0");
        assert_eq!(outline(&[]), "");
    }
}
