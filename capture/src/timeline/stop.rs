//! The launches that ncu profiles in ranges of the workload, and when enough is profiled.
//!
//! While ncu profiles, each launch is slow, also those that ncu does not select. ncu is therefore stopped as soon as each
//! wanted kernel was there with the grid that takes most of its time. Where time is short, some are not wanted:
//! those that save the most time per share of the stage's GPU time. A kernel at the end of a long range is such a one,
//! because ncu passes over all launches before it.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rooflens_session::{Dim3, KernelId, LaunchId, Ns};
use rooflens_stages::selection::{duration, function};

use super::Timeline;
use super::filter::filter;
use super::list::Place;

/// What ncu distinguishes launches by, if it profiles each kernel once per configuration: name, grid, block and shared memory.
type Configuration = (usize, Dim3, Dim3, Option<u32>);

/// A launch that ncu profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profiled {
    /// Launches that ncu passes over before it, since the last one that it profiled or since ncu began.
    pub(crate) passed: u64,
    /// Those of them whose name ncu selects, and whose configuration it profiled already.
    pub(crate) seen: u64,
    /// Time of the kernel in the timeline.
    pub(crate) duration: Ns,
}

/// The launches of some places that ncu can profile.
pub(crate) struct Course {
    /// Names of kernels by which ncu finds them.
    names: Vec<String>,
    /// Of each place, in the order of time, the first launch of each configuration.
    firsts: Vec<Vec<First>>,
    /// Of each place, the name of each launch.
    launched: Vec<Vec<usize>>,
    wishes: Vec<Wish>,
}

/// The first launch of a configuration in a place.
struct First {
    /// Number of the launch in the place.
    number: u64,
    configuration: Configuration,
    duration: Ns,
}

/// A kernel that is to be profiled in a place, with the grid that takes most of its time there.
struct Wish {
    place: usize,
    /// Index of its name.
    name: usize,
    kernel: KernelId,
    /// Number of the first launch with this grid.
    number: u64,
    /// Share of the GPU time of the place.
    share: f64,
    is_kept: bool,
}

impl Course {
    /// The course through these places, which are in the order of time.
    pub(crate) fn new(timeline: &Timeline, places: &[&Place], is_mangled: bool) -> Self {
        let (names, name_of) = names(timeline, is_mangled);
        let wanted = places.iter().flat_map(|place| &place.wanted);
        let listed: HashSet<usize> = wanted.map(|(kernel, _)| name_of[kernel.index()]).collect();
        let (mut firsts, mut launched, mut wishes) = (Vec::new(), Vec::new(), Vec::new());
        let kernels = &timeline.session.launches.kernel;
        for (index, place) in places.iter().enumerate() {
            firsts.push(first_launches(timeline, place, &name_of, &listed));
            let names = place.launches.iter();
            launched.push(
                names
                    .map(|launch| name_of[kernels[launch.index()].index()])
                    .collect(),
            );
            for (kernel, grid) in &place.wanted {
                let (number, share) = first_and_share(timeline, place, *kernel, *grid);
                wishes.push(Wish {
                    place: index,
                    name: name_of[kernel.index()],
                    kernel: *kernel,
                    number,
                    share,
                    is_kept: true,
                });
            }
        }
        Self {
            names,
            firsts,
            launched,
            wishes,
        }
    }

    /// The launches that are profiled, and how many of them until ncu has enough of each place.
    pub(crate) fn profiled(&self) -> (Vec<Profiled>, Vec<u64>) {
        let kept: Vec<bool> = self.wishes.iter().map(|wish| wish.is_kept).collect();
        self.profiled_of(&kept)
    }

    fn profiled_of(&self, kept: &[bool]) -> (Vec<Profiled>, Vec<u64>) {
        let wishes = || self.wishes.iter().zip(kept).filter(|(_, kept)| **kept);
        let names: HashSet<usize> = wishes().map(|(wish, _)| wish.name).collect();
        let mut seen: HashSet<Configuration> = HashSet::new();
        let (mut profiled, mut stops) = (Vec::new(), Vec::new());
        for (index, firsts) in self.firsts.iter().enumerate() {
            let of_place = wishes().filter(|(wish, _)| wish.place == index);
            let last = of_place.map(|(wish, _)| wish.number).max();
            let mut next = 0;
            for first in firsts.iter().filter(|first| Some(first.number) <= last) {
                if names.contains(&first.configuration.0) && seen.insert(first.configuration) {
                    let between = &self.launched[index][next as usize..first.number as usize];
                    let seen = between.iter().filter(|name| names.contains(name)).count();
                    profiled.push(Profiled {
                        passed: first.number - next,
                        seen: seen as u64,
                        duration: first.duration,
                    });
                    next = first.number + 1;
                }
            }
            stops.push(profiled.len() as u64);
        }
        (profiled, stops)
    }

