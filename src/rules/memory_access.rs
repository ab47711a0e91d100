//! Uncoalesced accesses and bank conflicts, as Nsight Compute's own rules report them.

use super::profiled_rule_estimate::{self, Estimate};
use super::{Outcome, Results, Rule, Threshold};
use rooflens_findings::{Inline, Observation, Quantity, prose};

pub(super) static RULE: Rule = Rule {
    id: "memory-access",
    thresholds: &[Threshold::ratio("thresholds.estimate", SHARE)],
    run,
};

/// Saved time ÷ profiled time by ncu's estimate from which on it is worth a finding.
const SHARE: f64 = 0.02;

/// ncu's rules about the pattern of accesses.
pub(super) const PATTERNS: [&str; 4] = [
    "UncoalescedGlobalAccess",
    "UncoalescedSharedAccess",
    "SharedMemoryConflicts",
    "MemoryCacheAccessPattern",
];

fn run(results: &Results<'_>) -> Outcome {
    let is_pattern = |one: &Estimate<'_>| PATTERNS.contains(&one.name);
    profiled_rule_estimate::largest(results, is_pattern, SHARE, finding)
}

fn finding(results: &Results<'_>, one: &Estimate<'_>) -> Observation {
    let mut statement = prose![
        "By ncu's rule ",
        Inline::Strong(one.name.to_owned()),
        ", better access patterns save up to ",
        Quantity::ratio(one.share),
        " of the time profiled in pass ",
        one.pass_name(results),
        "."
    ];
    statement.extend(one.remark(results));
    Observation {
        statement,
        advice: Some(prose![
            "Let neighbouring threads read neighbouring addresses, 16 bytes each; transpose through padded or swizzled shared memory; keep \
             tensors contiguous in the dimension that kernels run along."
        ]),
        next: Some(prose![
            "An Nsight Compute pass with source counters (",
            Inline::Code("--set full --import-source yes".to_owned()),
            "): it names the lines."
        ]),
        ..one.note(results)
    }
}
