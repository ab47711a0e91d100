//! Uncoalesced accesses and bank conflicts, as Nsight Compute's own rules report them.

use crate::counters::estimates;
use crate::rule::{Rule, Threshold};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "memory-access",
    &[Threshold::ratio("thresholds.estimate", SHARE)],
    |evidence| estimates::largest(evidence, |estimate| estimate.is_on_access(), SHARE),
);

/// Saved time ÷ profiled time by ncu's estimate from which on it is worth a finding.
const SHARE: Ratio = Ratio(0.02);
