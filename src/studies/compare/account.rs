//! Where the difference is: the captured time of both captures by phase, class of kernels, and cause of idle time.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::time::account::{NodeKind, Phase};
use rooflens_analysis::time::idle::cause::Cause;
use rooflens_session::Ns;
use rooflens_units::Time;

use crate::{Analyzed, Pair};

/// Words of data files for time between stages.
pub(crate) const BETWEEN: &str = Phase::Between {
    from: 0,
    to: 0,
    is_measured: true,
}
.label();

/// Words of data files for the time of all stages together.
pub(crate) const WHOLE: &str = "all stages";

/// Words of data files for time outside of stages.
const OUTSIDE: [&str; 2] = [Phase::BeforeStages.label(), Phase::AfterStages.label()];

/// What stands between the names of both stages.
pub(crate) const ARROW: &str = " → ";

/// A part of the captured time in both captures.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where it is.
    pub place: Place,
    /// Captured time, summed over GPUs and captures.
    pub time: Pair<Ns>,
    /// Iterations of the phase, or windows between stages, summed over GPUs and captures.
    pub parts: Pair<u64>,
}

/// A part of the captured time: phase, stage, and what it is spent on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Whether figures of stages rest on it: its iterations are compared.
    pub is_measured: bool,
    /// Words of data files for the phase.
    pub phase: &'static str,
    /// Stage, or the stages that it lies between.
    pub stage: String,
    /// What it is spent on.
    pub part: Part,
}

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Operations of a class.
    Class(KernelClass),
    /// Idle time of a cause.
    Idle(Cause),
    /// Time before the first and after the last operation.
    NoOperation,
}

impl Part {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Class(class) => class.label(),
            Self::Idle(cause) => cause.label(),
            Self::NoOperation => NodeKind::NoOperation.label(),
        }
    }
}

impl Change {
    /// Change of the captured time.
    pub fn difference(&self) -> Ns {
        Ns(self.time.after.0 - self.time.before.0)
    }

    /// Mean time in an iteration; absent where a capture has none.
    pub fn per_iteration(&self) -> Option<Pair<Time>> {
        let mean = |time: Ns, parts: u64| (parts > 0).then(|| time.time() / parts as f64);
        Some(Pair {
            before: mean(self.time.before, self.parts.before)?,
            after: mean(self.time.after, self.parts.after)?,
        })
    }

    /// Change of the mean time in an iteration.
    pub fn of_iteration(&self) -> Option<Time> {
        let time = self.per_iteration()?;
        Some(time.after - time.before)
    }
}

/// What time explanations are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// A mean iteration of a stage.
    Iteration,
    /// The mean time from an iteration to the next one.
    Between,
    /// All stages together, where both sides have other stages.
    Whole,
}

impl Explained {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Iteration => "iteration",
            Self::Between => BETWEEN,
            Self::Whole => WHOLE,
        }
    }
}

/// The captured time of a side.
#[derive(Default)]
pub(crate) struct Places {
    times: BTreeMap<Place, Ns>,
    /// Iterations by phase and stage.
    parts: BTreeMap<(&'static str, String), u64>,
}

/// All parts of the captured time: their differences sum to that of the captured times.
pub(crate) fn changes(places: &Pair<Places>) -> Vec<Change> {
    let mut times: BTreeMap<&Place, Pair<Ns>> = BTreeMap::new();
    for (place, time) in &places.before.times {
        times.entry(place).or_default().before = *time;
    }
    for (place, time) in &places.after.times {
        times.entry(place).or_default().after = *time;
    }
    let mut changes = Vec::new();
    for (place, time) in times {
        let phase = (place.phase, place.stage.clone());
        let parts = Pair::of(places, |places| places.parts.get(&phase).copied());
        changes.push(Change {
            place: place.clone(),
            time,
            parts: Pair::of(&parts, |parts| parts.unwrap_or_default()),
        });
    }
    let size = |change: &Change| change.difference().0.unsigned_abs();
    changes.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.place.cmp(&b.place)));
    changes
}

