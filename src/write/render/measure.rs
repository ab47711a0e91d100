//! Widths of texts in the embedded faces: what fits is known before anything is laid out.

use crate::length::Pt;
use std::sync::LazyLock;

use rooflens_units::Ratio;
use ttf_parser::Face;

/// Width of the text on a page in points: A4 with margins of 20 mm.
pub(crate) const PAGE: Pt = Pt(482.0);

/// The sans face, which the PDF embeds too.
pub(crate) static REGULAR: &[u8] =
    include_bytes!("../../../templates/fonts/IBMPlexSans-Regular.ttf");
/// The same, semi-bold.
pub(crate) static SEMI_BOLD: &[u8] =
    include_bytes!("../../../templates/fonts/IBMPlexSans-SemiBold.ttf");

static FACES: LazyLock<[Widths; 2]> = LazyLock::new(|| [REGULAR, SEMI_BOLD].map(Widths::of));

/// Advance widths of a face, in font sizes.
struct Widths {
    face: Option<Face<'static>>,
    /// Those of ASCII: nearly all.
    ascii: [f64; 128],
}

/// Advance width of every character of IBM Plex Mono, in font sizes.
const MONO: Ratio = Ratio(0.6);

/// Width of a text in the sans face, without kerning.
pub(crate) fn sans(text: &str, size: Pt, bold: bool) -> Pt {
    let [regular, semi_bold] = &*FACES;
    let widths = if bold { semi_bold } else { regular };
    size * text.chars().map(|c| widths.advance(c)).sum::<f64>()
}

impl Widths {
    fn of(file: &'static [u8]) -> Self {
        let face = Face::parse(file, 0).ok();
        let ascii = std::array::from_fn(|code| advance(face.as_ref(), code as u8 as char));
        Self { face, ascii }
    }

    fn advance(&self, c: char) -> f64 {
        match self.ascii.get(c as usize) {
            Some(width) => *width,
            None => advance(self.face.as_ref(), c),
        }
    }
}

/// Advance width in font sizes; what the face lacks comes from one whose characters fill the em square.
fn advance(face: Option<&Face<'_>>, c: char) -> f64 {
    let width = face.and_then(|face| {
        let width = face.glyph_hor_advance(face.glyph_index(c)?)?;
        Some(f64::from(width) / f64::from(face.units_per_em()))
    });
    width.unwrap_or(1.0)
}

/// Width of a text in the fixed-width face.
pub(crate) fn mono(text: &str, size: Pt) -> Pt {
    let advances = text
        .chars()
        .map(|c| if is_east_asian(c) { 1.0 } else { MONO.0 });
    size * advances.sum::<f64>()
}

/// Whether a character is of a script of East Asia, or a picture: it fills the em square.
pub(crate) const fn is_east_asian(c: char) -> bool {
    c as u32 >= 0x2e80
}

/// How many characters of the fixed-width face fit.
pub(crate) fn mono_characters(width: Pt, size: Pt) -> usize {
    // What a text of so many characters is wide, divided, may come out a rounding error below their number.
    (width / (size * MONO) + 1e-6).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_the_faces() {
        // Digits are 600 thousandths wide in both faces: 4 × 0.6 × 8 = 19.2.
        assert!((sans("2026", Pt(8.0), false).0 - 19.2).abs() < 1e-9);
        assert!((mono("2026", Pt(8.0)).0 - 19.2).abs() < 1e-9);
        assert_eq!(mono_characters(Pt(100.0), Pt(7.0)), 23);
        for count in 1..60 {
            let text = "n".repeat(count);
            assert_eq!(mono_characters(mono(&text, Pt(7.2)), Pt(7.2)), count);
        }
        // The horizontal metrics of the regular face say 812 for M and 250 for i; it has no 测.
        assert!((sans("Mi测", Pt(1000.0), false).0 - 2062.0).abs() < 1e-9);
        assert!(sans("kernel", Pt(8.0), true) > sans("kernel", Pt(8.0), false));
    }
}
