//! Why warps waited.

use super::lookup::Launch;
use rooflens_units::Ratio;

/// A reason for waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// The reason in ncu's words, such as `long scoreboard`.
    pub reason: String,
    /// Its share of all warp states.
    pub share: Ratio,
}

/// How metrics of warp states are named, best source first: what precedes and follows the reason.
const FAMILIES: &[(&str, &str)] = &[
    (
        "smsp__average_warps_issue_stalled_",
        "_per_issue_active.ratio",
    ),
    ("smsp__pcsamp_warps_issue_stalled_", ""),
    ("Stall ", ""),
];

/// The state of a warp that issues; counted like a stall.
pub const SELECTED: &str = "selected";

/// All warp states with their shares, [`SELECTED`] included, from the best source that counted any.
pub fn states(launch: &Launch<'_>) -> Option<Vec<Stall>> {
    FAMILIES.iter().find_map(|family| states_of(launch, family))
}

fn states_of(launch: &Launch<'_>, (before, after): &(&str, &str)) -> Option<Vec<Stall>> {
    let reason = |name: &str| {
        let reason = name.strip_prefix(before)?.strip_suffix(after)?;
        let reason = reason.replace('_', " ").to_lowercase();
        (!reason.ends_with("not issued")).then_some(reason)
    };
    let mut states: Vec<Stall> = launch
        .numbers()
        .filter_map(|(name, share)| {
            Some(Stall {
                reason: reason(name)?,
                share: Ratio(share),
            })
        })
        .collect();
    let total: Ratio = states.iter().map(|state| state.share).sum();
    for state in &mut states {
        state.share = state.share / total.0;
    }
    total.is_positive().then_some(states)
}

/// The reason with the largest share.
pub(super) fn top(launch: &Launch<'_>) -> Option<Stall> {
    let stalls = states(launch)?
        .into_iter()
        .filter(|state| state.reason != SELECTED);
    let top = stalls.reduce(|best, next| {
        let larger =
            next.share > best.share || (next.share == best.share && next.reason < best.reason);
        if larger { next } else { best }
    })?;
    top.share.is_positive().then_some(top)
}
