//! What ncu is to profile, decided when there is a timeline: the kernels with the most time, in one instance of each stage.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rooflens_schemas::PassKind;

use super::ncu::{Planned, filtered, names, pass};
use super::{Harvest, PassPlan, Step, in_steps, ranges_folder, with_window, work_folder};
use crate::args::{AllArguments, Gate};
use crate::files;
use crate::kernels::Kernels;
use crate::timeline::{self, Listed, Timeline};
use crate::tools::Profiler;

/// What the injected module reads.
pub(super) const RANGES: &str = "ROOFLENS_RANGES";
const WINDOW: &str = "ROOFLENS_NCU_WINDOW";
const DONE: &str = "ROOFLENS_NCU_DONE";
const STOP: &str = "ROOFLENS_NCU_STOP";

/// Stages that are profiled if none is named.
const STAGES: usize = 4;

/// Bytes of an expression of names: an argument may have 128 KiB.
const LONGEST: usize = 100_000;

/// A list, and what it is of.
struct Stage {
    name: Option<String>,
    listed: Listed,
}

/// The passes of ncu, by the timeline of the bundle, with so much time for launches. Without a timeline, `plain`.
pub(crate) fn passes(
    arguments: &AllArguments,
    ncu: &Profiler,
    plain: PassPlan,
    time: Option<Duration>,
) -> Vec<Step> {
    let bundle = &arguments.common.output;
    let read = || {
        let timeline = Timeline::of_bundle(bundle).map_err(|error| error.to_string())?;
        let (lists, mut steps) = lists(arguments, &timeline)?;
        steps.extend(planned(arguments, ncu, &timeline, lists, time));
        for step in &mut steps {
            if let Step::Pass(pass) = step {
                pass.notes.extend_from_slice(timeline.notes());
            }
        }
        Ok(steps)
    };
    let read = if bundle.join(timeline::EXPORT).exists() {
        read()
    } else {
        Err("no timeline".to_owned())
    };
    read.unwrap_or_else(|reason: String| {
        let mut pass = plain;
        pass.notes.push(format!("not the top kernels: {reason}"));
        vec![Step::Pass(pass)]
    })
}

/// The list of each stage, which is written; a stage without one is skipped.
fn lists(arguments: &AllArguments, timeline: &Timeline) -> Result<(Vec<Stage>, Vec<Step>), String> {
    let bundle = &arguments.common.output;
    let is_asked = !arguments.stages.is_empty();
    let chosen = match is_asked {
        true => arguments.stages.clone(),
        false => timeline.innermost(STAGES),
    };
    let names: Vec<Option<String>> = match chosen.is_empty() {
        true => vec![None],
        false => chosen.into_iter().map(Some).collect(),
    };
    let (mut lists, mut skipped) = (Vec::new(), Vec::new());
    for name in names {
        let is_unit = arguments.common.steps && name.is_none();
        let listed = timeline::list(timeline, name.as_deref(), is_unit, arguments.top as usize);
        let written = listed.and_then(|listed| {
            let path = list_path(bundle, name.as_deref());
            files::write(&path, &listed.yaml)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(listed)
        });
        match (written, &name) {
            (Ok(listed), _) => lists.push(Stage { name, listed }),
            (Err(reason), None) => return Err(reason),
            (Err(reason), Some(stage)) => {
                let (pass, reason) = (id(Some(stage)), format!("no top kernels: {reason}"));
                skipped.push(Step::Skip {
                    pass,
                    kind: PassKind::Counters,
                    reason,
                });
            }
        }
    }
    Ok((lists, skipped))
}

/// One pass for all stages whose ranges Python pushes, and one for each of the others, by counts of launches.
fn planned(
    arguments: &AllArguments,
    ncu: &Profiler,
    timeline: &Timeline,
    lists: Vec<Stage>,
    time: Option<Duration>,
) -> Vec<Step> {
    let ranges = pushed(&ranges_folder(&arguments.common.output));
    let can_start = [
        "--profile-from-start",
        "--filter-mode",
        "--kernel-name-base",
    ]
    .iter()
    .all(|option| ncu.knows(option));
    let is_told = |stage: &Stage| {
        let place = stage.listed.place.as_ref();
        can_start
            && !arguments.gate_nsys
            && place.is_some_and(|place| ranges.contains(&place.range))
    };
    let (told, counted): (Vec<Stage>, Vec<Stage>) = lists.into_iter().partition(is_told);
    let passes = counted.len() + usize::from(!told.is_empty());
    let time = time.map(|time| time / passes.max(1) as u32);
    let mut steps = Vec::new();
    if !told.is_empty() {
        steps.push(or_skip(
            "ncu",
            windowed(arguments, ncu, timeline, &told, time),
        ));
    }
    let is_one = told.is_empty() && counted.len() == 1;
    for stage in counted {
        let id = if is_one {
            "ncu".to_owned()
        } else {
            id(stage.name.as_deref())
        };
        steps.push(or_skip(&id, by_count(&id, arguments, ncu, &stage, time)));
    }
    steps
}

