//! One level of load: workers run, records are written as they come.

use std::fs;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rooflens_schemas::{LoadMode, ServingRun, serving};
use rooflens_units::Slo;

use super::DURATION;
use super::args::ServeArguments;
use super::load::{Load, Random};
use super::page::Page;
use super::record::Record;
use super::scrape::Metrics;
use super::server::Server;
use super::tally::Tally;
use super::url::Url;
use super::worker::{Level, Target, Worker};
use crate::error::CaptureError;
use crate::files;
use crate::redact::Secrets;
use crate::run::Forwarder;
use crate::{say, utc};

/// How often signals are looked for, progress is shown and the file is flushed.
const TICK: Duration = Duration::from_millis(100);
const SHOWN: Duration = Duration::from_millis(500);

/// Requests of the warm-up that are in flight at once.
const WARM: u32 = 16;

/// Seed of the warm-up: of no level.
const WARM_UP: u64 = u64::MAX;

/// What all levels share.
pub(super) struct Test<'a> {
    pub(super) arguments: &'a ServeArguments,
    pub(super) url: &'a Url,
    pub(super) target: &'a Target,
    pub(super) secrets: &'a Secrets,
    pub(super) signals: &'a Forwarder,
    pub(super) metrics: Option<Metrics>,
    /// GPU of this machine, if the server is on it.
    pub(super) gpu: Option<String>,
    pub(super) server: Server,
    /// What started it, if we did.
    pub(super) server_command: &'a [String],
    /// The page that follows it.
    pub(super) page: &'a Page,
    /// Limits of latency: a level that clearly misses them ends early.
    pub(super) slo: Slo,
    /// What the manifest says of the pass.
    pub(super) notes: Vec<String>,
}

