//! From the time before to the time after by the parts that changed: exact to the nanosecond.

use std::collections::BTreeMap;

use rooflens_session::Ns;

use crate::Pair;
use crate::account::{Change, Part};

/// A time before and after, and the changes between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    /// The stage of which it is a mean iteration on a GPU; the whole captured time of all GPUs without one.
    pub stage: Option<String>,
    /// The times.
    pub time: Pair<Ns>,
    /// The changes, the largest first; they sum to the difference of the times.
    pub steps: Vec<Step>,
}

/// A change of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stage, or the stages that it lies between; empty before and after all stages.
    pub stage: String,
    /// What changed.
    pub what: What,
    /// By how much.
    pub time: Ns,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Measured iterations spend another time on a part.
    Part(Part),
    /// There is another number of measured iterations, each as long as before.
    Iterations,
    /// Time that no figure of a stage rests on, by the words of data files: set-up, warm-up, time between stages.
    Phase(&'static str),
}

impl What {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Part(part) => part.label(),
            Self::Iterations => "number of iterations",
            Self::Phase(phase) => phase,
        }
    }
}

/// A sum of fractions with one denominator, rounded where it is read: the steps between two readings sum exactly.
struct Level {
    sum: i128,
    denominator: i128,
}

impl Level {
    fn new(denominator: u64) -> Self {
        Self {
            sum: 0,
            denominator: i128::from(denominator),
        }
    }

    /// Adds `numerator` ÷ the denominator, and returns by how many whole nanoseconds the level rose.
    fn add(&mut self, numerator: i128) -> Ns {
        let before = self.rounded();
        self.sum += numerator;
        Ns(self.rounded().0 - before.0)
    }

    fn rounded(&self) -> Ns {
        let half = self.denominator / 2;
        Ns((self.sum + half).div_euclid(self.denominator) as i64)
    }
}

/// A mean iteration of a stage: none if a capture has no iteration of it.
pub(crate) fn of_iteration(account: &[Change], stage: &str) -> Option<Waterfall> {
    let is_of_stage = |change: &&Change| change.place.is_measured && change.place.stage == stage;
    let mut changes: Vec<&Change> = account.iter().filter(is_of_stage).collect();
    let parts = changes.first()?.parts;
    if parts.before == 0 || parts.after == 0 {
        return None;
    }
    let [of_before, of_after] = [parts.after, parts.before].map(i128::from);
    let scaled = |change: &Change| Pair {
        before: i128::from(change.time.before.0) * of_before,
        after: i128::from(change.time.after.0) * of_after,
    };
    let difference = |change: &Change| scaled(change).after - scaled(change).before;
    changes.sort_by_key(|change| std::cmp::Reverse(difference(change).unsigned_abs()));
    let mut level = Level::new(parts.before.saturating_mul(parts.after));
    let before = level.add(changes.iter().map(|change| scaled(change).before).sum());
    let mut steps = Vec::new();
    for change in changes {
        let what = What::Part(change.place.part);
        push(&mut steps, stage, what, level.add(difference(change)));
    }
    let after = level.rounded();
    Some(Waterfall {
        stage: Some(stage.to_owned()),
        time: Pair { before, after },
        steps,
    })
}

/// The whole captured time. Parts of measured iterations are compared for as many iterations as there are after the
/// change; that there are more or fewer of them is a step of its own.
pub(crate) fn of_capture(account: &[Change]) -> Waterfall {
    let mut sums: BTreeMap<(&str, What), Ns> = BTreeMap::new();
    let mut time = Pair::<Ns>::default();
    let mut levels: BTreeMap<&str, Level> = BTreeMap::new();
    for change in account {
        time.before += change.time.before;
        time.after += change.time.after;
        let stage = change.place.stage.as_str();
        let parts = change.parts;
        let is_compared = change.place.is_measured && parts.before > 0 && parts.after > 0;
        if !is_compared {
            *sums
                .entry((stage, What::Phase(change.place.phase)))
                .or_default() += change.difference();
            continue;
        }
        let [before, after] = [parts.before, parts.after].map(i128::from);
        let [time_before, time_after] = [change.time.before.0, change.time.after.0].map(i128::from);
        let level = levels
            .entry(stage)
            .or_insert_with(|| Level::new(parts.before));
        let of_part = level.add(time_after * before - time_before * after);
        let of_count = level.add(time_before * (after - before));
        *sums
            .entry((stage, What::Part(change.place.part)))
            .or_default() += of_part;
        *sums.entry((stage, What::Iterations)).or_default() += of_count;
    }
    let mut steps = Vec::new();
    for ((stage, what), time) in sums {
        push(&mut steps, stage, what, time);
    }
    steps.sort_by_key(|step| std::cmp::Reverse(step.time.0.unsigned_abs()));
    Waterfall {
        stage: None,
        time,
        steps,
    }
}

