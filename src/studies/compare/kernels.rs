//! Which kernels changed: by name, and by class and launches where a kernel was exchanged for another one.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_session::Ns;
use rooflens_units::{Count, Time};

use crate::{Pair, Side};

/// A kernel of a stage in both captures, or a pair of kernels of which one replaced the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Stage.
    pub stage: String,
    /// Class.
    pub class: KernelClass,
    /// Names; absent where a capture has no such kernel.
    pub name: Pair<Option<String>>,
    /// Use in an iteration.
    pub used: Pair<Use>,
}

/// Use of a kernel in an iteration of a stage, mean over the measured ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Launches.
    pub launches: Count,
    /// Sum of durations.
    pub time: Time,
}

/// What became of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// In both captures.
    Kept,
    /// Another kernel of the class is launched as often instead.
    Replaced,
    /// Only in the first capture.
    Gone,
    /// Only in the second one.
    New,
}

impl Fate {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Replaced => "replaced",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }
}

impl Change {
    /// What became of it.
    pub fn fate(&self) -> Fate {
        match (&self.name.before, &self.name.after) {
            (Some(before), Some(after)) if before == after => Fate::Kept,
            (Some(_), Some(_)) => Fate::Replaced,
            (Some(_), None) => Fate::Gone,
            (None, _) => Fate::New,
        }
    }

    /// Change of the time in an iteration.
    pub fn difference(&self) -> Time {
        self.used.after.time - self.used.before.time
    }

    /// The part of the difference that another number of launches makes, each as long as before.
    pub fn by_launches(&self) -> Time {
        let Pair { before, after } = self.used;
        match before.launches.is_positive() {
            true => (before.time / before.launches.0) * (after.launches.0 - before.launches.0),
            false => after.time,
        }
    }

    /// The part that another duration of launches makes.
    pub fn by_duration(&self) -> Time {
        self.difference() - self.by_launches()
    }
}

/// Kernels of a stage by class and name.
type Kernels = BTreeMap<(String, KernelClass, String), Use>;

/// The kernels of all stages that both captures have, the largest change first.
pub(crate) fn changes(sides: &Pair<Side<'_>>) -> Vec<Change> {
    let mut kernels = Pair::of(sides, kernels);
    let stages = Pair::of(&kernels, |kernels| {
        let stages = kernels.keys().map(|(stage, ..)| stage.clone());
        stages.collect::<std::collections::BTreeSet<String>>()
    });
    kernels
        .before
        .retain(|(stage, ..), _| stages.after.contains(stage));
    kernels
        .after
        .retain(|(stage, ..), _| stages.before.contains(stage));
    let mut changes = Vec::new();
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    for (key, before) in &kernels.before {
        match kernels.after.remove(key) {
            Some(after) => {
                let name = Some(key.2.clone());
                changes.push(Change {
                    stage: key.0.clone(),
                    class: key.1,
                    name: Pair {
                        before: name.clone(),
                        after: name,
                    },
                    used: Pair {
                        before: *before,
                        after,
                    },
                });
            }
            None => gone.push((key.clone(), *before)),
        }
    }
    new.extend(kernels.after);
    exchanged(&mut changes, gone, new);
    let size = |change: &Change| change.difference().abs();
    changes.sort_by(|a, b| {
        size(b)
            .total_cmp(&size(a))
            .then_with(|| a.name.cmp(&b.name))
    });
    changes
}

/// Joins kernels that are gone with new ones of the same stage, class and number of launches, the longest first.
fn exchanged(changes: &mut Vec<Change>, mut gone: Vec<Keyed>, mut new: Vec<Keyed>) {
    let by_time = |a: &Keyed, b: &Keyed| b.1.time.total_cmp(&a.1.time).then_with(|| a.0.cmp(&b.0));
    gone.sort_by(by_time);
    new.sort_by(by_time);
    for ((stage, class, name), before) in gone {
        let is_like = |(key, after): &Keyed| {
            key.0 == stage && key.1 == class && after.launches == before.launches
        };
        let after = new.iter().position(is_like).map(|index| new.remove(index));
        let (after_name, after) = match after {
            Some(((_, _, name), after)) => (Some(name), after),
            None => (None, Use::default()),
        };
        changes.push(Change {
            stage,
            class,
            name: Pair {
                before: Some(name),
                after: after_name,
            },
            used: Pair { before, after },
        });
    }
    for ((stage, class, name), after) in new {
        changes.push(Change {
            stage,
            class,
            name: Pair {
                before: None,
                after: Some(name),
            },
            used: Pair {
                before: Use::default(),
                after,
            },
        });
    }
}

/// Stage, class and name of a kernel, with its use.
type Keyed = ((String, KernelClass, String), Use);

fn kernels(side: &Side<'_>) -> Kernels {
    let (session, facts) = (side.context.session, side.context.facts);
    let ops = &facts.ops;
    let mut kernels = Kernels::new();
    for summary in facts.run_summaries() {
        if !summary.is_outermost(facts) {
            continue;
        }
        let stage = summary.label(session, facts);
        let mut sums: BTreeMap<_, (u64, Ns)> = BTreeMap::new();
        for instance in summary.counted_instances(facts) {
            for op in &instance.ops {
                let Some(kernel) = facts.kernel(session, *op) else {
                    continue;
                };
                let (launches, time) = sums.entry(kernel).or_default();
                *launches += 1;
                let index = *op as usize;
                *time += ops.end[index].saturating_sub(ops.start[index]);
            }
        }
        let iterations = summary.counted.max(1) as f64;
        for (kernel, (launches, time)) in sums {
            let class = facts.identities[kernel.index()].class;
            let name = session.text(session.kernels.name[kernel.index()]);
            let used = kernels.entry((stage.clone(), class, name.to_owned()));
            let used = used.or_default();
            used.launches += Count(launches as f64 / iterations);
            used.time += time.time() / iterations;
        }
    }
    kernels
}
