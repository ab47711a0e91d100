//! How figures spread over the launches of a pass: by number of launches and by their time.

use super::figures::{Figure, PERCENTAGES};
use super::groups::Launch;
use rooflens_units::Seconds;

/// Bins of a histogram.
pub const BINS: usize = 10;

/// A histogram of equal bins.
pub struct Histogram {
    /// The figure.
    pub figure: Figure,
    /// Lower end of the first bin, and width of each.
    pub range: (f64, f64),
    /// Number of launches and their time.
    pub bins: [(u64, Seconds); BINS],
}

/// The histograms of a pass. Percentages are over 0 to 100, what is above lies in the last bin;
/// others from the least to the greatest value.
pub(super) fn of(launches: &[&Launch]) -> Vec<Histogram> {
    let quantities = [Figure::Duration, Figure::DramRate];
    let figures = PERCENTAGES.into_iter().chain(quantities);
    figures
        .filter_map(|figure| {
            let values: Vec<(f64, Seconds)> = launches
                .iter()
                .filter_map(|launch| Some((launch.figures.get(figure)?, launch.seconds)))
                .collect();
            let least = values.iter().map(|(value, _)| *value).reduce(f64::min)?;
            let most = values.iter().map(|(value, _)| *value).reduce(f64::max)?;
            let (low, high) = if quantities.contains(&figure) {
                (least, most)
            } else {
                (0.0, 100.0)
            };
            let width = (high - low) / BINS as f64;
            let mut bins = [(0, Seconds::ZERO); BINS];
            for (value, seconds) in values {
                let bin = if width > 0.0 {
                    ((value - low) / width) as usize
                } else {
                    0
                };
                let bin = &mut bins[bin.min(BINS - 1)];
                *bin = (bin.0 + 1, bin.1 + seconds);
            }
            Some(Histogram {
                figure,
                range: (low, width),
                bins,
            })
        })
        .collect()
}
