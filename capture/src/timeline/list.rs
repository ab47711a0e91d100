//! `kernels.yaml`, and where in the workload its kernels are profiled.

use std::collections::{BTreeSet, HashSet};

use rooflens_session::{Dim3, KernelId, LaunchId, Ns, RangeId};
use rooflens_stages::StageInstance;
use rooflens_stages::selection::{
    Selected, first_process, launches_of, longest_grid, select_among, window_among, yaml,
};

use super::{PASS, Timeline};

/// The kernels of a stage, or of the whole run.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The list as a file, the same as the analyzer's.
    pub(crate) yaml: String,
    /// Names as the linker knows them, if the export says them of all.
    pub(crate) mangled: Option<Vec<String>>,
    /// Functions and demangled names.
    pub(crate) names: Vec<(String, String)>,
    /// Where they are profiled, if there is a range.
    pub(crate) place: Option<Place>,
    /// Launches of all functions together to pass over and to profile, in a unit that repeats.
    pub(crate) unit: Option<(u64, u64)>,
    /// What is to be said of the list.
    pub(crate) note: Option<String>,
}

/// An instance of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Name of the range.
    pub(crate) range: String,
    /// Which of that name in the process, from 0.
    pub(crate) ordinal: usize,
    /// The start of the range, and the launches in it by their calls.
    pub(super) start: Ns,
    pub(super) launches: Vec<LaunchId>,
    /// Kernels that are listed, with the grid that takes most of their time there.
    pub(super) wanted: Vec<(KernelId, Dim3)>,
}

/// Lists the kernels with the most time of a stage, of the unit that repeats, or of the whole run.
pub(crate) fn list(
    timeline: &Timeline,
    stage: Option<&str>,
    is_unit: bool,
    top: usize,
) -> Result<Listed, String> {
    let session = &timeline.session;
    if let Some(name) = stage
        && timeline.stage(name).is_none()
    {
        return Err(unknown(name, timeline));
    }
    let mut launches = launches_of(session, &timeline.tables, PASS, stage);
    if is_unit && stage.is_none() {
        let unit = timeline.unit().ok_or("nothing repeats in the timeline")?;
        let unit: HashSet<LaunchId> = unit.into_iter().collect();
        launches.retain(|launch| unit.contains(launch));
    }
    let selected = select_among(session, PASS, launches.clone(), top);
    if selected.is_empty() {
        let stage = stage.map_or_else(String::new, |stage| format!(" in a stage {stage}"));
        return Err(format!("no kernel{stage} in the timeline"));
    }
    let (mut mangled, mut names) = (Vec::new(), Vec::new());
    for kernel in &selected {
        mangled.push(timeline.mangled[kernel.kernel.index()].clone());
        names.push((kernel.function.clone(), kernel.name.clone()));
    }
    let window = window_among(session, PASS, &launches, &selected);
    Ok(Listed {
        yaml: yaml(&selected, window),
        mangled: mangled.into_iter().collect(),
        names,
        place: stage.and_then(|stage| place(timeline, stage, &selected)),
        unit: timeline.unit_window(&selected),
        note: None,
    })
}

fn unknown(name: &str, timeline: &Timeline) -> String {
    let mut stages = Vec::new();
    for stage in &timeline.tables.stages {
        if timeline.is_named(stage) {
            stages.push(stage.name.as_str());
        }
    }
    match stages.is_empty() {
        true => format!("no stage {name}: the timeline has no ranges"),
        false => format!("no stage {name}: there are {}", stages.join(", ")),
    }
}

/// The first instance that counts with most of the kernels: an early one, because the workload runs until then.
fn place(timeline: &Timeline, stage: &str, selected: &[Selected]) -> Option<Place> {
    let session = &timeline.session;
    let process = first_process(session, PASS)?;
    let mut best: Option<(usize, &StageInstance, RangeId)> = None;
    for instance in timeline.counted(timeline.stage(stage)?) {
        let Some(range) = instance.range.filter(|_| instance.process == process) else {
            continue;
        };
        let mut kernels = BTreeSet::new();
        for launch in timeline.launches_of(instance) {
            kernels.insert(session.launches.kernel[launch.index()]);
        }
        let is_there = |kernel: &&Selected| kernels.contains(&kernel.kernel);
        let count = selected.iter().filter(is_there).count();
        if best.is_none_or(|(most, ..)| count > most) {
            best = Some((count, instance, range));
        }
    }
    let (_, instance, range) = best?;
    let row = range.index();
    if !timeline.can_be_pushed(range) {
        return None;
    }
    let mut launches = timeline.launches_of(instance);
    launches.sort_by_key(|launch| {
        let call = timeline.calls[launch.index()];
        (call.map(|call| call.start), *launch)
    });
    let mut wanted = Vec::new();
    for kernel in selected {
        let mut launches = launches.clone();
        launches.retain(|launch| session.launches.kernel[launch.index()] == kernel.kernel);
        if let Some(grid) = longest_grid(session, &launches) {
            wanted.push((kernel.kernel, grid));
        }
    }
    Some(Place {
        range: session.text(session.ranges.name[row]).to_owned(),
        ordinal: timeline.ordinal(range),
        start: session.ranges.start[row],
        launches,
        wanted,
    })
}
