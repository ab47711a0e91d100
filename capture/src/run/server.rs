//! A server that runs while it is loaded, for as long as it is wanted.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::child::{Log, drain, tee};
use super::signals::{Forwarder, send};
use super::watch;
use crate::files;
use crate::redact::Secrets;

/// Between questions whether it is ready or has ended.
const POLL: Duration = Duration::from_millis(100);

/// Signals to a server that is to end, and seconds after the first.
const SIGNALS: [(u64, i32); 3] = [(0, libc::SIGINT), (10, libc::SIGTERM), (20, libc::SIGKILL)];

/// Most bytes of its output that are searched for an error, and most letters of a line that is shown.
const TAIL: usize = 64 << 10;
const LINE: usize = 300;

/// A server that was started.
pub(crate) struct Server<'a> {
    child: Child,
    tees: [Option<JoinHandle<()>>; 2],
    log: PathBuf,
    signals: &'a Forwarder,
}

/// Why a server is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// It ended; the line of its output that says why.
    Ended(String),
    /// It does not answer in time.
    Late,
    /// We are to end.
    Interrupted,
}

impl<'a> Server<'a> {
    /// Starts a command, with a process group of its own. Both of its outputs go to the log, without secrets.
    pub(crate) fn start(
        command: &[String],
        log: &Path,
        secrets: &Secrets,
        signals: &'a Forwarder,
    ) -> io::Result<Self> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| io::Error::other("no command"))?;
        let file = files::create(log)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        signals.target(child.id(), true);
        let copy = |file| Log {
            file,
            masker: secrets.masker(),
        };
        let (out, err) = (copy(file.try_clone()?), copy(file));
        let tees = [
            child
                .stdout
                .take()
                .map(|from| tee(from, out, None::<io::Stdout>, None)),
            child
                .stderr
                .take()
                .map(|from| tee(from, err, None::<io::Stdout>, None)),
        ];
        Ok(Self {
            child,
            tees,
            log: log.to_owned(),
            signals,
        })
    }

    /// Waits until it is ready.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), Unready> {
        let start = Instant::now();
        loop {
            if self.signals.interrupted() {
                return Err(Unready::Interrupted);
            }
            if self.has_ended() {
                drain(&self.tees);
                return Err(Unready::Ended(last_words(&self.log)));
            }
            if is_ready() {
                return Ok(());
            }
            if start.elapsed() > limit {
                return Err(Unready::Late);
            }
            thread::sleep(POLL);
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The line of its output so far that says what went wrong.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.log)
    }
}

impl Drop for Server<'_> {
    /// Ends it with all that it started.
    fn drop(&mut self) {
        let start = Instant::now();
        let mut signals = SIGNALS.into_iter().peekable();
        while !self.has_ended() {
            let is_due = |(after, _): &(u64, i32)| start.elapsed().as_secs() >= *after;
            if let Some((_, signal)) = signals.next_if(is_due) {
                watch::end(self.child.id(), false, signal);
            }
            thread::sleep(POLL);
        }
        self.signals.target(0, false);
        // What it left running holds the memory of the GPU, and its port.
        send(i32::try_from(self.child.id()).unwrap_or(0), libc::SIGKILL);
        drain(&self.tees);
    }
}

/// The last line of a log that speaks of an error, or else its last one.
fn last_words(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL)..]);
    let lines: Vec<&str> = tail
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let speaks = |line: &&&str| {
        let line = line.to_lowercase();
        ["error", "exception", "out of memory", "invalid", "failed"]
            .iter()
            .any(|word| line.contains(word))
    };
    let line = lines.iter().rev().find(speaks).or(lines.last());
    let line = line.map_or("it says nothing", |line| line);
    line.chars()
        .filter(|letter| !letter.is_control())
        .take(LINE)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_says_why_a_server_ended() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let words = |text: &str| {
            fs::write(&log, text).unwrap();
            last_words(&log)
        };
        let text = "loading\nValueError: too many slots\n\n  at exit\n";
        assert_eq!(words(text), "ValueError: too many slots");
        assert_eq!(words("one\ntwo\n"), "two");
        assert_eq!(words(""), "it says nothing");
    }
}
