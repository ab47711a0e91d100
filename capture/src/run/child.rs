//! A command, with its output passed on and kept.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::client::{Running, Served};
use super::signals::{Forwarder, send};
use super::watch::{Counter, Expectation, Watch};
use crate::files;
use crate::redact::{Masker, Secrets};

/// How long output is waited for after the command ended: what it left running may hold it open.
const DRAIN: Duration = Duration::from_secs(3);

/// A command to run.
pub(crate) struct Run<'a> {
    pub(crate) command: &'a [String],
    pub(crate) variables: &'a [(String, String)],
    /// Files that standard output and standard error are written to as well.
    pub(crate) stdout: &'a Path,
    pub(crate) stderr: &'a Path,
    /// Output is kept but not shown.
    pub(crate) is_quiet: bool,
    /// What the files must not hold.
    pub(crate) secrets: &'a Secrets,
    /// What is known of the run beforehand, if it is watched.
    pub(crate) expectation: Option<&'a Expectation>,
    /// When it is killed, if it is no workload.
    pub(crate) limit: Option<Duration>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ended {
    /// As a shell says it: 128 and the signal's number if one ended it.
    pub(crate) code: i32,
    pub(crate) wall: Duration,
    /// Nanoseconds since 1970.
    pub(crate) started_utc_ns: u64,
    /// It was ended because its time was up.
    pub(crate) is_cut: bool,
    /// Launches that ncu said it profiled.
    pub(crate) launches: u64,
    /// How its client ended, after which it was ended itself.
    pub(crate) served: Option<Served>,
}

impl Run<'_> {
    /// Runs it to its end. It has a process group of its own, so that signals reach all of it, and each once.
    pub(crate) fn wait(&self, signals: &Forwarder) -> io::Result<Ended> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("no command"))?;
        // A group in the background is stopped if it reads from the terminal.
        let stdin = if io::stdin().is_terminal() {
            Stdio::null()
        } else {
            Stdio::inherit()
        };
        let (stdout, stderr) = (files::create(self.stdout)?, files::create(self.stderr)?);
        let log = |file| Log {
            file,
            masker: self.secrets.masker(),
        };
        let client = self
            .expectation
            .and_then(|expectation| expectation.client.as_ref());
        let client = match client {
            Some(client) => {
                let file = files::create(&client.log)?;
                Some((client, [log(file.try_clone()?), log(file)]))
            }
            None => None,
        };
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let start = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        // What is left of an interrupted run is still read.
        signals.target(child.id(), self.expectation.is_some());
        let watch = self
            .expectation
            .map(|expectation| Watch::start(expectation, child.id()));
        let client = client.map(|(client, logs)| Running::start(client, child.id(), logs));
        let shown = !self.is_quiet;
        let counter = watch.as_ref().zip(self.expectation);
        let counter = counter.map(|(watch, expectation)| watch.counter(expectation));
        let (stdout, stderr) = (log(stdout), log(stderr));
        let tees = [
            child
                .stdout
                .take()
                .map(|from| tee(from, stdout, shown.then(io::stdout), counter)),
            child
                .stderr
                .take()
                .map(|from| tee(from, stderr, shown.then(io::stderr), None)),
        ];
        let is_late = self
            .limit
            .is_some_and(|limit| !ends_within(&mut child, limit));
        let status = child.wait();
        let wall = start.elapsed();
        signals.target(0, false);
        let served = client.and_then(Running::finish);
        let (is_cut, launches) = watch.map_or((false, 0), Watch::finish);
        let is_cut = is_cut || is_late;
        drain(&tees);
        let started_utc_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(0);
        // What a server says of its end, which is ours, says nothing.
        let code = served.map_or(code(status?), |served| served.code.unwrap_or(0));
        Ok(Ended {
            code,
            wall,
            started_utc_ns,
            is_cut,
            launches,
            served,
        })
    }
}

/// Whether a command ends in time; one that does not is killed.
fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    send(i32::try_from(child.id()).unwrap_or(0), libc::SIGKILL);
    false
}

/// A file for output, without secrets from the first byte on.
pub(super) struct Log {
    pub(super) file: File,
    pub(super) masker: Masker,
}

impl Log {
    /// A full disk costs the copy, not the run.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.file.write_all(&self.masker.push(bytes).bytes);
    }

    fn finish(mut self) {
        let _ = self.file.write_all(&self.masker.finish().bytes);
    }
}

/// Copies to the log and, if there is one, to a stream, and counts launches that ncu profiles. The command must not wait
/// for either to succeed.
pub(super) fn tee(
    mut from: impl Read + Send + 'static,
    mut log: Log,
    mut shown: Option<impl Write + Send + 'static>,
    mut counter: Option<Counter>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                break;
            }
            if let Some(counter) = &mut counter {
                counter.read(&buffer[..read]);
            }
            log.write(&buffer[..read]);
            if let Some(shown) = &mut shown {
                // So does a closed terminal.
                let _ = shown
                    .write_all(&buffer[..read])
                    .and_then(|()| shown.flush());
            }
        }
        log.finish();
    })
}

pub(super) fn drain(tees: &[Option<JoinHandle<()>>]) {
    let start = Instant::now();
    while tees.iter().flatten().any(|tee| !tee.is_finished()) && start.elapsed() < DRAIN {
        thread::sleep(Duration::from_millis(2));
    }
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(125)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let (stdout, stderr) = (folder.path().join("out"), folder.path().join("err"));
        let variables = [("A_TOKEN".to_owned(), "hunter2-hunter2".to_owned())];
        let secrets = Secrets::of(variables.into_iter(), &[], false);
        let script =
            "printf 'hunter2-'; sleep 0.05; printf 'hunter2 hunter2-'; sleep 60 & sleep 60";
        let run = Run {
            command: &["sh", "-c", script].map(str::to_owned),
            variables: &[],
            stdout: &stdout,
            stderr: &stderr,
            is_quiet: true,
            secrets: &secrets,
            expectation: None,
            limit: Some(Duration::from_millis(200)),
        };
        let ended = run.wait(&Forwarder::start().unwrap()).unwrap();
        assert!(ended.is_cut && ended.code == 128 + 9 && ended.wall < Duration::from_secs(5));
        assert_eq!(
            std::fs::read_to_string(&stdout).unwrap(),
            "*************** hunter2-"
        );
    }
}
