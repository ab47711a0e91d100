//! The size of an image, and what an encoder makes of it.

use super::{Encoder, Llm, Reach};

/// No image has a longer side in pixels.
const MAX_SIDE: u64 = 1 << 14;

/// An image as an encoder reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Side of the square that gives one output, in pixels.
    pub unit: u64,
    /// How an image becomes whole squares.
    pub fit: Fit,
    /// Squares of a column.
    pub rows: u64,
    /// Squares of a row.
    pub columns: u64,
    /// Each row ends with one more output, and so does the image.
    pub breaks: bool,
}

/// How an image becomes whole squares: what the model's image processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Sides are rounded.
    Nearest,
    /// Sides are rounded up, after an image that exceeds so many pixels is scaled down.
    Up(u64),
    /// The image is scaled to give as many squares as possible, and so many at most.
    Budget(u64),
    /// The image is padded to a square.
    Padded,
}

impl View {
    /// A view of a square image.
    pub fn new(unit: u64, fit: Fit, side: u64) -> Self {
        let view = Self {
            unit: unit.max(1),
            fit,
            rows: 1,
            columns: 1,
            breaks: false,
        };
        view.of_image([side, side])
    }

    /// The same of an image of this width and height in pixels.
    #[must_use]
    pub fn of_image(self, sides: [u64; 2]) -> Self {
        let [width, height] = sides.map(|side| side.clamp(1, MAX_SIDE));
        let unit = self.unit as f64;
        let (columns, rows) = (width as f64 / unit, height as f64 / unit);
        let [columns, rows] = match self.fit {
            Fit::Nearest => [columns, rows].map(libm::round),
            Fit::Up(longest) => {
                let scale = (longest as f64 / width.max(height) as f64).min(1.0);
                [width, height].map(|side| libm::ceil(libm::floor(side as f64 * scale) / unit))
            }
            Fit::Budget(squares) => {
                let pixels = squares as f64 * unit * unit;
                let scale = libm::sqrt(pixels / (width * height) as f64);
                [width, height].map(|side| libm::floor(side as f64 * scale / unit))
            }
            Fit::Padded => [libm::ceil(columns.max(rows)); 2],
        };
        Self {
            rows: (rows as u64).max(1),
            columns: (columns as u64).max(1),
            ..self
        }
    }

    /// Squares of the image.
    pub const fn area(&self) -> u64 {
        self.rows * self.columns
    }

    /// Positions that the image takes in the prompt.
    pub const fn outputs(&self) -> u64 {
        if self.breaks {
            self.area() + self.rows + 1
        } else {
            self.area()
        }
    }
}

impl Encoder {
    /// Whatever grows with the image grows with its squares; a token for the whole image stays.
    fn resize(&mut self, sides: [u64; 2]) {
        let Some(view) = self.view else {
            return;
        };
        let resized = view.of_image(sides);
        let scaled = |count: u64| count / view.area() * resized.area() + count % view.area();
        self.llm.sequence = self.llm.sequence.map(scaled);
        let patches = self.llm.sequence.unwrap_or(u64::MAX);
        let layers = self.llm.layers.iter_mut();
        for core in layers.flat_map(|(_, layer)| &mut layer.cores) {
            if let Reach::Fixed(window) = &mut core.reach {
                *window = patches.min(*window);
            }
        }
        for matrix in &mut self.llm.matrices {
            matrix.rows = matrix.rows.map(scaled);
        }
        if self.outputs > 0 {
            self.outputs = resized.outputs();
        }
        self.view = Some(resized);
    }
}

impl Llm {
    /// The same for images of this width and height in pixels.
    #[must_use]
    pub fn viewing(mut self, sides: [u64; 2]) -> Self {
        let [width, height] = sides;
        for encoder in &mut self.encoders {
            encoder.resize(sides);
        }
        self.remarks.retain(|remark| !remark.starts_with(ASSUMED));
        let mut images = self
            .encoders
            .iter()
            .filter(|encoder| encoder.name == "vision");
        self.remarks.push(match images.next_back() {
            None => "it reads no images; their size changes nothing".to_owned(),
            Some(encoder) if encoder.view.is_some() => {
                let outputs = encoder.outputs;
                format!("an image of {width} × {height} pixels takes {outputs} positions")
            }
            Some(_) => "images are resized to one size; another changes nothing".to_owned(),
        });
        self
    }

    /// Notes the size of images that the counts assume.
    pub(crate) fn assume_images(&mut self, side: u64) {
        self.remarks
            .push(format!("{ASSUMED} {side} × {side} pixels are assumed"));
    }
}

/// Begin of the remark on the size of images.
const ASSUMED: &str = "images of";

#[cfg(test)]
mod tests {
    use super::*;

    /// `(columns, rows)` of an image of 1000 × 700 pixels.
    fn squares(unit: u64, fit: Fit) -> (u64, u64) {
        let view = View::new(unit, fit, 512).of_image([1000, 700]);
        (view.columns, view.rows)
    }

    #[test]
    fn squares_follow_the_rule_of_the_image_processor() {
        // Qwen2-VL, factor 28: 35.7 and 25 squares. Pixtral of 512 pixels at most: 512 × 358 pixels, 16.0 and 11.2
        // squares of 32. Gemma 4, 280 squares of 48: 645 120 of 700 000
        // pixels, so 0.96 times as large. Padded: 15.6 of 64.
        assert_eq!(squares(28, Fit::Nearest), (36, 25));
        assert_eq!(squares(32, Fit::Up(512)), (16, 12));
        assert_eq!(squares(48, Fit::Budget(280)), (20, 14));
        assert_eq!(squares(64, Fit::Padded), (16, 16));
    }

    #[test]
    fn no_image_has_no_square_and_none_overflows() {
        for fit in [Fit::Nearest, Fit::Up(0), Fit::Budget(0), Fit::Padded] {
            for sides in [[0, 0], [1, u64::MAX], [u64::MAX, u64::MAX]] {
                let view = View::new(0, fit, 1).of_image(sides);
                assert!((1..=MAX_SIDE * MAX_SIDE).contains(&view.area()), "{view:?}");
            }
        }
    }
}
