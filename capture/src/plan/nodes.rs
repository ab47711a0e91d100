//! A short second timeline that shows the kernels within CUDA graphs.
//!
//! nsys traces a graph as a whole or by node. By node, a launch of some hundred nodes takes about a millisecond, which
//! makes the host the bottleneck of a workload that it is not. The timing pass therefore traces graphs as a whole; if it
//! saw some, this pass records their nodes in a few instances of the stages and ends the workload after them.

use std::io;
use std::time::Duration;

use super::counters::{DONE, INSTANCES, pushed};
use super::nsys::{self, GraphTrace};
use super::schedule::TimeForCounters;
use super::{Harvest, PassPlan, Step, ranges_folder, work_folder};
use crate::args::{AllArguments, NsysOptions};
use crate::timeline::{Instance, Timeline};
use crate::tools::Profiler;

/// Name of the pass.
pub(crate) const ID: &str = "nsys-nodes";

/// Recorded time ÷ time of the same instances with graphs as a whole. It serves the plan only.
const SLOWDOWN: f64 = 3.0;

/// The start of nsys, and the writing of its report.
const START: Duration = Duration::from_secs(10);

/// The pass, which records the whole run or a window of it; none if this nsys cannot do it.
pub(super) fn pass(arguments: &AllArguments, in_window: bool, nsys: &Profiler) -> Option<PassPlan> {
    let is_traced = arguments.nsys.trace.iter().any(|what| what == "cuda");
    let options = NsysOptions {
        gpu_metrics: false,
        scheduling: false,
        ..arguments.nsys.clone()
    };
    let graphs = GraphTrace::Nodes { in_window };
    let pass = nsys::pass(
        ID,
        &arguments.common,
        arguments.nsys_gate(),
        &options,
        graphs,
        nsys,
    );
    pass.ok()
        .filter(|_| is_traced && nsys.knows("--cuda-graph-trace"))
}

/// The pass in a window of the timeline; `plain` where no range of Python marks one, and nothing without graphs.
pub(crate) fn passes(
    arguments: &AllArguments,
    nsys: &Profiler,
    plain: PassPlan,
    time: TimeForCounters,
) -> Vec<Step> {
    let Ok(timeline) = Timeline::of_bundle(&arguments.common.output) else {
        return Vec::new();
    };
    if !timeline.hides_kernels() {
        return Vec::new();
    }
    let window = window(arguments, &timeline)
        .and_then(|window| windowed(arguments, nsys, &timeline, &window, time));
    vec![Step::Pass(window.unwrap_or(plain))]
}

fn windowed(
    arguments: &AllArguments,
    nsys: &Profiler,
    timeline: &Timeline,
    window: &[Instance],
    time: TimeForCounters,
) -> Option<PassPlan> {
    let mut pass = pass(arguments, true, nsys)?;
    let start = timeline.since_start(window.first()?.start);
    let end = timeline.since_start(window.iter().map(|instance| instance.end).max()?);
    let run_up = time.run_up(start, timeline.end());
    let keys: Vec<(&str, usize)> = window
        .iter()
        .map(|at| (at.range.as_str(), at.ordinal))
        .collect();
    let done = work_folder(&arguments.common.output, ID).join("recorded");
    pass.variables = vec![
        (INSTANCES.to_owned(), serde_json::json!(keys).to_string()),
        (DONE.to_owned(), done.to_string_lossy().into_owned()),
    ];
    pass.is_injected = true;
    let names = keys
        .iter()
        .map(|(name, ordinal)| format!("{name} {}", ordinal + 1));
    pass.notes.push(format!(
        "recorded: {}; the workload ends after the last of these",
        names.collect::<Vec<_>>().join(", ")
    ));
    if let Harvest::Nsys(export) = &mut pass.harvest {
        export.estimate = Some(run_up + START + (end - start).mul_f64(SLOWDOWN));
    }
    Some(pass)
}

/// The instances from the first to the last of which nodes are recorded. A server is ended from outside, and a gate or
/// counted steps limit the pass already.
fn window(arguments: &AllArguments, timeline: &Timeline) -> Option<Vec<Instance>> {
    let common = &arguments.common;
    let is_limited = arguments.nsys_gate().is_some() || common.client.is_some() || common.no_inject;
    let ranges = pushed(&ranges_folder(&common.output));
    timeline
        .graph_instances(|name| ranges.contains(name))
        .filter(|window| !is_limited && !window.is_empty())
}

/// The timeline of a bundle that shows the most kernels: that of nodes, if there is one.
pub(super) fn timeline_of_kernels(arguments: &AllArguments) -> io::Result<Timeline> {
    let bundle = &arguments.common.output;
    let whole = Timeline::of_bundle(bundle)?;
    let mut nodes = Timeline::of_kernels(bundle)?;
    if !whole.hides_kernels() || !nodes.shows_kernels() {
        return Ok(whole);
    }
    if let Some(first) = window(arguments, &whole).and_then(|window| window.first().cloned()) {
        nodes.begins_with(&first, &whole);
    }
    Ok(nodes)
}
