//! What will run, decided before anything does: pure functions of the arguments and of what the tools say of themselves.

mod gate;
pub(crate) mod ncu;
mod nsys;
mod quote;
mod torch;

use std::path::{Path, PathBuf};

use rooflens_schemas::PassKind;

use crate::args::{
    AllArguments, BaselineArguments, Common, NcuArguments, NsysArguments, Profilers, Repeats,
    TorchArguments,
};
use crate::kernels::Kernels;
use crate::tools::Probe;
pub(crate) use nsys::Export as NsysExport;

/// One thing to do. Steps run in order; a failed one does not keep the next from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Facts about the machine, asking this Python for its packages.
    Snapshot { python: String, profilers: Profilers },
    /// A run of the workload.
    Pass(PassPlan),
    /// Kernels that take the most time, by the timeline: a list for the ncu pass of this name, which is the next
    /// step and, if the list is required, does not run without it.
    TopKernels { pass: String, list: PathBuf, is_required: bool, command: Vec<String> },
    /// A pass that cannot run.
    Skip { pass: String, kind: PassKind, reason: String },
}

/// A run of the workload and what becomes of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassPlan {
    /// The folder of the bundle.
    pub(crate) id: String,
    pub(crate) kind: PassKind,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Variables that are set for it.
    pub(crate) variables: Vec<(String, String)>,
    /// Counted runs, and runs before them.
    pub(crate) repeats: u32,
    pub(crate) warmup: u32,
    /// What is done with the files afterwards.
    pub(crate) harvest: Harvest,
    /// What the manifest says of the pass.
    pub(crate) notes: Vec<String>,
}

/// What is done after a run, in the pass's working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Harvest {
    /// Times that the workload wrote.
    Timings,
    /// Reports of nsys become SQLite.
    Nsys(nsys::Export),
    /// The report of ncu becomes CSV.
    Ncu(ncu::Export),
    /// Traces are collected.
    Torch(torch::Collection),
    /// Logs are packed.
    GemmLog,
}

/// Where files of a pass go while it runs: hidden, so that nothing unfinished or unredacted is in the bundle.
pub(crate) fn work_folder(bundle: &Path, pass: &str) -> PathBuf {
    bundle.join(".work").join(pass)
}

/// Steps of `baseline`.
pub(crate) fn baseline(arguments: &BaselineArguments) -> Vec<Step> {
    let common = &arguments.common;
    let mut steps = vec![snapshot(common)];
    steps.extend(baseline_passes(common, &arguments.repeats, pass_name(common, "baseline")));
    steps
}

/// Steps of `nsys`.
pub(crate) fn nsys(arguments: &NsysArguments, probe: &Probe) -> Result<Vec<Step>, String> {
    let common = &arguments.common;
    let nsys = probe.nsys.as_ref().map_err(Clone::clone)?;
    let id = pass_name(common, "nsys");
    let pass = nsys::pass(&id, common, Some(&arguments.gate), &arguments.nsys, nsys)?;
    Ok(vec![snapshot(common), Step::Pass(pass)])
}

/// Steps of `ncu`.
pub(crate) fn ncu(
    arguments: &NcuArguments,
    kernels: Option<&Kernels>,
    probe: &Probe,
) -> Result<Vec<Step>, String> {
    let common = &arguments.common;
    let ncu = probe.ncu.as_ref().map_err(Clone::clone)?;
    let id = pass_name(common, "ncu");
    let pass = ncu::pass(&id, common, &arguments.gate, &arguments.ncu, kernels, ncu)?;
    Ok(vec![snapshot(common), Step::Pass(pass)])
}

/// Steps of `torch`.
pub(crate) fn torch(arguments: &TorchArguments) -> Vec<Step> {
    let common = &arguments.common;
    let id = pass_name(common, "torch");
    let pass = torch::pass(&id, common, &arguments.gate, &arguments.torch, true);
    vec![snapshot(common), Step::Pass(pass)]
}

/// Steps of `all`. What cannot run is skipped with the reason.
pub(crate) fn all(arguments: &AllArguments, probe: &Probe) -> Vec<Step> {
    let common = &arguments.common;
    let mut steps = vec![snapshot(common)];
    steps.extend(baseline_passes(common, &arguments.repeats, "baseline".to_owned()));
    let gate = Some(&arguments.gate).filter(|_| arguments.gate_nsys);
    let timeline = probe.nsys.as_ref().map_err(Clone::clone);
    let timeline =
        timeline.and_then(|nsys| nsys::pass("nsys", common, gate, &arguments.nsys, nsys));
    let has_timeline = timeline.is_ok();
    steps.push(or_skip("nsys", PassKind::Timeline, timeline));
    let stages: Vec<Option<&str>> = match arguments.stages.is_empty() {
        true => vec![None],
        false => arguments.stages.iter().map(|stage| Some(stage.as_str())).collect(),
    };
    for stage in stages {
        steps.extend(counters(arguments, stage, has_timeline, probe));
    }
    let (gate, torch) = (&arguments.gate, &arguments.torch);
    let is_expected = torch.trace_dir.is_some();
    steps.push(Step::Pass(torch::pass("torch", common, gate, torch, is_expected)));
    steps
}

/// The steps as lines of shell.
pub(crate) fn show(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Snapshot { python, .. } => {
                text.push_str(&format!("# snapshot, with {python}\n"));
            }
            Step::Skip { pass, reason, .. } => {
                text.push_str(&format!("# {pass}: skipped: {reason}\n"));
            }
            Step::TopKernels { pass, list, command, .. } => {
                let name = list.file_name().unwrap_or_default().to_string_lossy();
                text.push_str(&format!("# top kernels: {name}, which narrows {pass} down\n"));
                text.push_str(&quote::line(command));
                text.push('\n');
            }
            Step::Pass(pass) => text.push_str(&show_pass(pass)),
        }
    }
    text
}

