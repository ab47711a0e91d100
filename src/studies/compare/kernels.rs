//! Which kernels changed: by their order in a typical iteration, and by name where that says nothing.
//!
//! The use of a kernel is the mean over all iterations. Where it was exchanged at some of its places only, its use is
//! split by the parts that these places have of its launches and of its time in the typical iteration.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::operators::call_tree::Spans;
use rooflens_session::{Dim3, Ns};
use rooflens_units::{Count, Ratio, Time};

use crate::alignment::{Alignment, Iteration, Origin, Sized, Sum};
use crate::{Analyzed, Pair};

/// A kernel of a stage in both captures, or kernels of which some replaced the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Stage.
    pub stage: String,
    /// Class; of several kernels that of the one with the most time.
    pub class: KernelClass,
    /// Names in the order of their launches; none where a capture has no such kernel.
    pub names: Pair<Vec<String>>,
    /// Use in an iteration.
    pub used: Pair<Use>,
    /// Duration of a launch after ÷ before that other grids make, each grid as fast as before; 1 for exchanged kernels.
    pub by_grid: Ratio,
}

/// Use of a kernel in an iteration of a stage on a GPU, mean over the measured ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Launches.
    pub launches: Count,
    /// Sum of durations.
    pub time: Time,
}

/// The kernels of a module and an operator in both captures.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginChange {
    /// Stage.
    pub stage: String,
    /// The ranges and modules around the launches, within the iteration.
    pub module: Option<String>,
    /// Name and shapes of the operator that launched them.
    pub operator: Option<[String; 2]>,
    /// Use in an iteration.
    pub used: Pair<Use>,
}

/// What became of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// In both captures.
    Kept,
    /// As many other kernels at the same places: another library or another tile.
    Replaced,
    /// Fewer kernels at the same places.
    Fused,
    /// More kernels at the same places.
    Split,
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
            Self::Fused => "fused",
            Self::Split => "split",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }
}

