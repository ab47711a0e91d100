//! The unit that repeats, where no range says it: the same CUDA graphs one after another, or the same kernels.

use rooflens_session::LaunchId;
use rooflens_stages::repeats::second_unit;
use rooflens_stages::selection::{Selected, Window, counted, first_process, places, shortest};

use super::{PASS, Timeline};

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
        let (session, ops) = (&self.session, &self.tables.ops);
        let process = first_process(session, PASS)?;
        let (begin, end) = second_unit(session, ops, PASS, process)?;
        let mut unit = self.in_order();
        unit.retain(|launch| {
            let call = self.calls[launch.index()];
            let start = call.map_or(session.launches.start[launch.index()], |call| call.start);
            (begin..end).contains(&start)
        });
        // A unit of whole graphs shows no launch.
        (!unit.is_empty()).then_some(unit)
    }
}

#[cfg(test)]
mod tests {
    use rooflens_session::Ns;

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
        let timeline = timeline(None, &launches);
        // The second graph is the fifth to the seventh launch, and two c follow it.
        assert_eq!(
            timeline.unit(),
            Some([4, 5, 6, 7, 8].map(LaunchId).to_vec())
        );
        // Without graphs nothing repeats.
        for made in &mut launches {
            made.call = None;
        }
        assert_eq!(super::super::made::timeline(None, &launches).unit(), None);
    }
}
