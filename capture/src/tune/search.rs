//! Which settings are measured: a search for the best one that measures few.
//!
//! A coarse grid comes first, because some settings pay only together. From its best setting, parameters are searched one
//! after another, those with few values first. Of ordered values, powers of two times the best known one are measured;
//! then the gaps around the best are halved until its neighbors are measured. All parameters are searched again at each
//! new best, until none gets better. The best settings are then measured a second time, and the lower score decides:
//! the best of many measurements owes its place in part to chance.
//! Nothing is assumed to be monotone: where values fall and rise again, a climb finds the best of the hill with the best
//! power of two.

use std::collections::BTreeMap;

/// A place in each parameter's values.
pub(super) type Setting = Vec<usize>;

/// Most values of a parameter that are all measured.
const FEW: usize = 3;

/// Settings that are measured a second time.
const FINALISTS: usize = 3;

/// Values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Axis {
    /// Numbers, the least first.
    Ordered(Vec<f64>),
    /// So many words.
    Named(usize),
}

impl Axis {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Ordered(values) => values.len(),
            Self::Named(count) => *count,
        }
    }

    /// Three places that represent all: of powers of two if there are enough, else of all places.
    fn coarse(&self) -> Vec<usize> {
        let mut places: Vec<usize> = match self {
            Self::Ordered(_) => {
                let next = |place: &usize| self.rung(*place, true);
                std::iter::successors(Some(0), next).collect()
            }
            Self::Named(count) => return (0..*count).collect(),
        };
        if places.len() <= FEW {
            places = (0..self.len()).collect();
        }
        if places.len() <= FEW {
            return places;
        }
        let last = places.len() - 1;
        [1, 3, 5]
            .map(|sixth| places[(last * sixth + 3) / 6])
            .to_vec()
    }

    /// The place whose value is at least twice as far up (down: at most half), or the last (first) one.
    fn rung(&self, from: usize, is_up: bool) -> Option<usize> {
        let Self::Ordered(values) = self else {
            return None;
        };
        let value = values[from];
        match is_up {
            true if from + 1 < values.len() => {
                let next = values.partition_point(|other| *other < 2.0 * value);
                Some(next.clamp(from + 1, values.len() - 1))
            }
            false if from > 0 => {
                let next = values.partition_point(|other| *other <= value / 2.0);
                Some(next.saturating_sub(1).min(from - 1))
            }
            _ => None,
        }
    }
}

/// What measures a setting.
pub(super) trait Bench {
    /// How good a setting is, the greater the better; negative infinity if it does not work at all. None if there is no
    /// time left.
    fn measure(&mut self, setting: &[usize]) -> Option<f64>;
}

/// A search.
struct Search<'a, B> {
    axes: &'a [Axis],
    bench: &'a mut B,
    scores: BTreeMap<Setting, f64>,
    /// The best so far.
    best: Setting,
}

