//! The time of the timeline that profiled launches represent.

use std::collections::{BTreeMap, BTreeSet};

use crate::Context;
use rooflens_session::{Ns, ProfileId};

/// Launches of the outermost stages with counters, each with its time and the profiled launches that represent it.
#[derive(Default)]
pub(super) struct Timeline {
    times: Vec<Ns>,
    by_profile: BTreeMap<ProfileId, Vec<usize>>,
}

impl Timeline {
    pub(super) fn new(context: &Context<'_>) -> Self {
        let mut timeline = Self::default();
        let Ok(matching) = context.results.matching() else {
            return timeline;
        };
        let outermost = matching
            .lines
            .iter()
            .filter(|l| l.summary.is_outermost(context.facts));
        for group in outermost.flat_map(|line| &line.groups) {
            for profile in &group.from {
                timeline
                    .by_profile
                    .entry(*profile)
                    .or_default()
                    .push(timeline.times.len());
            }
            timeline.times.push(group.time);
        }
        timeline
    }

    /// What some profiled launches represent, nanoseconds over all counted instances; none if nothing.
    pub(super) fn of(&self, profiles: &[ProfileId]) -> Option<Ns> {
        let group_positions = profiles
            .iter()
            .filter_map(|profile| self.by_profile.get(profile));
        let positions: BTreeSet<usize> = group_positions.flatten().copied().collect();
        let sum = positions
            .iter()
            .fold(Ns::ZERO, |sum: Ns, at| sum.saturating_add(self.times[*at]));
        (!positions.is_empty()).then_some(sum)
    }
}
