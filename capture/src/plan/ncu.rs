//! The command lines of ncu.

use std::path::PathBuf;

use rooflens_schemas::PassKind;

use super::gate::Range;
use super::schedule::Schedule;
use super::{Harvest, PassPlan, in_steps, metrics, work_folder};
use crate::args::{CacheControl, ClockControl, Common, Gate, NcuOptions, Preset};
use crate::kernels::Kernels;
use crate::tools::Profiler;

/// Launches that are profiled if nobody says how many.
const LAUNCHES: u64 = 60;

/// Launches of a list's window that are profiled at most: a kernel that ran once may lie far from the rest.
const WINDOW: u64 = 300;

/// Seconds per launch with the default sections, where no timeline says more: measured on an H100 and on H200s, 0.6 to 0.7.
pub(crate) const LAUNCH: f64 = 0.65;

/// Sections that every preset but the full set consists of: for rooflines, bound classes and their reasons.
const BASE: [&str; 10] = [
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "SpeedOfLight_HierarchicalHalfRooflineChart",
    "SpeedOfLight_HierarchicalSingleRooflineChart",
    "MemoryWorkloadAnalysis",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
];
/// Of these, what is excluded where time is short: a launch has 25 passes on an H100 with all of them.
const DETAIL: [&str; 3] = ["WarpStateStats", "SchedulerStats", "MemoryWorkloadAnalysis"];
const MEMORY: [&str; 2] = [
    "MemoryWorkloadAnalysis_Chart",
    "MemoryWorkloadAnalysis_Tables",
];
const COMPUTE: [&str; 2] = ["ComputeWorkloadAnalysis", "InstructionStats"];

/// How the report becomes CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    program: String,
    pub(crate) version: String,
    pub(crate) report: PathBuf,
    /// Launches that will be profiled, as far as it is known.
    pub(crate) planned: Option<u64>,
    /// Their times, if a timeline says what they are.
    pub(crate) schedule: Option<Schedule>,
    /// File that tells the injected module to end the workload: the time of the pass is up.
    pub(crate) deadline: Option<PathBuf>,
    /// Files that tell the workload to stop profiling, and after how many launches they are made.
    pub(crate) stops: Vec<(u64, PathBuf)>,
    /// Kernels that are to be profiled: as ncu prints their names, and as people are reported.
    pub(crate) kernels: Vec<(String, String)>,
    /// Whether ncu kills the workload after the last launch.
    pub(crate) kills: bool,
}

impl Export {
    /// The pages: name of the file, and the command that prints it.
    pub(crate) fn pages(&self) -> Vec<(String, Vec<String>)> {
        let page = |page: &str| {
            let report = self.report.to_string_lossy().into_owned();
            let command = [&self.program, "--import", &report, "--csv", "--page", page];
            (
                format!("kernels.{page}.csv"),
                command.map(str::to_owned).into(),
            )
        };
        vec![page("raw"), page("details")]
    }
}

/// The pass, or why this ncu cannot do it.
pub(super) fn pass(
    id: &str,
    common: &Common,
    gate: &Gate,
    options: &NcuOptions,
    kernels: Option<&Kernels>,
    pace: Pace,
    ncu: &Profiler,
) -> Result<PassPlan, String> {
    let mut notes = Vec::new();
    let mut filters = gated(gate, ncu)?;
    if gate.steps().is_some() {
        if !ncu.knows("--profile-from-start") {
            return Err(format!(
                "{} cannot record steps: leave --window out",
                ncu.version
            ));
        }
        filters.extend(["--profile-from-start", "off"].map(str::to_owned));
    }
    filters.extend(launches(options, kernels, ncu, &mut notes)?);
    let kills = ncu.knows("--kill");
    if kills {
        filters.extend(["--kill", "yes"].map(str::to_owned));
    }
    let names = kernels.iter().flat_map(|list| &list.kernels);
    let names = names
        .map(|kernel| (kernel.function(), kernel.name.clone()))
        .collect();
    let mut pass = filtered(id, common, options, filters, pace, ncu)?;
    pass.notes.extend(notes);
    if let Harvest::Ncu(export) = &mut pass.harvest {
        let planned = window(options, kernels).1;
        (export.kernels, export.kills, export.planned) = (names, kills, Some(planned));
    }
    Ok(in_steps(pass, gate.steps(), common))
}

/// What is chosen by the time that is left.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    pub(super) schedule: Option<Schedule>,
    /// The sections with the most passes are skipped.
    pub(super) is_short: bool,
}

/// The pass with these filters of launches.
pub(super) fn filtered(
    id: &str,
    common: &Common,
    options: &NcuOptions,
    filters: Vec<String>,
    pace: Pace,
    ncu: &Profiler,
) -> Result<PassPlan, String> {
    let report = work_folder(&common.output, id).join("kernels.ncu-rep");
    let mut notes = vec![ncu.version.clone()];
    let mut command = vec![ncu.program.clone()];
    if ncu.knows("--target-processes") {
        command.extend(["--target-processes", "all"].map(str::to_owned));
    }
    if ncu.knows("--graph-profiling") {
        command.extend(["--graph-profiling", "node"].map(str::to_owned));
    }
    command.extend(sections(options, pace.is_short, ncu, &mut notes)?);
    command.extend(control(options, ncu, &mut notes));
    command.extend(filters);
    let output = report.with_extension("").to_string_lossy().into_owned();
    command.extend(["--force-overwrite", "--export", &output].map(str::to_owned));
    command.extend(common.command.iter().cloned());
    let schedule = pace.schedule;
    let planned = schedule
        .as_ref()
        .map(|schedule| schedule.launches.len() as u64);
    let harvest = Harvest::Ncu(Export {
        program: ncu.program.clone(),
        version: ncu.version.clone(),
        report,
        planned,
        schedule,
        deadline: None,
        stops: Vec::new(),
        kernels: Vec::new(),
        kills: false,
    });
    Ok(PassPlan {
        notes,
        ..PassPlan::once(id, PassKind::Counters, &command, harvest)
    })
}