/// The best setting that was found, and its score. None if there was no time for any.
pub(super) fn search(
    axes: &[Axis],
    start: Setting,
    bench: &mut impl Bench,
) -> Option<(Setting, f64)> {
    let mut search = Search {
        axes,
        bench,
        scores: BTreeMap::new(),
        best: start.clone(),
    };
    // Without time it ends with what it has.
    let _ = search.run(start);
    let confirmed = search.confirm();
    let scores = match confirmed.is_empty() {
        true => search.ranked(),
        false => confirmed,
    };
    let scores = scores.into_iter();
    scores.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl<B: Bench> Search<'_, B> {
    /// Measures a coarse grid, and climbs from its best setting: what pays only together shows there.
    fn run(&mut self, start: Setting) -> Option<()> {
        self.measure(start)?;
        let mut grid = vec![Setting::new()];
        for axis in self.axes {
            let places = axis.coarse();
            let longer = grid.iter().flat_map(|setting| {
                places
                    .iter()
                    .map(|place| [setting.as_slice(), &[*place]].concat())
            });
            grid = longer.collect();
        }
        for setting in grid {
            self.measure(setting)?;
        }
        self.climb()
    }

    /// All settings, the best one first.
    fn ranked(&self) -> Vec<(Setting, f64)> {
        let scores = self.scores.iter();
        let mut ranked: Vec<(Setting, f64)> = scores
            .map(|(setting, score)| (setting.clone(), *score))
            .collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// Measures the best settings that keep the limits a second time, while there is time. Each with its lower score.
    fn confirm(&mut self) -> Vec<(Setting, f64)> {
        let mut finalists = self.ranked();
        finalists.retain(|(_, score)| *score > 0.0);
        finalists.truncate(FINALISTS);
        let mut confirmed = Vec::new();
        for (setting, score) in finalists {
            let Some(second) = self.bench.measure(&setting) else {
                break;
            };
            confirmed.push((setting, score.min(second)));
        }
        confirmed
    }

    /// Improves one parameter after another until none gets better.
    fn climb(&mut self) -> Option<()> {
        let mut order: Vec<usize> = (0..self.axes.len()).collect();
        order.sort_by_key(|axis| self.axes[*axis].len());
        loop {
            let before = self.best.clone();
            for axis in &order {
                self.improve(*axis)?;
            }
            if self.best == before {
                return Some(());
            }
        }
    }

    /// Looks for a better value of one parameter.
    fn improve(&mut self, axis: usize) -> Option<()> {
        let values = &self.axes[axis];
        if values.len() <= FEW || matches!(values, Axis::Named(_)) {
            for place in 0..values.len() {
                self.at(axis, place)?;
            }
            return Some(());
        }
        let from = self.best[axis];
        for is_up in [true, false] {
            let mut place = from;
            while let Some(next) = self.axes[axis].rung(place, is_up) {
                self.at(axis, next)?;
                place = next;
            }
        }
        self.halve(axis)
    }

    /// Halves the larger gap next to the best value until both neighbors are measured, or nothing differs.
    fn halve(&mut self, axis: usize) -> Option<()> {
        loop {
            let best = self.best[axis];
            let known: Vec<usize> = self.known(axis);
            let below = known.iter().copied().rfind(|place| *place < best);
            let above = known.iter().copied().find(|place| *place > best);
            let (low, high) = (below.unwrap_or(best), above.unwrap_or(best));
            if best - low <= 1 && high - best <= 1 {
                return Some(());
            }
            let middle = match best - low > high - best {
                true => usize::midpoint(low, best),
                false => usize::midpoint(best, high),
            };
            let of = |place: usize| self.scores.get(&self.with(axis, place));
            if of(low) == of(best) && of(high) == of(best) {
                return Some(());
            }
            self.at(axis, middle)?;
        }
    }

    /// Places of a parameter that are measured next to the best values of the others.
    fn known(&self, axis: usize) -> Vec<usize> {
        let places = 0..self.axes[axis].len();
        let is_known = |place: &usize| self.scores.contains_key(&self.with(axis, *place));
        places.filter(is_known).collect()
    }

    fn with(&self, axis: usize, place: usize) -> Setting {
        let mut setting = self.best.clone();
        setting[axis] = place;
        setting
    }

    fn at(&mut self, axis: usize, place: usize) -> Option<f64> {
        self.measure(self.with(axis, place))
    }

    /// Measures a setting once. Of equal ones the later values are the best so far: where more of a resource does
    /// not harm, it leaves room for the other parameters.
    fn measure(&mut self, setting: Setting) -> Option<f64> {
        let score = match self.scores.get(&setting) {
            Some(score) => *score,
            None => self.bench.measure(&setting)?,
        };
        self.scores.insert(setting.clone(), score);
        let best = self.scores.get(&self.best);
        let is_better = |best: &f64| score > *best || (score >= *best && setting > self.best);
        if best.is_none_or(is_better) {
            self.best = setting;
        }
        Some(score)
    }
}

#[cfg(test)]
mod tests;
