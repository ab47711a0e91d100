//! What several actions save of a stage together.
//!
//! Bounds of one stage overlap: two rules can judge the same kernel, and idle time goes once. The sum of bounds once showed
//! a stage of zero time. Now a stage is its idle time and its kernels, and an action names what it shortens.

use std::collections::BTreeMap;

use super::actions::Action;
use crate::stage::StageLine;
use rooflens_document::GainKind;
use rooflens_units::Time;

/// What is saved of an iteration of this stage if all these actions are taken.
pub(super) fn saved(stage: &StageLine, actions: &[Action<'_>]) -> Time {
    let (mut idle, mut other, mut parts) = (Time::ZERO, Time::ZERO, BTreeMap::new());
    for action in actions {
        let saved = action.saves_of(stage);
        let finding = action.finding_of(stage);
        match action.gain.kind {
            GainKind::Idle => idle += saved,
            // Of what shortens unknown parts, the most counts: the others can be parts of it.
            _ if finding.is_none_or(|finding| finding.parts.is_empty()) => {
                other = other.max(saved);
            }
            _ => {
                for (part, saved) in finding.iter().flat_map(|finding| &finding.parts) {
                    let most: &mut Time = parts.entry(*part).or_default();
                    *most = most.max(*saved);
                }
            }
        }
    }
    let most_idle = (stage.reference() - stage.busy).max(Time::ZERO);
    let work = parts.values().copied().sum::<Time>().max(other);
    (idle.min(most_idle.max(idle_alone(stage, actions))) + work).min(stage.reference())
}

/// The most that one action alone removes of the idle time, which the stage has by the same measurement.
fn idle_alone(stage: &StageLine, actions: &[Action<'_>]) -> Time {
    let idle = actions
        .iter()
        .filter(|action| action.gain.kind == GainKind::Idle);
    idle.map(|action| action.saves_of(stage))
        .fold(Time::ZERO, Time::max)
}