/// Kernels of all stages, each once a configuration, in the chosen instances.
fn windowed(
    arguments: &AllArguments,
    ncu: &Profiler,
    timeline: &Timeline,
    stages: &[Stage],
    time: Option<Duration>,
) -> Result<PassPlan, String> {
    let common = &arguments.common;
    let (base, kernels) = names_of(stages);
    let each: Vec<String> = kernels
        .iter()
        .map(|(name, _)| timeline::exactly(name))
        .collect();
    let mut filters = [
        "--profile-from-start",
        "off",
        "--filter-mode",
        "per-launch-config",
    ]
    .map(str::to_owned)
    .to_vec();
    filters.extend(["--launch-count".to_owned(), "1".to_owned()]);
    filters.extend(names(base, &each.join("|"), ncu)?);
    let mut places: Vec<_> = stages
        .iter()
        .filter_map(|stage| stage.listed.place.as_ref())
        .collect();
    places.sort_by_key(|place| place.start());
    let counts = timeline::stops(timeline, &places, base == "mangled");
    let launches = Planned {
        launches: counts.last().copied(),
        time,
    };
    let mut pass = filtered("ncu", common, &arguments.ncu, filters, launches, ncu)?;
    for place in &places {
        let (range, number) = (&place.range, place.ordinal + 1);
        pass.notes.push(format!(
            "profiled: range {range}, instance {number} of its name"
        ));
    }
    pass.notes
        .push("the workload ends after the last of these".to_owned());
    let work = work_folder(&common.output, "ncu");
    let window: Vec<(&str, usize)> = places
        .iter()
        .map(|place| (place.range.as_str(), place.ordinal))
        .collect();
    let text = |name: &str| work.join(name).to_string_lossy().into_owned();
    pass.variables = [
        (WINDOW, serde_json::json!(window).to_string()),
        (STOP, text("stop")),
        (DONE, text("profiled")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    pass.is_injected = true;
    if let Harvest::Ncu(export) = &mut pass.harvest {
        let file = |index: usize| work.join(format!("stop.{index}"));
        export.stops = counts
            .into_iter()
            .enumerate()
            .map(|(index, count)| (count, file(index)))
            .collect();
        export.kernels = kernels;
    }
    let steps = arguments.server_steps();
    Ok(match (steps, common.client.is_some()) {
        // The processes of a server wait for each other: it is ended from outside.
        (None, true) => with_window(pass, common),
        _ => in_steps(pass, steps, common),
    })
}

/// Names by which ncu is to find the kernels, with those that people are reported: as the linker knows them, because a
/// function may be a template of which only one instance is asked for.
fn names_of(stages: &[Stage]) -> (&'static str, Vec<(String, String)>) {
    let mut mangled = Vec::new();
    for Stage { listed, .. } in stages {
        let shown = listed.names.iter().map(|(_, name)| name.clone());
        mangled.extend(listed.mangled.iter().flatten().cloned().zip(shown));
    }
    let length: usize = mangled.iter().map(|(name, _)| name.len() + 3).sum();
    let is_known = stages.iter().all(|stage| stage.listed.mangled.is_some()) && length < LONGEST;
    let all = stages
        .iter()
        .flat_map(|stage| stage.listed.names.iter().cloned());
    let (base, names) = if is_known {
        ("mangled", mangled)
    } else {
        ("function", all.collect())
    };
    let mut seen = BTreeSet::new();
    (
        base,
        names
            .into_iter()
            .filter(|(name, _)| seen.insert(name.clone()))
            .collect(),
    )
}

/// A run of launches, counted from the beginning of the process.
fn by_count(
    id: &str,
    arguments: &AllArguments,
    ncu: &Profiler,
    stage: &Stage,
    time: Option<Duration>,
) -> Result<PassPlan, String> {
    let mut kernels = Kernels::parse(&stage.listed.yaml)?;
    if stage.name.is_none()
        && let Some(unit) = stage.listed.unit
    {
        kernels.exact_window = Some(unit);
    }
    // The list counts launches from where the timeline begins: with the process, or with the gate.
    let whole = Gate {
        window: arguments.server_steps(),
        ..Gate::default()
    };
    let gate = if arguments.gate_nsys {
        &arguments.gate
    } else {
        &whole
    };
    pass(
        id,
        &arguments.common,
        gate,
        &arguments.ncu,
        Some(&kernels),
        time,
        ncu,
    )
}

/// The ranges that Python pushed in the timeline's run.
fn pushed(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        names.extend(serde_json::from_str::<Vec<String>>(&text).unwrap_or_default());
    }
    names
}

fn or_skip(pass: &str, plan: Result<PassPlan, String>) -> Step {
    super::or_skip(pass, PassKind::Counters, plan)
}

fn id(stage: Option<&str>) -> String {
    stage.map_or_else(|| "ncu".to_owned(), |stage| format!("ncu-{}", plain(stage)))
}

fn list_path(bundle: &Path, stage: Option<&str>) -> PathBuf {
    let name = stage.map_or_else(String::new, |stage| format!("-{}", plain(stage)));
    bundle.join(format!("kernels{name}.yaml"))
}

/// A name of files: ranges may be called anything.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars()
        .take(80)
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect()
}