    /// Skips kernels until the rest takes at most this time; one kernel stays. `total` is the time of launches.
    pub(crate) fn shorten(&mut self, time: Duration, total: impl Fn(&[Profiled]) -> Duration) {
        loop {
            let kept: Vec<bool> = self.wishes.iter().map(|wish| wish.is_kept).collect();
            let now = total(&self.profiled_of(&kept).0);
            if now <= time {
                return;
            }
            let mut best: Option<(f64, Vec<bool>)> = None;
            for without in self.cuts(&kept) {
                let saved = now.saturating_sub(total(&self.profiled_of(&without).0));
                let share = self.share(&kept) - self.share(&without);
                let rate = saved.as_secs_f64() / share.max(1e-9);
                let is_left = without.contains(&true);
                if is_left && best.as_ref().is_none_or(|(most, _)| rate > *most) {
                    best = Some((rate, without));
                }
            }
            let Some((_, without)) = best else { return };
            for (wish, is_kept) in self.wishes.iter_mut().zip(without) {
                wish.is_kept = is_kept;
            }
        }
    }

    /// What may be skipped at once: one kernel, or the last kernels of a place.
    fn cuts(&self, kept: &[bool]) -> Vec<Vec<bool>> {
        let mut cuts = Vec::new();
        for (index, wish) in self
            .wishes
            .iter()
            .enumerate()
            .filter(|(index, _)| kept[*index])
        {
            let mut alone = kept.to_vec();
            alone[index] = false;
            let is_before = |other: &Wish| other.place != wish.place || other.number < wish.number;
            let others = self.wishes.iter().zip(kept);
            let end = others
                .map(|(other, kept)| *kept && is_before(other))
                .collect();
            cuts.extend([alone, end]);
        }
        cuts
    }

    fn share(&self, kept: &[bool]) -> f64 {
        let kept = self.wishes.iter().zip(kept).filter(|(_, kept)| **kept);
        kept.map(|(wish, _)| wish.share).sum()
    }

    /// Whether ncu selects kernels of this name: those that nobody wanted to begin with are not skipped.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let mut wishes = self
            .wishes
            .iter()
            .filter(|wish| self.names[wish.name] == name)
            .peekable();
        wishes.peek().is_none() || wishes.any(|wish| wish.is_kept)
    }

    /// An expression for kernels of these names.
    pub(crate) fn filter(&self, names: &[&str]) -> String {
        filter(names, &self.names)
    }

    /// Kernels that are skipped everywhere.
    pub(crate) fn skipped(&self) -> Vec<KernelId> {
        let skipped: BTreeSet<KernelId> = self
            .wishes
            .iter()
            .filter(|wish| !wish.is_kept)
            .map(|wish| wish.kernel)
            .collect();
        let is_kept = |kernel: &KernelId| {
            self.wishes
                .iter()
                .any(|wish| wish.is_kept && wish.kernel == *kernel)
        };
        skipped
            .into_iter()
            .filter(|kernel| !is_kept(kernel))
            .collect()
    }
}

fn first_launches(
    timeline: &Timeline,
    place: &Place,
    name_of: &[usize],
    listed: &HashSet<usize>,
) -> Vec<First> {
    let launches = &timeline.session.launches;
    let mut seen: HashSet<Configuration> = HashSet::new();
    let mut firsts = Vec::new();
    for (number, launch) in (0..).zip(&place.launches) {
        let row = launch.index();
        let name = name_of[launches.kernel[row].index()];
        let configuration = (
            name,
            launches.grid[row],
            launches.block[row],
            launches.shared_bytes[row],
        );
        if listed.contains(&name) && seen.insert(configuration) {
            firsts.push(First {
                number,
                configuration,
                duration: duration(&timeline.session, *launch),
            });
        }
    }
    firsts
}

/// The number of the first launch of a kernel with a grid, and the kernel's share of the time of the place.
fn first_and_share(timeline: &Timeline, place: &Place, kernel: KernelId, grid: Dim3) -> (u64, f64) {
    let launches = &timeline.session.launches;
    let kernel_of = |launch: &LaunchId| launches.kernel[launch.index()];
    let has_grid =
        |launch: &LaunchId| kernel_of(launch) == kernel && launches.grid[launch.index()] == grid;
    let number = place.launches.iter().position(has_grid).unwrap_or(0);
    let (mut of_kernel, mut total) = (Ns::ZERO, Ns::ZERO);
    for launch in &place.launches {
        let time = duration(&timeline.session, *launch);
        total += time;
        if kernel_of(launch) == kernel {
            of_kernel += time;
        }
    }
    let share = match total {
        Ns(1..) => of_kernel.time() / total.time(),
        _ => 0.0,
    };
    (number as u64, share)
}

/// The names by which ncu finds kernels, and the name of each kernel among them.
fn names(timeline: &Timeline, is_mangled: bool) -> (Vec<String>, Vec<usize>) {
    let mut of_kernel = Vec::new();
    for kernel in timeline.session.kernels.ids() {
        let mangled = timeline.mangled[kernel.index()].clone();
        let function = function(&timeline.session, kernel);
        of_kernel.push(mangled.filter(|_| is_mangled).unwrap_or(function));
    }
    let distinct: BTreeSet<&String> = of_kernel.iter().collect();
    let distinct: Vec<String> = distinct.into_iter().cloned().collect();
    let index = |name: &String| distinct.partition_point(|other| other < name);
    let name_of = of_kernel.iter().map(index).collect();
    (distinct, name_of)
}

