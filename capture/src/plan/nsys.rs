//! The command lines of nsys.

use std::path::PathBuf;
use std::time::Duration;

use rooflens_schemas::PassKind;

use super::{Harvest, PassPlan, in_steps, work_folder};
use crate::args::{Common, Gate, NsysOptions};
use crate::tools::Profiler;

/// How reports become SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    program: String,
    pub(crate) version: String,
    flags: Vec<String>,
    folder: PathBuf,
    /// The gate, whose range must have occurred.
    pub(crate) gate: Option<String>,
    /// The command that tells which ranges there are, for when it did not.
    pub(crate) ranges: Vec<String>,
    pub(crate) keep_report: bool,
    /// How long the pass takes, if an earlier timeline tells.
    pub(crate) estimate: Option<Duration>,
}

/// How nsys traces CUDA graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GraphTrace {
    /// A replay is one operation: its launch takes about as long as without nsys.
    Whole,
    /// A replay is its kernels and copies: the launch of a large graph takes about a millisecond.
    Nodes {
        /// Whether nsys records only from `cudaProfilerStart` to `cudaProfilerStop`.
        in_window: bool,
    },
}

impl GraphTrace {
    const fn flag(self) -> &'static str {
        match self {
            Self::Whole => "--cuda-graph-trace=graph",
            Self::Nodes { .. } => "--cuda-graph-trace=node",
        }
    }
}

impl Export {
    /// The command that exports the report of this name.
    pub(crate) fn command(&self, name: &str) -> Vec<String> {
        let mut command = vec![self.program.clone(), "export".to_owned()];
        command.extend(["--type", "sqlite", "--force-overwrite", "true"].map(str::to_owned));
        command.extend(self.flags.iter().cloned());
        let path = |ending: &str| {
            self.folder
                .join(format!("{name}{ending}"))
                .to_string_lossy()
                .into_owned()
        };
        command.extend(["--output".to_owned(), path(".sqlite"), path(".nsys-rep")]);
        command
    }
}

/// The pass, or why this nsys cannot do it.
pub(super) fn pass(
    id: &str,
    common: &Common,
    gate: Option<&Gate>,
    options: &NsysOptions,
    graphs: GraphTrace,
    nsys: &Profiler,
) -> Result<PassPlan, String> {
    let folder = work_folder(&common.output, id);
    let steps = gate.and_then(Gate::steps);
    let gate = gate.and_then(|gate| Some((gate.gate.as_ref()?, gate.instances)));
    let mut trace: Vec<&str> = options.trace.iter().map(String::as_str).collect();
    if gate.is_some() && !trace.contains(&"nvtx") {
        trace.push("nvtx");
    }
    let mut command = profile(nsys, &trace, options.scheduling);
    if options.scheduling && !nsys.knows("--cpuctxsw") {
        return Err(format!(
            "{} cannot record scheduling: leave --scheduling out",
            nsys.version
        ));
    }
    if trace.contains(&"cuda") && nsys.knows("--cuda-graph-trace") {
        command.push(graphs.flag().to_owned());
    }
    if options.gpu_metrics {
        command.push(gpu_metrics(nsys)?);
    }
    let mut notes = vec![nsys.version.clone()];
    if let Some((range, instances)) = gate {
        command.extend(gated(range, instances, nsys)?);
        notes.push(format!(
            "gated by range {range}: its first {instances} instance(s)"
        ));
    }
    if steps.is_some() || graphs == (GraphTrace::Nodes { in_window: true }) {
        if !nsys.knows("--capture-range") {
            return Err(format!(
                "{} cannot record steps: leave --window out",
                nsys.version
            ));
        }
        command.push("--capture-range=cudaProfilerApi".to_owned());
        command.extend(range_end(1, nsys)?);
    }
    let output = folder.join("timeline").to_string_lossy().into_owned();
    command.extend(["--output".to_owned(), output]);
    command.extend(common.command.iter().cloned());
    let export = Export {
        program: nsys.program.clone(),
        version: nsys.version.clone(),
        flags: export_flags(nsys),
        ranges: ranges(nsys, &folder, common),
        folder,
        gate: gate.map(|(range, _)| range.clone()),
        keep_report: options.keep_report,
        estimate: None,
    };
    let pass = PassPlan {
        notes,
        ..PassPlan::once(id, PassKind::Timeline, &command, Harvest::Nsys(export))
    };
    Ok(in_steps(pass, steps, common))
}

/// Tables without rows are written, too: absent and empty are not the same. Payloads of ranges tell what a collective moves.
fn export_flags(nsys: &Profiler) -> Vec<String> {
    let flags = [
        ("--lazy", "--lazy=false"),
        ("--include-blobs", "--include-blobs=true"),
    ];
    flags
        .into_iter()
        .filter(|(name, _)| nsys.knows(name))
        .map(|(_, flag)| flag.to_owned())
        .collect()
}

fn profile(nsys: &Profiler, trace: &[&str], scheduling: bool) -> Vec<String> {
    let mut command = vec![nsys.program.clone(), "profile".to_owned()];
    command.push(format!("--trace={}", trace.join(",")));
    // Sampling of the CPU disturbs the launches that are to be measured.
    let switches = if scheduling { "process-tree" } else { "none" };
    for (option, value) in [("--sample", "none"), ("--cpuctxsw", switches)] {
        if nsys.knows(option) {
            command.push(format!("{option}={value}"));
        }
    }
    command.push("--force-overwrite=true".to_owned());
    command
}

fn gpu_metrics(nsys: &Profiler) -> Result<String, String> {
    let names = ["--gpu-metrics-devices", "--gpu-metrics-device"];
    match names.into_iter().find(|name| nsys.knows(name)) {
        Some(name) => Ok(format!("{name}=all")),
        None => Err(format!(
            "{} cannot sample GPU metrics: leave --gpu-metrics out",
            nsys.version
        )),
    }
}

/// Ranges of PyTorch and of most programs have names that are not registered: nsys looks at those only if reported so.
fn gated(range: &str, instances: u32, nsys: &Profiler) -> Result<Vec<String>, String> {
    if !nsys.knows("--nvtx-capture") {
        return Err(format!(
            "{} cannot be gated by a range: leave --gate out",
            nsys.version
        ));
    }
    let mut flags = vec![
        "--capture-range=nvtx".to_owned(),
        format!("--nvtx-capture={range}"),
    ];
    flags.push("--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0".to_owned());
    flags.extend(range_end(instances, nsys)?);
    Ok(flags)
}

/// The workload goes on after the range: its end is its own.
fn range_end(instances: u32, nsys: &Profiler) -> Result<Option<String>, String> {
    if nsys.knows("--capture-range-end") {
        let end = match instances {
            1 => "stop".to_owned(),
            many => format!("repeat:{many}"),
        };
        return Ok(Some(format!("--capture-range-end={end}")));
    }
    if instances > 1 {
        return Err(format!(
            "{} records one instance only: leave --instances out",
            nsys.version
        ));
    }
    let stops = nsys.knows("--stop-on-range-end");
    Ok(stops.then(|| "--stop-on-range-end=true".to_owned()))
}

fn ranges(nsys: &Profiler, folder: &std::path::Path, common: &Common) -> Vec<String> {
    let mut command = profile(nsys, &["nvtx"], false);
    let output = folder.join("ranges").to_string_lossy().into_owned();
    command.extend(["--output".to_owned(), output]);
    command.extend(common.command.iter().cloned());
    command
}
