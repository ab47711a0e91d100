//! The commands that run a workload: probe, plan, run.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path;
use std::process::Command;

use crate::args::{
    AllArguments, BaselineArguments, Common, Gate, NcuArguments, NsysArguments, TorchArguments,
};
use crate::error::CaptureError;
use crate::kernels::Kernels;
use crate::plan::{self, PassPlan, Step};
use crate::run::{Outcome, Session};
use crate::snapshot::runner::System;
use crate::tools::{self, Probe};

/// `baseline`
pub(crate) fn baseline(mut arguments: BaselineArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    perform(&arguments.common, plan::baseline(&arguments), no_narrowing)
}

/// `nsys`
pub(crate) fn nsys(mut arguments: NsysArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    let probe = Probe::of(&System, &arguments.common, true, false);
    let steps = plan::nsys(&arguments, &probe).map_err(CaptureError::Tool)?;
    perform(&arguments.common, steps, no_narrowing)
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
    perform(&arguments.common, steps, no_narrowing)
}

/// `torch`
pub(crate) fn torch(mut arguments: TorchArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    perform(&arguments.common, plan::torch(&arguments), no_narrowing)
}

/// `all`
pub(crate) fn all(mut arguments: AllArguments) -> Result<Outcome, CaptureError> {
    make_absolute(&mut arguments.common)?;
    let mut probe = Probe::of(&System, &arguments.common, true, true);
    probe.rooflens = arguments.rooflens.clone().or_else(|| tools::find("rooflens"));
    let steps = plan::all(&arguments, &probe);
    let narrow = |pass: &str, kernels: &Kernels| {
        // The list counts launches from where the timeline begins: with the process, or with the gate.
        let whole = Gate::default();
        let gate = if arguments.gate_nsys { &arguments.gate } else { &whole };
        let ncu = probe.ncu.as_ref().map_err(Clone::clone)?;
        plan::ncu::pass(pass, &arguments.common, gate, &arguments.ncu, Some(kernels), ncu)
    };
    perform(&arguments.common, steps, narrow)
}

/// `bench` and `peaks`: rooflens-bench takes the place of this process, with its arguments and its name. Returns if it
/// cannot.
pub(crate) fn bench() -> CaptureError {
    let Some(program) = tools::find("rooflens-bench") else {
        let folder = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
        return CaptureError::NoBench(folder.unwrap_or_default());
    };
    let mut command = Command::new(&program);
    let error = command.arg0("rooflens-capture").args(env::args_os().skip(1)).exec();
    CaptureError::Start(program, error)
}

/// Shows the steps or runs them.
fn perform(
    common: &Common,
    steps: Vec<Step>,
    narrow: impl Fn(&str, &Kernels) -> Result<PassPlan, String>,
) -> Result<Outcome, CaptureError> {
    if !common.dry_run {
        return Session::begin(common)?.run(steps, narrow);
    }
    // Nobody reads the plan: nothing is left to be done.
    let _ = std::io::stdout().write_all(plan::show(&steps).as_bytes());
    Ok(String::new().into())
}

fn no_narrowing(_: &str, _: &Kernels) -> Result<PassPlan, String> {
    Err("no list of kernels is expected".to_owned())
}

/// The workload may change its folder: paths that it is given must not depend on it.
fn make_absolute(common: &mut Common) -> Result<(), CaptureError> {
    common.output = path::absolute(&common.output).map_err(CaptureError::io(&common.output))?;
    Ok(())
}
