//! What several actions save of a stage together.
//!
//! Bounds of one stage overlap: two rules can judge the same kernel, and idle time goes once. The sum of bounds once showed
//! a stage of zero time. Now a stage is its idle time and its kernels, and an action names what it shortens.

use std::collections::BTreeMap;

use super::actions::Action;
use crate::stage::StageLine;
use rooflens_document::{GainKind, Part};
use rooflens_units::Time;

/// What actions save of an iteration of a stage: each part by the action that shortens it most.
#[derive(Default)]
struct Saved {
    idle: Time,
    /// The most that one action alone removes of the idle time, which the stage has by the same measurement.
    idle_alone: Time,
    parts: BTreeMap<Part, Time>,
    /// The most of unknown parts: those of others can be the same.
    unknown: Time,
}

impl Saved {
    fn add(&mut self, stage: &StageLine, action: &Action<'_>) {
        self.add_parts(action.saved_kernels(stage));
        let Some((finding, gain)) = action.saving_of(stage) else {
            return;
        };
        let known: Time = finding.parts.iter().map(|(_, saved)| *saved).sum();
        if gain.kind == GainKind::Idle {
            self.idle += gain.saved_ns;
            self.idle_alone = self.idle_alone.max(gain.saved_ns);
        } else if finding.parts.is_empty() {
            self.unknown = self.unknown.max(gain.saved_ns);
        } else {
            // The rest is idle time of launches that are removed.
            self.idle += (gain.saved_ns - known).max(Time::ZERO);
        }
        self.add_parts(&finding.parts);
    }

    fn add_parts(&mut self, parts: &[(Part, Time)]) {
        for (part, saved) in parts {
            let most = self.parts.entry(*part).or_default();
            *most = most.max(*saved);
        }
    }

    /// Kernels of groups are not known by row: they can be those that another action shortens.
    fn work(&self) -> Time {
        let (mut kernels, mut groups) = (Time::ZERO, Time::ZERO);
        for (part, saved) in &self.parts {
            match part {
                Part::Kernel(_) => kernels += *saved,
                Part::Group(_) => groups += *saved,
            }
        }
        kernels.max(groups).max(self.unknown)
    }
}

/// What is saved of an iteration of this stage if all these actions are taken.
pub(super) fn saved(stage: &StageLine, actions: &[Action<'_>]) -> Time {
    let mut saved = Saved::default();
    for action in actions {
        saved.add(stage, action);
    }
    let most_idle = (stage.reference() - stage.busy).max(saved.idle_alone);
    (saved.idle.min(most_idle) + saved.work()).min(stage.reference())
}
