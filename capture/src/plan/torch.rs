//! How a PyTorch trace comes about: written by the workload, or by a module that Python loads at its start.

use std::path::PathBuf;

use clap::ValueEnum as _;
use rooflens_schemas::PassKind;

use super::counters::pushed;
use super::gate::Range;
use super::{Harvest, PassPlan, in_steps, ranges_folder, work_folder};
use crate::args::{AllArguments, Common, Gate, Record, TorchOptions};
use crate::timeline::Timeline;

/// What the injected module reads: a range, the number of its first instance with stacks, and how many have stacks.
const STACKS: &str = "ROOFLENS_TORCH_STACKS";

/// Instances of a window with stacks, and the least number of instances of such a window.
const STACK_INSTANCES: u64 = 2;
const MANY: u64 = 4;

/// Where traces are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collection {
    /// The workload's own folder; without one, the profiler is injected.
    pub(crate) trace_dir: Option<PathBuf>,
    /// Whether a pass without a trace has failed; not every workload imports torch.
    pub(crate) is_expected: bool,
}

/// The pass.
pub(super) fn pass(
    id: &str,
    common: &Common,
    gate: &Gate,
    options: &TorchOptions,
    is_expected: bool,
) -> PassPlan {
    let folder = work_folder(&common.output, id);
    let (variables, note) = match &options.trace_dir {
        Some(_) => (Vec::new(), "the trace is the workload's own".to_owned()),
        None => (variables(&folder, gate, options), injection_note(gate)),
    };
    let harvest = Harvest::Torch(Collection {
        trace_dir: options.trace_dir.clone(),
        is_expected,
    });
    let mut pass = PassPlan {
        variables,
        is_injected: options.trace_dir.is_none(),
        notes: vec![note],
        ..PassPlan::once(id, PassKind::Operators, &common.command, harvest)
    };
    if let (Some(range), Some((skip, count))) = (&gate.gate, gate.window)
        && pass.is_injected
        && count >= MANY
        && !options.record.contains(&Record::Stacks)
    {
        add_stacks(&mut pass, Range::of(range).name, skip, STACK_INSTANCES);
    }
    in_steps(pass, gate.steps(), common)
}

/// The pass of `all`, with stacks in early instances of a stage if nothing limits it.
pub(crate) fn with_stacks(mut pass: PassPlan, arguments: &AllArguments) -> PassPlan {
    let (gate, common) = (&arguments.gate, &arguments.common);
    let is_limited = gate.gate.is_some() || gate.window.is_some();
    if is_limited || !pass.is_injected || arguments.torch.record.contains(&Record::Stacks) {
        return pass;
    }
    let ranges = pushed(&ranges_folder(&common.output));
    let timeline = Timeline::of_bundle(&common.output).ok();
    let instances =
        timeline.and_then(|timeline| timeline.stack_instances(|name| ranges.contains(name)));
    if let Some(first) = instances.as_ref().and_then(|instances| instances.first()) {
        let count = instances.as_ref().map_or(0, Vec::len) as u64;
        add_stacks(&mut pass, &first.range, first.ordinal as u64, count);
    }
    pass
}

fn add_stacks(pass: &mut PassPlan, range: &str, first: u64, count: u64) {
    let instances = serde_json::json!([range, first, count]).to_string();
    pass.variables.push((STACKS.to_owned(), instances));
    pass.notes.push(format!(
        "Python stacks: {count} instances of range {range} after {first}, in {}-stacks",
        pass.id
    ));
}

/// What the injected modules read. PYTHONPATH is extended when the command is started.
fn variables(
    folder: &std::path::Path,
    gate: &Gate,
    options: &TorchOptions,
) -> Vec<(String, String)> {
    let record: Vec<String> = options
        .record
        .iter()
        .filter_map(|what| Some(what.to_possible_value()?.get_name().to_owned()))
        .collect();
    let mut variables = vec![
        ("ROOFLENS_TORCH_DIR", folder.to_string_lossy().into_owned()),
        ("ROOFLENS_TORCH_RECORD", record.join(",")),
    ];
    if let Some(gate) = &gate.gate {
        variables.push(("ROOFLENS_TORCH_RANGE", Range::of(gate).name.to_owned()));
    }
    if let Some((skip, count)) = gate.window.filter(|_| gate.gate.is_some()) {
        variables.push(("ROOFLENS_TORCH_SKIP", skip.to_string()));
        variables.push(("ROOFLENS_TORCH_COUNT", count.to_string()));
    }
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn injection_note(gate: &Gate) -> String {
    match (&gate.gate, gate.window) {
        (Some(range), Some((skip, count))) => {
            format!("profiler injected: {count} instances of range {range} after {skip}")
        }
        (Some(range), None) => format!("profiler injected: all instances of range {range}"),
        (None, Some(_)) => "profiler injected: in the steps of the window".to_owned(),
        (None, None) => "profiler injected: from the import of torch to the end".to_owned(),
    }
}
