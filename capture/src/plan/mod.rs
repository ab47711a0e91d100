//! What will run, decided before anything does: pure functions of the arguments and of what the tools say of themselves.

pub(crate) mod counters;
mod gate;
mod metrics;
pub(crate) mod ncu;
pub(crate) mod nodes;
mod nsys;
mod quote;
pub(crate) mod schedule;
pub(crate) mod torch;

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use rooflens_schemas::PassKind;

use crate::args::{
    AllArguments, BaselineArguments, Common, Gate, NcuArguments, NsysArguments, PassName,
    Profilers, Repeats, TorchArguments,
};
use crate::kernels::Kernels;
use crate::tools::Probe;
use counters::RANGES;
pub(crate) use nsys::Export as NsysExport;
use nsys::GraphTrace;

/// What the injected modules read of a window of steps: `SKIP:COUNT`, a folder, and a file that is there once a server
/// is ready.
pub(crate) const WINDOW: &str = "ROOFLENS_WINDOW";
const WINDOW_DIR: &str = "ROOFLENS_WINDOW_DIR";
const READY: &str = "ROOFLENS_READY";

/// Name of that file in the folder.
pub(crate) const READY_FILE: &str = "ready";

/// One thing to do. Steps run in order; a failed one does not keep the next from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Facts about the machine, asking this Python for its packages.
    Snapshot {
        python: String,
        profilers: Profilers,
    },
    /// A run of the workload.
    Pass(PassPlan),
    /// A pass that is planned when it is its turn, by what earlier ones recorded; as it is shown before, and runs without
    /// them.
    Deferred(PassPlan),
    /// A pass that cannot run.
    Skip {
        pass: String,
        kind: PassKind,
        reason: String,
    },
}

impl Step {
    /// Which of the passes of `all` it belongs to.
    fn pass(&self) -> Option<PassName> {
        let id = match self {
            Self::Snapshot { .. } => return None,
            Self::Pass(plan) | Self::Deferred(plan) => &plan.id,
            Self::Skip { pass, .. } => pass,
        };
        match id.as_str() {
            "gemm-log" => Some(PassName::Baseline),
            nodes::ID => Some(PassName::Nsys),
            id => PassName::from_str(id, false).ok(),
        }
    }
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
    /// Whether a module is loaded into Python.
    pub(crate) is_injected: bool,
    /// Folder in which processes say how far their window of steps is, after which a server is ended.
    pub(crate) window: Option<PathBuf>,
    /// What is done with the files afterwards.
    pub(crate) harvest: Harvest,
    /// What the manifest says of the pass.
    pub(crate) notes: Vec<String>,
}

impl PassPlan {
    /// A pass of one run.
    pub(crate) fn once(id: &str, kind: PassKind, command: &[String], harvest: Harvest) -> Self {
        Self {
            id: id.to_owned(),
            kind,
            command: command.to_vec(),
            variables: Vec::new(),
            repeats: 1,
            warmup: 0,
            is_injected: false,
            window: None,
            harvest,
            notes: Vec::new(),
        }
    }
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
    steps.extend(baseline_passes(
        common,
        &arguments.repeats,
        &pass_name(common, "baseline"),
    ));
    steps
}

/// Steps of `nsys`.
pub(crate) fn nsys(arguments: &NsysArguments, probe: &Probe) -> Result<Vec<Step>, String> {
    let common = &arguments.common;
    let nsys = probe.nsys.as_ref().map_err(Clone::clone)?;
    let id = pass_name(common, "nsys");
    let gate = &arguments.gate;
    if gate.gate.is_some() && gate.window.is_some() {
        return Err("--window counts steps for nsys: with --gate choose --instances".to_owned());
    }
    let graphs = GraphTrace::Nodes { in_window: false };
    let pass = nsys::pass(&id, common, Some(gate), &arguments.nsys, graphs, nsys)?;
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
    let gate = &arguments.gate;
    if gate.gate.is_some() && gate.window.is_some() {
        return Err("--window counts steps for ncu: with --gate choose --instance".to_owned());
    }
    let pass = ncu::pass(
        &id,
        common,
        gate,
        &arguments.ncu,
        kernels,
        ncu::Pace::default(),
        ncu,
    )?;
    Ok(vec![snapshot(common), Step::Pass(pass)])
}

/// Steps of `torch`.
pub(crate) fn torch(arguments: &TorchArguments) -> Vec<Step> {
    let common = &arguments.common;
    let id = pass_name(common, "torch");
    let pass = torch::pass(&id, common, &arguments.gate, &arguments.torch, true);
    vec![snapshot(common), Step::Pass(pass)]
}

/// Steps of `all`: the passes that are asked for. What cannot run is skipped with the reason.
pub(crate) fn all(arguments: &AllArguments, probe: &Probe) -> Vec<Step> {
    let mut steps = all_passes(arguments, probe);
    steps.retain(|step| {
        step.pass()
            .is_none_or(|pass| arguments.passes.contains(&pass))
    });
    steps
}

