//! `kernels.yaml`, and where in the workload its kernels are profiled.

use std::collections::HashSet;

use super::select::Selected;
use super::stages::{Instance, Stage};
use super::{Stages, Timeline};

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
}

/// An instance of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Name of the range.
    pub(crate) range: String,
    /// Which of that name in the process, from 0.
    pub(crate) ordinal: usize,
    /// The range in the timeline, and the launches in it by their calls.
    pub(super) start: i64,
    pub(super) launches: Vec<usize>,
    /// Kernels that are listed, with the grid that takes most of their time there.
    pub(super) wanted: Vec<(usize, [i64; 3])>,
}

/// Lists the kernels with the most time of a stage, of the unit that repeats, or of the whole run.
pub(crate) fn list(
    timeline: &Timeline,
    stages: &Stages,
    stage: Option<&str>,
    is_unit: bool,
    top: usize,
) -> Result<Listed, String> {
    let found = match stage {
        Some(name) => {
            let found = stages.find(name).ok_or_else(|| unknown(name, stages))?;
            Some(found)
        }
        None => None,
    };
    let mut launches = timeline.profiled();
    let part = match (found, is_unit) {
        (Some(stage), _) => Some(stage.launches()),
        (None, true) => Some(timeline.unit().ok_or("nothing repeats in the timeline")?),
        (None, false) => None,
    };
    if let Some(own) = part {
        let own: HashSet<usize> = own.into_iter().collect();
        launches.retain(|index| own.contains(index));
    }
    let selected = timeline.select(&launches, top);
    if selected.is_empty() {
        let stage = stage.map_or_else(String::new, |stage| format!(" in a stage {stage}"));
        return Err(format!("no kernel{stage} in the timeline"));
    }
    let kernel = |one: &Selected| &timeline.kernels[one.kernel];
    let mangled = selected
        .iter()
        .map(|one| kernel(one).mangled.clone())
        .collect();
    let name = |one: &Selected| (kernel(one).function.clone(), kernel(one).name.clone());
    Ok(Listed {
        yaml: yaml(timeline, &launches, &selected),
        mangled,
        names: selected.iter().map(name).collect(),
        place: found.and_then(|stage| place(timeline, stage, &selected)),
        unit: timeline.unit_window(&selected),
    })
}

fn unknown(name: &str, stages: &Stages) -> String {
    let there: Vec<&str> = stages.0.iter().map(|stage| stage.name.as_str()).collect();
    match there.is_empty() {
        true => format!("no stage {name}: the timeline has no ranges"),
        false => format!("no stage {name}: there are {}", there.join(", ")),
    }
}

/// The first instance that counts with most of the kernels: an early one, because the workload runs until then.
fn place(timeline: &Timeline, stage: &Stage, selected: &[Selected]) -> Option<Place> {
    let kernels = |one: &Instance| {
        let launches = one
            .launches
            .iter()
            .map(|index| timeline.launches[*index].kernel);
        let there: HashSet<usize> = launches.collect();
        selected
            .iter()
            .filter(|one| there.contains(&one.kernel))
            .count()
    };
    let mut best: Option<(usize, &Instance)> = None;
    for one in stage.instances.iter().filter(|one| !one.is_excluded) {
        let count = kernels(one);
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, one));
        }
    }
    let (_, one) = best?;
    let range = &timeline.ranges[one.range];
    // Of other domains and of ranges that are not pushed nobody tells when they begin.
    let is_told = range.domain.is_empty() && range.is_pushed;
    let ordinal = *timeline.ordinals().get(&one.range)?;
    let mut launches = one.launches.clone();
    let issued = |index: &usize| timeline.launches[*index].call.map(|call| call.start);
    launches.sort_by_key(|index| (issued(index), *index));
    let wanted = selected.iter().filter_map(|one| {
        let own = launches.iter().copied();
        let own: Vec<usize> = own
            .filter(|index| timeline.launches[*index].kernel == one.kernel)
            .collect();
        Some((one.kernel, timeline.longest_grid(&own)?))
    });
    let wanted = wanted.collect();
    let (range, start) = (range.name.clone(), range.start);
    is_told.then_some(Place {
        range,
        ordinal,
        start,
        launches,
        wanted,
    })
}

fn yaml(timeline: &Timeline, launches: &[usize], selected: &[Selected]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text =
        String::from("# launches: numbers among all launches of the function, from 0\nkernels:\n");
    for one in selected {
        let kernel = &timeline.kernels[one.kernel];
        text.push_str(&format!("  - name: {}\n", quoted(&kernel.name)));
        text.push_str(&format!(
            "    regex: {}\n",
            quoted(&exactly(&kernel.function))
        ));
        text.push_str(&format!(
            "    share: {:.6}\n    launches: {:?}\n",
            one.share, one.launches
        ));
    }
    if let Some((skip, count)) = timeline.window(launches, selected) {
        text.push_str(
            "# launches of all these functions together that hold a typical one of each\n",
        );
        text.push_str(&format!("window: {{skip: {skip}, count: {count}}}\n"));
    }
    text.push_str("name_base: function\n");
    text
}

/// An expression that matches this name alone.
pub(crate) fn exactly(name: &str) -> String {
    let mut text = String::from("^");
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('$');
    text
}
