//! Which kernels changed: by their order in a typical iteration, and by name where that says nothing.
//!
//! The use of a kernel is the mean over all iterations. Where it was exchanged at some of its places only, its use is
//! split by the parts that these places have of its launches and of its time in the typical iteration.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::operators::call_tree::Spans;
use rooflens_session::{Dim3, Ns};
use rooflens_units::{Count, Ratio, Time};
use rustc_hash::FxHashMap;

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

/// Launches and time by grid.
type Grids = BTreeMap<Dim3, Use>;

/// The kernels of a side by stage.
#[derive(Default)]
pub(crate) struct Kernels {
    stages: BTreeMap<String, OfStage>,
}

/// The kernels of a stage.
#[derive(Default)]
struct OfStage {
    /// By name.
    used: BTreeMap<String, Used>,
    /// Iterations on each GPU.
    iterations: usize,
    /// The typical iteration.
    typical: Option<Iteration>,
}

/// The use of a kernel in all iterations.
#[derive(Clone, Default)]
struct Used {
    class: KernelClass,
    whole: Use,
    grids: Grids,
    /// Of grids of which some was taken, the use before.
    all_grids: Grids,
}

/// A kernel of a stage: its name, and its use.
type Named = (String, Used);

impl Change {
    /// That of a kernel, or of a pair of which one replaced the other.
    fn new(stage: &str, before: Option<&Named>, after: Option<&Named>) -> Option<Self> {
        let (_, used) = before.or(after)?;
        let kernels = Pair { before, after };
        Some(Self {
            stage: stage.to_owned(),
            class: used.class,
            names: Pair::of(&kernels, |kernel| {
                kernel.iter().map(|(name, _)| name.clone()).collect()
            }),
            used: Pair::of(&kernels, |kernel| {
                kernel.map_or_else(Use::default, |(_, used)| used.whole)
            }),
            by_grid: Ratio::ONE,
        })
    }
}

/// The kernels of all stages that both captures have, one by one and by origin, the largest change first.
pub(crate) fn changes(kernels: Pair<Kernels>) -> (Vec<Change>, Vec<OriginChange>) {
    let Pair { before, mut after } = kernels;
    let (mut changes, mut origins) = (Vec::new(), Vec::new());
    for (stage, before) in before.stages {
        let Some(after) = after.stages.remove(&stage) else {
            continue;
        };
        // Kernels of a graph that was traced as one operation are not gone, but unknown.
        if !before.used.is_empty() && !after.used.is_empty() {
            add_changes(&stage, Pair { before, after }, &mut changes, &mut origins);
        }
    }
    origins.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    let size = |change: &Change| change.difference().abs();
    changes.sort_by(|a, b| {
        size(b)
            .total_cmp(&size(a))
            .then_with(|| (&a.stage, &a.names).cmp(&(&b.stage, &b.names)))
    });
    (changes, origins)
}

/// Adds the changes of a stage.
fn add_changes(
    stage: &str,
    mut kernels: Pair<OfStage>,
    changes: &mut Vec<Change>,
    origins: &mut Vec<OriginChange>,
) {
    changes.extend(exchanged(&mut kernels, stage, origins));
    let before = kernels.before.per_iteration();
    let mut after = kernels.after.per_iteration();
    let mut gone = Vec::new();
    for kernel in before {
        match after.remove_entry(&kernel.0) {
            Some(same) => {
                let by_grid = by_grid(&kernel.1.grids, &same.1.grids);
                let change = Change::new(stage, Some(&kernel), Some(&same));
                changes.extend(change.map(|change| Change { by_grid, ..change }));
            }
            None => gone.push(kernel),
        }
    }
    // What is gone is joined with what is new and launched as often, the longest first.
    let mut new: Vec<Named> = after.into_iter().collect();
    let by_time = |a: &Named, b: &Named| {
        let order = b.1.whole.time.total_cmp(&a.1.whole.time);
        order.then_with(|| (a.1.class, &a.0).cmp(&(b.1.class, &b.0)))
    };
    gone.sort_by(by_time);
    new.sort_by(by_time);
    for kernel in gone {
        let is_like = |(_, used): &Named| {
            let of_gone = &kernel.1;
            used.class == of_gone.class && used.whole.launches == of_gone.whole.launches
        };
        let other = new.iter().position(is_like).map(|index| new.remove(index));
        changes.extend(Change::new(stage, Some(&kernel), other.as_ref()));
    }
    for kernel in &new {
        changes.extend(Change::new(stage, None, Some(kernel)));
    }
}

