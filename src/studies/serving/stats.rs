//! Percentiles, histograms and distribution functions of samples.

/// Percentiles that reports show.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Figures of a distribution; none where a file does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Samples.
    pub count: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Population standard deviation.
    pub std: Option<f64>,
    /// Least.
    pub min: Option<f64>,
    /// Greatest.
    pub max: Option<f64>,
    /// [`PERCENTILES`].
    pub percentiles: [Option<f64>; 4],
}

impl Spread {
    /// Of samples in ascending order.
    pub fn of(sorted: &[f64]) -> Self {
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self::default();
        };
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|one| (one - mean) * (one - mean)).sum();
        Self {
            count: Some(count),
            mean: Some(mean),
            std: Some(libm::sqrt(squares / count)),
            min: Some(*min),
            max: Some(*max),
            percentiles: PERCENTILES.map(|percent| percentile(sorted, percent)),
        }
    }

    /// The median.
    pub const fn p50(&self) -> Option<f64> {
        self.percentiles[0]
    }

    /// The 99th percentile.
    pub const fn p99(&self) -> Option<f64> {
        self.percentiles[3]
    }

    /// Whether there is no figure in it.
    pub fn is_empty(&self) -> bool {
        self.mean.is_none() && self.percentiles.iter().all(Option::is_none)
    }

    /// The same with all times multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |value: Option<f64>| value.map(|value| value * factor);
        Self {
            count: self.count,
            mean: scale(self.mean),
            std: scale(self.std),
            min: scale(self.min),
            max: scale(self.max),
            percentiles: self.percentiles.map(scale),
        }
    }
}

/// The percentile by linear interpolation between the closest ranks: `numpy.percentile` with its default method
/// (Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, type 7). None of no samples.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let below = (place as usize).min(last);
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    let part = place - below as f64;
    // As NumPy: from the nearer end, so that the ends themselves come out exactly.
    Some(if part < 0.5 {
        low + (high - low) * part
    } else {
        high - (high - low) * (1.0 - part)
    })
}

/// Finite numbers in ascending order.
pub fn sorted(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut samples: Vec<f64> = samples.into_iter().filter(|one| one.is_finite()).collect();
    samples.sort_by(f64::total_cmp);
    samples
}

/// Bins of a histogram: lower edge, upper edge, samples.
pub type Bins = Vec<(f64, f64, u64)>;

/// Equally wide bins of a round width from 0 or from the least sample to the 99th percentile, and one for what lies
/// beyond it. Empty of less than two samples.
pub fn histogram(sorted: &[f64], most: usize) -> Bins {
    let (Some(end), true) = (percentile(sorted, 99.0), sorted.len() > 1) else {
        return Bins::new();
    };
    let low = sorted[0];
    let width = round_up((end - low) / most.saturating_sub(2).max(1) as f64);
    if width <= 0.0 || !width.is_finite() {
        return vec![(low, sorted[sorted.len() - 1], sorted.len() as u64)];
    }
    let start = libm::floor(low / width) * width;
    let mut bins = Bins::new();
    let mut from = 0;
    for n in 0..most {
        let edge = start + width * (n + 1) as f64;
        let to = sorted.partition_point(|one| *one < edge);
        bins.push((edge - width, edge, (to - from) as u64));
        from = to;
        if edge > end {
            break;
        }
    }
    if from < sorted.len() {
        let edge = bins.last().map_or(start, |bin| bin.1);
        bins.push((edge, f64::INFINITY, (sorted.len() - from) as u64));
    }
    bins
}

/// The next of 1, 2, 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(value)));
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|one| *one >= value)
        .unwrap_or(value)
}

/// Points of the empirical distribution function: value, and share of samples up to it; `most` points at most.
pub fn ecdf(sorted: &[f64], most: usize) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let step = count.div_ceil(most.max(1)).max(1);
    let mut points: Vec<(f64, f64)> = sorted
        .iter()
        .enumerate()
        .filter(|(n, _)| (n + 1) % step == 0 || n + 1 == count)
        .map(|(n, value)| (*value, (n + 1) as f64 / count as f64))
        .collect();
    if let Some(first) = sorted.first() {
        points.insert(0, (*first, 0.0));
    }
    points
}
