//! Warp states: what a warp waited for in each cycle that it was resident.

use crate::counters::ncu::Stall;

/// A warp state.
pub struct State {
    /// The state in ncu's words.
    pub reason: &'static str,
    /// Its column in the data set.
    pub column: &'static str,
    /// What the warp does in it.
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
    "selected" "issuing_share" "issues an instruction";
    "long scoreboard" "stall_long_scoreboard_share" "waits for data from global, local or texture memory: L1, L2 or DRAM";
    "short scoreboard" "stall_short_scoreboard_share" "waits for shared memory or for a result of the special-function pipe";
    "wait" "stall_wait_share" "waits out the fixed latency of its previous instruction";
    "not selected" "stall_not_selected_share" "is ready, but another warp was chosen: enough warps are there";
    "barrier" "stall_barrier_share" "waits at a barrier for other warps of its block";
    "membar" "stall_membar_share" "waits for a memory fence";
    "math pipe throttle" "stall_math_pipe_throttle_share" "waits for the arithmetic pipe that it needs, which is busy";
    "lg throttle" "stall_lg_throttle_share" "waits for room in the queue of global and local memory instructions";
    "mio throttle" "stall_mio_throttle_share" "waits for room in the queue of shared memory, special functions and dynamic branches";
    "tex throttle" "stall_tex_throttle_share" "waits for room in the texture queue";
    "no instruction" "stall_no_instruction_share" "waits for its next instruction to be fetched: jumps, cache misses, very short kernels";
    "imc miss" "stall_imc_miss_share" "waits for a constant that is not in its cache";
    "branch resolving" "stall_branch_resolving_share" "waits for the target of a branch";
    "dispatch stall" "stall_dispatch_share" "is held back by the dispatcher";
    "drain" "stall_drain_share" "has ended and waits for its stores to be written";
    "sleeping" "stall_sleeping_share" "sleeps, as its threads asked for";
    "gmma" "stall_gmma_share" "waits for asynchronous matrix instructions of its warp group";
    "warpgroup arrive" "stall_warpgroup_arrive_share" "waits for its warp group";
    "misc" "stall_other_share" "waits for something else";
}

/// Shares of the states, in the order of [`STATES`].
pub type Shares = [f64; STATES.len()];

/// The shares by known state.
pub(super) fn shares(states: &[Stall]) -> Shares {
    let mut shares = [0.0; STATES.len()];
    for found in states {
        // Sampled states are named in the plural: “no instructions”.
        let is = |state: &State| {
            found.reason.trim_end_matches('s') == state.reason.trim_end_matches('s')
        };
        let at = STATES.iter().position(is).unwrap_or(STATES.len() - 1);
        shares[at] += found.share;
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

/// The states in which a warp waits, the largest share first; those without a share are left out.
pub fn ranked(shares: &Shares) -> Vec<(&'static State, f64)> {
    let mut ranked: Vec<_> =
        STATES.iter().zip(*shares).skip(1).filter(|(_, share)| *share > 0.0).collect();
    // Equal shares keep the order of the table.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}
