//! What ncu is to profile, decided when there is a timeline: the kernels with the most time, in one instance of each stage.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rooflens_schemas::PassKind;
use rooflens_session::Ns;

use super::ncu::{self, Pace, filtered, names, pass};
use super::schedule::{Cost, Memory, Schedule, TimeForCounters};
use super::{Harvest, PassPlan, Step, in_steps, nodes, ranges_folder, with_window, work_folder};
use crate::args::{AllArguments, Common, Gate};
use crate::kernels::{Kernel, Kernels};
use crate::timeline::{self, Course, Listed, Place, Timeline};
use crate::tools::Profiler;
use crate::{files, say};

/// What the injected module reads.
pub(super) const RANGES: &str = "ROOFLENS_RANGES";
pub(super) const INSTANCES: &str = "ROOFLENS_INSTANCES";
pub(super) const DONE: &str = "ROOFLENS_DONE";
const STOP: &str = "ROOFLENS_NCU_STOP";
const DEADLINE: &str = "ROOFLENS_DEADLINE";

/// Stages that are profiled if none is named.
const STAGES: usize = 4;

/// Bytes of an expression of names: an argument may have 128 KiB.
const LONGEST: usize = 100_000;

/// A list, and what it is of.
struct Stage {
    name: Option<String>,
    listed: Listed,
}

