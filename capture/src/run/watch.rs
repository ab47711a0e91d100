//! A run while it goes on: how far it is, and its end when its time is up.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::Client;
use super::progress::Progress;
use crate::plan::schedule::Schedule;
use crate::{files, say};

/// Between lines of progress: on a terminal, and in a log. They are whole lines, because the workload writes there, too.
const LINES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];

/// Time in which the injected module ends the workload, before signals do.
const GRACE: Duration = Duration::from_secs(10);

/// Time between signals to a workload whose time is up: a program may write what it has. A trace of PyTorch takes long.
const PATIENCE: Duration = Duration::from_secs(10);
const TRACE: Duration = Duration::from_secs(30);

/// Time in which a profiler writes its report, unless it recorded for longer. After it the profiler is ended, too.
const REPORT: Duration = Duration::from_secs(90);

/// Programs of the profilers: they live on, to write what was recorded. Names as the kernel cuts them.
const PROFILERS: [&str; 6] = [
    "nsys",
    "nsys-launcher",
    "nsys-tee",
    "ncu",
    "TreeLauncherSub",
    "QdstrmImporter",
];

/// What is known of a run beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    pub(crate) name: String,
    /// How long it takes.
    pub(crate) estimate: Option<Duration>,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
    /// Launches that ncu profiles, and their times.
    pub(crate) launches: Option<u64>,
    pub(crate) schedule: Option<Schedule>,
    /// File that tells the injected module that the time is up.
    pub(crate) deadline: Option<PathBuf>,
    /// What the profiler writes after the end of the workload, if it is a profiler that does.
    pub(crate) writing: Option<Writing>,
    /// Files that are made after so many launches.
    pub(crate) stops: Vec<(u64, PathBuf)>,
    /// Whether the command is a profiler's, which must not be ended itself.
    pub(crate) is_profiled: bool,
    /// Who loads the command, if it is a server.
    pub(crate) client: Option<Client>,
}

/// What a profiler writes after the end of the workload, which is part of the time of the pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Writing {
    /// Time of the writing ÷ time of the recording.
    share: f64,
    /// File that is there once the recording begins; without it, the recording begins with the workload.
    begins: Option<PathBuf>,
}

impl Writing {
    /// A report of nsys. On an H100, one of 84 s took 12 s.
    pub(crate) const NSYS: Self = Self {
        share: 0.15,
        begins: None,
    };

    /// A trace of PyTorch. On an H100, one of 20 s with all operators of eager decoding took 20 to 30 s.
    pub(crate) fn of_trace(begins: PathBuf) -> Self {
        Self {
            share: 1.5,
            begins: Some(begins),
        }
    }
}

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Signal {
    /// Time after the time was up.
    after: Duration,
    number: i32,
    /// Whether the profiler gets it, too.
    is_for_all: bool,
}

/// A thread that watches.
pub(super) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<bool>,
    start: Instant,
    progress: Arc<Mutex<Progress>>,
}

/// Reads the output of ncu.
pub(super) struct Counter {
    start: Instant,
    progress: Arc<Mutex<Progress>>,
    schedule: Option<Schedule>,
    stops: Vec<(u64, PathBuf)>,
}

impl Counter {
    /// More of the output.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let count = {
            let mut progress = lock(&self.progress);
            progress.read(bytes, self.start.elapsed(), self.schedule.as_ref());
            progress.count
        };
        self.stops.retain(|(stop, path)| {
            let is_due = count >= *stop;
            if is_due {
                // Without the file the stage is profiled to its end.
                let _ = files::write(path, "");
            }
            !is_due
        });
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    pub(super) fn start(expectation: &Expectation, child: u32) -> Self {
        let (stop, stopped) = channel();
        let (start, progress) = (Instant::now(), Arc::default());
        let (expectation, shared) = (expectation.clone(), Arc::clone(&progress));
        let thread = thread::spawn(move || watch(&expectation, child, start, &shared, &stopped));
        Self {
            stop,
            thread,
            start,
            progress,
        }
    }

    /// What counts launches in the output of ncu.
    pub(super) fn counter(&self, expectation: &Expectation) -> Counter {
        Counter {
            start: self.start,
            progress: Arc::clone(&self.progress),
            schedule: expectation.schedule.clone(),
            stops: expectation.stops.clone(),
        }
    }

    /// Ends watching. Gives whether the run was ended because its time was up, and the launches that ncu profiled.
    pub(super) fn finish(self) -> (bool, u64) {
        let _ = self.stop.send(());
        let is_cut = self.thread.join().unwrap_or(false);
        (is_cut, lock(&self.progress).count)
    }
}

