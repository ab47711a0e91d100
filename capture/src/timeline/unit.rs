//! The unit that repeats, where no range says it: the same CUDA graphs one after another, or the same kernels.

use std::collections::HashMap;

use rooflens_session::{KernelId, LaunchId, Ns};
use rooflens_stages::repeats::{Repeats, repeats};
use rooflens_stages::selection::{Selected, Window, counted, duration, places, shortest};

use super::{Call, PASS, Timeline};

/// Launches that are looked at, from the first on: a longer run repeats itself before.
const MOST: usize = 100_000;

impl Timeline {
    /// Launches of the selected functions to pass over and to profile: in the second repeat, the shortest run with each of
    /// the kernels that occur in it.
    pub(super) fn unit_window(&self, selected: &[Selected]) -> Option<(u64, u64)> {
        let unit = self.unit()?;
        let launches = &self.session.launches;
        let counted = counted(&self.session, PASS, selected);
        let begin = launches.start[unit[0].index()];
        let end = launches.start[unit.last()?.index()];
        let skip = counted.partition_point(|launch| launches.start[launch.index()] < begin);
        let places = places(&self.session, selected);
        let mut within = Vec::new();
        for launch in counted[skip..].iter().take(unit.len()) {
            if launches.start[launch.index()] > end {
                break;
            }
            within.push(places[launches.kernel[launch.index()].index()]);
        }
        let mut seen: Vec<usize> = within.iter().flatten().copied().collect();
        seen.sort_unstable();
        seen.dedup();
        let mut renumbered = Vec::new();
        for place in within {
            renumbered.push(place.and_then(|place| seen.binary_search(&place).ok()));
        }
        let window: Window = shortest(&renumbered, seen.len())?;
        Some(((skip + window.skip) as u64, window.count as u64))
    }

    /// The launches of the second repeat of the unit, in order.
    pub(super) fn unit(&self) -> Option<Vec<LaunchId>> {
        let mut order = self.in_order();
        order.truncate(MOST);
        if let Some(unit) = self.unit_of_graphs(&order) {
            return Some(unit);
        }
        let Repeats { first, length, .. } = repeats(&self.kernels_of(&order))?;
        Some(order[first + length..first + 2 * length].to_vec())
    }

    fn kernels_of(&self, launches: &[LaunchId]) -> Vec<KernelId> {
        let mut kernels = Vec::new();
        for launch in launches {
            kernels.push(self.session.launches.kernel[launch.index()]);
        }
        kernels
    }

    /// The unit by launches of graphs, if most of the time is theirs: what is launched between them may differ from step
    /// to step.
    fn unit_of_graphs(&self, order: &[LaunchId]) -> Option<Vec<LaunchId>> {
        let mut graphs: Vec<(Call, Vec<LaunchId>)> = Vec::new();
        let mut by_call: HashMap<Call, usize> = HashMap::new();
        for launch in order {
            let Some(call) = self.calls[launch.index()] else {
                continue;
            };
            let graph = *by_call.entry(call).or_insert_with(|| {
                graphs.push((call, Vec::new()));
                graphs.len() - 1
            });
            graphs[graph].1.push(*launch);
        }
        // One call launches several kernels of a graph alone.
        graphs.retain(|(_, launches)| launches.len() > 1);
        let mut time_of_graphs = Ns::ZERO;
        for (_, launches) in &graphs {
            time_of_graphs += self.time(launches);
        }
        if time_of_graphs * 2 < self.time(order) {
            return None;
        }
        graphs.sort_by_key(|(call, _)| call.start);
        let mut numbers: HashMap<Vec<KernelId>, usize> = HashMap::new();
        let mut symbols = Vec::new();
        for (_, launches) in &graphs {
            let mut kernels = self.kernels_of(launches);
            // Branches of a graph run in any order.
            kernels.sort_unstable();
            let next = numbers.len();
            symbols.push(*numbers.entry(kernels).or_insert(next));
        }
        let Repeats { first, length, .. } = repeats(&symbols)?;
        let begin = graphs.get(first + length)?.0.start;
        let end = graphs.get(first + 2 * length);
        let end = end.map_or(Ns::MAX, |(call, _)| call.start);
        let mut unit = order.to_vec();
        unit.retain(|launch| {
            let call = self.calls[launch.index()];
            call.is_some_and(|call| (begin..end).contains(&call.start))
        });
        Some(unit)
    }

    fn time(&self, launches: &[LaunchId]) -> Ns {
        let mut time = Ns::ZERO;
        for launch in launches {
            time += duration(&self.session, *launch);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, timeline};
    use super::*;

    #[test]
    fn graphs_repeat_whatever_lies_between_them() {
        let mut launches: Vec<Made> = Vec::new();
        let mut launch = |name, call: i64| {
            let start = 100 * launches.len() as i64;
            let time = (Ns(start), Ns(start + 90));
            launches.push(Made {
                name,
                time,
                grid: 1,
                call: Some((call, Ns(call))),
            });
        };
        // Four graphs of a, b and a; after each as many c as there were graphs.
        for step in 0..4 {
            for name in ["a", "b", "a"] {
                launch(name, 10 * step);
            }
            for index in 0..=step {
                launch("c", 10 * step + 1 + index);
            }
        }
        let mut timeline = timeline(None, &launches);
        // The second graph is the fifth to the seventh launch, and two c follow it.
        assert_eq!(
            timeline.unit(),
            Some([4, 5, 6, 7, 8].map(LaunchId).to_vec())
        );
        // Without graphs nothing repeats.
        timeline.calls.fill(None);
        assert_eq!(timeline.unit(), None);
    }
}
