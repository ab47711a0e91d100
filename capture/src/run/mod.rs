//! Steps are run: the workload once a pass, NVML sampled meanwhile, files harvested, the manifest written last.

mod child;
mod harvest;
mod inject;
mod pass;
mod sampler;
mod signals;

use std::fs;
use std::path::{Path, PathBuf};

use rooflens_schemas::{Pass, PassKind, Tool};

use crate::args::{Common, Profilers, SnapshotArguments};
use crate::error::CaptureError;
use crate::kernels::Kernels;
use crate::manifest::{self, Description};
use crate::plan::{PassPlan, Step};
use crate::redact::Secrets;
use crate::{say, snapshot, utc};
use child::Run;
pub(crate) use sampler::Sampler;
pub(crate) use signals::Forwarder;

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
}

impl<'a> Session<'a> {
    /// Makes the folder.
    pub(crate) fn begin(common: &'a Common) -> Result<Self, CaptureError> {
        let bundle = common.output.clone();
        let logs = bundle.join("logs");
        fs::create_dir_all(&logs).map_err(CaptureError::io(&logs))?;
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let secrets = Secrets::of(variables, &common.command, common.keep_names);
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
        })
    }

    /// Runs all steps. After a signal those that are left are recorded as skipped; after a failure of our own the
    /// bundle still gets its manifest.
    pub(crate) fn run(
        mut self,
        steps: Vec<Step>,
        narrow: impl Fn(&str, &Kernels) -> Result<PassPlan, String>,
    ) -> Result<Outcome, CaptureError> {
        let mut narrowed = None;
        let done = steps.into_iter().try_for_each(|step| self.step(step, &narrow, &mut narrowed));
        let outcome = self.finish();
        done.and(outcome)
    }

    fn step(
        &mut self,
        step: Step,
        narrow: &impl Fn(&str, &Kernels) -> Result<PassPlan, String>,
        narrowed: &mut Option<Result<PassPlan, (String, bool)>>,
    ) -> Result<(), CaptureError> {
        let is_interrupted = self.signals.interrupted();
        match step {
            Step::Snapshot { python, profilers } => self.snapshot(python, profilers)?,
            Step::Skip { pass, kind, reason } => self.skip(&pass, kind, reason),
            Step::Pass(plan) if is_interrupted => {
                self.skip(&plan.id, plan.kind, "interrupted before it".to_owned());
            }
            Step::TopKernels { .. } if is_interrupted => {}
            Step::TopKernels { pass, list, is_required, command } => {
                let kernels = self.top_kernels(&list, &command);
                let plan = kernels.and_then(|kernels| narrow(&pass, &kernels));
                *narrowed = Some(plan.map_err(|reason| (reason, is_required)));
            }
            Step::Pass(mut plan) => {
                let is_counters = plan.kind == PassKind::Counters;
                match narrowed.take_if(|_| is_counters) {
                    Some(Ok(narrower)) => plan = narrower,
                    Some(Err((reason, true))) => {
                        self.skip(&plan.id, plan.kind, format!("no top kernels: {reason}"));
                        return Ok(());
                    }
                    Some(Err((reason, false))) => {
                        plan.notes.push(format!("not the top kernels: {reason}"));
                    }
                    None => {}
                }
                self.pass(plan)?;
            }
        }
        Ok(())
    }

    fn snapshot(&self, python: String, profilers: Profilers) -> Result<(), CaptureError> {
        let output = self.bundle.clone();
        snapshot::write_if_absent(&SnapshotArguments { output, python, uuid: false, profilers })
    }

    fn skip(&mut self, pass: &str, kind: PassKind, reason: String) {
        say(&format!("{pass}: skipped: {reason}"));
        let id = pass.to_owned();
        self.passes.push(Pass { id, kind, skipped: Some(reason), ..Pass::default() });
    }

    fn pass(&mut self, plan: PassPlan) -> Result<(), CaptureError> {
        say(&format!("{}: begins", plan.id));
        let done = pass::run(&plan, self)?;
        let code = done.pass.exit_code.unwrap_or(0);
        let seconds = done.pass.wall_ns.unwrap_or(0) as f64 / 1e9;
        say(&format!("{}: exit code {code} after {seconds:.1} s", plan.id));
        for note in &done.notes {
            say(&format!("{}: {note}", plan.id));
        }
        if code != 0 {
            self.failed.get_or_insert(code);
        } else if done.is_unfit {
            self.failed.get_or_insert(i32::from(crate::FAILED));
        }
        let mut pass = done.pass;
        pass.notes.extend(done.notes);
        self.producers.extend(done.producer.map(|tool| (plan.id, tool)));
        self.passes.push(pass);
        Ok(())
    }

    /// Has rooflens list the kernels that take the most time.
    fn top_kernels(&self, list: &Path, command: &[String]) -> Result<Kernels, String> {
        let name = list.file_stem().unwrap_or_default().to_string_lossy();
        let log = self.bundle.join("logs").join(format!("{name}.stderr.txt"));
        let run = Run { command, variables: &[], stdout: list, stderr: &log, is_quiet: true };
        let kernels = match run.wait(&self.signals) {
            Ok(ended) if ended.code == 0 => fs::read_to_string(list)
                .map_err(|error| error.to_string())
                .and_then(|text| Kernels::parse(&text)),
            Ok(ended) => Err(format!("rooflens ended with {}: see logs", ended.code)),
            Err(error) => Err(format!("rooflens: {error}")),
        };
        if let Err(reason) = &kernels {
            say(&format!("top kernels: skipped: {reason}"));
            // Half a list is no list.
            let _ = fs::remove_file(list);
        }
        kernels
    }

    fn finish(self) -> Result<Outcome, CaptureError> {
        let work = self.bundle.join(".work");
        if work.exists() {
            fs::remove_dir_all(&work).map_err(CaptureError::io(&work))?;
        }
        // Logs were written as the command went on.
        let logs = self.bundle.join("logs");
        self.secrets.mask_folder(&logs).map_err(CaptureError::io(&logs))?;
        let description = Description {
            name: self.common.name.clone(),
            labels: self.common.labels.clone(),
            captured_at: Some(self.started),
            passes: self.passes,
            producers: self.producers,
        };
        let said = manifest::describe_bundle(&self.bundle, description)?;
        let code = self.failed.map_or(0, |code| u8::try_from(code).unwrap_or(crate::FAILED));
        Ok(Outcome { said, code })
    }
}

/// The folder of a pass, made.
fn make(folder: &Path) -> Result<(), CaptureError> {
    fs::create_dir_all(folder).map_err(CaptureError::io(folder))
}
