//! Colours and the face. Hues are those of Okabe and Ito (2008), which differ for all common kinds of
//! colour blindness.

use plotters::style::{BLACK, RGBColor, WHITE};

use rooflens_document::chart::Color;

/// Families of all chart text: the embedded one, then what viewers of loose SVG files have.
pub(super) const FACE: &str = "IBM Plex Sans, Helvetica, Arial, sans-serif";
/// The same for Chinese.
pub(super) const CHINESE_FACE: &str = "IBM Plex Sans, Droid Sans Fallback, PingFang SC, Microsoft YaHei, Noto Sans CJK SC, sans-serif";

/// Text.
pub(super) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
/// Axis text.
pub(super) const MUTED: RGBColor = RGBColor(0x52, 0x60, 0x6d);
/// Axis lines.
pub(super) const AXIS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);
/// Bands behind time charts, alternating.
pub(super) const BANDS: [RGBColor; 2] = [RGBColor(0xed, 0xf2, 0xf7), RGBColor(0xf7, 0xf4, 0xec)];
/// Callers in flame graphs, alternating by row.
pub(super) const CALLERS: [RGBColor; 2] = [RGBColor(0xdd, 0xe2, 0xe7), RGBColor(0xe9, 0xed, 0xf1)];
/// Data lines without a colour group.
pub(super) const LINE: RGBColor = RGBColor(0x0b, 0x5c, 0x92);
/// Areas under lines.
pub(super) const AREA: RGBColor = RGBColor(0xa9, 0xcb, 0xe3);
/// Stretches of time to notice, behind lines.
pub(super) const SHADE: RGBColor = RGBColor(0xfb, 0xd9, 0xc4);
/// Limits and outliers.
pub(super) const ALERT: RGBColor = RGBColor(0xc2, 0x41, 0x0c);
/// Roofs.
pub(super) const ROOF: RGBColor = RGBColor(0x3e, 0x4c, 0x59);

/// The colour of a group.
pub(super) const fn fill(color: Color) -> RGBColor {
    match color {
        Color::Gemm | Color::ComputeBound | Color::L2 | Color::Busy | Color::Run | Color::After => {
            RGBColor(0x00, 0x72, 0xb2)
        }
        Color::Attention
        | Color::MemoryBound
        | Color::DramBound
        | Color::Dram
        | Color::Launching
        | Color::More
        | Color::Knee => RGBColor(0xd5, 0x5e, 0x00),
        Color::Normalization | Color::Balanced | Color::L1 | Color::Blocked | Color::Less => {
            RGBColor(0x00, 0x9e, 0x73)
        }
        Color::Elementwise | Color::L1Bound => RGBColor(0x56, 0xb4, 0xe9),
        Color::Copy | Color::Host | Color::L2Bound => RGBColor(0xe6, 0x9f, 0x00),
        Color::InstructionBound | Color::OtherWork => RGBColor(0x4c, 0x4f, 0x9e),
        Color::Communication | Color::LatencyBound => RGBColor(0xcc, 0x79, 0xa7),
        Color::Other | Color::Before => RGBColor(0x7b, 0x87, 0x94),
        Color::Idle => RGBColor(0xdd, 0xe2, 0xe7),
        Color::Stage => INK,
    }
}

/// The colour of the `n`-th data line of one plane.
pub(super) fn line(n: usize) -> RGBColor {
    let further = [
        Color::Attention,
        Color::Normalization,
        Color::Communication,
        Color::Copy,
    ];
    match n.checked_sub(1) {
        None => LINE,
        Some(n) => further
            .get(n)
            .map_or(fill(Color::Other), |color| fill(*color)),
    }
}

/// The text colour that is readable on a fill. Of black and white, one has a contrast of at least 4.58 on any fill.
pub(super) fn on(fill: RGBColor) -> RGBColor {
    // Where (1 + 0.05) ÷ (l + 0.05) = (l + 0.05) ÷ 0.05.
    if luminance(fill) < 0.179 {
        WHITE
    } else {
        BLACK
    }
}

/// Relative luminance as WCAG 2.2 defines it.
fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
    let [red, green, blue] = [red, green, blue].map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 {
            part / 12.92
        } else {
            libm::pow((part + 0.055) / 1.055, 2.4)
        }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// A tint of [`fill`] for the `n`-th part of the same group, so that neighbours differ.
pub(super) fn tint(color: Color, n: usize) -> RGBColor {
    let white = [0.0, 0.45, 0.7, 0.25].get(n % 4).copied().unwrap_or(0.0);
    let towards = |value: u8| (f64::from(value) + (255.0 - f64::from(value)) * white) as u8;
    let RGBColor(red, green, blue) = fill(color);
    RGBColor(towards(red), towards(green), towards(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tints_go_towards_white() {
        assert_eq!(tint(Color::Gemm, 0), RGBColor(0x00, 0x72, 0xb2));
        // 0x72 = 114: 114 + 141 × 0.45 = 177 = 0xb1.
        assert_eq!(tint(Color::Gemm, 1), RGBColor(0x72, 0xb1, 0xd4));
    }

    #[test]
    fn texts_on_fills_are_readable() {
        // Contrast of white on #0072b2 and of black on #d55e00 and #7b8794, by Python: 5.19, 5.43 and 5.74.
        let [gemm, attention, other] = [Color::Gemm, Color::Attention, Color::Other].map(fill);
        assert_eq!([on(gemm), on(attention), on(other)], [WHITE, BLACK, BLACK]);
    }
}
