//! When enough is profiled. ncu makes every launch slow while it profiles, also those that it does not ask about, so that
//! it is stopped as soon as each kernel was there with the grid that takes most of its time.

use std::collections::HashSet;

use rooflens_session::{Dim3, KernelId, Ns};
use rooflens_stages::selection::function;

use super::Timeline;
use super::list::Place;

/// What ncu tells launches apart by, if it profiles each kernel once a configuration: name, grid, block and shared memory.
type Configuration<'a> = (&'a str, Dim3, Dim3, Option<u32>);

/// For each place, in the order of time: launches that are profiled until all that is wanted there has been.
pub(crate) fn stops(timeline: &Timeline, places: &[&Place], is_mangled: bool) -> Vec<u64> {
    let launches = &timeline.session.launches;
    let names = names(timeline, is_mangled);
    let name = |kernel: KernelId| names[kernel.index()].as_str();
    let mut listed: HashSet<&str> = HashSet::new();
    for place in places {
        listed.extend(place.wanted.iter().map(|(kernel, _)| name(*kernel)));
    }
    let mut profiled: HashSet<Configuration<'_>> = HashSet::new();
    let mut stops = Vec::new();
    for place in places {
        let mut missing: HashSet<(KernelId, Dim3)> = place.wanted.iter().copied().collect();
        for launch in &place.launches {
            if missing.is_empty() {
                break;
            }
            let row = launch.index();
            let (kernel, grid) = (launches.kernel[row], launches.grid[row]);
            if listed.contains(name(kernel)) {
                let shared_bytes = launches.shared_bytes[row];
                profiled.insert((name(kernel), grid, launches.block[row], shared_bytes));
            }
            missing.remove(&(kernel, grid));
        }
        stops.push(profiled.len() as u64);
    }
    stops
}

/// The names of all kernels by which ncu finds them.
fn names(timeline: &Timeline, is_mangled: bool) -> Vec<String> {
    let mut names = Vec::new();
    for kernel in timeline.session.kernels.ids() {
        let mangled = timeline.mangled[kernel.index()].clone();
        let function = function(&timeline.session, kernel);
        names.push(mangled.filter(|_| is_mangled).unwrap_or(function));
    }
    names
}

impl Place {
    /// Whether its range begins before another's.
    pub(crate) fn start(&self) -> Ns {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, timeline};
    use super::*;
    use rooflens_session::LaunchId;

    #[test]
    fn profiling_stops_with_the_last_kernel_that_is_wanted() {
        // a with two grids, c, a again, b; then c alone, and a with its second grid.
        let launches = [
            ("a", 4),
            ("a", 8),
            ("c", 1),
            ("a", 8),
            ("b", 1),
            ("c", 1),
            ("a", 8),
            ("b", 2),
        ];
        let launches = launches.map(|(name, grid)| Made {
            name,
            time: (Ns::ZERO, Ns(1)),
            grid,
            call: None,
        });
        let timeline = timeline(None, &launches);
        let kernels = ["a", "c", "b"];
        let place = |launches: std::ops::Range<u32>, wanted: &[(&str, u32)]| {
            let wanted = wanted.iter().map(|(name, x)| {
                let kernel = kernels
                    .iter()
                    .position(|kernel| kernel == name)
                    .expect("launched");
                (KernelId(kernel as u32), Dim3 { x: *x, y: 1, z: 1 })
            });
            Place {
                range: String::new(),
                ordinal: 0,
                start: Ns::ZERO,
                launches: launches.map(LaunchId).collect(),
                wanted: wanted.collect(),
            }
        };
        let forward = place(0..6, &[("a", 8), ("b", 1)]);
        let backward = place(6..8, &[("a", 8), ("b", 2)]);
        // Of a two grids, and one of b; c is not listed. Then a is known, and b has a new grid.
        assert_eq!(stops(&timeline, &[&forward, &backward], false), [3, 4]);
        // Alone, all that is wanted of a is there with its second launch.
        let alone = place(0..6, &[("a", 8)]);
        assert_eq!(stops(&timeline, &[&alone], false), [2]);
    }
}
