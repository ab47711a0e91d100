//! Running other programs for their answers.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the rest of its answer is waited for when it has ended.
const DRAIN: Duration = Duration::from_millis(500);

/// Bytes of an answer that are read.
const MAX_ANSWER: u64 = 8 << 20;

/// Runs programs; tests put a fake in its place.
pub(crate) trait Runner {
    /// What the program writes to standard output, or why there is no answer.
    fn output(&self, program: &str, arguments: &[&str]) -> Result<String, String>;
}

/// The programs of this machine.
pub(crate) struct System;

impl Runner for System {
    fn output(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => not_found(program),
                _ => format!("{program} cannot be started: {error}"),
            })?;
        let mut stdout = child.stdout.take().expect("it is piped").take(MAX_ANSWER);
        let (send, pieces) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(read @ 1..) = stdout.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        wait(&mut child, program)?;
        let (mut answer, ended) = (Vec::new(), Instant::now());
        // What it started may hold its output open.
        while let Ok(piece) = pieces.recv_timeout(DRAIN.saturating_sub(ended.elapsed())) {
            answer.extend(piece);
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn wait(child: &mut Child, program: &str) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{program} failed: {status}")),
            Ok(None) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // It may have ended meanwhile; either way it is gone.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "{program} did not answer within {} s",
                    PATIENCE.as_secs()
                ));
            }
            Err(error) => return Err(format!("{program} cannot be waited for: {error}")),
        }
    }
}

fn not_found(program: &str) -> String {
    format!("{program} is not on the path")
}

/// Programs that are not there, except those that were given an answer.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Fake(std::collections::BTreeMap<String, Result<String, String>>);

#[cfg(test)]
impl Fake {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The same, answering to a command line or, failing that, to a program.
    pub(crate) fn with(mut self, command: &str, answer: Result<&str, &str>) -> Self {
        let answer = answer.map(str::to_owned).map_err(str::to_owned);
        self.0.insert(command.to_owned(), answer);
        self
    }
}

#[cfg(test)]
impl Runner for Fake {
    fn output(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let line = format!("{program} {}", arguments.join(" "));
        let answer = self.0.get(&line).or_else(|| self.0.get(program));
        answer.cloned().unwrap_or_else(|| Err(not_found(program)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_answer_fail_or_are_not_there() {
        assert_eq!(System.output("echo", &["a", "b"]), Ok("a b\n".to_owned()));
        assert!(
            System
                .output("false", &[])
                .is_err_and(|reason| reason.contains("failed"))
        );
        let start = Instant::now();
        let held = System.output("sh", &["-c", "echo a; sleep 60 & echo b"]);
        assert_eq!(held, Ok("a\nb\n".to_owned()));
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "its grandchild is not waited for"
        );
        let missing = System.output("no-such-program-anywhere", &[]);
        assert_eq!(
            missing,
            Err("no-such-program-anywhere is not on the path".to_owned())
        );
    }
}