/// Kernels of a stage that were exchanged at some places. Their use is taken from that of their names. Before that, adds
/// the kernels by origin, where one is known.
fn exchanged(
    kernels: &mut Pair<OfStage>,
    stage: &str,
    origins: &mut Vec<OriginChange>,
) -> Vec<Change> {
    let typical = Pair {
        before: kernels.before.typical.take().unwrap_or_default(),
        after: kernels.after.typical.take().unwrap_or_default(),
    };
    let alignment = Alignment::new(Pair::of(&typical, Iteration::launches));
    let Pair { before, after } = kernels;
    let all = &alignment.all;
    let mut known = alignment.origins.keys();
    if known.any(|origin| *origin != Origin::default()) {
        for (origin, sums) in &alignment.origins {
            origins.push(OriginChange {
                stage: stage.to_owned(),
                module: origin.module.map(str::to_owned),
                operator: origin.operator.map(|texts| texts.map(str::to_owned)),
                used: Pair {
                    before: before.used_at(&sums.before, &all.before),
                    after: after.used_at(&sums.after, &all.after),
                },
            });
        }
    }
    let mut changes = Vec::new();
    for ((names_before, names_after), sums) in &alignment.exchanges {
        let (used_before, class) = before.take(&sums.before, &all.before);
        let (used_after, _) = after.take(&sums.after, &all.after);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        changes.push(Change {
            stage: stage.to_owned(),
            class,
            names: Pair {
                before: names(names_before),
                after: names(names_after),
            },
            used: Pair {
                before: used_before,
                after: used_after,
            },
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
            let stage = self.stages.entry(summary.label(session, facts));
            let stage = stage.or_default();
            let mut sums: FxHashMap<_, (u64, Ns)> = FxHashMap::default();
            // As in the account: iterations within others are parts of these, and each GPU has its own.
            let instances = summary.counted_instances(facts);
            let mut counted = Vec::new();
            for instance in instances.filter(|instance| !instance.is_nested) {
                stage.iterations += instance.gpus.len().max(1);
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
            if stage.typical.is_none() {
                counted.sort_by_key(|(launches, _)| *launches);
                let median = counted.get(counted.len().saturating_sub(1) / 2);
                stage.typical = median
                    .map(|(_, median)| Iteration::new(session, facts, median, spans.as_ref()));
            }
            let mut sums: Vec<_> = sums.into_iter().collect();
            sums.sort_unstable_by_key(|(kernel, _)| *kernel);
            for ((kernel, grid), (launches, time)) in sums {
                let name = session.kernel_name(kernel).to_owned();
                let used = stage.used.entry(name).or_default();
                used.class = facts.identities[kernel.index()].class;
                for used in [&mut used.whole, used.grids.entry(grid).or_default()] {
                    used.launches += Count(launches as f64);
                    used.time += time.time();
                }
            }
        }
    }
}

impl OfStage {
    /// Takes the use of exchanged kernels: that of an iteration, and the class with the most time of it.
    fn take(
        &mut self,
        sums: &BTreeMap<Sized<'_>, Sum>,
        all: &BTreeMap<Sized<'_>, Sum>,
    ) -> (Use, KernelClass) {
        let mut taken = Use::default();
        let mut largest = (Time::ZERO, KernelClass::default());
        for ((name, grid), sum) in sums {
            let Some(part) = self.part((*name, *grid), *sum, all) else {
                continue;
            };
            let Some(used) = self.used.get_mut(*name) else {
                continue;
            };
            used.all_grids
                .entry(*grid)
                .or_insert_with(|| used.grids.get(grid).copied().unwrap_or_default());
            for rest in [&mut used.whole, used.grids.entry(*grid).or_default()] {
                rest.launches -= part.launches;
                rest.time -= part.time;
            }
            taken.launches += part.launches;
            taken.time += part.time;
            if part.time >= largest.0 {
                largest = (part.time, used.class);
            }
        }
        (self.in_iteration(taken), largest.1)
    }

    /// The use of kernels at some places in an iteration.
    fn used_at(&self, sums: &BTreeMap<Sized<'_>, Sum>, all: &BTreeMap<Sized<'_>, Sum>) -> Use {
        let mut used = Use::default();
        for (kernel, sum) in sums {
            if let Some(part) = self.part(*kernel, *sum, all) {
                used.launches += part.launches;
                used.time += part.time;
            }
        }
        self.in_iteration(used)
    }

    /// The part of the use of a kernel in all iterations that some of its places have.
    fn part(&self, kernel: Sized<'_>, sum: Sum, all: &BTreeMap<Sized<'_>, Sum>) -> Option<Use> {
        let (name, grid) = kernel;
        let used = self.used.get(name)?;
        let whole = used
            .all_grids
            .get(&grid)
            .or_else(|| used.grids.get(&grid))?;
        let all = all.get(&kernel)?;
        let of_launches = sum.launches as f64 / all.launches as f64;
        let of_time = match all.time > Ns::ZERO {
            true => Ratio::of(sum.time, all.time).0,
            false => of_launches,
        };
        Some(Use {
            launches: whole.launches * of_launches,
            time: whole.time * of_time,
        })
    }

    fn in_iteration(&self, used: Use) -> Use {
        let iterations = self.iterations.max(1) as f64;
        Use {
            launches: used.launches / iterations,
            time: used.time / iterations,
        }
    }

    /// The kernels that are left, each with its mean use in an iteration.
    fn per_iteration(mut self) -> BTreeMap<String, Used> {
        // Launches are whole numbers: what is less is the rounding of parts.
        let is_there = |used: &Use| used.launches.0 > 0.5;
        let mut left = std::mem::take(&mut self.used);
        left.retain(|_, used| is_there(&used.whole));
        for used in left.values_mut() {
            used.grids.retain(|_, used| is_there(used));
            used.whole = self.in_iteration(used.whole);
        }
        left
    }
}

/// Duration of a launch after ÷ before if each grid were as fast as before. Grids that are new count with their own time.
fn by_grid(before: &Grids, after: &Grids) -> Ratio {
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
