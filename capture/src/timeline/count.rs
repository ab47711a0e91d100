//! The launches of some functions from the beginning of the process: ncu counts them if no range limits it.

use std::collections::HashSet;
use std::time::Duration;

use rooflens_session::Ns;
use rooflens_stages::selection::{duration, function};

use super::Timeline;
use super::stop::Profiled;

/// The launches that ncu counts, each with those of other functions before it.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    launches: Vec<Profiled>,
}

impl Timeline {
    /// The launches of these functions.
    pub(crate) fn counted_launches(&self, functions: &[String]) -> Counted {
        let session = &self.session;
        let functions: HashSet<&String> = functions.iter().collect();
        let mut is_counted = Vec::new();
        for kernel in session.kernels.ids() {
            is_counted.push(functions.contains(&function(session, kernel)));
        }
        let (mut launches, mut passed) = (Vec::new(), 0);
        for launch in self.in_order() {
            if is_counted[session.launches.kernel[launch.index()].index()] {
                let duration = duration(session, launch);
                launches.push(Profiled {
                    passed,
                    seen: 0,
                    duration,
                });
                passed = 0;
            } else {
                passed += 1;
            }
        }
        Counted { launches }
    }

    /// From the start of the recording to the first kernel: imports and the load of the model.
    pub(crate) fn first_launch(&self) -> Duration {
        let starts = self.session.launches.start.iter().copied();
        since_start(starts.min().unwrap_or(Ns::ZERO))
    }

    /// From the start of the recording, or of the run that it is a part of, to the end of the last kernel or range.
    pub(crate) fn end(&self) -> Duration {
        let (launches, ranges) = (&self.session.launches, &self.session.ranges);
        let ends = launches.end.iter().chain(&ranges.end).copied();
        let end = since_start(ends.max().unwrap_or(Ns::ZERO));
        self.before.end.unwrap_or(end)
    }
}

/// A point of time of the timeline as a time since its start.
pub(super) fn since_start(time: Ns) -> Duration {
    Duration::from_nanos(u64::try_from(time.0).unwrap_or(0))
}

impl Counted {
    /// Those that are profiled if ncu skips some launches and profiles the next ones.
    pub(crate) fn window(&self, skip: u64, count: u64) -> Vec<Profiled> {
        let skip = usize::try_from(skip)
            .unwrap_or(usize::MAX)
            .min(self.launches.len());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let skipped: u64 = self.launches[..skip]
            .iter()
            .map(|launch| launch.passed + 1)
            .sum();
        let mut window: Vec<Profiled> = self.launches[skip..].iter().take(count).copied().collect();
        if let Some(first) = window.first_mut() {
            first.passed += skipped;
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, timeline};
    use super::*;

    #[test]
    fn all_launches_before_a_window_are_passed_over() {
        let launches = ["c", "a", "c", "c", "b", "a", "c"];
        let launches: Vec<Made> = (0..)
            .zip(launches)
            .map(|(index, name)| Made {
                name,
                time: (Ns(5 + 10 * index), Ns(7 + 11 * index)),
                grid: 1,
                call: None,
            })
            .collect();
        let timeline = timeline(None, &launches);
        assert_eq!(timeline.first_launch(), Duration::from_nanos(5));
        let counted = timeline.counted_launches(&["a", "b"].map(str::to_owned));
        let window = |skip, count| {
            let launches = counted.window(skip, count);
            launches
                .iter()
                .map(|launch| (launch.passed, launch.duration.0))
                .collect::<Vec<_>>()
        };
        // The durations of launches 1, 4 and 5 are 3, 6 and 7.
        assert_eq!(window(0, 9), [(1, 3), (2, 6), (0, 7)]);
        // Before the second counted launch are four.
        assert_eq!(window(1, 1), [(4, 6)]);
        assert_eq!(window(3, 1), []);
    }
}
