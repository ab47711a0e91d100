//! Equal stretches of time.

use crate::engine::classify::GroupTimes;
use crate::engine::intervals::Interval;
use crate::engine::segments::Segment;
use rooflens_session::Ns;

/// Stretches of a chart: one is about as wide as a line is thick.
const BINS: i64 = 300;

/// A window of a pass's clock in equal stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start, nanoseconds.
    pub start: Ns,
    /// End, nanoseconds.
    pub end: Ns,
}

impl Window {
    /// Length, nanoseconds.
    pub fn duration(&self) -> Ns {
        self.end.saturating_sub(self.start).max(Ns::ZERO)
    }

    /// Number of stretches.
    pub fn count(&self) -> usize {
        self.duration().0.min(BINS) as usize
    }

    /// Start of a stretch; that of the one behind the last is the window's end.
    pub fn edge(&self, bin: usize) -> Ns {
        let offset = i128::from(self.duration().0) * bin as i128 / self.count().max(1) as i128;
        self.start.saturating_add(Ns(offset as i64))
    }

    /// The stretch that holds a time of the window.
    pub fn bin(&self, time: Ns) -> usize {
        let count = self.count();
        let offset = i128::from(time.saturating_sub(self.start).0);
        let guess = offset * count as i128 / i128::from(self.duration().0.max(1));
        let guess = (guess.max(0) as usize).min(count.saturating_sub(1));
        // Edges are rounded down, so the time may lie in the next stretch.
        if guess + 1 < count && self.edge(guess + 1) <= time {
            guess + 1
        } else {
            guess
        }
    }

    /// Length of each stretch, nanoseconds.
    pub fn lengths(&self) -> Vec<Ns> {
        (0..self.count())
            .map(|bin| self.edge(bin + 1) - self.edge(bin))
            .collect()
    }

    /// The part of an interval that lies in the window, if any does.
    pub fn clip(&self, start: Ns, end: Ns) -> Option<(Ns, Ns)> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        (start < end).then_some((start, end))
    }
}

/// Busy time of each stretch by group of classes. Segments are disjoint, so this is linear in segments and stretches.
pub(super) fn mix(window: &Window, segments: &[Segment]) -> Vec<GroupTimes> {
    let mut bins = vec![GroupTimes::default(); window.count()];
    for segment in segments {
        let group = segment.group as usize;
        spread(window, (segment.start, segment.end), |bin, time| {
            bins[bin][group] += time
        });
    }
    bins
}

/// The share of each stretch that disjoint intervals cover.
pub fn cover(window: &Window, intervals: &[Interval]) -> Vec<f64> {
    let mut covered = vec![Ns::ZERO; window.count()];
    for interval in intervals {
        spread(window, *interval, |bin, time| covered[bin] += time);
    }
    let lengths = window.lengths().into_iter();
    covered
        .into_iter()
        .zip(lengths)
        .map(|(time, length)| rounded(time, length))
        .collect()
}

/// A share as charts need it; the data set holds the nanoseconds.
pub fn rounded(time: Ns, length: Ns) -> f64 {
    libm::round(time.time() / length.time() * 1e4) / 1e4
}

/// Gives each stretch its part of an interval.
pub fn spread(window: &Window, (start, end): Interval, mut add: impl FnMut(usize, Ns)) {
    let Some((mut start, end)) = window.clip(start, end) else {
        return;
    };
    let mut bin = window.bin(start);
    while start < end {
        let stop = end.min(window.edge(bin + 1));
        add(bin, stop - start);
        (start, bin) = (stop, bin + 1);
    }
}

/// Mean of the values in each stretch that holds some, at its middle from the window's start. Values ascend
/// by time.
pub fn means(window: &Window, values: impl Iterator<Item = (Ns, f64)>) -> Vec<(Ns, f64)> {
    let mut sums = vec![(0.0, 0u32); window.count()];
    for (time, value) in values.filter(|(time, _)| (window.start..window.end).contains(time)) {
        let sum = &mut sums[window.bin(time)];
        *sum = (sum.0 + value, sum.1 + 1);
    }
    let middle = |bin: usize| {
        let (start, end) = (
            window.edge(bin) - window.start,
            window.edge(bin + 1) - window.start,
        );
        start + (end - start) / 2
    };
    let filled = sums
        .into_iter()
        .enumerate()
        .filter(|(_, (_, count))| *count > 0);
    filled
        .map(|(bin, (sum, count))| (middle(bin), sum / f64::from(count)))
        .collect()
}