impl Test<'_> {
    /// Requests that are not recorded. If all of them fail, so would the others: the first reason is the error.
    pub(super) fn warm_up(&self) -> Result<(), CaptureError> {
        let requests = self.arguments.traffic.warmup;
        if requests == 0 {
            return Ok(());
        }
        let load = Load::Closed(u32::try_from(requests).unwrap_or(WARM).min(WARM));
        let level = self.prepare(load, WARM_UP, 0, None, requests);
        let tally = self.run(&level, "warm-up", &mut io::sink());
        let tally = tally.map_err(|error| CaptureError::Tool(format!("warm-up: {error}")))?;
        match tally.failed.into_keys().next() {
            Some(reason) if tally.ok == 0 => Err(CaptureError::Tool(format!(
                "no request of the warm-up was answered: {reason}: check --url, --model and --chat"
            ))),
            _ => Ok(()),
        }
    }

    /// Runs a level and writes its file.
    pub(super) fn level(
        &mut self,
        load: Load,
        index: u64,
        offset: u64,
        folder: &Path,
    ) -> Result<Tally, CaptureError> {
        let name = load.name();
        let path = folder.join(format!("{name}.jsonl"));
        let file = files::create_new(&path).map_err(CaptureError::io(&path))?;
        let mut file = BufWriter::new(file);
        let (duration, requests) = match (
            self.arguments.traffic.duration,
            self.arguments.traffic.requests,
        ) {
            (None, None) => (Some(DURATION), None),
            given => given,
        };
        let scraper = self.metrics.take().map(|metrics| {
            metrics.start(folder.join("metrics"), name.clone(), self.secrets.masker())
        });
        let level = self.prepare(load, index, offset, duration, requests.unwrap_or(u64::MAX));
        let tally = self
            .write_header(&level, None, &mut file)
            .and_then(|()| self.run(&level, &name, &mut file))
            .and_then(|tally| file.flush().map(|()| tally))
            .map_err(CaptureError::io(&path))?;
        let time = level.start.elapsed();
        let (good, all) = (tally.good, tally.all());
        let reason = format!("{good} of {all} requests keep the limits of latency");
        let cut = tally.is_cut.then_some(reason);
        if cut.is_some() {
            self.mark(&path, &level, cut.clone())
                .map_err(CaptureError::io(&path))?;
        }
        match scraper.map(super::scrape::Scraper::finish).transpose() {
            Ok(scraped) => {
                let (metrics, outcome) = scraped.unzip();
                self.notes.extend(outcome.and_then(Result::err));
                self.metrics = metrics;
            }
            Err(reason) => self.notes.push(reason),
        }
        say(&format!("{name}: {}", tally.describe(time)));
        if let Some(reason) = cut {
            self.notes.push(format!("{name}: ended early: {reason}"));
        }
        if tally.late > 0 {
            let (late, sent, most) = (tally.late, tally.sent, tally.delay.0 * 1e3);
            self.notes.push(format!(
                "{name}: {late} of {sent} requests were sent more than 10 ms late, at most {most:.1} ms: \
                 this program did not keep up"
            ));
        }
        Ok(tally)
    }

    fn prepare(
        &self,
        load: Load,
        index: u64,
        offset: u64,
        duration: Option<Duration>,
        requests: u64,
    ) -> Level<'_> {
        let half = thread::available_parallelism().map_or(1, |cpus| cpus.get() / 2);
        let threads = self
            .arguments
            .traffic
            .threads
            .unwrap_or(half.clamp(1, 4) as u32);
        // A thread needs a client.
        let workers = match load {
            Load::Open(_) => threads,
            Load::Closed(clients) => threads.min(clients),
        };
        Level {
            target: self.target,
            load,
            duration,
            requests,
            seed: Random::new(self.arguments.traffic.seed, index).next(),
            offset,
            workers,
            start: Instant::now(),
            started_at: utc::now_precise(),
            sent: AtomicU64::new(0),
            next: AtomicU64::new(0),
            is_interrupted: AtomicBool::new(false),
        }
    }

    fn write_header(
        &self,
        level: &Level<'_>,
        cut: Option<String>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (mode, rate, concurrency) = match level.load {
            Load::Open(rate) => (LoadMode::Open, Some(rate.0), None),
            Load::Closed(concurrency) => (LoadMode::Closed, None, Some(concurrency.into())),
        };
        let header = ServingRun {
            schema: serving::SCHEMA.to_owned(),
            model: Some(self.secrets.masked_text(&self.arguments.model)),
            url: Some(self.secrets.masked_text(&self.url.to_string())),
            mode,
            rate,
            concurrency,
            started_at: Some(level.started_at.clone()),
            gpu: self.gpu.clone(),
            engine: self.server.engine.clone(),
            settings: self.server.settings.clone(),
            command: self.secrets.masked(self.server_command),
            cut,
        };
        serde_json::to_writer(&mut *out, &header)?;
        out.write_all(b"\n")
    }

    /// Says in the header of a level that it ended early.
    fn mark(&self, path: &Path, level: &Level<'_>, cut: Option<String>) -> io::Result<()> {
        let text = fs::read(path)?;
        let end = text.iter().position(|byte| *byte == b'\n');
        let mut marked = Vec::new();
        self.write_header(level, cut, &mut marked)?;
        marked.extend(&text[end.map_or(text.len(), |end| end + 1)..]);
        files::write(path, marked)
    }

    /// Runs the workers and writes what they record.
    fn run(&self, level: &Level<'_>, name: &str, out: &mut impl Write) -> io::Result<Tally> {
        let (sender, records) = mpsc::channel();
        thread::scope(|scope| {
            let workers = (0..level.workers).map(|index| {
                let worker = Worker::new(level, index, sender.clone())?;
                Ok(scope.spawn(move || worker.run()))
            });
            let workers: io::Result<Vec<_>> = workers.collect();
            drop(sender);
            let tally = workers.and_then(|workers| {
                let tally = self.collect(level, name, &records, out)?;
                for worker in workers {
                    worker
                        .join()
                        .unwrap_or_else(|_| Err(io::Error::other("a worker failed")))?;
                }
                Ok(tally)
            });
            // Whatever went wrong, the others end.
            level.is_interrupted.store(true, Ordering::Relaxed);
            tally
        })
    }

    fn collect(
        &self,
        level: &Level<'_>,
        name: &str,
        records: &Receiver<Record>,
        out: &mut impl Write,
    ) -> io::Result<Tally> {
        let (mut tally, mut shown) = (Tally::default(), Instant::now());
        loop {
            match records.recv_timeout(TICK) {
                // What our own end cut off says nothing of the server.
                Ok(record) if tally.is_cut && record.is_interrupted() => {}
                Ok(record) => {
                    out.write_all(record.line().as_bytes())?;
                    self.count(&mut tally, record);
                    if !self.slo.is_empty() && !tally.is_cut && tally.misses_clearly() {
                        tally.is_cut = true;
                        level.is_interrupted.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => out.flush()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.signals.interrupted() {
                level.is_interrupted.store(true, Ordering::Relaxed);
            }
            tally.sent = level.sent.load(Ordering::Relaxed);
            if shown.elapsed() >= SHOWN {
                shown = Instant::now();
                let time = level.start.elapsed();
                show(&format!("{name}: {}", tally.progress(time)));
                self.page.update(&self.arguments.pass, name, &tally, time);
            }
        }
        show("");
        tally.sent = level.sent.load(Ordering::Relaxed);
        let time = level.start.elapsed();
        self.page.update(&self.arguments.pass, name, &tally, time);
        Ok(tally)
    }

    fn count(&self, tally: &mut Tally, record: Record) {
        tally.add(&record.request, &self.slo);
        let Some(reason) = record.request.error else {
            return;
        };
        // Once for each reason; only here, for it may repeat what it was sent.
        let is_first = tally.failed.get(&reason) == Some(&1);
        if let Some(said) = record.said.filter(|_| is_first) {
            let said = self
                .secrets
                .masked_text(&said.replace(char::is_control, " "));
            say(&format!("{reason}: the server says: {said}"));
        }
    }
}

/// A line on the terminal that the next one replaces.
fn show(line: &str) {
    let mut terminal = io::stderr();
    if terminal.is_terminal() {
        // A line that is too long must not wrap. A terminal that is gone needs no progress.
        let _ = write!(terminal, "\r\x1b[K\x1b[?7l{line}\x1b[?7h");
    }
}