/// The passes of ncu, by the timeline of the bundle, with this time for all of them. Without a timeline, `plain`.
pub(crate) fn passes(
    arguments: &AllArguments,
    ncu: &Profiler,
    plain: PassPlan,
    time: TimeForCounters,
) -> Vec<Step> {
    let bundle = &arguments.common.output;
    let read = || {
        let timeline = nodes::timeline_of_kernels(arguments).map_err(|error| error.to_string())?;
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
    let mut steps = read.unwrap_or_else(|reason: String| {
        let mut pass = plain;
        pass.notes.push(format!("not the top kernels: {reason}"));
        vec![Step::Pass(pass)]
    });
    for step in &mut steps {
        if let Step::Pass(pass) = step {
            add_deadline(pass, &arguments.common);
        }
    }
    steps
}

/// Lets the injected module end the workload when the time of the pass is up: it does so between two launches, and a signal
/// might not.
fn add_deadline(pass: &mut PassPlan, common: &Common) {
    let Harvest::Ncu(export) = &mut pass.harvest else {
        return;
    };
    if common.no_inject {
        return;
    }
    let file = work_folder(&common.output, &pass.id).join("deadline");
    let value = file.to_string_lossy().into_owned();
    pass.variables.push((DEADLINE.to_owned(), value));
    pass.is_injected = true;
    export.deadline = Some(file);
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
        let top = arguments.top as usize;
        let listed = match name.as_deref() {
            Some(stage) => timeline::list(timeline, Some(stage), false, top),
            None => list_without_stage(timeline, top),
        };
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

/// The kernels of the sequence that repeats or, if none does, of the whole run.
fn list_without_stage(timeline: &Timeline, top: usize) -> Result<Listed, String> {
    let (listed, scope) = match timeline::list(timeline, None, true, top) {
        Ok(listed) => (
            Ok(listed),
            "the kernels are those of the sequence that repeats",
        ),
        Err(_) => {
            let scope = "no sequence of kernels repeats either: the whole run is one stage";
            (timeline::list(timeline, None, false, top), scope)
        }
    };
    say(&format!("no range marks a stage; {scope}"));
    listed.map(|listed| Listed {
        note: Some(format!("no range marks a stage; {scope}")),
        ..listed
    })
}

/// One pass for all stages whose ranges Python pushes, and one for each of the others, by counts of launches.
fn planned(
    arguments: &AllArguments,
    ncu: &Profiler,
    timeline: &Timeline,
    lists: Vec<Stage>,
    time: TimeForCounters,
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
    let time = TimeForCounters {
        left: time.left.map(|left| left / passes.max(1) as u32),
        ..time
    };
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
        steps.push(or_skip(
            &id,
            by_count(&id, arguments, ncu, (timeline, &stage), time),
        ));
    }
    steps
}

/// Kernels of all stages, each once a configuration, in the chosen instances.
fn windowed(
    arguments: &AllArguments,
    ncu: &Profiler,
    timeline: &Timeline,
    stages: &[Stage],
    time: TimeForCounters,
) -> Result<PassPlan, String> {
    let common = &arguments.common;
    let (base, mut kernels) = names_of(stages);
    let mut places: Vec<_> = stages
        .iter()
        .filter_map(|stage| stage.listed.place.as_ref())
        .collect();
    places.sort_by_key(|place| place.start());
    let mut course = Course::new(timeline, &places, base == "mangled");
    let start = timeline.since_start(places.last().map_or(Ns::ZERO, |place| place.start()));
    let run_up = time.run_up(start, timeline.end());
    let pace = fit_course(&mut course, run_up, arguments, time)?;
    kernels.retain(|(name, _)| course.selects(name));
    let counts = profile_new(&mut places, course.profiled().1);
    let wanted: Vec<&str> = kernels.iter().map(|(name, _)| name.as_str()).collect();
    let mut filters = [
        "--profile-from-start",
        "off",
        "--filter-mode",
        "per-launch-config",
    ]
    .map(str::to_owned)
    .to_vec();
    filters.extend(["--launch-count".to_owned(), "1".to_owned()]);
    filters.extend(names(base, &course.filter(&wanted), ncu)?);
    let mut pass = filtered("ncu", common, &arguments.ncu, filters, pace, ncu)?;
    pass.notes.extend(skipped(timeline, &course));
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
        (INSTANCES, serde_json::json!(window).to_string()),
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

/// The sections and the kernels that fit into the time.
fn fit_course(
    course: &mut Course,
    run_up: Duration,
    arguments: &AllArguments,
    time: TimeForCounters,
) -> Result<Pace, String> {
    let [whole, short] = costs(arguments);
    let schedule = whole.schedule(run_up, &course.profiled().0);
    let Some(left) = time.left.filter(|left| !schedule.fits(*left)) else {
        return Ok(Pace {
            schedule: Some(schedule),
            is_short: false,
        });
    };
    refuse_short(run_up, left)?;
    course.shorten(Schedule::time_for_launches(run_up, left), |launches| {
        short.schedule(run_up, launches).profiling()
    });
    Ok(Pace {
        schedule: Some(short.schedule(run_up, &course.profiled().0)),
        is_short: true,
    })
}

/// The cost of a launch with all sections, and without those that are skipped where time is short.
fn costs(arguments: &AllArguments) -> [Cost; 2] {
    let memory = Memory::of(&arguments.common.output);
    [false, true].map(|is_short| Cost::of(&arguments.ncu, is_short, memory))
}

/// Refuses a pass that would end before its first launch.
fn refuse_short(run_up: Duration, time: Duration) -> Result<(), String> {
    if run_up < time {
        return Ok(());
    }
    let (run_up, time) = (run_up.as_secs(), time.as_secs());
    Err(format!(
        "no time is left for it: its first launch comes after {run_up} s, and {time} s remain; a longer --budget, \
         or --budget none, profiles"
    ))
}

/// Keeps the places in which something is profiled that was not before. Gives the launches until the end of each.
fn profile_new(places: &mut Vec<&Place>, counts: Vec<u64>) -> Vec<u64> {
    let (mut kept, mut stops) = (Vec::new(), Vec::new());
    for (place, count) in places.iter().zip(counts) {
        if stops.last().copied().unwrap_or(0) < count {
            kept.push(*place);
            stops.push(count);
        }
    }
    *places = kept;
    stops
}

/// What the manifest says of kernels that are skipped.
fn skipped(timeline: &Timeline, course: &Course) -> Option<String> {
    let names: Vec<String> = course
        .skipped()
        .into_iter()
        .map(|kernel| shortened(timeline.kernel_name(kernel)))
        .collect();
    let words = format!(
        "skipped for time: {}; a longer --budget profiles them",
        names.join("; ")
    );
    (!names.is_empty()).then_some(words)
}

/// A name as it fits a line: instances of templates have very long ones.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
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
    (timeline, stage): (&Timeline, &Stage),
    time: TimeForCounters,
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
    let is_from_start = !arguments.gate_nsys && gate.window.is_none();
    let pace = match is_from_start {
        true => fit_window(timeline, &mut kernels, arguments, time)?,
        // Where the launches lie in the process is not known.
        false => Pace::default(),
    };
    let kernels = Some(&kernels);
    let mut pass = pass(
        id,
        &arguments.common,
        gate,
        &arguments.ncu,
        kernels,
        pace,
        ncu,
    )?;
    pass.notes.extend(stage.listed.note.clone());
    Ok(pass)
}

/// The sections and the launches that fit into the time; from the first launch on where too many would precede them.
fn fit_window(
    timeline: &Timeline,
    kernels: &mut Kernels,
    arguments: &AllArguments,
    time: TimeForCounters,
) -> Result<Pace, String> {
    let functions: Vec<String> = kernels.kernels.iter().map(Kernel::function).collect();
    let counted = timeline.counted_launches(&functions);
    let run_up = time.run_up(timeline.first_launch(), timeline.end());
    let [whole, short] = costs(arguments);
    let window = ncu::window(&arguments.ncu, Some(kernels));
    let schedule = |cost: Cost, (skip, count)| cost.schedule(run_up, &counted.window(skip, count));
    let complete = schedule(whole, window);
    let Some(left) = time.left.filter(|left| !complete.fits(*left)) else {
        return Ok(Pace {
            schedule: Some(complete),
            is_short: false,
        });
    };
    refuse_short(run_up, left)?;
    let (skip, count) = window;
    let fitting = |skip| {
        let fits = |count: &u64| schedule(short, (skip, *count)).fits(left);
        (1..=count).take_while(fits).last().unwrap_or(0)
    };
    let (here, at_first) = (fitting(skip), fitting(0));
    let shorter = match here >= at_first {
        true => (skip, here.max(1)),
        false => (0, at_first),
    };
    kernels.exact_window = Some(shorter);
    Ok(Pace {
        schedule: Some(schedule(short, ncu::window(&arguments.ncu, Some(kernels)))),
        is_short: true,
    })
}

/// The ranges that Python pushed in the timeline's run.
pub(super) fn pushed(folder: &Path) -> BTreeSet<String> {
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
