//! Steps are run: the workload once a pass, NVML sampled meanwhile, files harvested, the manifest written after each.

mod budget;
mod child;
mod client;
mod counters;
mod harvest;
mod inject;
mod pass;
mod progress;
#[allow(unsafe_code, reason = "reads the C library's clock")]
mod sampler;
mod server;
#[allow(unsafe_code, reason = "sends signals")]
mod signals;
#[allow(unsafe_code, reason = "sends signals")]
mod watch;
mod window;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rooflens_schemas::{Pass, PassKind, Tool};

use crate::args::{Common, Profilers, SnapshotArguments, TimeLimit};
use crate::error::CaptureError;
use crate::manifest::{self, Description, WORK};
use crate::plan::schedule::TimeForCounters;
use crate::plan::{Harvest, PassPlan, Step};
use crate::redact::Secrets;
use crate::{files, say, snapshot, utc};
use budget::Budget;
pub(crate) use client::{answers, parse_ready};
use inject::Python;
pub(crate) use sampler::Sampler;
pub(crate) use server::{Server, Unready};
pub(crate) use signals::Forwarder;

/// Variable of the host's name.
const HOST: &str = "HOSTNAME";

/// What the captured program's end was, and what to say of the capture.
pub struct Outcome {
    /// A line for standard error; empty for none.
    pub said: String,
    /// Exit code.
    pub code: u8,
}

impl From<String> for Outcome {
    fn from(said: String) -> Self {
        Self { said, code: 0 }
    }
}

/// Refuses to write to the folder of a pass that has been.
fn refuse(pass: &Path) -> Result<(), CaptureError> {
    // An empty one is left of a capture that was killed.
    match pass.exists() && fs::remove_dir(pass).is_err() {
        true => Err(CaptureError::PassExists(pass.to_owned())),
        false => Ok(()),
    }
}

/// A capture that runs.
pub(crate) struct Session<'a> {
    common: &'a Common,
    /// The bundle.
    bundle: PathBuf,
    secrets: Secrets,
    signals: Forwarder,
    started: String,
    passes: Vec<Pass>,
    producers: Vec<(String, Tool)>,
    /// Exit code of the first run that failed.
    failed: Option<i32>,
    budget: Budget,
    /// What the baseline showed of Python, if modules were injected into it.
    python: Option<Python>,
}

impl<'a> Session<'a> {
    /// Makes the folder.
    pub(crate) fn begin(
        common: &'a Common,
        limit: TimeLimit,
        begin: Instant,
    ) -> Result<Self, CaptureError> {
        let bundle = common.output.clone();
        let work = bundle.join(WORK);
        files::make(&bundle.join("logs"))?;
        files::refuse_link(&work)?;
        if work.exists() {
            // What a capture left that did not end would be taken for this one's.
            fs::remove_dir_all(&work).map_err(CaptureError::io(&work))?;
        }
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        // Shells have the host's name in a variable that they do not export.
        let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = host
            .filter(|_| std::env::var_os(HOST).is_none())
            .map(|name| (HOST.to_owned(), name.trim().to_owned()));
        let words: Vec<String> = common
            .command
            .iter()
            .chain(&common.client)
            .cloned()
            .collect();
        let secrets = Secrets::of(variables.chain(host), &words, common.keep_names);
        let signals = Forwarder::start().map_err(CaptureError::io(&bundle))?;
        Ok(Self {
            common,
            bundle,
            secrets,
            signals,
            started: utc::now(),
            passes: Vec::new(),
            producers: Vec::new(),
            failed: None,
            budget: Budget::new(limit, begin),
            python: None,
        })
    }

    /// Runs all steps; `plan` plans deferred ones when it is their turn, with the time for them. After a signal those that
    /// are left are recorded as skipped; after a failure of our own the bundle still gets its manifest.
    pub(crate) fn run(
        mut self,
        steps: Vec<Step>,
        plan: impl Fn(PassPlan, TimeForCounters) -> Vec<Step>,
    ) -> Result<Outcome, CaptureError> {
        // A pass that cannot be is said before the others take their time.
        for step in &steps {
            if let Step::Pass(plan) | Step::Deferred(plan) = step {
                refuse(&self.bundle.join(&plan.id))?;
            }
        }
        self.budget.expect(&steps);
        let mut steps = VecDeque::from(steps);
        let mut done = Ok(());
        while let Some(step) = steps.pop_front().filter(|_| done.is_ok()) {
            done = match step {
                Step::Deferred(pass) if !self.signals.interrupted() => {
                    let planned = plan(pass, self.budget.for_counters()).into_iter();
                    planned.rev().for_each(|step| steps.push_front(step));
                    Ok(())
                }
                step => self.step(step, &steps),
            };
            for step in &mut steps {
                self.skip_torch(step);
            }
        }
        let outcome = self.finish();
        done.and(outcome)
    }