impl Expectation {
    /// Whether the workload writes a trace itself.
    fn is_traced(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|writing| writing.begins.is_some())
    }

    /// Whether what is recorded can just be written until the limit. `begin` is when the recording began.
    fn is_due(&self, elapsed: Duration, begin: Option<Duration>) -> bool {
        let recorded = begin.map_or(Duration::ZERO, |begin| elapsed.saturating_sub(begin));
        let share = self.writing.as_ref().map_or(0.0, |writing| writing.share);
        self.limit
            .is_some_and(|limit| elapsed + recorded.mul_f64(share) >= limit)
    }

    /// Whether the recording has begun.
    fn is_recording(&self) -> bool {
        let begins = self
            .writing
            .as_ref()
            .and_then(|writing| writing.begins.as_ref());
        begins.is_none_or(|begins| begins.exists())
    }

    /// The signals to a run whose time is up, in their order.
    fn signals(&self) -> Vec<Signal> {
        let workload = |after, number| Signal {
            after,
            number,
            is_for_all: false,
        };
        let patience = if self.is_traced() { TRACE } else { PATIENCE };
        let first = if self.deadline.is_some() {
            GRACE
        } else {
            Duration::ZERO
        };
        let kill = first + patience + PATIENCE;
        let mut signals = vec![
            workload(first, libc::SIGINT),
            workload(first + patience, libc::SIGTERM),
            workload(kill, libc::SIGKILL),
        ];
        if self.is_profiled {
            let report = self.limit.unwrap_or_default().max(REPORT);
            let profiler = |after, number| Signal {
                after: kill + report + after,
                number,
                is_for_all: true,
            };
            signals.push(profiler(Duration::ZERO, libc::SIGTERM));
            signals.push(profiler(PATIENCE, libc::SIGKILL));
        }
        signals
    }
}

fn watch(
    expectation: &Expectation,
    child: u32,
    start: Instant,
    progress: &Mutex<Progress>,
    stopped: &Receiver<()>,
) -> bool {
    let [terminal, log] = LINES;
    let between = if io::stderr().is_terminal() {
        terminal
    } else {
        log
    };
    let (mut begin, mut shown) = (None, start);
    let mut cut: Option<Duration> = None;
    let mut signals = expectation.signals().into_iter().peekable();
    while stopped.recv_timeout(Duration::from_millis(500)) == Err(RecvTimeoutError::Timeout) {
        let elapsed = start.elapsed();
        if begin.is_none() && expectation.is_recording() {
            begin = Some(elapsed);
        }
        if cut.is_some() || expectation.is_due(elapsed, begin) {
            if cut.is_none() {
                say(&format!(
                    "{}: its time is up: it is ended with what it has",
                    expectation.name
                ));
                if let Some(deadline) = &expectation.deadline {
                    // Without the file signals end the workload.
                    let _ = files::write(deadline, "");
                }
            }
            let over = elapsed - *cut.get_or_insert(elapsed);
            while let Some(signal) = signals.next_if(|signal| over >= signal.after) {
                let is_profiled = expectation.is_profiled && !signal.is_for_all;
                end(child, is_profiled, signal.number);
            }
        }
        if shown.elapsed() > between {
            shown = Instant::now();
            say(&line(expectation, elapsed, &lock(progress)));
        }
    }
    cut.is_some()
}

/// A line that says how far a run is.
fn line(expectation: &Expectation, elapsed: Duration, progress: &Progress) -> String {
    let mut line = format!("{}: {} s", expectation.name, elapsed.as_secs());
    let launches = expectation.launches.unwrap_or(progress.count);
    if launches > 0 {
        line.push_str(&format!(", {} of {launches} launches", progress.count));
    }
    let left = match &expectation.schedule {
        Some(schedule) => Some(progress.left(schedule, elapsed)),
        None => expectation
            .estimate
            .map(|estimate| estimate.saturating_sub(elapsed)),
    };
    let until_limit = expectation.limit.map(|limit| limit.saturating_sub(elapsed));
    match (left, until_limit) {
        (Some(left), Some(limit)) if limit < left => {
            line.push_str(&format!(", {} s left until its limit", limit.as_secs()));
        }
        (Some(left), _) => line.push_str(&format!(", {} s left", left.as_secs())),
        (None, _) => {}
    }
    line
}

