//! How long ncu takes, launch by launch. The time that is left decides which launches are profiled.
//!
//! ncu replays a launch once per pass. Before each pass it restores the memory that the GPU can reach.
//! A launch that ncu does not select is slow too while ncu profiles, because ncu looks at each of them.
//!
//! The constants are a least-squares fit of measurements on H100 and H200. Passes, GB in use, and seconds per launch:
//! 25, 16, 0.69; 18, 16, 0.58; 10, 16, 0.41; 25, 6, 0.54. They serve the plan only: during the pass, the
//! measured durations replace them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use rooflens_schemas::Environment;
use rooflens_schemas::environment::FactValue;

use crate::args::{NcuOptions, Preset};
use crate::timeline::Profiled;

/// Seconds per launch, per pass, and per pass and GB in use.
const LAUNCH: f64 = 0.23;
const PASS: f64 = 0.009;
const PASS_PER_GB: f64 = 0.0006;

/// Seconds per pass and GB for which the GPU has no room: ncu keeps it in host memory. This is PCIe at 20 GB/s, not measured.
const PASS_PER_HOST_GB: f64 = 0.05;

/// Seconds of a launch that ncu passes over while it profiles. On an H100, 0.1 ms with a filter of one short name, 0.2 ms
/// with 60 that share their beginning, 0.4 to 0.6 ms with an alternation of 60 whole mangled names.
const PASSED: f64 = 0.000_2;

/// Seconds of one that ncu selects by its mangled name, and whose configuration it has profiled already; measured on an H100.
const SEEN: f64 = 0.012;

/// Passes of the default sections on an H100, and of the other presets, which differ by GPU.
const PASSES: u32 = 25;
const PASSES_SHORT: u32 = 18;
const PASSES_MORE: u32 = 40;

/// The start of ncu, and the writing of its report.
pub(super) const START: Duration = Duration::from_secs(10);

/// The share of the time that is planned: estimates are not exact.
const PLANNED: f64 = 0.9;

/// The time that the passes of ncu are planned by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeForCounters {
    /// What all of them may take, if that is limited.
    pub(crate) left: Option<Duration>,
    /// How long the unprofiled run took.
    pub(crate) unprofiled: Option<Duration>,
}

impl TimeForCounters {
    /// From the start of the workload to a point of its timeline, without nsys, which slows down imports and launches.
    ///
    /// Until the end of the timeline, which may be that of its pass and not of the workload, the unprofiled run took no
    /// longer than its whole time.
    pub(super) fn run_up(self, point: Duration, end: Duration) -> Duration {
        match self.unprofiled {
            Some(unprofiled) if unprofiled < end => {
                point.mul_f64(unprofiled.as_secs_f64() / end.as_secs_f64())
            }
            _ => point,
        }
    }
}

/// The times of one ncu pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// From the start of the workload to the first launch or range that ncu looks at: imports, model load, warm-up.
    pub(crate) run_up: Duration,
    /// The launches that are profiled, in their order.
    pub(crate) launches: Vec<Slot>,
}

/// A launch that is profiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Time of the launches before it that ncu passes over.
    pub(crate) passed: Duration,
    /// Time of its replays.
    pub(crate) replays: Duration,
}

impl Slot {
    pub(crate) fn total(self) -> Duration {
        self.passed + self.replays
    }
}

impl Schedule {
    /// Time of the whole pass.
    pub(crate) fn total(&self) -> Duration {
        self.run_up + START + self.profiling()
    }

    /// Time of the launches.
    pub(super) fn profiling(&self) -> Duration {
        self.launches.iter().map(|slot| slot.total()).sum()
    }

    /// What a pass of this time has for launches.
    pub(super) fn time_for_launches(run_up: Duration, time: Duration) -> Duration {
        time.saturating_sub(run_up + START).mul_f64(PLANNED)
    }

    /// Whether the pass ends within this time.
    pub(super) fn fits(&self, time: Duration) -> bool {
        self.profiling() <= Self::time_for_launches(self.run_up, time)
    }
}

/// What a launch costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    passes: u32,
    memory: Memory,
}

impl Cost {
    /// The cost with all sections that are asked for, or without those that are skipped where time is short.
    pub(super) fn of(options: &NcuOptions, is_short: bool, memory: Memory) -> Self {
        let passes = match options.preset {
            _ if !options.sections.is_empty() => PASSES,
            Preset::Roofline if is_short => PASSES_SHORT,
            Preset::Roofline => PASSES,
            Preset::Full | Preset::Memory | Preset::Compute => PASSES_MORE,
        };
        Self { passes, memory }
    }

    fn slot(self, launch: &Profiled) -> Slot {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let kernel = launch.duration.time().0.max(0.0) / 1e9;
        let restored = PASS_PER_GB * gb(self.memory.used)
            + PASS_PER_HOST_GB * gb(self.memory.beyond_the_gpu());
        let replays = LAUNCH + f64::from(self.passes) * (PASS + kernel + restored);
        Slot {
            passed: Duration::from_secs_f64(
                launch.passed as f64 * PASSED + launch.seen as f64 * SEEN,
            ),
            replays: Duration::from_secs_f64(replays),
        }
    }

    /// The times of these launches.
    pub(super) fn schedule(self, run_up: Duration, launches: &[Profiled]) -> Schedule {
        let launches = launches.iter().map(|launch| self.slot(launch)).collect();
        Schedule { run_up, launches }
    }
}

/// Memory of a GPU in bytes; 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) used: u64,
    pub(super) total: u64,
}