/// Launches that ncu skips, and those that it profiles after them.
pub(super) fn window(options: &NcuOptions, kernels: Option<&Kernels>) -> (u64, u64) {
    let listed = kernels.map_or((0, LAUNCHES), Kernels::window);
    (
        options.launch_skip.unwrap_or(listed.0),
        options.launch_count.unwrap_or(listed.1.min(WINDOW)),
    )
}

/// What the user names must be there; of a preset, what is there is taken.
fn sections(
    options: &NcuOptions,
    is_short_of_time: bool,
    ncu: &Profiler,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    if let Some(unknown) = options.sections.iter().find(|name| !ncu.lists(name)) {
        return Err(format!(
            "{} has no section {unknown}: see ncu --list-sections",
            ncu.version
        ));
    }
    let chosen: Vec<&str> = match options.preset {
        _ if !options.sections.is_empty() => options.sections.iter().map(String::as_str).collect(),
        Preset::Full => return Ok(["--set", "full"].map(str::to_owned).into()),
        Preset::Roofline if is_short_of_time => {
            let out = DETAIL.join(", ");
            notes.push(format!(
                "skipped for time: {out}; a longer --budget collects them"
            ));
            BASE.into_iter()
                .filter(|name| !DETAIL.contains(name))
                .collect()
        }
        Preset::Roofline => BASE.to_vec(),
        Preset::Memory => [&BASE[..], &MEMORY].concat(),
        Preset::Compute => [&BASE[..], &COMPUTE].concat(),
    };
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        chosen.into_iter().partition(|name| ncu.lists(name));
    if known.is_empty() {
        return Err(format!(
            "{} lists none of the preset's sections: name some",
            ncu.version
        ));
    }
    if !unknown.is_empty() {
        notes.push(format!(
            "sections that this ncu does not have: {}",
            unknown.join(", ")
        ));
    }
    let sections = known
        .into_iter()
        .flat_map(|name| ["--section".to_owned(), name.to_owned()]);
    let mut flags: Vec<String> = sections.collect();
    if options.sections.is_empty() && ncu.knows("--metrics") {
        flags.extend(metrics::flags());
    }
    Ok(flags)
}

fn control(options: &NcuOptions, ncu: &Profiler, notes: &mut Vec<String>) -> Vec<String> {
    let cache = match options.cache_control {
        CacheControl::All => ("--cache-control", "all"),
        CacheControl::None => ("--cache-control", "none"),
    };
    let clock = match options.clock_control {
        ClockControl::Base => ("--clock-control", "base"),
        ClockControl::None => ("--clock-control", "none"),
    };
    let mut flags = Vec::new();
    for (flag, value) in [cache, clock] {
        if ncu.knows(flag) {
            flags.extend([flag.to_owned(), value.to_owned()]);
            notes.push(format!("{} {value}", flag.trim_start_matches('-')));
        } else {
            notes.push(format!("this ncu has no {flag}: its own choice holds"));
        }
    }
    flags
}

fn gated(gate: &Gate, ncu: &Profiler) -> Result<Vec<String>, String> {
    let Some(range) = &gate.gate else {
        return Ok(Vec::new());
    };
    if !ncu.knows("--nvtx-include") {
        return Err(format!(
            "{} cannot be gated by a range: leave --gate out",
            ncu.version
        ));
    }
    let include = Range::of(range).include();
    let mut flags = ["--nvtx", "--nvtx-include", &include]
        .map(str::to_owned)
        .to_vec();
    if let Some(instance) = gate.instance {
        if !ncu.knows("--range-filter") {
            let version = &ncu.version;
            return Err(format!(
                "{version} cannot choose an instance: leave --instance out"
            ));
        }
        flags.extend(["--range-filter".to_owned(), format!("::{instance}")]);
    }
    Ok(flags)
}

/// Which launches: all kernels of the list in one run of the workload, because a run for each takes as many times as
/// long. Launches are counted over all matching kernels together.
fn launches(
    options: &NcuOptions,
    kernels: Option<&Kernels>,
    ncu: &Profiler,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, String> {
    let mut flags = Vec::new();
    if let Some(kernels) = kernels {
        flags.extend(names(&kernels.base, &kernels.pattern(), ncu)?);
        notes.push(kernels.describe_window());
        if kernels.window().1 > WINDOW && options.launch_count.is_none() {
            notes.push(format!(
                "cut to {WINDOW} launches: --launch-count profiles more"
            ));
        }
    }
    let (skip, count) = window(options, kernels);
    if skip > 0 {
        flags.extend(["--launch-skip".to_owned(), skip.to_string()]);
    }
    flags.extend(["--launch-count".to_owned(), count.to_string()]);
    Ok(flags)
}

pub(super) fn names(base: &str, pattern: &str, ncu: &Profiler) -> Result<Vec<String>, String> {
    let (base, pattern) = (base.to_owned(), pattern.to_owned());
    if ncu.knows("--kernel-name-base") {
        let name = format!("regex:{pattern}");
        Ok([
            "--kernel-name-base".to_owned(),
            base,
            "--kernel-name".to_owned(),
            name,
        ]
        .into())
    } else if ncu.knows("--kernel-regex-base") {
        // Until 2020.3.
        Ok([
            "--kernel-regex-base".to_owned(),
            base,
            "--kernel-regex".to_owned(),
            pattern,
        ]
        .into())
    } else {
        Err(format!(
            "{} cannot choose kernels by name: leave --kernels out",
            ncu.version
        ))
    }
}
