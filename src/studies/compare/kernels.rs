//! Which kernels changed: by name, and by class and launches where a kernel was exchanged for another one.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_session::Ns;
use rooflens_units::{Count, Time};

use crate::{Analyzed, Pair, Side};

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

/// Use of a kernel in an iteration of a stage on a GPU, mean over the measured ones.
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

/// Stage, class and name of a kernel.
type Key = (String, KernelClass, String);

/// Kernels with their use.
type Kernels = BTreeMap<Key, Use>;

impl Change {
    /// That of a kernel, or of a pair of which one replaced the other.
    fn new(before: Option<(Key, Use)>, after: Option<(Key, Use)>) -> Option<Self> {
        let ((stage, class, _), _) = before.as_ref().or(after.as_ref())?.clone();
        let kernels = Pair { before, after };
        Some(Self {
            stage,
            class,
            name: Pair::of(&kernels, |kernel| Some(kernel.as_ref()?.0.2.clone())),
            used: Pair::of(&kernels, |kernel| {
                kernel.as_ref().map_or_else(Use::default, |(_, used)| *used)
            }),
        })
    }
}

/// The kernels of all stages that both captures have, the largest change first.
pub(crate) fn changes(sides: &Pair<Side<'_>>) -> Vec<Change> {
    let Pair { before, mut after } = Pair::of(sides, kernels);
    let stages = |kernels: &Kernels| -> BTreeSet<String> {
        kernels.keys().map(|(stage, ..)| stage.clone()).collect()
    };
    let (stages_before, stages_after) = (stages(&before), stages(&after));
    after.retain(|(stage, ..), _| stages_before.contains(stage));
    let (mut changes, mut gone) = (Vec::new(), Vec::new());
    for kernel in before {
        if !stages_after.contains(&kernel.0.0) {
            continue;
        }
        match after.remove_entry(&kernel.0) {
            Some(same) => changes.extend(Change::new(Some(kernel), Some(same))),
            None => gone.push(kernel),
        }
    }
    // What is gone is joined with what is new and launched as often, the longest first.
    let mut new: Vec<(Key, Use)> = after.into_iter().collect();
    let by_time =
        |a: &(Key, Use), b: &(Key, Use)| b.1.time.total_cmp(&a.1.time).then_with(|| a.0.cmp(&b.0));
    gone.sort_by(by_time);
    new.sort_by(by_time);
    for kernel in gone {
        let is_like = |(key, used): &(Key, Use)| {
            (&key.0, key.1) == (&kernel.0.0, kernel.0.1) && used.launches == kernel.1.launches
        };
        let other = new.iter().position(is_like).map(|index| new.remove(index));
        changes.extend(Change::new(Some(kernel), other));
    }
    changes.extend(
        new.into_iter()
            .filter_map(|kernel| Change::new(None, Some(kernel))),
    );
    let size = |change: &Change| change.difference().abs();
    changes.sort_by(|a, b| {
        size(b)
            .total_cmp(&size(a))
            .then_with(|| a.name.cmp(&b.name))
    });
    changes
}

/// Mean use over the iterations of all captures of a side and their GPUs.
fn kernels(side: &Side<'_>) -> Kernels {
    let mut kernels = Kernels::new();
    let mut iterations: BTreeMap<String, usize> = BTreeMap::new();
    for capture in &side.captures {
        add_kernels(capture, &mut kernels, &mut iterations);
    }
    for ((stage, ..), used) in &mut kernels {
        let iterations = iterations.get(stage).copied().unwrap_or(1).max(1) as f64;
        used.launches = used.launches / iterations;
        used.time = used.time / iterations;
    }
    kernels
}

/// Adds the sums of a capture.
fn add_kernels(
    capture: &Analyzed<'_>,
    kernels: &mut Kernels,
    iterations: &mut BTreeMap<String, usize>,
) {
    let (session, facts) = (capture.context.session, capture.context.facts);
    let ops = &facts.ops;
    for summary in facts.run_summaries() {
        let stage = summary.label(session, facts);
        let mut sums: BTreeMap<_, (u64, Ns)> = BTreeMap::new();
        // As in the account: iterations within others are parts of these, and each GPU has its own.
        let instances = summary.counted_instances(facts);
        for instance in instances.filter(|instance| !instance.is_nested) {
            *iterations.entry(stage.clone()).or_default() += instance.gpus.len().max(1);
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
        for (kernel, (launches, time)) in sums {
            let class = facts.identities[kernel.index()].class;
            let name = session.text(session.kernels.name[kernel.index()]);
            let used = kernels.entry((stage.clone(), class, name.to_owned()));
            let used = used.or_default();
            used.launches += Count(launches as f64);
            used.time += time.time();
        }
    }
}
