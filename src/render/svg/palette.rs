//! Colours and the face. Hues are those of Okabe and Ito (2008), which differ for all common kinds of
//! colour blindness.

use crate::findings::chart::Color;

/// Families of all chart text: the embedded one, then what viewers of loose SVG files have.
pub(super) const FACE: &str = "IBM Plex Sans, Helvetica, Arial, sans-serif";

/// Text.
pub(super) const INK: &str = "#1f2933";
/// Axis text.
pub(super) const MUTED: &str = "#52606d";
/// Axis lines.
pub(super) const AXIS: &str = "#9aa5b1";
/// Grid lines.
pub(super) const GRID: &str = "#e4e7eb";
/// Bands behind time charts, alternating.
pub(super) const BANDS: [&str; 2] = ["#edf2f7", "#f7f4ec"];
/// Callers in flame graphs, alternating by row.
pub(super) const CALLERS: [&str; 2] = ["#dde2e7", "#e9edf1"];
/// Data lines without a colour group.
pub(super) const LINE: &str = "#0b5c92";
/// Areas under lines.
pub(super) const AREA: &str = "#a9cbe3";
/// Stretches of time to notice, behind lines.
pub(super) const SHADE: &str = "#fbd9c4";
/// Limits and outliers.
pub(super) const ALERT: &str = "#c2410c";
/// Roofs.
pub(super) const ROOF: &str = "#3e4c59";

/// The colour of a group.
pub(super) const fn fill(color: Color) -> &'static str {
    match color {
        Color::Gemm | Color::ComputeBound | Color::L2 | Color::Busy => "#0072b2",
        Color::Attention
        | Color::MemoryBound
        | Color::DramBound
        | Color::Dram
        | Color::Launching => "#d55e00",
        Color::Normalization | Color::Balanced | Color::L1 | Color::Blocked => "#009e73",
        Color::Elementwise | Color::L1Bound => "#56b4e9",
        Color::Copy | Color::Host | Color::L2Bound => "#e69f00",
        Color::Communication | Color::LatencyBound => "#cc79a7",
        Color::Other => "#7b8794",
        Color::Idle => "#dde2e7",
        Color::Stage => INK,
    }
}

/// The text colour that is readable on [`fill`].
pub(super) const fn on_fill(color: Color) -> &'static str {
    match color {
        Color::Gemm
        | Color::ComputeBound
        | Color::Attention
        | Color::MemoryBound
        | Color::DramBound
        | Color::Normalization
        | Color::Balanced
        | Color::Dram
        | Color::L2
        | Color::L1
        | Color::Stage
        | Color::Busy
        | Color::Launching
        | Color::Blocked => "#ffffff",
        _ => INK,
    }
}

/// A tint of [`fill`] for the `n`-th part of the same group, so that neighbours differ.
pub(super) fn tint(color: Color, n: usize) -> String {
    let white = [0.0, 0.45, 0.7, 0.25].get(n % 4).copied().unwrap_or(0.0);
    let hex = fill(color);
    let channel = |at: usize| {
        let value = hex.get(at..at + 2).and_then(|h| u8::from_str_radix(h, 16).ok()).unwrap_or(0);
        (f64::from(value) + (255.0 - f64::from(value)) * white) as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tints_go_towards_white() {
        assert_eq!(tint(Color::Gemm, 0), "#0072b2");
        // 0x72 = 114: 114 + 141 × 0.45 = 177 = 0xb1.
        assert_eq!(tint(Color::Gemm, 1), "#72b1d4");
    }
}
