//! Of the kernels with the most time, the launches that stand for the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Timeline;

/// Launches of a kernel that are named.
const LAUNCHES: usize = 3;

/// A launch this near to the median of its grid, as a share of it, stands for the kernel.
const NEAR: f64 = 0.05;

/// A kernel to profile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selected {
    pub(super) kernel: usize,
    /// Of the kernel time that was asked about.
    pub(super) share: f64,
    /// Ordinals among the launches of its function, from 0.
    pub(super) launches: Vec<usize>,
}

impl Timeline {
    /// The kernels with the most time of these launches.
    pub(super) fn select(&self, launches: &[usize], top: usize) -> Vec<Selected> {
        let mut by_kernel: Vec<Vec<usize>> = vec![Vec::new(); self.kernels.len()];
        for index in launches {
            by_kernel[self.launches[*index].kernel].push(*index);
        }
        let time = |own: &[usize]| {
            own.iter()
                .map(|index| self.launches[*index].duration())
                .sum()
        };
        let times: Vec<i64> = by_kernel.iter().map(|own| time(own)).collect();
        let total = times.iter().sum::<i64>();
        let mut kernels: Vec<usize> = (0..self.kernels.len())
            .filter(|kernel| !by_kernel[*kernel].is_empty())
            .collect();
        kernels.sort_by_key(|kernel| (Reverse(times[*kernel]), *kernel));
        kernels.truncate(top);
        let numbers = self.numbers();
        let selected = |kernel: usize| Selected {
            kernel,
            share: if total > 0 {
                times[kernel] as f64 / total as f64
            } else {
                0.0
            },
            launches: self
                .typical(&by_kernel[kernel])
                .iter()
                .map(|at| numbers[at])
                .collect(),
        };
        kernels.into_iter().map(selected).collect()
    }

    /// The shortest run of launches of the selected functions that holds a typical launch of each kernel: launches
    /// before it, and its length. None if some kernel has none among `launches`.
    pub(super) fn window(&self, launches: &[usize], selected: &[Selected]) -> Option<(u64, u64)> {
        let place = |kernel: usize| selected.iter().position(|one| one.kernel == kernel);
        let mut by_place: Vec<Vec<usize>> = vec![Vec::new(); selected.len()];
        for index in launches {
            if let Some(place) = place(self.launches[*index].kernel) {
                by_place[place].push(*index);
            }
        }
        let mut wanted = HashMap::new();
        for (place, own) in by_place.iter().enumerate() {
            wanted.extend(
                self.near_median(own)
                    .into_iter()
                    .map(|index| (index, place)),
            );
        }
        let order: Vec<Option<usize>> = self
            .counted(selected)
            .iter()
            .map(|index| wanted.get(index).copied())
            .collect();
        shortest(&order, selected.len())
    }

    /// The launches of the selected functions, in order: what ncu counts.
    pub(super) fn counted(&self, selected: &[Selected]) -> Vec<usize> {
        let function = |kernel: usize| &self.kernels[kernel].function;
        let is_counted: Vec<bool> = (0..self.kernels.len())
            .map(|kernel| {
                selected
                    .iter()
                    .any(|one| function(one.kernel) == function(kernel))
            })
            .collect();
        let mut order = self.in_order();
        order.retain(|index| is_counted[self.launches[*index].kernel]);
        order
    }

    /// The number of each launch of the first process among those of its function.
    fn numbers(&self) -> HashMap<usize, usize> {
        let mut next: HashMap<&str, usize> = HashMap::new();
        let order = self.in_order().into_iter();
        let numbers = order.map(|index| {
            let function = self.kernels[self.launches[index].kernel].function.as_str();
            let count = next.entry(function).or_insert(0);
            *count += 1;
            (index, *count - 1)
        });
        numbers.collect()
    }

    /// The launches whose grid is the one with the most time and whose duration is nearest to that grid's median.
    fn typical(&self, own: &[usize]) -> Vec<usize> {
        let (median, mut own) = self.of_longest_grid(own);
        own.sort_by_key(|index| ((self.launches[*index].duration() - median).abs(), *index));
        own.truncate(LAUNCHES);
        own.sort_unstable();
        own
    }

    /// The launches of the grid with the most time that last about as long as its median launch.
    pub(super) fn near_median(&self, own: &[usize]) -> Vec<usize> {
        let (median, mut own) = self.of_longest_grid(own);
        let most = (median as f64 * NEAR) as i64;
        own.retain(|index| (self.launches[*index].duration() - median).abs() <= most);
        own
    }

    /// The grid with the most time.
    pub(super) fn longest_grid(&self, own: &[usize]) -> Option<[i64; 3]> {
        let mut grids: BTreeMap<[i64; 3], i64> = BTreeMap::new();
        for index in own {
            let launch = &self.launches[*index];
            *grids.entry(launch.grid).or_insert(0) += launch.duration();
        }
        let longest = grids
            .into_iter()
            .max_by_key(|(grid, time)| (*time, Reverse(*grid)));
        longest.map(|(grid, _)| grid)
    }

    /// The launches of the grid with the most time, by duration, and their median duration.
    fn of_longest_grid(&self, own: &[usize]) -> (i64, Vec<usize>) {
        let Some(grid) = self.longest_grid(own) else {
            return (0, Vec::new());
        };
        let duration = |index: &usize| self.launches[*index].duration();
        let of_grid = |index: &usize| self.launches[*index].grid == grid;
        let mut own: Vec<usize> = own.iter().copied().filter(of_grid).collect();
        own.sort_by_key(|index| (duration(index), *index));
        (duration(&own[own.len() / 2]), own)
    }
}

/// The shortest run that holds every place; of several the first.
pub(super) fn shortest(order: &[Option<usize>], places: usize) -> Option<(u64, u64)> {
    let mut held = vec![0_usize; places];
    let (mut missing, mut begin, mut best) = (places, 0, None::<(usize, usize)>);
    for (end, place) in order.iter().enumerate() {
        let Some(place) = *place else { continue };
        missing -= usize::from(held[place] == 0);
        held[place] += 1;
        while missing == 0 {
            let count = end - begin + 1;
            if best.is_none_or(|(_, best)| count < best) {
                best = Some((begin, count));
            }
            if let Some(place) = order[begin] {
                held[place] -= 1;
                missing += usize::from(held[place] == 0);
            }
            begin += 1;
        }
    }
    best.map(|(skip, count)| (skip as u64, count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shortened_from_both_ends() {
        let order = [
            Some(0),
            None,
            Some(0),
            Some(1),
            None,
            Some(2),
            Some(0),
            Some(1),
            None,
        ];
        // 3 to 6 hold 1, 2 and 0, and so do 5 to 7, which are fewer.
        assert_eq!(shortest(&order, 3), Some((5, 3)));
        assert_eq!(shortest(&order, 4), None);
    }
}
