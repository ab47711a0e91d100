//! How the clocks of two hosts differ: a collective ends on all ranks at about the same time.

use rooflens_session::Ns;
use std::collections::BTreeMap;

use rooflens_stages::classify::KernelClass;

use super::Timeline;

/// By how much another clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    /// Median of the differences of ends, nanoseconds.
    pub(crate) ahead: Ns,
    /// Median and largest deviation from it: what the estimate may be wrong by.
    pub(crate) deviation: (Ns, Ns),
    /// Collectives that were matched.
    pub(crate) matched: usize,
}

/// By how much the clock of `other` is ahead of that of `one`, by the collectives of the first process of each. The n-th
/// kernel of a name is the same collective on both if both have as many of that name. None if there are none, or an
/// export does not say when it begins.
pub(crate) fn offset(one: &Timeline, other: &Timeline) -> Option<Offset> {
    let (ends, mut others) = (one.ends(), other.ends());
    let shift = other.origin?.checked_sub(one.origin?)?;
    let mut differences = Vec::new();
    for (name, ends) in ends {
        let Some(others) = others
            .remove(name)
            .filter(|others| others.len() == ends.len())
        else {
            continue;
        };
        let pairs = ends.into_iter().zip(others);
        differences
            .extend(pairs.map(|(end, other)| other.saturating_sub(end).saturating_add(shift)));
    }
    let ahead = median(&mut differences)?;
    let mut away: Vec<Ns> = differences.iter().map(|one| (*one - ahead).abs()).collect();
    let middle = median(&mut away)?;
    let largest = away.last().copied().unwrap_or(middle);
    Some(Offset {
        ahead,
        deviation: (middle, largest),
        matched: differences.len(),
    })
}

impl Timeline {
    /// Ends of the first process's collectives by their names, in the order of their starts.
    fn ends(&self) -> BTreeMap<&str, Vec<Ns>> {
        let mut ends: BTreeMap<&str, Vec<Ns>> = BTreeMap::new();
        for launch in self.in_order() {
            let kernel = self.session.launches.kernel[launch.index()];
            let class = self.tables.identities[kernel.index()].class;
            let name = self.session.kernel_name(kernel);
            if class == KernelClass::Communication && !is_message(name) {
                ends.entry(name)
                    .or_default()
                    .push(self.session.launches.end[launch.index()]);
            }
        }
        ends
    }
}

/// Whether not all ranks take part: a message ends when it is sent.
fn is_message(name: &str) -> bool {
    name.contains("SendRecv") || name.contains("Broadcast") || name.contains("_Reduce_")
}

/// Sorts, and gives the value in the middle, the lower one of two.
fn median(values: &mut [Ns]) -> Option<Ns> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::made::{self, Made};
    use super::*;

    fn timeline(origin: Option<i64>, ends: &[(&'static str, i64)]) -> Timeline {
        let launch = |(name, end): &(&'static str, i64)| Made {
            name,
            time: (Ns(end - 50), Ns(*end)),
            grid: 1,
            call: None,
        };
        let launches: Vec<Made> = ends.iter().map(launch).collect();
        made::timeline(origin.map(Ns), &launches)
    }

    #[test]
    fn the_median_of_matched_ends_is_the_offset() {
        let (all, one) = ("ncclDevKernel_AllReduce_Sum", "ncclDevKernel_SendRecv");
        let host = [
            (all, 1_000),
            (all, 2_000),
            ("gemm", 2_500),
            (all, 3_000),
            (one, 4_000),
        ];
        // 700 later, of which 500 are its beginning; -10, 0 and 30 of jitter, and a message that tells nothing.
        let other = [
            (all, 1_190),
            (all, 2_200),
            ("gemm", 9_999),
            (all, 3_230),
            (one, 9_999),
        ];
        let found = offset(
            &timeline(Some(10_000), &host),
            &timeline(Some(10_500), &other),
        );
        assert_eq!(
            found,
            Some(Offset {
                ahead: Ns(700),
                deviation: (Ns(10), Ns(30)),
                matched: 3
            })
        );
        // One collective less: which are the same is not known.
        assert_eq!(
            offset(&timeline(Some(0), &host), &timeline(Some(0), &other[1..])),
            None
        );
        assert_eq!(
            offset(&timeline(None, &host), &timeline(Some(0), &other)),
            None
        );
    }
}
