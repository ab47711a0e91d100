//! When enough is profiled. ncu makes every launch slow while it profiles, also those that it does not ask about, so that
//! it is stopped as soon as each kernel was there with the grid that takes most of its time.

use std::collections::HashSet;

use super::Timeline;
use super::list::Place;

/// What ncu tells launches apart by, if it profiles each kernel once a configuration: name, grid, block and shared memory.
type Configuration<'a> = (&'a str, [i64; 3], [i64; 4]);

/// For each place, in the order of time: launches that are profiled until all that is wanted there has been.
pub(crate) fn stops(timeline: &Timeline, places: &[&Place], is_mangled: bool) -> Vec<u64> {
    let name = |kernel: usize| {
        let kernel = &timeline.kernels[kernel];
        match &kernel.mangled {
            Some(mangled) if is_mangled => mangled.as_str(),
            _ => kernel.function.as_str(),
        }
    };
    let listed: HashSet<&str> = places
        .iter()
        .flat_map(|place| &place.wanted)
        .map(|(kernel, _)| name(*kernel))
        .collect();
    let mut profiled: HashSet<Configuration<'_>> = HashSet::new();
    let stop = |place: &&Place| {
        let mut missing: HashSet<(usize, [i64; 3])> = place.wanted.iter().copied().collect();
        for launch in place
            .launches
            .iter()
            .map(|index| &timeline.launches[*index])
        {
            if missing.is_empty() {
                break;
            }
            if listed.contains(name(launch.kernel)) {
                profiled.insert((name(launch.kernel), launch.grid, launch.block));
            }
            missing.remove(&(launch.kernel, launch.grid));
        }
        profiled.len() as u64
    };
    places.iter().map(stop).collect()
}

impl Place {
    /// Whether its range begins before another's.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, Launch};
    use super::*;

    #[test]
    fn profiling_stops_with_the_last_kernel_that_is_wanted() {
        let kernel = |name: &str| Kernel {
            name: name.to_owned(),
            function: name.to_owned(),
            mangled: None,
        };
        let launch = |(kernel, grid): (usize, i64)| Launch {
            start: 0,
            end: 1,
            kernel,
            process: 0,
            grid: [grid, 1, 1],
            block: [32, 1, 1, 0],
            call: None,
        };
        let kernels = ["a", "b", "c"].map(kernel).into();
        // a with two grids, c, a again, b; then c alone, and a with its second grid.
        let launches = [
            (0, 4),
            (0, 8),
            (2, 1),
            (0, 8),
            (1, 1),
            (2, 1),
            (0, 8),
            (1, 2),
        ];
        let timeline = Timeline {
            kernels,
            launches: launches.map(launch).into(),
            ..Timeline::default()
        };
        let place = |launches: std::ops::Range<usize>, wanted: &[(usize, i64)]| Place {
            range: String::new(),
            ordinal: 0,
            start: 0,
            launches: launches.collect(),
            wanted: wanted
                .iter()
                .map(|(kernel, grid)| (*kernel, [*grid, 1, 1]))
                .collect(),
        };
        let forward = place(0..6, &[(0, 8), (1, 1)]);
        let backward = place(6..8, &[(0, 8), (1, 2)]);
        // Of a two grids, and one of b; c is not listed. Then a is known, and b has a new grid.
        assert_eq!(stops(&timeline, &[&forward, &backward], false), [3, 4]);
        // Alone, all that is wanted of a is there with its second launch.
        let alone = place(0..6, &[(0, 8)]);
        assert_eq!(stops(&timeline, &[&alone], false), [2]);
    }
}
