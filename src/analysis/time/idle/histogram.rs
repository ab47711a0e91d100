//! Lengths of gaps: how many and how much idle time, by length and cause.

use super::cause::Cause;
use crate::analysis::engine::intervals::total;
use crate::model::Ns;

/// Upper ends of the bins, nanoseconds, three a decade; the last bin has none.
const ENDS: [Ns; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// Gaps of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Number.
    pub gaps: u64,
    /// Time by cause, in the order of [`Cause::ALL`], nanoseconds.
    pub times: [Ns; Cause::ALL.len()],
}

impl Bin {
    /// Time of all causes, nanoseconds.
    pub fn time(&self) -> Ns {
        total(self.times.iter().copied())
    }
}

/// Gaps of a line by length. A bin holds lengths from the end of the one before on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    bins: [Bin; ENDS.len() + 1],
}

impl Histogram {
    pub(super) fn add(&mut self, cause: Cause, time: Ns) {
        let bin = &mut self.bins[ENDS.partition_point(|end| *end <= time)];
        bin.gaps += 1;
        let sum = &mut bin.times[cause as usize];
        *sum = sum.saturating_add(time);
    }

    /// From the first bin with gaps to the last one: lower end, upper end, bin.
    pub fn used(&self) -> impl Iterator<Item = (Ns, Option<Ns>, &Bin)> {
        let has_gaps = |bin: &Bin| bin.gaps > 0;
        let first = self.bins.iter().position(has_gaps).unwrap_or(self.bins.len());
        let last = self.bins.iter().rposition(has_gaps).map_or(0, |last| last + 1);
        let lower = |at: usize| at.checked_sub(1).map_or(0, |before| ENDS[before]);
        (first..last).map(move |at| (lower(at), ENDS.get(at).copied(), &self.bins[at]))
    }
}