fn push(steps: &mut Vec<Step>, stage: &str, what: What, time: Ns) {
    if time != Ns::ZERO {
        steps.push(Step {
            stage: stage.to_owned(),
            what,
            time,
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_analysis::engine::classify::KernelClass;
    use rooflens_analysis::time::idle::cause::Cause;

    use super::*;
    use crate::account::Place;

    fn change(
        phase: (&'static str, bool),
        part: Part,
        time: (i64, i64),
        parts: (u64, u64),
    ) -> Change {
        Change {
            place: Place {
                is_measured: phase.1,
                phase: phase.0,
                stage: if phase.1 {
                    "step".to_owned()
                } else {
                    String::new()
                },
                part,
            },
            time: Pair {
                before: Ns(time.0),
                after: Ns(time.1),
            },
            parts: Pair {
                before: parts.0,
                after: parts.1,
            },
        }
    }

    /// Two iterations before, three after; GEMMs take 100 of 300 ns before, and 180 of 501 ns after.
    fn account() -> [Change; 4] {
        let (step, setup) = (("measured iterations", true), ("before stages", false));
        let idle = Part::Idle(Cause::Launching);
        [
            change(step, Part::Class(KernelClass::Gemm), (100, 180), (2, 3)),
            change(step, idle, (200, 321), (2, 3)),
            change(setup, idle, (50, 30), (1, 1)),
            change(setup, Part::NoOperation, (7, 9), (1, 1)),
        ]
    }

    #[test]
    fn an_iteration_changes_by_the_means_of_its_parts() {
        let waterfall = of_iteration(&account(), "step").unwrap();
        // 300 ÷ 2 and 501 ÷ 3; GEMMs 50 → 60, idle time 100 → 107.
        assert_eq!(
            (waterfall.time.before, waterfall.time.after),
            (Ns(150), Ns(167))
        );
        let steps: Vec<_> = waterfall
            .steps
            .iter()
            .map(|step| (step.what.label(), step.time))
            .collect();
        assert_eq!(steps, [("gemm", Ns(10)), ("launching", Ns(7))]);
        assert_eq!(of_iteration(&account(), "other"), None);
    }

    #[test]
    fn more_iterations_are_a_step_of_the_captured_time() {
        let waterfall = of_capture(&account());
        assert_eq!(
            (waterfall.time.before, waterfall.time.after),
            (Ns(357), Ns(540))
        );
        let steps: Vec<_> = waterfall
            .steps
            .iter()
            .map(|step| (step.what.label(), step.time))
            .collect();
        // One more iteration of 150 ns; three iterations with 10 ns more of GEMMs, and 7 ns more idle time.
        let expected = [
            ("number of iterations", Ns(150)),
            ("gemm", Ns(30)),
            ("launching", Ns(21)),
            ("before stages", Ns(-18)),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn steps_of_fractions_sum_to_the_rounded_levels() {
        let step = ("measured iterations", true);
        let thirds =
            |class, before, after| change(step, Part::Class(class), (before, after), (3, 3));
        let account = [
            thirds(KernelClass::Gemm, 1, 2),
            thirds(KernelClass::Softmax, 1, 2),
            thirds(KernelClass::Layout, 2, 3),
        ];
        let waterfall = of_iteration(&account, "step").unwrap();
        // 4 ÷ 3 and 7 ÷ 3.
        assert_eq!(
            (waterfall.time.before, waterfall.time.after),
            (Ns(1), Ns(2))
        );
        let sum: Ns = waterfall.steps.iter().map(|step| step.time).sum();
        assert_eq!(sum, Ns(1));
    }
}