fn all_passes(arguments: &AllArguments, probe: &Probe) -> Vec<Step> {
    let common = &arguments.common;
    let mut steps = vec![snapshot(common)];
    steps.extend(baseline_passes(common, &arguments.repeats, "baseline"));
    let window = arguments.server_steps();
    let timeline = probe.nsys.as_ref().map_err(Clone::clone).and_then(|nsys| {
        let (gate, options) = (arguments.nsys_gate(), &arguments.nsys);
        nsys::pass("nsys", common, gate, options, GraphTrace::Whole, nsys)
    });
    let timeline = timeline.map(|pass| with_ranges(pass, common));
    steps.push(or_skip("nsys", PassKind::Timeline, timeline));
    if let Ok(nsys) = &probe.nsys {
        steps.extend(nodes::pass(arguments, false, nsys).map(Step::Deferred));
    }
    let (gate, torch) = (&arguments.gate, &arguments.torch);
    let is_expected = torch.trace_dir.is_some();
    steps.push(Step::Deferred(torch::pass(
        "torch",
        common,
        gate,
        torch,
        is_expected,
    )));
    let ncu = probe.ncu.as_ref().map_err(Clone::clone);
    let plain = Gate {
        window,
        ..gate.clone()
    };
    let pace = ncu::Pace::default();
    let ncu = ncu.and_then(|ncu| ncu::pass("ncu", common, &plain, &arguments.ncu, None, pace, ncu));
    steps.push(match ncu {
        Ok(pass) => Step::Deferred(pass),
        Err(reason) => Step::Skip {
            pass: "ncu".to_owned(),
            kind: PassKind::Counters,
            reason,
        },
    });
    steps
}

/// The pass, limited to these steps of a Python workload, if to any.
fn in_steps(mut pass: PassPlan, steps: Option<(u64, u64)>, common: &Common) -> PassPlan {
    let Some((skip, count)) = steps else {
        return pass;
    };
    pass.variables
        .push((WINDOW.to_owned(), format!("{skip}:{count}")));
    pass.is_injected = true;
    pass.notes
        .push(format!("window: {count} steps after {skip}"));
    with_window(pass, common)
}

/// The pass, whose processes say in a folder how far they are.
fn with_window(mut pass: PassPlan, common: &Common) -> PassPlan {
    let folder = work_folder(&common.output, &pass.id).join("window");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    pass.variables.push((WINDOW_DIR.to_owned(), text(&folder)));
    if common.client.is_some() {
        pass.variables
            .push((READY.to_owned(), text(&folder.join(READY_FILE))));
    }
    pass.window = Some(folder);
    pass
}

/// The pass, in which is noted which ranges Python pushes: ncu can begin with those.
fn with_ranges(pass: PassPlan, common: &Common) -> PassPlan {
    let folder = ranges_folder(&common.output).to_string_lossy().into_owned();
    let mut variables = pass.variables;
    variables.push((RANGES.to_owned(), folder));
    PassPlan {
        variables,
        is_injected: true,
        ..pass
    }
}

/// Where processes note the ranges that they push: it outlives the pass.
pub(crate) fn ranges_folder(bundle: &Path) -> PathBuf {
    bundle.join(".work/ranges")
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
            Step::Deferred(pass) => {
                text.push_str(match pass.kind {
                    PassKind::Timeline => "# nsys-nodes: in a few instances of a stage, if CUDA graphs were launched\n",
                    PassKind::Counters => {
                        "# ncu: once there is a timeline, the top kernels in one instance of each stage; until then\n"
                    }
                    _ => "# torch: once there is a timeline, with Python stacks of two instances of a stage\n",
                });
                text.push_str(&show_pass(pass));
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
            Self::Ncu(export) => export
                .pages()
                .into_iter()
                .map(|(_, command)| command)
                .collect(),
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
    let python = if name.starts_with("python") {
        program
    } else {
        "python3"
    };
    Step::Snapshot {
        python: python.to_owned(),
        profilers: common.profilers.clone(),
    }
}

fn baseline_passes(common: &Common, repeats: &Repeats, id: &str) -> Vec<Step> {
    let pass = PassPlan {
        repeats: repeats.repeats,
        warmup: repeats.warmup,
        ..PassPlan::once(id, PassKind::Baseline, &common.command, Harvest::Timings)
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
        variables: variables
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..PassPlan::once(id, PassKind::Operators, &common.command, Harvest::GemmLog)
    }
}

fn or_skip(pass: &str, kind: PassKind, plan: Result<PassPlan, String>) -> Step {
    match plan {
        Ok(plan) => Step::Pass(plan),
        Err(reason) => Step::Skip {
            pass: pass.to_owned(),
            kind,
            reason,
        },
    }
}

/// Some pass, for tests.
#[cfg(test)]
pub(crate) fn some_pass() -> PassPlan {
    PassPlan::once("pass", PassKind::Baseline, &[], Harvest::GemmLog)
}

#[cfg(test)]
mod tests;
