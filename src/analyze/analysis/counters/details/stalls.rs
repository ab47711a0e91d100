//! Warp states: what a warp waited for in each cycle that it was resident.

use crate::counters::ncu::Stall;
use rooflens_session::Arrange;

/// A warp state.
pub struct State {
    /// The state in ncu's words.
    pub reason: &'static str,
    /// Its column in the data set.
    pub column: &'static str,
    /// What the warp does in it: a key of the catalogue.
    pub meaning: &'static str,
}

macro_rules! states {
    ($($reason:literal $column:literal $meaning:literal;)*) => {
        /// The states of all versions of ncu; the last takes those that are not known.
        pub const STATES: [State; 20] =
            [$(State { reason: $reason, column: $column, meaning: $meaning }),*];
    };
}

states! {
    "selected" "issuing_share" "stall.selected";
    "long scoreboard" "stall_long_scoreboard_share" "stall.long_scoreboard";
    "short scoreboard" "stall_short_scoreboard_share" "stall.short_scoreboard";
    "wait" "stall_wait_share" "stall.wait";
    "not selected" "stall_not_selected_share" "stall.not_selected";
    "barrier" "stall_barrier_share" "stall.barrier";
    "membar" "stall_membar_share" "stall.membar";
    "math pipe throttle" "stall_math_pipe_throttle_share" "stall.math_pipe_throttle";
    "lg throttle" "stall_lg_throttle_share" "stall.lg_throttle";
    "mio throttle" "stall_mio_throttle_share" "stall.mio_throttle";
    "tex throttle" "stall_tex_throttle_share" "stall.tex_throttle";
    "no instruction" "stall_no_instruction_share" "stall.no_instruction";
    "imc miss" "stall_imc_miss_share" "stall.imc_miss";
    "branch resolving" "stall_branch_resolving_share" "stall.branch_resolving";
    "dispatch stall" "stall_dispatch_share" "stall.dispatch";
    "drain" "stall_drain_share" "stall.drain";
    "sleeping" "stall_sleeping_share" "stall.sleeping";
    "gmma" "stall_gmma_share" "stall.gmma";
    "warpgroup arrive" "stall_warpgroup_arrive_share" "stall.warpgroup_arrive";
    "misc" "stall_other_share" "stall.other";
}

/// Shares of the states, in the order of [`STATES`].
pub type Shares = [f64; STATES.len()];

/// The shares by known state.
pub(super) fn shares(states: &[Stall]) -> Shares {
    let mut shares = [0.0; STATES.len()];
    for state_sample in states {
        // Sampled states are named in the plural: “no instructions”.
        let is = |state: &State| {
            state_sample.reason.trim_end_matches('s') == state.reason.trim_end_matches('s')
        };
        let position = STATES.iter().position(is).unwrap_or(STATES.len() - 1);
        shares[position] += state_sample.share.0;
    }
    shares
}

/// Means by weight.
pub(super) fn mean(members: &[(f64, &Shares)]) -> Option<Shares> {
    let weights: f64 = members.iter().map(|(weight, _)| weight).sum();
    let mut mean = [0.0; STATES.len()];
    for (weight, shares) in members {
        for (sum, share) in mean.iter_mut().zip(*shares) {
            *sum += weight * share;
        }
    }
    mean.iter_mut().for_each(|sum| *sum /= weights);
    (weights > 0.0).then_some(mean)
}

/// The states in which a warp waits, the largest share first; those without a share are excluded.
pub fn ranked(shares: &Shares) -> Vec<(&'static State, f64)> {
    let mut ranked: Vec<_> = STATES
        .iter()
        .zip(*shares)
        .skip(1)
        .filter(|(_, share)| *share > 0.0)
        .collect();
    // Equal shares keep the order of the table.
    ranked.arrange_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}
