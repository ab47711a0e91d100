//! Time in which no GPU of a pass ran anything.

use crate::engine::facts::Facts;
use rooflens_session::{Ns, PassId};

/// The gaps between the GPU operations of a pass, whatever GPU they ran on.
pub(super) struct Idle {
    starts: Vec<Ns>,
    ends: Vec<Ns>,
    /// Idle time before each gap.
    before: Vec<Ns>,
}

impl Idle {
    pub(super) fn new(facts: &Facts, pass: PassId) -> Self {
        let mut idle = Self {
            starts: Vec::new(),
            ends: Vec::new(),
            before: Vec::new(),
        };
        let (mut until, mut sum) = (None, Ns::ZERO);
        // In the order of their starts.
        for op in facts.ops_of(pass) {
            let (start, end) = (facts.ops.start[op], facts.ops.end[op]);
            if let Some(until) = until.filter(|until| *until < start) {
                idle.starts.push(until);
                idle.ends.push(start);
                idle.before.push(sum);
                sum += start - until;
            }
            until = until.max(Some(end));
        }
        idle
    }

    /// Idle time within [start, end).
    pub(super) fn within(&self, start: Ns, end: Ns) -> Ns {
        (self.until(end) - self.until(start)).max(Ns::ZERO)
    }

    fn until(&self, time: Ns) -> Ns {
        let Some(last) = self
            .starts
            .partition_point(|start| *start < time)
            .checked_sub(1)
        else {
            return Ns::ZERO;
        };
        self.before[last] + time.min(self.ends[last]) - self.starts[last]
    }
}

#[cfg(test)]
mod tests {
    use super::Idle;
    use rooflens_session::Ns;

    #[test]
    fn parts_of_gaps_count() {
        let idle = Idle {
            starts: vec![Ns(10), Ns(50)],
            ends: vec![Ns(20), Ns(80)],
            before: vec![Ns::ZERO, Ns(10)],
        };
        for (start, end, time) in [
            (0, 100, 40),
            (0, 10, 0),
            (12, 15, 3),
            (15, 60, 15),
            (20, 50, 0),
            (70, 200, 10),
            (60, 40, 0),
        ] {
            assert_eq!(
                idle.within(Ns(start), Ns(end)),
                Ns(time),
                "{start} to {end}"
            );
        }
    }
}
