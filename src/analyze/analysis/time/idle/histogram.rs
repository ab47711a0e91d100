//! Lengths of gaps: how many and how much idle time, by length and cause.

use super::cause::Times;
use super::gaps::Gap;
use rooflens_session::Ns;

/// Upper ends of the bins, nanoseconds: 1, 2 and 5 of each decade from 1 µs to 1 s; the last bin has none.
const ENDS: [Ns; 19] = {
    let mut ends = [Ns::ZERO; 19];
    let mut bin = 0;
    while bin < ends.len() {
        ends[bin] = Ns([1_000, 2_000, 5_000][bin % 3] * 10_i64.pow(bin as u32 / 3));
        bin += 1;
    }
    ends
};

/// Gaps of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Number.
    pub gaps: u64,
    /// Their time by cause.
    pub times: Times,
}

/// Gaps of a line by length. A bin holds lengths from the end of the one before on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    bins: [Bin; ENDS.len() + 1],
}

impl Histogram {
    pub(super) fn add(&mut self, gap: &Gap) {
        let bin = &mut self.bins[ENDS.partition_point(|end| *end <= gap.end - gap.start)];
        bin.gaps += 1;
        bin.times.extend(&gap.times);
    }

    /// From the first bin with gaps to the last one: lower end, upper end, bin.
    pub fn used(&self) -> impl Iterator<Item = (Ns, Option<Ns>, &Bin)> {
        let has_gaps = |bin: &Bin| bin.gaps > 0;
        let first = self
            .bins
            .iter()
            .position(has_gaps)
            .unwrap_or(self.bins.len());
        let last = self
            .bins
            .iter()
            .rposition(has_gaps)
            .map_or(0, |last| last + 1);
        let lower = |bin: usize| bin.checked_sub(1).map_or(Ns::ZERO, |before| ENDS[before]);
        (first..last).map(move |bin| (lower(bin), ENDS.get(bin).copied(), &self.bins[bin]))
    }
}
