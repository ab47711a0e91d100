//! GPU work of a whole pass, the denominator of shares.

use crate::engine::facts::Facts;
use crate::engine::intervals::total;
use rooflens_session::{Ns, PassId};
use rooflens_units::Ratio;

/// GPU work of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassWork {
    /// Sum of the durations of all GPU operations, nanoseconds.
    pub device: Ns,
    /// Whether any of them names the call that issued it: without, device times of callers are unknown, not 0.
    pub linked: bool,
}

impl PassWork {
    pub(super) fn of(facts: &Facts, pass: PassId) -> Self {
        let (own, ops) = (facts.ops_of(pass), &facts.ops);
        let linked = ops.api_call[own.clone()].iter().any(Option::is_some);
        Self {
            device: total(own.map(|op| ops.end[op].saturating_sub(ops.start[op]))),
            linked,
        }
    }

    /// A number of the GPU work of a caller, where it can be known.
    pub fn known<T>(&self, value: T) -> Option<T> {
        self.linked.then_some(value)
    }

    /// A caller's part of the device time, where it can be known.
    pub fn share(&self, device: Ns) -> Option<Ratio> {
        (self.linked && self.device > Ns::ZERO).then(|| Ratio::of(device, self.device))
    }
}