/// The measured stages of both sides, the largest change of an iteration first.
pub(crate) fn stages(account: &[Change]) -> Vec<&str> {
    let measured = account.iter().filter(|change| change.place.is_measured);
    names(measured)
        .into_iter()
        .map(|(stage, _)| stage)
        .collect()
}

/// The measured stages and what lies between stages, each with its parts: the largest change of an iteration, or of a
/// window between stages, first.
pub(crate) fn explained(account: &[Change]) -> Vec<(&str, Explained, Vec<&Change>)> {
    let measured = account.iter().filter(|change| change.place.is_measured);
    let between = account.iter().filter(|change| change.place.is_between());
    let measured: Vec<&Change> = measured.collect();
    let between: Vec<&Change> = between.collect();
    let mut all = Vec::new();
    for (kind, changes) in [
        (Explained::Iteration, measured),
        (Explained::Between, between),
    ] {
        for (stage, size) in names(changes.iter().copied()) {
            let of_stage = changes.iter().filter(|change| change.place.stage == stage);
            all.push((size, (stage, kind, of_stage.copied().collect())));
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().map(|(_, explained)| explained).collect()
}

/// The time from the first to the last iteration as one phase: what can be compared where both sides have other stages.
pub(crate) fn whole(account: &[Change]) -> Vec<Change> {
    let mut times: BTreeMap<Part, Pair<Ns>> = BTreeMap::new();
    for change in account {
        if !OUTSIDE.contains(&change.place.phase) {
            let time = times.entry(change.place.part).or_default();
            time.before += change.time.before;
            time.after += change.time.after;
        }
    }
    let mut changes = Vec::new();
    for (part, time) in times {
        changes.push(Change {
            place: Place {
                is_measured: false,
                phase: WHOLE,
                stage: String::new(),
                part,
            },
            time,
            parts: Pair {
                before: 1,
                after: 1,
            },
        });
    }
    changes
}

/// Stages with the size of their change, the largest first.
fn names<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<(&'a str, Time)> {
    let mut stages: Vec<(&str, Time)> = Vec::new();
    for change in changes {
        let Some(time) = change.of_iteration() else {
            continue;
        };
        let stage = change.place.stage.as_str();
        match stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += time,
            None => stages.push((stage, time)),
        }
    }
    for (_, sum) in &mut stages {
        *sum = sum.abs();
    }
    stages.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    stages
}

impl Place {
    /// Whether it lies between two stages.
    pub fn is_between(&self) -> bool {
        self.phase == BETWEEN
    }
}

impl Places {
    /// Adds the account of a capture.
    pub(crate) fn add(&mut self, capture: &Analyzed<'_>) {
        let (session, facts) = (capture.context.session, capture.context.facts);
        let Ok(idle) = capture.context.results.idle() else {
            return;
        };
        // The phase that the nodes below belong to.
        let mut current = (false, "", String::new());
        for node in &idle.account.nodes {
            let part = match node.kind {
                NodeKind::Phase(phase) => {
                    // Slow iterations count, too: both are iterations of the same work.
                    let label = match phase.is_measured() {
                        true => "measured iterations",
                        false => phase.label(),
                    };
                    current = (phase.is_measured(), label, phase.name(session, facts));
                    let parts = self.parts.entry((label, current.2.clone())).or_default();
                    *parts += node.parts.unwrap_or_default();
                    continue;
                }
                NodeKind::Class(class) => Part::Class(class),
                NodeKind::Cause(cause) => Part::Idle(cause),
                NodeKind::NoOperation => Part::NoOperation,
                NodeKind::Pass(_)
                | NodeKind::Gpu(_)
                | NodeKind::Stage(..)
                | NodeKind::Busy
                | NodeKind::Work(_)
                | NodeKind::Idle => continue,
            };
            let (is_measured, phase, stage) = current.clone();
            let place = Place {
                is_measured,
                phase,
                stage,
                part,
            };
            *self.times.entry(place).or_default() += node.time;
        }
    }
}
