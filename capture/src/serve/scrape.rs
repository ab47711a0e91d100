//! Snapshots of the server's Prometheus metrics: before a level, each second of it, and after.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::http::Response;
use super::record::RequestError;
use super::transport::{Connector, PATIENCE};
use super::url::Url;
use crate::files;
use crate::redact::Masker;

const PERIOD: Duration = Duration::from_secs(1);

/// Most bytes of a snapshot.
const MOST_BYTES: usize = 16 << 20;

/// An address that answers a plain question.
pub(super) struct Source {
    connector: Connector,
    url: Url,
}

/// Where the metrics are.
pub(super) struct Metrics {
    source: Source,
    /// Snapshots of all levels so far.
    count: u32,
}

/// A thread that takes snapshots until it is asked to end.
pub(super) struct Scraper {
    stop: Sender<()>,
    thread: JoinHandle<(Metrics, Result<(), String>)>,
}

impl Source {
    pub(super) fn of(url: Url) -> Result<Self, String> {
        Ok(Self {
            connector: Connector::to(&url)?,
            url,
        })
    }

    /// What the server answers, to the holder of a key if there is one.
    pub(super) fn ask(&self, key: Option<&str>) -> Result<Vec<u8>, String> {
        self.answer(key)
            .map_err(|error| format!("{}: {error}", self.url))
    }

    fn answer(&self, key: Option<&str>) -> Result<Vec<u8>, RequestError> {
        let Url {
            authority, path, ..
        } = &self.url;
        let mut connection = self.connector.connect()?;
        let key = super::authorization(key);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\n{key}Connection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes())?;
        let (mut response, mut text, mut buffer) = (Response::new(), Vec::new(), [0; 16 << 10]);
        let start = Instant::now();
        while !response.is_done() {
            let read = connection.read(&mut buffer)?;
            if read == 0 && !response.close() {
                return Err(RequestError::Closed);
            }
            response.feed(&buffer[..read], |_, body| {
                text.extend_from_slice(body);
                Ok(())
            })?;
            if text.len() > MOST_BYTES || start.elapsed() > PATIENCE {
                return Err(RequestError::Http(
                    "an answer of more than 16 MiB or 5 seconds",
                ));
            }
        }
        if response.status == 200 {
            Ok(text)
        } else {
            Err(RequestError::Status(response.status))
        }
    }
}

impl Metrics {
    pub(super) fn of(url: Url) -> Result<Self, String> {
        Ok(Self {
            source: Source::of(url)?,
            count: 0,
        })
    }

    /// What the server answers.
    pub(super) fn ask(&self) -> Result<Vec<u8>, String> {
        self.source.ask(None)
    }

    /// Writes a snapshot, with its time, in seconds since 1970, in a comment. Names sort as the snapshots were taken.
    fn write(&mut self, folder: &Path, name: &str, masker: &Masker) -> Result<(), String> {
        let path = folder.join(format!("{:05}-{name}.prom", self.count));
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let comment = format!("# scraped_at {:.6}\n", since.as_secs_f64());
        let text = [comment.into_bytes(), self.ask()?].concat();
        self.count += 1;
        files::write(&path, masker.clone().whole(&text))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Takes the first snapshot at once, and the others from a thread.
    pub(super) fn start(mut self, folder: PathBuf, level: String, masker: Masker) -> Scraper {
        let (stop, stopped) = mpsc::channel();
        let mut outcome = self.write(&folder, &format!("{level}-before"), &masker);
        let thread = thread::spawn(move || {
            let start = Instant::now();
            for second in 1u32.. {
                let left = (PERIOD * second).saturating_sub(start.elapsed());
                match stopped.recv_timeout(left) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => break,
                }
                // One that takes longer costs those that it overlaps.
                if start.elapsed() < PERIOD * (second + 1) {
                    outcome = outcome.and(self.write(&folder, &level, &masker));
                }
            }
            outcome = outcome.and(self.write(&folder, &format!("{level}-after"), &masker));
            (self, outcome)
        });
        Scraper { stop, thread }
    }
}

/// Whether a text has a line of Prometheus: a name, perhaps labels, and a number.
pub(super) fn has_samples(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| {
        let is_named =
            line.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':'));
        let mut words = line.split_whitespace().rev();
        is_named
            && words.next().is_some_and(|word| word.parse::<f64>().is_ok())
            && words.next().is_some()
    })
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.url)
    }
}

impl Scraper {
    /// Takes the last snapshot; the reason if any was not available.
    pub(super) fn finish(self) -> Result<(Metrics, Result<(), String>), String> {
        // It has ended by itself if nobody hears it.
        let _ = self.stop.send(());
        self.thread
            .join()
            .map_err(|_| "snapshots of metrics failed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::has_samples;

    #[test]
    fn only_lines_of_a_name_and_a_number_are_samples() {
        let with_labels = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 2.0\n";
        assert!(has_samples(with_labels));
        assert!(has_samples(b"up 1\n"));
        assert!(!has_samples(b"{\"object\": \"list\", \"count\": 3}\n"));
        assert!(!has_samples(b"<html>\n<p>page 3\n</html>\n"));
        assert!(!has_samples(b"# HELP up Whether it is up\n"));
        assert!(!has_samples(b"42\n"));
    }
}