    fn step(&mut self, step: Step, later: &VecDeque<Step>) -> Result<(), CaptureError> {
        let is_interrupted = self.signals.interrupted();
        match step {
            Step::Snapshot { python, profilers } => return self.snapshot(python, profilers),
            Step::Skip { pass, kind, reason } => self.skip(&pass, kind, reason),
            Step::Pass(plan) | Step::Deferred(plan) if is_interrupted => {
                self.skip(&plan.id, plan.kind, "interrupted before it".to_owned());
            }
            Step::Pass(plan) | Step::Deferred(plan) => {
                let limit = self.budget.limit(&plan, later.iter());
                self.pass(plan, limit)?;
            }
        }
        Ok(())
    }

    /// Skips the injected profiler of PyTorch where the baseline showed that it would find nothing.
    fn skip_torch(&self, step: &mut Step) {
        let (Step::Pass(pass) | Step::Deferred(pass), Some(python)) = (&*step, self.python) else {
            return;
        };
        let is_needless = match &pass.harvest {
            // An interrupted baseline shows little.
            Harvest::Torch(collection) => {
                let is_injected = collection.trace_dir.is_none() && !collection.is_expected;
                is_injected && !self.signals.interrupted()
            }
            _ => false,
        };
        if let Some(reason) = python.lacks_torch().filter(|_| is_needless) {
            *step = Step::Skip {
                pass: pass.id.clone(),
                kind: pass.kind,
                reason: reason.to_owned(),
            };
        }
    }

    fn snapshot(&self, python: String, profilers: Profilers) -> Result<(), CaptureError> {
        let output = self.bundle.clone();
        snapshot::write_if_absent(&SnapshotArguments {
            output,
            python,
            uuid: false,
            profilers,
        })
    }

    fn skip(&mut self, pass: &str, kind: PassKind, reason: String) {
        say(&format!("{pass}: skipped: {reason}"));
        let id = pass.to_owned();
        self.passes.push(Pass {
            id,
            kind,
            skipped: Some(reason),
            ..Pass::default()
        });
    }

    fn pass(&mut self, plan: PassPlan, limit: Option<Duration>) -> Result<(), CaptureError> {
        let seconds = |time: Duration| format!("about {} s", time.as_secs().max(1));
        let about = self
            .budget
            .estimate(&plan)
            .map(|time| format!(", {}", seconds(time)));
        let most = limit.map(|limit| format!(", at most {} s", limit.as_secs()));
        say(&format!(
            "{}: begins{}{}",
            plan.id,
            about.unwrap_or_default(),
            most.unwrap_or_default()
        ));
        let done = pass::run(&plan, limit, self)?;
        let code = done.pass.exit_code.unwrap_or(0);
        let seconds = done.pass.wall_ns.unwrap_or(0) as f64 / 1e9;
        let how = match done.pass.exit_code {
            Some(code) => exit_code(code),
            None => "ended by the capture".to_owned(),
        };
        say(&format!("{}: {how} after {seconds:.1} s", plan.id));
        for note in &done.notes {
            say(&format!("{}: {note}", plan.id));
        }
        if code != 0 {
            self.failed.get_or_insert(code);
        } else if done.is_unfit && done.pass.cut.is_none() {
            self.failed.get_or_insert(i32::from(crate::FAILED));
        }
        let mut pass = done.pass;
        self.python = done.python.or(self.python);
        if let Some(wall) = pass.wall_ns.filter(|_| pass.kind == PassKind::Baseline) {
            self.budget.measured(Duration::from_nanos(wall));
        }
        pass.notes.extend(done.notes);
        let stacks = harvest::stacks_of(&plan.id);
        let has_stacks = self.bundle.join(&stacks).exists();
        for id in std::iter::once(plan.id).chain(has_stacks.then(|| stacks.clone())) {
            self.producers
                .extend(done.producer.clone().map(|tool| (id, tool)));
        }
        self.passes.push(pass);
        if has_stacks {
            self.passes.push(Pass {
                id: stacks,
                kind: PassKind::Operators,
                notes: vec![
                    "Python stacks of a part of the pass before: no time of it counts".to_owned(),
                ],
                ..Pass::default()
            });
        }
        // What is captured is whole, whatever becomes of the passes after it.
        self.describe().map(drop)
    }

    fn finish(self) -> Result<Outcome, CaptureError> {
        let work = self.bundle.join(WORK);
        if work.exists() {
            fs::remove_dir_all(&work).map_err(CaptureError::io(&work))?;
        }
        let said = self.describe()?;
        let code = self
            .failed
            .map_or(0, |code| u8::try_from(code).unwrap_or(crate::FAILED));
        Ok(Outcome { said, code })
    }

    /// Writes the manifest of what is there.
    fn describe(&self) -> Result<String, CaptureError> {
        let description = Description {
            name: self.common.name.clone(),
            labels: self.common.labels.clone(),
            captured_at: Some(self.started.clone()),
            passes: self.passes.clone(),
            producers: self.producers.clone(),
        };
        manifest::describe_bundle(&self.bundle, description)
    }
}

/// The code, with the name of the signal that it represents.
fn exit_code(code: i32) -> String {
    let signal = code
        .checked_sub(128)
        .and_then(signal_hook::low_level::signal_name);
    let signal = signal.map_or_else(String::new, |name| format!(" ({name})"));
    format!("exit code {code}{signal}")
}