impl Place {
    /// The start of its range.
    pub(crate) fn start(&self) -> Ns {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, timeline};
    use super::*;

    const KERNELS: [&str; 3] = ["a", "c", "b"];

    fn made(launches: &[(&'static str, u32, i64)]) -> Timeline {
        let launches: Vec<Made> = launches
            .iter()
            .map(|(name, grid, time)| Made {
                name,
                time: (Ns::ZERO, Ns(*time)),
                grid: *grid,
                call: None,
            })
            .collect();
        timeline(None, &launches)
    }

    fn place(launches: std::ops::Range<u32>, wanted: &[(&str, u32)]) -> Place {
        let wanted = wanted.iter().map(|(name, x)| {
            let kernel = KERNELS.iter().position(|kernel| kernel == name);
            let kernel = KernelId(kernel.expect("launched") as u32);
            (kernel, Dim3 { x: *x, y: 1, z: 1 })
        });
        Place {
            range: String::new(),
            ordinal: 0,
            start: Ns::ZERO,
            launches: launches.map(LaunchId).collect(),
            wanted: wanted.collect(),
        }
    }

    #[test]
    fn profiling_stops_with_the_last_kernel_that_is_wanted() {
        // a with two grids, c, a again, b; then c alone, and a with its second grid.
        let timeline = made(&[
            ("a", 4, 1),
            ("a", 8, 2),
            ("c", 1, 1),
            ("a", 8, 2),
            ("b", 1, 3),
            ("c", 1, 1),
            ("a", 8, 2),
            ("b", 2, 4),
        ]);
        let stops = |places: &[&Place]| Course::new(&timeline, places, false).profiled();
        let forward = place(0..6, &[("a", 8), ("b", 1)]);
        let backward = place(6..8, &[("a", 8), ("b", 2)]);
        let (profiled, counts) = stops(&[&forward, &backward]);
        // Of a two grids, and one of b; c is not listed. Then a is known, and b has a new grid.
        assert_eq!(counts, [3, 4]);
        // Before b are c and the second a; in the second place a is passed over.
        let expected = [(0, 0, 1), (0, 0, 2), (2, 1, 3), (1, 1, 4)];
        let expected = expected.map(|(passed, seen, time)| Profiled {
            passed,
            seen,
            duration: Ns(time),
        });
        assert_eq!(profiled, expected);
        // Alone, all that is wanted of a is there with its second launch.
        let alone = place(0..6, &[("a", 8)]);
        assert_eq!(stops(&[&alone]).1, [2]);
    }

    #[test]
    fn where_time_is_short_a_kernel_that_many_launches_precede_is_skipped() {
        // b has a third of the time, at the end of 100 launches of c.
        let mut launches = vec![("a", 1, 200)];
        launches.extend([("c", 1, 1); 100]);
        launches.push(("b", 1, 150));
        let timeline = made(&launches);
        let step = place(0..102, &[("a", 1), ("b", 1)]);
        let course = |seconds| {
            let mut course = Course::new(&timeline, &[&step], false);
            // A second per launch, and 0.1 s per launch that is passed over: 12 s in all.
            let total = |launches: &[Profiled]| {
                let passed: u64 = launches.iter().map(|launch| launch.passed).sum();
                Duration::from_millis(1000 * launches.len() as u64 + 100 * passed)
            };
            course.shorten(Duration::from_secs(seconds), total);
            course
        };
        assert_eq!(course(12).profiled().1, [2]);
        assert!(course(12).skipped().is_empty());
        let short = course(11);
        assert_eq!(short.profiled().1, [1]);
        assert_eq!(short.skipped(), [KernelId(2)]);
        assert!(short.selects("a") && !short.selects("b") && short.selects("c"));
        // One kernel stays.
        assert_eq!(course(0).profiled().1, [1]);
    }

    #[test]
    fn where_time_is_short_a_slow_launch_is_skipped_before_one_with_more_time() {
        // Ten launches of a take 500, and one of b takes 100.
        let mut launches = vec![("a", 1, 50); 10];
        launches.push(("c", 1, 1));
        launches.push(("b", 1, 100));
        let timeline = made(&launches);
        let step = place(0..12, &[("a", 1), ("b", 1)]);
        let mut course = Course::new(&timeline, &[&step], false);
        // A second and a tenth of the kernel's time: 6 s for a, 11 s for b.
        let total = |launches: &[Profiled]| {
            let seconds = |launch: &Profiled| 1 + launch.duration.0 as u64 / 10;
            Duration::from_secs(launches.iter().map(seconds).sum())
        };
        course.shorten(Duration::from_secs(16), total);
        assert_eq!(course.skipped(), [KernelId(2)]);
    }
}
