//! The rule of Nsight Compute that estimates to save most.

use crate::counters::estimates;
use crate::rule::{Rule, Threshold};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new(
    "profiled-rule-estimate",
    &[Threshold::ratio("thresholds.estimate", SHARE)],
    |evidence| estimates::largest(evidence, |estimate| !estimate.is_on_access(), SHARE),
);

/// Saved time ÷ profiled time by ncu's estimate from which on it is said.
const SHARE: Ratio = Ratio(0.10);
