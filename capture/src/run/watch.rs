//! A run while it goes on: how far it is, and its end when its time is up.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::Client;
use crate::{files, say};

/// Between lines of progress: on a terminal, and in a log. They are whole lines, because the workload writes there, too.
const LINES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];

/// Signals to a workload whose time is up, and when after the first: a program may write what it has.
const SIGNALS: [(u64, i32); 3] = [(0, libc::SIGINT), (10, libc::SIGTERM), (20, libc::SIGKILL)];

/// Programs of the profilers: they live on, to write what was recorded. Names as the kernel cuts them.
const PROFILERS: [&str; 6] = [
    "nsys",
    "nsys-launcher",
    "nsys-tee",
    "ncu",
    "TreeLauncherSub",
    "QdstrmImporter",
];

/// How ncu ends the line of a launch that it has profiled.
const PROFILED: &[u8] = b"100% - ";

/// What is known of a run beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectation {
    pub(crate) name: String,
    /// How long it takes.
    pub(crate) estimate: Option<Duration>,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
    /// Launches that ncu profiles.
    pub(crate) launches: Option<u64>,
    /// Files that are made after so many launches.
    pub(crate) stops: Vec<(u64, PathBuf)>,
    /// Whether the command is a profiler's, which must not be ended itself.
    pub(crate) is_profiled: bool,
    /// Who loads the command, if it is a server.
    pub(crate) client: Option<Client>,
}

/// A thread that watches.
pub(super) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<bool>,
    /// Launches that ncu said it has profiled.
    profiled: Arc<AtomicU64>,
}

/// Counts the launches that ncu profiles by what it prints.
pub(super) struct Counter {
    profiled: Arc<AtomicU64>,
    stops: Vec<(u64, PathBuf)>,
    /// The end of what was seen last: a word may be cut in two.
    tail: Vec<u8>,
}

impl Counter {
    /// More of the output.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let launches = memchr::memmem::find_iter(&self.tail, PROFILED).count() as u64;
        let end = memchr::memmem::rfind(&self.tail, PROFILED).map_or(0, |at| at + PROFILED.len());
        let kept = end.max((self.tail.len() + 1).saturating_sub(PROFILED.len()));
        self.tail.drain(..kept);
        let count = self.profiled.fetch_add(launches, Ordering::SeqCst) + launches;
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

impl Watch {
    pub(super) fn start(expectation: &Expectation, child: u32) -> Self {
        let (stop, stopped) = channel();
        let profiled = Arc::new(AtomicU64::new(0));
        let (own, count) = (expectation.clone(), Arc::clone(&profiled));
        let thread = thread::spawn(move || watch(&own, child, &count, &stopped));
        Self {
            stop,
            thread,
            profiled,
        }
    }

    /// What counts launches in the output of ncu.
    pub(super) fn counter(&self, expectation: &Expectation) -> Counter {
        let (profiled, stops) = (Arc::clone(&self.profiled), expectation.stops.clone());
        Counter {
            profiled,
            stops,
            tail: Vec::new(),
        }
    }

    /// Ends watching. Gives whether the run was ended because its time was up.
    pub(super) fn finish(self) -> bool {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or(false)
    }
}

fn watch(own: &Expectation, child: u32, profiled: &AtomicU64, stopped: &Receiver<()>) -> bool {
    let start = Instant::now();
    let [terminal, log] = LINES;
    let between = if io::stderr().is_terminal() {
        terminal
    } else {
        log
    };
    let (mut sent, mut shown) = (0, start);
    while stopped.recv_timeout(Duration::from_millis(500)) == Err(RecvTimeoutError::Timeout) {
        let elapsed = start.elapsed();
        if let Some(over) = own.limit.and_then(|limit| elapsed.checked_sub(limit)) {
            if sent == 0 {
                say(&format!(
                    "{}: its time is up: it is ended with what it has",
                    own.name
                ));
            }
            while sent < SIGNALS.len() && over.as_secs() >= SIGNALS[sent].0 {
                end(child, own.is_profiled, SIGNALS[sent].1);
                sent += 1;
            }
        }
        if shown.elapsed() > between {
            shown = Instant::now();
            say(&progress(own, elapsed, profiled.load(Ordering::SeqCst)));
        }
    }
    sent > 0
}

fn progress(own: &Expectation, elapsed: Duration, profiled: u64) -> String {
    let mut line = format!("{}: {} s", own.name, elapsed.as_secs());
    if let Some(estimate) = own.estimate {
        line.push_str(&format!(" of about {} s", estimate.as_secs()));
    }
    match own.launches {
        Some(planned) => line.push_str(&format!(", {profiled} of {planned} launches profiled")),
        None if profiled > 0 => line.push_str(&format!(", {profiled} launches profiled")),
        None => {}
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

    #[test]
    fn progress_says_what_is_known() {
        let known = Expectation {
            name: "ncu".to_owned(),
            estimate: Some(Duration::from_secs(60)),
            launches: Some(20),
            ..Expectation::default()
        };
        let elapsed = Duration::from_millis(35_900);
        assert_eq!(
            progress(&known, elapsed, 12),
            "ncu: 35 s of about 60 s, 12 of 20 launches profiled"
        );
        let unknown = Expectation {
            name: "baseline".to_owned(),
            ..Expectation::default()
        };
        assert_eq!(progress(&unknown, elapsed, 0), "baseline: 35 s");
    }

    #[test]
    fn launches_are_counted_across_reads_and_stops_are_made() {
        let folder = tempfile::tempdir().expect("there is room");
        let stop = folder.path().join("stop.0");
        let profiled = Arc::new(AtomicU64::new(0));
        let stops = vec![(2, stop.clone())];
        let mut counter = Counter {
            profiled: Arc::clone(&profiled),
            stops,
            tail: Vec::new(),
        };
        counter.read(b"==PROF== Profiling \"a\": 0%....50%....10");
        counter.read(b"0% - 25 passes\n==PROF== Profiling \"b\": 0%....50%....100%");
        assert_eq!((profiled.load(Ordering::SeqCst), stop.exists()), (1, false));
        counter.read(b" -");
        counter.read(b" 25 passes\n");
        assert_eq!((profiled.load(Ordering::SeqCst), stop.exists()), (2, true));
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
