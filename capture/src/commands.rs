//! The commands that run a workload: probe, plan, run.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path;
use std::process::Command;
use std::time::Instant;

use rooflens_schemas::PassKind;

use crate::args::{
    AllArguments, BaselineArguments, Common, KernelsArguments, NcuArguments, NsysArguments,
    TimeLimit, TorchArguments,
};
use crate::error::CaptureError;
use crate::kernels::Kernels;
use crate::plan::schedule::TimeForCounters;
use crate::plan::{self, PassPlan, Step, counters, nodes};
use crate::run::{Outcome, Session};
use crate::say;
use crate::snapshot::runner::System;
use crate::timeline::{self, Timeline};
use crate::tools::{self, Probe};

/// `baseline`
pub(crate) fn baseline(mut arguments: BaselineArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    perform(
        &arguments.common,
        plan::baseline(&arguments),
        unlimited(),
        as_planned,
    )
}

/// `nsys`
pub(crate) fn nsys(mut arguments: NsysArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    let probe = Probe::of(&System, &arguments.common, true, false);
    let steps = plan::nsys(&arguments, &probe).map_err(CaptureError::Tool)?;
    perform(&arguments.common, steps, unlimited(), as_planned)
}

/// `ncu`
pub(crate) fn ncu(mut arguments: NcuArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    let kernels = match &arguments.kernels {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(CaptureError::io(path))?;
            let refused = |reason| CaptureError::File(path.clone(), reason);
            Some(Kernels::parse(&text).map_err(refused)?)
        }
        None => None,
    };
    let probe = Probe::of(&System, &arguments.common, false, true);
    let steps = plan::ncu(&arguments, kernels.as_ref(), &probe).map_err(CaptureError::Tool)?;
    perform(&arguments.common, steps, unlimited(), as_planned)
}

/// `torch`
pub(crate) fn torch(mut arguments: TorchArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    let steps = plan::torch(&arguments);
    perform(&arguments.common, steps, unlimited(), as_planned)
}

/// `all`
pub(crate) fn all(mut arguments: AllArguments) -> Result<Outcome, CaptureError> {
    if arguments.common.pass.is_some() {
        let reason = "--pass names a single pass, and all has several: leave it out";
        return Err(CaptureError::Tool(reason.to_owned()));
    }
    let begin = Instant::now();
    make_absolute(&mut arguments.common)?;
    let probe = Probe::of(&System, &arguments.common, true, true);
    let steps = plan::all(&arguments, &probe);
    let planned = |plain: PassPlan, time| match (plain.kind, &probe.nsys, &probe.ncu) {
        (PassKind::Timeline, Ok(nsys), _) => nodes::passes(&arguments, nsys, plain, time),
        (PassKind::Counters, _, Ok(ncu)) => counters::passes(&arguments, ncu, plain, time),
        _ => vec![Step::Pass(plan::torch::with_stacks(plain, &arguments))],
    };
    let limit = arguments.budget.unwrap_or(TimeLimit::Usual);
    perform(&arguments.common, steps, (limit, begin), planned)
}

/// `kernels`
pub(crate) fn kernels(arguments: &KernelsArguments) -> Result<Outcome, CaptureError> {
    let input = &arguments.input;
    let (export, timeline) = match input.is_dir() {
        true => (input.join(timeline::EXPORT), Timeline::of_kernels(input)),
        false => (input.clone(), Timeline::open(input)),
    };
    if export.extension().is_some_and(|ending| ending == "csv") {
        let reason = "a list needs the timeline: give the SQLite export. Of sums, `rooflens kernels FILE --yaml` makes one";
        return Err(CaptureError::File(export, reason.to_owned()));
    }
    let timeline = timeline.map_err(CaptureError::io(&export))?;
    timeline.notes().iter().for_each(|note| say(note));
    let listed = timeline::list(
        &timeline,
        arguments.stage.as_deref(),
        arguments.steps,
        arguments.top,
    );
    let listed = listed.map_err(|reason| CaptureError::File(export, reason))?;
    // Nobody reads the list: nothing is left to be done.
    let _ = std::io::stdout().write_all(listed.yaml.as_bytes());
    let is_whole = arguments.stage.is_none() && !arguments.steps;
    let said = match is_whole && timeline.innermost(1).is_empty() {
        true => {
            "no range marks a stage: the list is that of the whole run; --steps lists the sequence that repeats"
        }
        false => "",
    };
    Ok(said.to_owned().into())
}

/// `bench` and `peaks`: rooflens-bench takes the place of this process, with its arguments and its name. Returns if it
/// cannot.
pub(crate) fn bench() -> CaptureError {
    let Some(program) = tools::find("rooflens-bench") else {
        let folder = env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.to_owned()));
        return CaptureError::NoBench(folder.unwrap_or_default());
    };
    let mut command = Command::new(&program);
    let error = command
        .arg0("rooflens-capture")
        .args(env::args_os().skip(1))
        .exec();
    CaptureError::Start(program, error)
}

/// Shows the steps or runs them.
fn perform(
    common: &Common,
    steps: Vec<Step>,
    (limit, begin): (TimeLimit, Instant),
    plan: impl Fn(PassPlan, TimeForCounters) -> Vec<Step>,
) -> Result<Outcome, CaptureError> {
    if !common.dry_run {
        return Session::begin(common, limit, begin)?.run(steps, plan);
    }
    // Nobody reads the plan: nothing is left to be done.
    let _ = std::io::stdout().write_all(crate::plan::show(&steps).as_bytes());
    Ok(String::new().into())
}

/// No limit, for a single pass.
fn unlimited() -> (TimeLimit, Instant) {
    (TimeLimit::None, Instant::now())
}

fn as_planned(pass: PassPlan, _: TimeForCounters) -> Vec<Step> {
    vec![Step::Pass(pass)]
}

/// The workload may change its folder: paths that it is given must not depend on it.
fn make_absolute(common: &mut Common) -> Result<(), CaptureError> {
    common.output = path::absolute(&common.output).map_err(CaptureError::io(&common.output))?;
    Ok(())
}
