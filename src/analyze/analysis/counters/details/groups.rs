//! Launches, and groups of launches of one kernel with one grid and block in one pass.

use std::collections::BTreeMap;

use super::figures::Figures;
use super::stalls::{self, Shares};
use super::timeline::Timeline;
use crate::counters::ncu::{Counters, KernelCounters, stall};
use rooflens_session::{Arrange, Dim3, Ns, ProfileId, Session, StrId};
use rooflens_units::{Ratio, Seconds};

/// A profiled launch with its figures.
pub struct Launch {
    /// The launch.
    pub profile: ProfileId,
    /// Duration; 0 if it was not collected.
    pub seconds: Seconds,
    /// Its figures.
    pub figures: Figures,
    /// Shares of the warp states; absent: not collected.
    pub stalls: Option<Shares>,
}

/// Launches of one kernel with one grid and block.
pub struct Group {
    /// Kernel name for people.
    pub short: String,
    /// Whole kernel name.
    pub name: StrId,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Number of launches.
    pub launches: u64,
    /// Profiled time.
    pub seconds: Seconds,
    /// Share of the pass's profiled time.
    pub share: Ratio,
    /// Means over the launches, weighted by duration.
    pub figures: Figures,
    /// The same of the warp states.
    pub stalls: Option<Shares>,
    /// The longest launch: remarks are its.
    pub longest: ProfileId,
    /// All launches.
    pub profiles: Vec<ProfileId>,
    /// The time of the timeline that they represent, nanoseconds over all counted instances; absent if none.
    pub stands_for: Option<Ns>,
}

/// All launches, in the order of their rows.
pub(super) fn launches(session: &Session, counters: &Counters) -> Vec<Launch> {
    let launch = |kernel: &KernelCounters| {
        let metrics = counters.lookup.launch(session, kernel.profile);
        Launch {
            profile: kernel.profile,
            seconds: kernel.seconds.unwrap_or_default(),
            figures: Figures::of(&metrics, kernel, kernel.grid.volume()),
            stalls: stall::states(&metrics).map(|states| stalls::shares(&states)),
        }
    };
    counters.launches.iter().map(launch).collect()
}

/// The time by which a launch counts in a mean; without any duration all count the same.
pub fn weights(launches: &[&Launch]) -> Vec<f64> {
    let timed = launches.iter().any(|launch| launch.seconds.is_positive());
    launches
        .iter()
        .map(|launch| if timed { launch.seconds.0 } else { 1.0 })
        .collect()
}

/// The groups of a pass, the longest first.
pub(super) fn groups(counters: &Counters, timeline: &Timeline, launches: &[&Launch]) -> Vec<Group> {
    let mut members = BTreeMap::<(StrId, Dim3, Dim3), Vec<&Launch>>::new();
    for launch in launches {
        let kernel = counters.launch(launch.profile);
        members
            .entry((kernel.name, kernel.grid, kernel.block))
            .or_default()
            .push(launch);
    }
    let total: Seconds = launches.iter().map(|launch| launch.seconds).sum();
    let group_of =
        |kernel_launches: &Vec<&Launch>| group(counters, timeline, kernel_launches, total);
    let mut groups: Vec<Group> = members.values().filter_map(group_of).collect();
    // Rows of the profiles are unique.
    groups.arrange_by(|a, b| {
        b.seconds
            .total_cmp(&a.seconds)
            .then(a.longest.cmp(&b.longest))
    });
    groups
}

fn group(
    counters: &Counters,
    timeline: &Timeline,
    members: &[&Launch],
    total: Seconds,
) -> Option<Group> {
    let longest = members.iter().copied().reduce(|best, next| {
        if next.seconds > best.seconds {
            next
        } else {
            best
        }
    })?;
    let first = counters.launch(longest.profile);
    let weights = weights(members);
    let weighted = weights.iter().copied().zip(members.iter().copied());
    let figures: Vec<_> = weighted
        .clone()
        .map(|(weight, one)| (weight, &one.figures))
        .collect();
    let stalls: Vec<_> = weighted
        .filter_map(|(weight, one)| Some((weight, one.stalls.as_ref()?)))
        .collect();
    let seconds: Seconds = members.iter().map(|launch| launch.seconds).sum();
    let profiles: Vec<ProfileId> = members.iter().map(|launch| launch.profile).collect();
    Some(Group {
        short: first.identity.short.clone(),
        name: first.name,
        grid: first.grid,
        block: first.block,
        launches: members.len() as u64,
        seconds,
        share: if total.is_positive() {
            Ratio(seconds / total)
        } else {
            Ratio::ZERO
        },
        figures: Figures::mean(&figures),
        stalls: stalls::mean(&stalls),
        longest: longest.profile,
        stands_for: timeline.of(&profiles),
        profiles,
    })
}