impl Change {
    /// What became of it.
    pub fn fate(&self) -> Fate {
        let Pair { before, after } = &self.names;
        match (before.len(), after.len()) {
            (0, _) => Fate::New,
            (_, 0) => Fate::Gone,
            _ if before == after => Fate::Kept,
            (of_before, of_after) if of_before > of_after => Fate::Fused,
            (of_before, of_after) if of_before < of_after => Fate::Split,
            _ => Fate::Replaced,
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

    /// The part that launches with other grids make, each grid as fast as before.
    pub fn by_mix(&self) -> Time {
        let Pair { before, after } = self.used;
        match before.launches.is_positive() {
            true => (before.time / before.launches.0) * after.launches.0 * (self.by_grid.0 - 1.0),
            false => Time::ZERO,
        }
    }

    /// The part that another duration of launches makes.
    pub fn by_duration(&self) -> Time {
        self.difference() - self.by_launches() - self.by_mix()
    }

    /// Duration of a launch after ÷ before at equal grids; absent where one of them is unknown.
    pub fn speed(&self) -> Option<Ratio> {
        let Pair { before, after } = self.used;
        let factor = (after.time / after.launches.0).0 / (before.time / before.launches.0).0;
        let factor = Ratio(factor / self.by_grid.0);
        (factor.0.is_finite() && factor.0 > 0.0).then_some(factor)
    }
}

impl OriginChange {
    /// Change of the time in an iteration.
    pub fn difference(&self) -> Time {
        self.used.after.time - self.used.before.time
    }
}

/// Stage, class and name of a kernel.
type Key = (String, KernelClass, String);

/// Launches and time by grid.
type Grids = BTreeMap<Dim3, Use>;

/// The kernels of a side.
#[derive(Default)]
pub(crate) struct Kernels {
    /// Use in all iterations.
    used: BTreeMap<Key, Use>,
    /// The same by grid.
    grids: BTreeMap<Key, Grids>,
    /// Iterations of each stage, on each GPU.
    iterations: BTreeMap<String, usize>,
    /// Use in all iterations of kernels of which some were taken, as it was before.
    whole: BTreeMap<(Key, Dim3), Use>,
    /// The typical iteration of each stage.
    typical: BTreeMap<String, Iteration>,
}

impl Change {
    /// That of a kernel, or of a pair of which one replaced the other.
    fn new(before: Option<(Key, Use)>, after: Option<(Key, Use)>) -> Option<Self> {
        let ((stage, class, _), _) = before.as_ref().or(after.as_ref())?.clone();
        let kernels = Pair { before, after };
        Some(Self {
            stage,
            class,
            names: Pair::of(&kernels, |kernel| {
                kernel
                    .iter()
                    .map(|((_, _, name), _)| name.clone())
                    .collect()
            }),
            used: Pair::of(&kernels, |kernel| {
                kernel.as_ref().map_or_else(Use::default, |(_, used)| *used)
            }),
            by_grid: Ratio::ONE,
        })
    }
}

/// The kernels of all stages that both captures have, one by one and by origin, the largest change first.
pub(crate) fn changes(mut kernels: Pair<Kernels>) -> (Vec<Change>, Vec<OriginChange>) {
    let stages = |kernels: &Kernels| -> BTreeSet<String> {
        kernels
            .used
            .keys()
            .map(|(stage, ..)| stage.clone())
            .collect()
    };
    let (stages_before, stages_after) = (stages(&kernels.before), stages(&kernels.after));
    let (mut changes, mut origins) = (Vec::new(), Vec::new());
    for stage in stages_before.intersection(&stages_after) {
        changes.extend(exchanged(&mut kernels, stage, &mut origins));
    }
    origins.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    kernels.before.divide();
    kernels.after.divide();
    let Pair { before, mut after } = kernels;
    after
        .used
        .retain(|(stage, ..), _| stages_before.contains(stage));
    let mut gone = Vec::new();
    for kernel in before.used {
        if !stages_after.contains(&kernel.0.0) {
            continue;
        }
        match after.used.remove_entry(&kernel.0) {
            Some(same) => {
                let grids = (before.grids.get(&kernel.0), after.grids.get(&kernel.0));
                let change = Change::new(Some(kernel), Some(same));
                changes.extend(change.map(|change| Change {
                    by_grid: by_grid(grids.0, grids.1),
                    ..change
                }));
            }
            None => gone.push(kernel),
        }
    }
    // What is gone is joined with what is new and launched as often, the longest first.
    let mut new: Vec<(Key, Use)> = after.used.into_iter().collect();
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
            .then_with(|| (&a.stage, &a.names).cmp(&(&b.stage, &b.names)))
    });
    (changes, origins)
}

/// Kernels of a stage that were exchanged at some places. Their use is taken from that of their names. Before that, adds
/// the kernels by origin, where one is known.
fn exchanged(
    kernels: &mut Pair<Kernels>,
    stage: &str,
    origins: &mut Vec<OriginChange>,
) -> Vec<Change> {
    let typical = Pair {
        before: kernels.before.typical.remove(stage).unwrap_or_default(),
        after: kernels.after.typical.remove(stage).unwrap_or_default(),
    };
    let alignment = Alignment::new(Pair::of(&typical, Iteration::launches));
    let mut known = alignment.origins.keys();
    let is_known = known.any(|origin| *origin != Origin::default());
    let (of_before, of_after) = (&kernels.before, &kernels.after);
    if is_known {
        for (origin, sums) in &alignment.origins {
            origins.push(OriginChange {
                stage: stage.to_owned(),
                module: origin.module.map(str::to_owned),
                operator: origin.operator.map(|texts| texts.map(str::to_owned)),
                used: Pair {
                    before: of_before.used_at(stage, &sums.before, &alignment.all.before),
                    after: of_after.used_at(stage, &sums.after, &alignment.all.after),
                },
            });
        }
    }
    let mut changes = Vec::new();
    for ((before, after), sums) in alignment.exchanges {
        let taken = Pair {
            before: kernels
                .before
                .take(stage, &sums.before, &alignment.all.before),
            after: kernels.after.take(stage, &sums.after, &alignment.all.after),
        };
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        changes.push(Change {
            stage: stage.to_owned(),
            class: taken.before.1,
            names: Pair {
                before: names(before),
                after: names(after),
            },
            used: Pair::of(&taken, |taken| taken.0),
            by_grid: Ratio::ONE,
        });
    }
    changes
}

