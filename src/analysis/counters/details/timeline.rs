//! The time of the timeline that profiled launches stand for, and the names of pages by it.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Group;
use super::pass_name;
use crate::analysis::Context;
use crate::model::{Ns, PassId, ProfileId, Session};

/// Launches of the outermost stages with counters, each with its time and the profiled launches that stand for it.
#[derive(Default)]
pub(super) struct Timeline {
    times: Vec<Ns>,
    by_profile: BTreeMap<ProfileId, Vec<usize>>,
}

impl Timeline {
    pub(super) fn new(context: &Context<'_>) -> Self {
        let mut timeline = Self::default();
        let Some(matching) = &context.facts.matching else { return timeline };
        let outermost = matching.lines.iter().filter(|l| l.summary.is_outermost(context.facts));
        for group in outermost.flat_map(|line| &line.groups) {
            for at in &group.from {
                let profile = matching.profiles[*at].counters.profile;
                timeline.by_profile.entry(profile).or_default().push(timeline.times.len());
            }
            timeline.times.push(group.time);
        }
        timeline
    }

    /// What a group of profiled launches stands for, nanoseconds over all counted instances; none if nothing.
    pub(super) fn of(&self, group: &Group) -> Option<Ns> {
        let own = group.profiles.iter().filter_map(|profile| self.by_profile.get(profile));
        let places: BTreeSet<usize> = own.flatten().copied().collect();
        let sum = places.iter().fold(0, |sum: Ns, at| sum.saturating_add(self.times[*at]));
        (!places.is_empty()).then_some(sum)
    }
}

/// Headings of pages: the kernel, and what tells it from the others that are called the same.
pub(super) fn headings(session: &Session, pages: &[(PassId, &Group)]) -> Vec<String> {
    let names = |(pass, group): &(PassId, &Group)| {
        let grid = format!("{}, grid {}", group.short, group.grid);
        let with_pass = format!("{grid}, pass {}", pass_name(session, *pass));
        let whole = format!("{with_pass}, block {}", group.block);
        [group.short.clone(), grid, with_pass, whole]
    };
    let all: Vec<[String; 4]> = pages.iter().map(names).collect();
    let heading = |own: &[String; 4]| {
        let is_alone = |at: &usize| all.iter().filter(|other| other[*at] == own[*at]).count() == 1;
        let at = (0..own.len()).find(is_alone).unwrap_or(own.len() - 1);
        own[at].clone()
    };
    all.iter().map(heading).collect()
}
