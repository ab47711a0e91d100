//! Boxes of texts.

use super::canvas::{Anchor, Rect, Style};
use crate::render::measure::sans;
use crate::render::text::shorten;

/// Width of a text in points.
pub(super) fn width(text: &str, style: Style) -> f64 {
    sans(text, style.size, style.bold)
}

/// The box of a text whose anchor lies at `x` on the baseline `y`.
pub(super) fn bounds(x: f64, y: f64, text: &str, style: Style) -> Rect {
    let width = width(text, style);
    let left = match style.anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    Rect::new(left, y - style.size * 0.78, width, style.size)
}

/// `text` shortened in the middle until it is at most `limit` points wide.
pub(super) fn fit(text: &str, limit: f64, style: Style) -> String {
    let mut length = text.chars().count();
    let mut fitted = text.to_owned();
    while length > 1 && width(&fitted, style) > limit {
        // A guess from the mean width, which ends within a few rounds.
        let guess = (length as f64 * limit / width(&fitted, style)) as usize;
        length = guess.clamp(1, length - 1);
        fitted = shorten(text, length);
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_texts_fit() {
        for limit in [10.0, 40.0, 200.0] {
            let fitted = fit(&"kernel_".repeat(40), limit, Style::PLAIN);
            assert!(width(&fitted, Style::PLAIN) <= limit, "{fitted} over {limit}");
        }
        assert_eq!(fit("short", 100.0, Style::PLAIN), "short");
    }
}