impl Kernels {
    /// Adds the use in the iterations of a capture, on all of its GPUs.
    pub(crate) fn add(&mut self, capture: &Analyzed<'_>) {
        let (session, facts) = (capture.context.session, capture.context.facts);
        let modules = capture.context.results.modules();
        let has_modules = modules.is_ok_and(|modules| modules.shown.is_some());
        let spans = has_modules.then(|| Spans::of_modules(session));
        let ops = &facts.ops;
        for summary in facts.run_summaries() {
            let stage = summary.label(session, facts);
            let mut sums: BTreeMap<_, (u64, Ns)> = BTreeMap::new();
            // As in the account: iterations within others are parts of these, and each GPU has its own.
            let instances = summary.counted_instances(facts);
            let mut counted = Vec::new();
            for instance in instances.filter(|instance| !instance.is_nested) {
                *self.iterations.entry(stage.clone()).or_default() += instance.gpus.len().max(1);
                let mut launches_of_instance = 0_u64;
                for op in &instance.ops {
                    let index = *op as usize;
                    let OpSource::Launch(launch) = ops.source[index] else {
                        continue;
                    };
                    let launch = launch.index();
                    let kernel = (
                        session.launches.kernel[launch],
                        session.launches.grid[launch],
                    );
                    let (launches, time) = sums.entry(kernel).or_default();
                    *launches += 1;
                    *time += ops.end[index].saturating_sub(ops.start[index]);
                    launches_of_instance += 1;
                }
                counted.push((launches_of_instance, instance));
            }
            if !self.typical.contains_key(&stage) {
                counted.sort_by_key(|(launches, _)| *launches);
                if let Some((_, median)) = counted.get(counted.len().saturating_sub(1) / 2) {
                    let iteration = Iteration::new(session, facts, median, spans.as_ref());
                    self.typical.insert(stage.clone(), iteration);
                }
            }
            for ((kernel, grid), (launches, time)) in sums {
                let class = facts.identities[kernel.index()].class;
                let key = (stage.clone(), class, session.kernel_name(kernel).to_owned());
                let of_grids = self.grids.entry(key.clone()).or_default();
                for used in [
                    self.used.entry(key).or_default(),
                    of_grids.entry(grid).or_default(),
                ] {
                    used.launches += Count(launches as f64);
                    used.time += time.time();
                }
            }
        }
    }

    /// Takes the use of exchanged kernels: that of an iteration, and the class with the most time of it.
    fn take(
        &mut self,
        stage: &str,
        sums: &BTreeMap<Sized<'_>, Sum>,
        all: &BTreeMap<Sized<'_>, Sum>,
    ) -> (Use, KernelClass) {
        let mut taken = Use::default();
        let mut largest = (Time::ZERO, KernelClass::default());
        for (kernel, sum) in sums {
            let Some((key, part)) = self.part(stage, *kernel, *sum, all) else {
                continue;
            };
            let (key, grid) = (key.clone(), kernel.1);
            let Some(used) = self
                .grids
                .get_mut(&key)
                .and_then(|grids| grids.get_mut(&grid))
            else {
                continue;
            };
            self.whole.entry((key.clone(), grid)).or_insert(*used);
            used.launches -= part.launches;
            used.time -= part.time;
            taken.launches += part.launches;
            taken.time += part.time;
            if part.time >= largest.0 {
                largest = (part.time, key.1);
            }
            if let Some(used) = self.used.get_mut(&key) {
                used.launches -= part.launches;
                used.time -= part.time;
            }
        }
        (self.per_iteration(stage, taken), largest.1)
    }

