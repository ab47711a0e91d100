//! Uncoalesced accesses and bank conflicts, as Nsight Compute's own rules report them.

use crate::counters::profiled_rule_estimate::{self, Estimate};
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_document::{Finding, Inline, Quantity};

pub(crate) static RULE: Rule = Rule::new(
    "memory-access",
    &[Threshold::ratio("thresholds.estimate", SHARE)],
    run,
);

/// Saved time ÷ profiled time by ncu's estimate from which on it is worth a finding.
const SHARE: f64 = 0.02;

/// ncu's rules about the pattern of accesses.
pub(crate) const PATTERNS: [&str; 4] = [
    "UncoalescedGlobalAccess",
    "UncoalescedSharedAccess",
    "SharedMemoryConflicts",
    "MemoryCacheAccessPattern",
];

fn run(evidence: &Evidence<'_>) -> Outcome {
    let is_pattern = |one: &Estimate<'_>| PATTERNS.contains(&one.name);
    profiled_rule_estimate::largest(evidence, is_pattern, SHARE, finding)
}

fn finding(evidence: &Evidence<'_>, one: &Estimate<'_>) -> Finding {
    Finding {
        statement: say!(
            evidence,
            "memory_access.statement",
            rule = Inline::strong(one.name),
            share = Quantity::ratio(one.share),
            pass = one.pass_name(evidence),
            remark = one.remark(evidence),
        ),
        advice: Some(say!(evidence, "memory_access.advice")),
        next: Some(say!(evidence, "memory_access.next")),
        ..one.note(evidence)
    }
}
