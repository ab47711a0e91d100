//! What several actions save of a stage together.
//!
//! Bounds of one stage overlap: two rules can judge the same kernel, and idle time goes once. The sum of bounds once showed
//! a stage of zero time. Now a stage is its idle time, its copies and its kernels, and an action names what it shortens.

use std::collections::BTreeMap;

use super::actions::{Action, changes};
use crate::pauses;
use crate::stage::StageLine;
use rooflens_analysis::operators::chains::ChainKind;
use rooflens_document::{GainKind, Part};
use rooflens_units::{Ratio, Time};

/// Rules after which the host issues as many launches as before: most are about what it does between launches.
const BETWEEN_LAUNCHES: [&str; 8] = [
    "new-shapes",
    "first-use",
    "allocator-stalls",
    "empty-cache",
    "garbage-collection",
    "data-loader",
    "os-waits",
    pauses::RULE,
];

/// The rule about transfers that kernels could hide, unless another cause is known.
const EXPOSED: &str = "exposed-copies";

/// The rule about kernels between GEMMs, of which GEMMs are none.
pub(super) const FUSIBLE: &str = "low-mfu";

/// The rule about types of half the size, and the part of any kernel's time that they leave.
const HALVING: (&str, Ratio) = ("tf32-gemms", Ratio(0.5));

/// What actions save of an iteration of a stage: each part by the action that shortens it most.
#[derive(Default)]
struct Saved {
    idle: Time,
    /// The part of idle time that is waits alone: the host works as long as before.
    waits: Time,
    parts: BTreeMap<Part, Time>,
    /// The most idle time of one action.
    longest: Time,
    /// The most of unknown operations: those of others can be the same.
    unknown: Time,
    /// The same of kernels that can be fused, which are none of the optimizer.
    fusible: Time,
    /// The most that types of half the size save: also of kernels that are not known by row, but not more than half of them.
    halved: Time,
    /// The most of transfers that other work hides.
    hidden: Time,
    /// The sum of their bounds.
    sum: Time,
}

/// Groups of whole calls of a model, whose kernels are in other groups, too.
const CALLS: [u8; 2] = [ChainKind::Calls as u8, ChainKind::Constant as u8];

impl Saved {
    fn add(&mut self, stage: &StageLine, action: &Action<'_>, all: &[Action<'_>]) {
        let of_loop = action.saved_kernels(stage);
        self.sum += sum(of_loop);
        match action.finding.id == HALVING.0 {
            true => self.halved = self.halved.max(sum(of_loop)),
            false => self.add_parts(of_loop),
        }
        let Some((finding, gain)) = action.saving_with(stage, all) else {
            return;
        };
        self.sum += gain.saved_ns;
        let is_hidden = finding.id == EXPOSED && finding.root.is_none();
        for part in &finding.parts {
            match part {
                (Part::Copies, saved) if is_hidden => self.hidden = self.hidden.max(*saved),
                _ => self.add_parts(std::slice::from_ref(part)),
            }
        }
        let rest = (gain.saved_ns - sum(&finding.parts)).max(Time::ZERO);
        // Work of no known part is of operations; what is beyond them is idle time.
        let is_work = gain.kind == GainKind::Work && finding.parts.is_empty();
        let idle = match is_work {
            true => (rest - stage.work()).max(Time::ZERO),
            false => rest.min(stage.idle()),
        };
        match finding.is_wait {
            true => self.waits += idle,
            false => self.idle += idle,
        }
        self.longest = self.longest.max(idle);
        let unknown = match action.finding.id {
            FUSIBLE => &mut self.fusible,
            _ => &mut self.unknown,
        };
        *unknown = unknown.max(rest - idle);
    }

    fn add_parts(&mut self, parts: &[(Part, Time)]) {
        for (part, saved) in parts {
            let most = self.parts.entry(*part).or_default();
            *most = most.max(*saved);
        }
    }

    /// Kernels of groups are not known by row: they can be those that another action shortens. Of `work` without calls that
    /// a step repeats, other actions save the same part as of all.
    fn work(&self, work: Time) -> Time {
        let (mut kernels, mut groups, mut transfers) = (Time::ZERO, Time::ZERO, Time::ZERO);
        let (mut fusible, mut calls) = (self.fusible, Time::ZERO);
        for (part, saved) in &self.parts {
            match part {
                Part::Kernel(_) => kernels += *saved,
                Part::Group(kind) if CALLS.contains(kind) => calls = calls.max(saved.min(work)),
                Part::Group(kind) => {
                    groups += *saved;
                    let of_optimizer = [ChainKind::Embeddings, ChainKind::Optimizer];
                    if of_optimizer.map(|kind| kind as u8).contains(kind) {
                        fusible += *saved;
                    }
                }
                Part::Copies | Part::Communication => transfers += *saved,
            }
        }
        let others = kernels.max(groups).max(self.unknown).max(fusible) + transfers;
        let left = (work - others).max(Time::ZERO);
        let others = others + self.halved.min(left * HALVING.1);
        // Nothing is hidden behind work that goes.
        let rest = (work - others - self.hidden).max(Time::ZERO);
        let others = others + (self.hidden - transfers).max(Time::ZERO).min(rest);
        match calls.is_positive() {
            true => calls + others * Ratio::of(work - calls, work),
            false => others,
        }
    }
}

fn sum(parts: &[(Part, Time)]) -> Time {
    parts.iter().map(|(_, saved)| *saved).sum()
}

/// What is saved of an iteration of this stage if all these actions are taken: no more than the sum of their bounds, than
/// its idle time and than its operations.
pub(super) fn saved(stage: &StageLine, actions: &[Action<'_>]) -> Time {
    let parts = saved_parts(stage, actions);
    parts.idle + parts.work
}

/// Idle time and operations that actions save of an iteration of a stage.
pub(super) struct SavedParts {
    pub(super) idle: Time,
    pub(super) work: Time,
}

/// The same by what is saved.
pub(super) fn saved_parts(stage: &StageLine, actions: &[Action<'_>]) -> SavedParts {
    let mut saved = Saved::default();
    for action in actions {
        for change in action.changes() {
            if !change.is_covered || action.saving_of(stage).is_none() {
                saved.add(stage, change, actions);
            }
        }
    }
    let idle = saved.idle + saved.waits.min(stage.waits);
    let idle = idle.min(stage.idle()).min(saved.sum);
    let work = saved.work(stage.work()).min(stage.work());
    let work = work.min(saved.sum - idle);
    // Kernels that go need no launches. Those that get shorter do, but a time to launch is known under the profiler alone.
    let keeps_launches =
        work == Time::ZERO && changes(actions).all(|action| keeps_launches(stage, action));
    let idle = match keeps_launches {
        true => idle.min((stage.reference() - stage.issuing - work).max(saved.longest - work)),
        false => idle,
    };
    SavedParts { idle, work }
}

fn keeps_launches(stage: &StageLine, action: &Action<'_>) -> bool {
    action.saving_of(stage).is_none() || BETWEEN_LAUNCHES.contains(&action.finding.id)
}
