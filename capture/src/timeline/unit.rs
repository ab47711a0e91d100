//! The unit that repeats, where no range says it: the same CUDA graphs one after another, or the same kernels.

use std::collections::HashMap;

use super::select::Selected;
use super::{Call, Timeline};

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
        let unit = self.unit()?;
        let counted = self.counted(selected);
        let begin = self.launches[unit[0]].start;
        let skip = counted
            .iter()
            .take_while(|index| self.launches[**index].start < begin)
            .count();
        let place = |index: &usize| {
            selected
                .iter()
                .position(|one| one.kernel == self.launches[*index].kernel)
        };
        let within = counted[skip..].iter().take(unit.len());
        let end = self.launches[*unit.last()?].start;
        let within: Vec<Option<usize>> = within
            .take_while(|index| self.launches[**index].start <= end)
            .map(place)
            .collect();
        let mut seen: Vec<usize> = within.iter().flatten().copied().collect();
        seen.sort_unstable();
        seen.dedup();
        let renumbered: Vec<Option<usize>> = within
            .iter()
            .map(|place| seen.binary_search(&(*place)?).ok())
            .collect();
        let (before, count) = super::select::shortest(&renumbered, seen.len())?;
        Some((skip as u64 + before, count))
    }

    /// The launches of the second repeat of the unit, in order.
    pub(super) fn unit(&self) -> Option<Vec<usize>> {
        let mut order = self.in_order();
        order.truncate(MOST);
        if let Some(unit) = self.unit_of_graphs(&order) {
            return Some(unit);
        }
        let kernels: Vec<usize> = order
            .iter()
            .map(|index| self.launches[*index].kernel)
            .collect();
        let (first, length) = repeating(&kernels)?;
        Some(order[first + length..first + 2 * length].to_vec())
    }

    /// The unit by launches of graphs, if most of the time is theirs: what is launched between them may differ from step
    /// to step.
    fn unit_of_graphs(&self, order: &[usize]) -> Option<Vec<usize>> {
        let mut graphs: Vec<(Call, Vec<usize>)> = Vec::new();
        let mut by_call: HashMap<(i64, i64), usize> = HashMap::new();
        for index in order {
            let Some(call) = self.launches[*index].call else {
                continue;
            };
            let at = *by_call.entry((call.thread, call.start)).or_insert_with(|| {
                graphs.push((call, Vec::new()));
                graphs.len() - 1
            });
            graphs[at].1.push(*index);
        }
        // One call launches several kernels of a graph alone.
        graphs.retain(|(_, launches)| launches.len() > 1);
        let time = |of: &mut dyn Iterator<Item = usize>| -> i64 {
            of.map(|index| self.launches[index].duration()).sum()
        };
        let own = time(
            &mut graphs
                .iter()
                .flat_map(|(_, launches)| launches.iter().copied()),
        );
        if 2 * own < time(&mut order.iter().copied()) {
            return None;
        }
        graphs.sort_by_key(|(call, _)| call.start);
        let mut names: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut names_of = |launches: &Vec<usize>| {
            let mut kernels: Vec<usize> = launches
                .iter()
                .map(|index| self.launches[*index].kernel)
                .collect();
            // Branches of a graph run in any order.
            kernels.sort_unstable();
            let count = names.len();
            *names.entry(kernels).or_insert(count)
        };
        let symbols: Vec<usize> = graphs
            .iter()
            .map(|(_, launches)| names_of(launches))
            .collect();
        let (first, length) = repeating(&symbols)?;
        let [begin, end] = [first + length, first + 2 * length].map(|at| graphs.get(at));
        let (begin, end) = (begin?.0.start, end.map_or(i64::MAX, |(call, _)| call.start));
        let is_within = |index: &&usize| {
            self.launches[**index]
                .call
                .is_some_and(|call| (begin..end).contains(&call.start))
        };
        Some(order.iter().filter(is_within).copied().collect())
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
        let first = (0..middle)
            .rev()
            .take_while(|index| is_same(*index))
            .last()
            .unwrap_or(middle);
        let last = (middle..count - length)
            .take_while(|index| is_same(*index))
            .last();
        let repeated = last.unwrap_or(middle) + 1 + length - first;
        if repeated >= REPEATS * length && SHARE * repeated >= count {
            return Some((first, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, Launch};
    use super::*;

    #[test]
    fn graphs_repeat_whatever_lies_between_them() {
        let kernel = |name: &str| Kernel {
            name: name.to_owned(),
            function: name.to_owned(),
            mangled: None,
        };
        let mut timeline = Timeline {
            kernels: ["a", "b", "c"].map(kernel).into(),
            ..Timeline::default()
        };
        let mut launch = |kernel: usize, call: i64| {
            let start = 100 * timeline.launches.len() as i64;
            let call = Some(Call {
                start: call,
                end: call + 1,
                thread: 1,
            });
            let (process, grid, block) = (0, [1; 3], [1; 4]);
            timeline.launches.push(Launch {
                start,
                end: start + 90,
                kernel,
                process,
                grid,
                block,
                call,
            });
        };
        // Four graphs of a, b and a; after each as many c as there were graphs.
        for step in 0..4 {
            [0, 1, 0]
                .into_iter()
                .for_each(|kernel| launch(kernel, 10 * step));
            (0..=step).for_each(|index| launch(2, 10 * step + 1 + index));
        }
        // The second graph is the fifth to the seventh launch, and two c follow it.
        assert_eq!(timeline.unit(), Some(vec![4, 5, 6, 7, 8]));
        // Without graphs nothing repeats.
        timeline
            .launches
            .iter_mut()
            .for_each(|launch| launch.call = None);
        assert_eq!(timeline.unit(), None);
    }

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
