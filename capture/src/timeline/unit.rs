//! The unit that repeats, where no range says it: the same kernels one after another, as replays of a graph or steps of a
//! loop launch them.

use super::Timeline;
use super::select::Selected;

/// Launches that are looked at, from the first on: a longer run repeats itself before.
const MOST: usize = 100_000;

/// Times that a unit is there at least, and the share of all launches that its repeats are: layers repeat, too, but
/// only within a step.
const REPEATS: usize = 3;
const SHARE: usize = 2;

impl Timeline {
    /// Launches of the selected functions to pass over and to profile: in the second repeat, the shortest run with each of
    /// the kernels that occur in it.
    pub(super) fn unit_window(&self, selected: &[Selected]) -> Option<(u64, u64)> {
        let mut order = self.in_order();
        order.truncate(MOST);
        let kernels: Vec<usize> = order.iter().map(|index| self.launches[*index].kernel).collect();
        let (first, length) = repeating(&kernels)?;
        let unit = &order[first + length..first + 2 * length];
        let counted = self.counted(selected);
        let begin = self.launches[unit[0]].start;
        let skip = counted.iter().take_while(|index| self.launches[**index].start < begin).count();
        let place = |index: &usize| {
            selected.iter().position(|one| one.kernel == self.launches[*index].kernel)
        };
        let within = counted[skip..].iter().take(unit.len());
        let end = self.launches[*unit.last()?].start;
        let within: Vec<Option<usize>> =
            within.take_while(|index| self.launches[**index].start <= end).map(place).collect();
        let mut seen: Vec<usize> = within.iter().flatten().copied().collect();
        seen.sort_unstable();
        seen.dedup();
        let renumbered: Vec<Option<usize>> =
            within.iter().map(|place| seen.binary_search(&(*place)?).ok()).collect();
        let (before, count) = super::select::shortest(&renumbered, seen.len())?;
        Some((skip as u64 + before, count))
    }
}

/// Where a unit begins to repeat, and its length.
fn repeating(kernels: &[usize]) -> Option<(usize, usize)> {
    let (count, middle) = (kernels.len(), kernels.len() / 2);
    for length in 1..=(count - middle) / 2 {
        let is_same = |index: usize| kernels[index] == kernels[index + length];
        if !(middle..middle + length).all(is_same) {
            continue;
        }
        let first = (0..middle).rev().take_while(|index| is_same(*index)).last().unwrap_or(middle);
        let last = (middle..count - length).take_while(|index| is_same(*index)).last();
        let repeated = last.unwrap_or(middle) + 1 + length - first;
        if repeated >= REPEATS * length && SHARE * repeated >= count {
            return Some((first, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_step_and_not_the_layer() {
        // Two of warm-up, then five steps of a head, three layers of two kernels, and an update.
        let step = [9, 1, 2, 1, 2, 1, 2, 7];
        let mut kernels = vec![5, 6];
        (0..5).for_each(|_| kernels.extend(step));
        assert_eq!(repeating(&kernels), Some((2, 8)));
        assert_eq!(repeating(&[1, 2, 3, 4, 5, 6]), None);
        assert_eq!(repeating(&[]), None);
    }
}