/// Sends a signal to the workload: to all that descends from the command but profilers.
pub(super) fn end(child: u32, is_profiled: bool, signal: i32) {
    let processes = processes();
    let mut own: BTreeSet<i32> = BTreeSet::from([i32::try_from(child).unwrap_or(0)]);
    loop {
        let more: Vec<i32> = processes
            .iter()
            .filter(|(pid, parent, _)| own.contains(parent) && !own.contains(pid))
            .map(|(pid, ..)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        own.extend(more);
    }
    for (pid, _, name) in &processes {
        let is_kept = is_profiled
            && (i64::from(*pid) == i64::from(child) || PROFILERS.contains(&name.as_str()));
        if *pid > 1 && own.contains(pid) && !is_kept {
            // SAFETY: the call touches no memory of ours. A process that is gone needs no signal.
            unsafe { libc::kill(*pid, signal) };
        }
    }
}

/// All processes: number, parent and name.
fn processes() -> Vec<(i32, i32, String)> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stat = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_string_lossy().parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name stands in parentheses and may hold any sign.
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent, name.to_owned()))
    };
    numbers.filter_map(stat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::schedule::Slot;

    fn expectation(name: &str) -> Expectation {
        Expectation {
            name: name.to_owned(),
            ..Expectation::default()
        }
    }

    #[test]
    fn a_line_says_what_is_known() {
        let elapsed = Duration::from_millis(35_900);
        let nothing = Progress::default();
        let timeline = Expectation {
            estimate: Some(Duration::from_secs(60)),
            ..expectation("nsys")
        };
        assert_eq!(line(&timeline, elapsed, &nothing), "nsys: 35 s, 24 s left");
        let limited = Expectation {
            limit: Some(Duration::from_secs(40)),
            ..timeline
        };
        assert_eq!(
            line(&limited, elapsed, &nothing),
            "nsys: 35 s, 4 s left until its limit"
        );
        let unknown = expectation("baseline");
        assert_eq!(line(&unknown, elapsed, &nothing), "baseline: 35 s");
        // Two launches of 5 s each are planned, and the first takes 2 s.
        let slot = Slot {
            passed: Duration::ZERO,
            replays: Duration::from_secs(5),
        };
        let schedule = Schedule {
            run_up: Duration::from_secs(1),
            launches: vec![slot; 2],
        };
        let counters = Expectation {
            launches: Some(2),
            schedule: Some(schedule.clone()),
            ..expectation("ncu")
        };
        let mut progress = Progress::default();
        let at = |seconds| Duration::from_secs(seconds);
        progress.read(b"==PROF== Profiling \"a\"", at(30), Some(&schedule));
        progress.read(b": 100% - 25 passes", at(32), Some(&schedule));
        assert_eq!(
            line(&counters, at(32), &progress),
            "ncu: 32 s, 1 of 2 launches, 2 s left"
        );
    }

    #[test]
    fn a_recording_leaves_time_to_be_written() {
        let seconds = Duration::from_secs;
        let limited = |writing| Expectation {
            limit: Some(seconds(50)),
            writing,
            ..expectation("pass")
        };
        let plain = limited(None);
        assert!(!plain.is_due(seconds(49), Some(Duration::ZERO)));
        assert!(plain.is_due(seconds(50), Some(Duration::ZERO)));
        // 0.15 * 43 is 6.45 s.
        let nsys = limited(Some(Writing::NSYS));
        assert!(!nsys.is_due(seconds(43), Some(Duration::ZERO)));
        assert!(nsys.is_due(seconds(44), Some(Duration::ZERO)));
        // Of 36 s after the import, 14.4 are recorded and 21.6 written.
        let traced = limited(Some(Writing::of_trace(PathBuf::from("begun"))));
        assert!(!traced.is_due(seconds(28), Some(seconds(14))));
        assert!(traced.is_due(seconds(29), Some(seconds(14))));
        assert!(!traced.is_due(seconds(49), None));
    }

    #[test]
    fn stops_are_made_when_enough_launches_are_profiled() {
        let folder = tempfile::tempdir().expect("there is room");
        let stop = folder.path().join("stop.0");
        let mut counter = Counter {
            start: Instant::now(),
            progress: Arc::default(),
            schedule: None,
            stops: vec![(2, stop.clone())],
        };
        counter.read(b"100% - 25 passes\n");
        assert!(!stop.exists());
        counter.read(b"100% - 25 passes\n");
        assert!(stop.exists());
    }

    #[test]
    fn a_profiler_is_ended_when_it_writes_no_report() {
        let profiled = Expectation {
            is_profiled: true,
            limit: Some(Duration::from_secs(50)),
            deadline: Some(PathBuf::from("x")),
            ..expectation("ncu")
        };
        let signals = |expectation: &Expectation| -> Vec<(u64, i32, bool)> {
            let signals = expectation.signals();
            let row = |signal: Signal| (signal.after.as_secs(), signal.number, signal.is_for_all);
            signals.into_iter().map(row).collect()
        };
        let expected = [
            (10, libc::SIGINT, false),
            (20, libc::SIGTERM, false),
            (30, libc::SIGKILL, false),
            (120, libc::SIGTERM, true),
            (130, libc::SIGKILL, true),
        ];
        assert_eq!(signals(&profiled), expected);
        let traced = Expectation {
            writing: Some(Writing::of_trace(PathBuf::from("begun"))),
            ..expectation("torch")
        };
        let expected = [
            (0, libc::SIGINT, false),
            (30, libc::SIGTERM, false),
            (40, libc::SIGKILL, false),
        ];
        assert_eq!(signals(&traced), expected);
    }

    #[test]
    fn the_name_of_a_process_and_its_parent_are_read() {
        let own = i32::try_from(std::process::id()).expect("small");
        assert!(
            processes()
                .iter()
                .any(|(pid, parent, _)| *pid == own && *parent > 0)
        );
    }
}