impl Memory {
    /// The most that the workload used without a profiler, and the size of the smallest GPU.
    pub(super) fn of(bundle: &Path) -> Self {
        let used = most_used(&bundle.join("baseline/nvml.csv")).unwrap_or(0);
        let total = size(&bundle.join("snapshot/env.json")).unwrap_or(0);
        Self { used, total }
    }

    /// What does not fit into the GPU a second time.
    fn beyond_the_gpu(self) -> u64 {
        let free = self.total.saturating_sub(self.used);
        match self.total {
            0 => 0,
            _ => self.used.saturating_sub(free),
        }
    }
}

fn most_used(samples: &Path) -> Option<u64> {
    let mut lines = BufReader::new(fs::File::open(samples).ok()?).lines();
    let header = lines.next()?.ok()?;
    let column = header
        .split(',')
        .position(|name| name == "mem_used_bytes")?;
    let bytes = |line: String| line.split(',').nth(column)?.parse().ok();
    lines.map_while(Result::ok).filter_map(bytes).max()
}

fn size(environment: &Path) -> Option<u64> {
    let environment: Environment = serde_json::from_slice(&fs::read(environment).ok()?).ok()?;
    let is_size = |subject: &str, key: &str| subject.starts_with("gpu ") && key == "memory_bytes";
    let mut sizes = Vec::new();
    for fact in &environment.entries {
        if let FactValue::Known { value } = &fact.value
            && is_size(&fact.subject, &fact.key)
        {
            sizes.extend(value.parse::<u64>());
        }
    }
    sizes.into_iter().min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_session::Ns;

    use super::*;

    fn seconds(passes: u32, gb: u64, total_gb: u64, kernel: i64) -> f64 {
        let memory = Memory {
            used: gb * 1_000_000_000,
            total: total_gb * 1_000_000_000,
        };
        let launch = Profiled {
            passed: 0,
            seen: 0,
            duration: Ns(kernel),
        };
        let slot = Cost { passes, memory }.slot(&launch);
        slot.replays.as_secs_f64()
    }

    #[test]
    fn launches_take_what_was_measured() {
        // docs/performance.md, on an H100 of 80 GB.
        for (passes, gb, measured) in [
            (25, 16, 0.69),
            (18, 16, 0.58),
            (10, 16, 0.41),
            (25, 6, 0.54),
        ] {
            let estimate = seconds(passes, gb, 80, 0);
            assert!(
                (estimate / measured - 1.0).abs() < 0.05,
                "{estimate} of {measured}"
            );
        }
        // Each of 25 passes runs a kernel of 10 ms.
        assert!((seconds(25, 6, 80, 10_000_000) - seconds(25, 6, 80, 0) - 0.25).abs() < 1e-6);
        // Of 50 GB on a GPU of 80, 20 have no room: 20 * 0.05 s per pass.
        assert!((seconds(25, 50, 80, 0) - seconds(25, 50, 200, 0) - 25.0).abs() < 1e-6);
    }

    #[test]
    fn a_run_up_is_shorter_without_nsys() {
        let seconds = Duration::from_secs;
        let time = TimeForCounters {
            left: None,
            unprofiled: Some(seconds(20)),
        };
        assert_eq!(time.run_up(seconds(30), seconds(60)), seconds(10));
        // The pass was ended early, or the unprofiled run is not known.
        assert_eq!(time.run_up(seconds(10), seconds(15)), seconds(10));
        let unknown = TimeForCounters::default();
        assert_eq!(unknown.run_up(seconds(30), seconds(60)), seconds(30));
    }

    #[test]
    fn launches_that_are_passed_over_take_time_too() {
        let cost = Cost {
            passes: 10,
            memory: Memory::default(),
        };
        let launches = [100_000, 0].map(|passed| Profiled {
            passed,
            seen: passed / 1000,
            duration: Ns::ZERO,
        });
        let schedule = cost.schedule(Duration::from_secs(20), &launches);
        // 20 s, 10 s, 100 000 * 0.2 ms, 100 * 12 ms, and twice 0.23 s + 10 * 9 ms.
        assert!((schedule.total().as_secs_f64() - 51.84).abs() < 1e-6);
        // Of 55 s, 25 are left, of which 22.5 are planned; of 54 it is 21.6.
        assert!(schedule.fits(Duration::from_secs(55)));
        assert!(!schedule.fits(Duration::from_secs(54)));
    }

    #[test]
    fn memory_is_that_of_the_baseline_and_of_the_snapshot() {
        let bundle = tempfile::tempdir().unwrap();
        assert_eq!(Memory::of(bundle.path()), Memory::default());
        let path = |name: &str| bundle.path().join(name);
        fs::create_dir(path("baseline")).unwrap();
        fs::create_dir(path("snapshot")).unwrap();
        fs::write(
            path("baseline/nvml.csv"),
            "t_ns,mem_used_bytes,gpu\n1,5,0\n2,,0\n3,9,1\n4,7,0\n",
        )
        .unwrap();
        let facts = r#"{"version": 1, "entries": [{"subject": "gpu 0", "key": "memory_bytes", "value": "80"},
            {"subject": "gpu 1", "key": "memory_bytes", "value": "40"},
            {"subject": "memory", "key": "memory_bytes", "value": "8"}]}"#;
        fs::write(path("snapshot/env.json"), facts).unwrap();
        assert_eq!(Memory::of(bundle.path()), Memory { used: 9, total: 40 });
    }
}
