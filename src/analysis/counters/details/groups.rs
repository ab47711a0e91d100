//! Launches, and groups of launches of one kernel with one grid and block in one pass.

use std::collections::BTreeMap;

use super::figures::Figures;
use super::stalls::{self, Shares};
use crate::analysis::counters::ncu::KernelCounters;
use crate::analysis::counters::ncu::lookup::Lookup;
use crate::analysis::counters::ncu::stall;
use crate::analysis::engine::classify;
use crate::model::{Dim3, PassId, ProfileId, Session, StrId};

/// A profiled launch with its figures.
pub(super) struct Launch {
    pub(super) counters: KernelCounters,
    pub(super) figures: Figures,
    /// Shares of the warp states; absent: not collected.
    pub(super) stalls: Option<Shares>,
}

/// Launches of one kernel with one grid and block.
pub(super) struct Group {
    /// Kernel name for people.
    pub(super) short: String,
    /// Whole kernel name.
    pub(super) name: StrId,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    /// Number of launches.
    pub(super) launches: u64,
    /// Profiled time, seconds.
    pub(super) seconds: f64,
    /// Share of the pass's profiled time.
    pub(super) share: f64,
    /// Means over the launches, weighted by duration.
    pub(super) figures: Figures,
    /// The same of the warp states.
    pub(super) stalls: Option<Shares>,
    /// The longest launch: remarks are its.
    pub(super) longest: ProfileId,
    /// All launches.
    pub(super) profiles: Vec<ProfileId>,
}

/// The launches by pass, both in the order of their rows.
pub(super) fn launches(session: &Session) -> Vec<(PassId, Vec<Launch>)> {
    let lookup = Lookup::new(session);
    let mut passes = BTreeMap::<PassId, Vec<Launch>>::new();
    for profile in session.kernel_profiles.ids() {
        let metrics = lookup.launch(profile);
        let name = session.text(session.kernel_profiles.name[profile.index()]);
        let grid = session.kernel_profiles.grid[profile.index()];
        let counters = KernelCounters::read(&metrics, profile, classify::identify(name));
        let launch = Launch {
            figures: Figures::of(&metrics, &counters, grid.volume()),
            stalls: stall::states(&metrics).map(|states| stalls::shares(&states)),
            counters,
        };
        passes.entry(session.kernel_profiles.pass[profile.index()]).or_default().push(launch);
    }
    passes.into_iter().collect()
}

/// The time by which a launch counts in a mean; without any duration all count the same.
pub(super) fn weights(launches: &[&Launch]) -> Vec<f64> {
    let timed = launches.iter().any(|launch| launch.seconds() > 0.0);
    launches.iter().map(|launch| if timed { launch.seconds() } else { 1.0 }).collect()
}

impl Launch {
    /// Duration in seconds; 0 if it was not collected.
    pub(super) fn seconds(&self) -> f64 {
        self.counters.seconds.unwrap_or_default()
    }
}

type Key = (StrId, [u32; 3], [u32; 3]);

/// The groups of a pass, the longest first.
pub(super) fn groups(session: &Session, launches: &[Launch]) -> Vec<Group> {
    let mut members = BTreeMap::<Key, Vec<&Launch>>::new();
    for launch in launches {
        let profile = session.kernel_profiles.row(launch.counters.profile);
        let extent = |e: Dim3| [e.x, e.y, e.z];
        let key = (profile.name, extent(profile.grid), extent(profile.block));
        members.entry(key).or_default().push(launch);
    }
    let total: f64 = launches.iter().map(Launch::seconds).sum();
    let mut groups: Vec<Group> =
        members.into_values().filter_map(|members| group(session, &members, total)).collect();
    // Rows of the profiles are unique.
    groups.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.longest.cmp(&b.longest)));
    groups
}

fn group(session: &Session, members: &[&Launch], total: f64) -> Option<Group> {
    let longest = members
        .iter()
        .copied()
        .reduce(|best, next| if next.seconds() > best.seconds() { next } else { best })?;
    let profile = session.kernel_profiles.row(longest.counters.profile);
    let weights = weights(members);
    let weighted = weights.iter().copied().zip(members.iter().copied());
    let figures: Vec<_> = weighted.clone().map(|(weight, one)| (weight, &one.figures)).collect();
    let stalls: Vec<_> =
        weighted.filter_map(|(weight, one)| Some((weight, one.stalls.as_ref()?))).collect();
    let seconds = members.iter().map(|launch| launch.seconds()).sum();
    Some(Group {
        short: longest.counters.identity.short.clone(),
        name: profile.name,
        grid: profile.grid,
        block: profile.block,
        launches: members.len() as u64,
        seconds,
        share: if total > 0.0 { seconds / total } else { 0.0 },
        figures: Figures::mean(&figures),
        stalls: stalls::mean(&stalls),
        longest: longest.counters.profile,
        profiles: members.iter().map(|launch| launch.counters.profile).collect(),
    })
}
