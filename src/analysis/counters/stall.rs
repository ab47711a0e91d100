//! Why warps waited.

use super::lookup::Launch;

/// A reason for waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// The reason in ncu's words, such as `long scoreboard`.
    pub reason: String,
    /// Its share of all warp states, 0 to 1.
    pub share: f64,
}

/// How metrics of warp states are named, best source first: what precedes and follows the reason.
const FAMILIES: &[(&str, &str)] = &[
    ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"),
    ("smsp__pcsamp_warps_issue_stalled_", ""),
    ("Stall ", ""),
];

/// The reason with the largest share. `selected` is counted like a stall but means that the warp issued.
pub(super) fn top(launch: &Launch<'_>) -> Option<Stall> {
    FAMILIES.iter().find_map(|family| top_of(launch, family))
}

fn top_of(launch: &Launch<'_>, (before, after): &(&str, &str)) -> Option<Stall> {
    let reason = |name: &str| {
        let reason = name.strip_prefix(before)?.strip_suffix(after)?;
        let reason = reason.replace('_', " ").to_lowercase();
        (!reason.ends_with("not issued")).then_some(reason)
    };
    let states: Vec<(String, f64)> =
        launch.numbers().filter_map(|(name, value)| Some((reason(name)?, value))).collect();
    let all: f64 = states.iter().map(|(_, value)| value).sum();
    let stalls = states.into_iter().filter(|(reason, _)| reason != "selected");
    let (reason, value) = stalls.reduce(|best, next| {
        let larger = next.1 > best.1 || (next.1 == best.1 && next.0 < best.0);
        if larger { next } else { best }
    })?;
    (value > 0.0).then(|| Stall { reason, share: value / all })
}