    /// The use of kernels at some places in an iteration.
    fn used_at(
        &self,
        stage: &str,
        sums: &BTreeMap<Sized<'_>, Sum>,
        all: &BTreeMap<Sized<'_>, Sum>,
    ) -> Use {
        let mut used = Use::default();
        for (kernel, sum) in sums {
            if let Some((_, part)) = self.part(stage, *kernel, *sum, all) {
                used.launches += part.launches;
                used.time += part.time;
            }
        }
        self.per_iteration(stage, used)
    }

    /// The part of the use of a kernel in all iterations that some of its places have.
    fn part(
        &self,
        stage: &str,
        kernel: Sized<'_>,
        sum: Sum,
        all: &BTreeMap<Sized<'_>, Sum>,
    ) -> Option<(&Key, Use)> {
        let (name, grid) = kernel;
        let is_of_name = |(key, _): &(&Key, &Grids)| key.0 == stage && key.2 == name;
        let (key, grids) = self.grids.iter().find(is_of_name)?;
        let of_taken = self.whole.get(&(key.clone(), grid));
        let whole = of_taken.or_else(|| grids.get(&grid))?;
        let all = all.get(&kernel)?;
        let of_launches = sum.launches as f64 / all.launches as f64;
        let of_time = match all.time > Ns::ZERO {
            true => Ratio::of(sum.time, all.time).0,
            false => of_launches,
        };
        let part = Use {
            launches: whole.launches * of_launches,
            time: whole.time * of_time,
        };
        Some((key, part))
    }

    fn per_iteration(&self, stage: &str, used: Use) -> Use {
        let iterations = self.iterations(stage);
        Use {
            launches: used.launches / iterations,
            time: used.time / iterations,
        }
    }

    fn iterations(&self, stage: &str) -> f64 {
        self.iterations.get(stage).copied().unwrap_or(1).max(1) as f64
    }

    /// Turns sums into means of an iteration, without what was taken as a whole.
    fn divide(&mut self) {
        // Launches are whole numbers: what is less is the rounding of parts.
        let is_there = |used: &Use| used.launches.0 > 0.5;
        self.used.retain(|_, used| is_there(used));
        for grids in self.grids.values_mut() {
            grids.retain(|_, used| is_there(used));
        }
        let iterations = std::mem::take(&mut self.iterations);
        for ((stage, ..), used) in &mut self.used {
            let iterations = iterations.get(stage).copied().unwrap_or(1).max(1) as f64;
            used.launches = used.launches / iterations;
            used.time = used.time / iterations;
        }
    }
}

/// Duration of a launch after ÷ before if each grid were as fast as before. Grids that are new count with their own time.
fn by_grid(before: Option<&Grids>, after: Option<&Grids>) -> Ratio {
    let (Some(before), Some(after)) = (before, after) else {
        return Ratio::ONE;
    };
    let mean = |used: &Use| used.time / used.launches.0;
    let sum = |grids: &Grids| {
        let mut sum = Use::default();
        for used in grids.values() {
            sum.launches += used.launches;
            sum.time += used.time;
        }
        sum
    };
    let mut expected = Time::ZERO;
    for (grid, used) in after {
        let time = before.get(grid).map_or(mean(used), mean);
        expected += time * used.launches.0;
    }
    let expected = Use {
        launches: sum(after).launches,
        time: expected,
    };
    let ratio = Ratio::of(mean(&expected), mean(&sum(before)));
    // Equal mixes differ by the rounding of sums only.
    let is_equal = !ratio.0.is_finite() || (ratio.0 - 1.0).abs() < 1e-12;
    if is_equal { Ratio::ONE } else { ratio }
}
