//! Widths of texts in the embedded faces: what fits is known before anything is laid out.

/// Width of the text on a page in points: A4 with margins of 20 mm.
pub(crate) const PAGE: f64 = 482.0;

/// Advance widths of U+0020 to U+007E in IBM Plex Sans, thousandths of the font size.
const ADVANCES: [u16; 95] = [
    236, 284, 419, 713, 598, 927, 694, 242, 335, 335, 450, 600, 272, 399, 272, 383, 600, 600, 600,
    600, 600, 600, 600, 600, 600, 600, 292, 292, 600, 600, 600, 477, 891, 641, 653, 621, 671, 583,
    559, 695, 707, 400, 510, 634, 501, 812, 707, 708, 606, 708, 640, 581, 572, 678, 609, 891, 613,
    593, 580, 317, 383, 317, 600, 565, 600, 534, 580, 503, 580, 549, 324, 528, 568, 250, 250, 527,
    272, 873, 568, 560, 580, 580, 367, 487, 351, 568, 492, 768, 507, 499, 464, 343, 314, 343, 600,
];

/// Semi-bold text is wider than regular by less than this.
const BOLD: f64 = 1.07;

/// Advance width of every character of IBM Plex Mono, in font sizes.
const MONO: f64 = 0.6;

/// Width of a text in the sans face.
pub(crate) fn sans(text: &str, size: f64, bold: bool) -> f64 {
    let thousandths: u64 = text.chars().map(|c| u64::from(advance(c))).sum();
    thousandths as f64 / 1000.0 * size * if bold { BOLD } else { 1.0 }
}

/// Width of a text in the fixed-width face.
pub(crate) fn mono(text: &str, size: f64) -> f64 {
    text.chars().map(|c| if is_wide(c) { 1.0 } else { MONO }).sum::<f64>() * size
}

/// How many characters of the fixed-width face fit.
pub(crate) fn mono_characters(width: f64, size: f64) -> usize {
    (width / (MONO * size)).max(0.0) as usize
}

fn advance(c: char) -> u16 {
    match c {
        ' '..='~' => ADVANCES.get(c as usize - 0x20).copied().unwrap_or(600),
        '\u{202f}' => 118,
        '·' => 326,
        '…' => 803,
        '—' => 780,
        '\u{fffd}' => 1100,
        c if is_wide(c) => 1000,
        // Accented letters, Greek, arrows.
        _ => 700,
    }
}

/// Whether a character fills the em square: scripts of East Asia, pictures.
fn is_wide(c: char) -> bool {
    c as u32 >= 0x2e80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_the_faces() {
        // Digits are 600 thousandths wide in both faces: 4 × 0.6 × 8 = 19.2.
        assert!((sans("2026", 8.0, false) - 19.2).abs() < 1e-9);
        assert!((mono("2026", 8.0) - 19.2).abs() < 1e-9);
        assert_eq!(mono_characters(100.0, 7.0), 23);
    }
}