fn show_pass(pass: &PassPlan) -> String {
    let runs = match (pass.warmup, pass.repeats) {
        (0, 1) => String::new(),
        (warmup, repeats) => format!(", {repeats} times after {warmup} for warm-up"),
    };
    let mut text = format!("# {}{runs}\n", pass.id);
    for note in &pass.notes {
        text.push_str(&format!("#   {note}\n"));
    }
    for (name, value) in &pass.variables {
        text.push_str(&format!("{name}={} ", quote::word(value)));
    }
    text.push_str(&quote::line(&pass.command));
    text.push('\n');
    for command in pass.harvest.commands() {
        text.push_str(&quote::line(&command));
        text.push('\n');
    }
    text
}

impl Harvest {
    /// Commands that follow the run, as far as they are known before it.
    fn commands(&self) -> Vec<Vec<String>> {
        match self {
            Self::Nsys(export) => vec![export.command("timeline")],
            Self::Ncu(export) => export.pages().into_iter().map(|(_, command)| command).collect(),
            Self::Timings | Self::Torch(_) | Self::GemmLog => Vec::new(),
        }
    }
}

fn pass_name(common: &Common, default: &str) -> String {
    common.pass.clone().unwrap_or_else(|| default.to_owned())
}

/// The Python of the workload if it is one, because its packages are those that run.
fn snapshot(common: &Common) -> Step {
    let program = common.command.first().map_or("", String::as_str);
    let name = program.rsplit('/').next().unwrap_or_default();
    let python = if name.starts_with("python") { program } else { "python3" };
    Step::Snapshot { python: python.to_owned(), profilers: common.profilers.clone() }
}

fn baseline_passes(common: &Common, repeats: &Repeats, id: String) -> Vec<Step> {
    let pass = PassPlan {
        id,
        kind: PassKind::Baseline,
        command: common.command.clone(),
        variables: Vec::new(),
        repeats: repeats.repeats,
        warmup: repeats.warmup,
        harvest: Harvest::Timings,
        notes: Vec::new(),
    };
    let mut steps = vec![Step::Pass(pass)];
    if repeats.gemm_log {
        steps.push(Step::Pass(gemm_log(common)));
    }
    steps
}

/// cuBLAS and cuBLASLt write what they are called with.
fn gemm_log(common: &Common) -> PassPlan {
    let id = "gemm-log";
    let folder = work_folder(&common.output, id);
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let variables = [
        ("CUBLAS_LOGINFO_DBG", "1".to_owned()),
        ("CUBLAS_LOGDEST_DBG", file("cublas.log")),
        ("CUBLASLT_LOG_LEVEL", "5".to_owned()),
        ("CUBLASLT_LOG_FILE", file("cublaslt.log")),
    ];
    PassPlan {
        id: id.to_owned(),
        kind: PassKind::Operators,
        command: common.command.clone(),
        variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        repeats: 1,
        warmup: 0,
        harvest: Harvest::GemmLog,
        notes: Vec::new(),
    }
}

/// ncu on the top kernels of a stage, or of the whole timeline.
fn counters(
    arguments: &AllArguments,
    stage: Option<&str>,
    has_timeline: bool,
    probe: &Probe,
) -> Vec<Step> {
    let common = &arguments.common;
    let id = stage.map_or_else(|| "ncu".to_owned(), |stage| format!("ncu-{stage}"));
    let plan = probe.ncu.as_ref().map_err(Clone::clone);
    let mut plan =
        plan.and_then(|ncu| ncu::pass(&id, common, &arguments.gate, &arguments.ncu, None, ncu));
    let mut steps = Vec::new();
    match (&mut plan, &probe.rooflens) {
        (Ok(_), Some(rooflens)) if has_timeline => {
            steps.push(top_kernels(rooflens, arguments, stage, &id));
        }
        (Ok(pass), None) => pass.notes.push("not the top kernels: no rooflens program".to_owned()),
        (Ok(pass), _) => pass.notes.push("not the top kernels: no timeline".to_owned()),
        (Err(_), _) => {}
    }
    steps.push(or_skip(&id, PassKind::Counters, plan));
    steps
}

fn top_kernels(rooflens: &str, arguments: &AllArguments, stage: Option<&str>, id: &str) -> Step {
    let bundle = &arguments.common.output;
    let (path, top) = (bundle.to_string_lossy().into_owned(), arguments.top.to_string());
    let mut command =
        [rooflens, "kernels", &path, "--top", &top, "--yaml"].map(str::to_owned).to_vec();
    if let Some(stage) = stage {
        command.extend(["--stage".to_owned(), stage.to_owned()]);
    }
    let list =
        stage.map_or_else(|| "kernels.yaml".to_owned(), |stage| format!("kernels-{stage}.yaml"));
    let (pass, list) = (id.to_owned(), bundle.join(list));
    Step::TopKernels { pass, list, is_required: stage.is_some(), command }
}

fn or_skip(pass: &str, kind: PassKind, plan: Result<PassPlan, String>) -> Step {
    match plan {
        Ok(plan) => Step::Pass(plan),
        Err(reason) => Step::Skip { pass: pass.to_owned(), kind, reason },
    }
}

#[cfg(test)]
mod tests;
