//! The tables of stages and of their instances.

use rooflens_schemas::Unit;

use crate::analysis::Context;
use crate::analysis::engine::facts::StageInstance;
use crate::analysis::engine::stage_stats::summaries;
use crate::findings::{Block, Cell, Column, Dataset, Findings, View};
use crate::model::PassId;

/// Instances that a page shows; the file has all.
const SHOWN_INSTANCES: usize = 24;

/// Adds both data sets and their views; passes other than the primary one follow in the table of stages.
pub(super) fn add(context: &Context<'_>, primary: PassId, findings: &mut Findings) {
    let stages = stages(context, primary);
    let mut columns = vec![
        "stage",
        "instances",
        "time_ns",
        "host_ns",
        "busy_share",
        "operations",
        "operation_mean_ns",
    ];
    if stages.rows.iter().any(|row| matches!(&row[STEPS], Cell::Float(_))) {
        columns.push("steps");
    }
    if stages.rows.iter().any(|row| matches!(&row[INFERRED], Cell::Float(share) if *share > 0.0)) {
        columns.push("inferred_share");
    }
    let several_passes = context.facts.stages.iter().any(|stage| stage.pass != primary);
    if several_passes {
        columns.insert(1, "pass");
    }
    let rows = stages.rows.len();
    findings.blocks.push(Block::Table(View::new(
        "stages",
        "Stages: medians over the instances that count",
        &columns,
        rows.min(40),
    )));
    findings.datasets.push(stages);
    let instances = instances(context, primary);
    let mut columns =
        vec!["stage", "ordinal", "time_ns", "busy_ns", "busy_share", "operations", "excluded"];
    if several_passes {
        columns.insert(1, "pass");
    }
    findings.blocks.push(Block::Table(View::new(
        "stage_instances",
        "Stage instances; those that do not count say why",
        &columns,
        instances.rows.len().min(SHOWN_INSTANCES),
    )));
    findings.datasets.push(instances);
}

const STEPS: usize = 11;
const INFERRED: usize = 10;

fn passes(context: &Context<'_>, primary: PassId) -> Vec<PassId> {
    let others = context.session.passes.ids().filter(|pass| *pass != primary);
    std::iter::once(primary).chain(others).collect()
}

fn stages(context: &Context<'_>, primary: PassId) -> Dataset {
    let (session, facts) = (context.session, context.facts);
    let mut rows = Vec::new();
    for pass in passes(context, primary) {
        for line in summaries(facts, pass) {
            rows.push(vec![
                Cell::Text(line.label(session, facts)),
                Cell::Text(session.pass_name(pass).to_owned()),
                Cell::Text(format!("{} of {}", line.counted, line.instances)),
                Cell::Float(line.time),
                Cell::Float(line.time_range.0),
                Cell::Float(line.time_range.1),
                Cell::Float(line.host),
                Cell::Float(line.busy_share),
                Cell::Float(line.operations),
                Cell::Float(line.sum / line.operations.max(1.0)),
                Cell::Float(line.inferred_share),
                Cell::maybe(line.steps),
            ]);
        }
    }
    Dataset {
        id: "stages",
        title: "Stages".to_owned(),
        columns: vec![
            Column::text("stage", "stage"),
            Column::text("pass", "pass"),
            Column::text("instances", "counted"),
            Column::new("time_ns", "stage time", Unit::Nanoseconds),
            Column::new("time_min_ns", "shortest", Unit::Nanoseconds),
            Column::new("time_max_ns", "longest", Unit::Nanoseconds),
            Column::new("host_ns", "host range", Unit::Nanoseconds),
            Column::new("busy_share", "busy", Unit::Ratio),
            Column::new("operations", "operations", Unit::Count),
            Column::new("operation_mean_ns", "mean operation", Unit::Nanoseconds),
            Column::new("inferred_share", "inferred", Unit::Ratio),
            Column::new("steps", "steps", Unit::Count),
        ],
        rows,
    }
}

fn instances(context: &Context<'_>, primary: PassId) -> Dataset {
    let mut rows = Vec::new();
    for pass in passes(context, primary) {
        for line in summaries(context.facts, pass) {
            let stage = line.stage(context.facts);
            let label = line.label(context.session, context.facts);
            let own = context.facts.instances_of(stage).iter();
            for instance in own.filter(|instance| instance.process == line.process) {
                rows.push((stage.parent.is_some(), instance_row(context, pass, &label, instance)));
            }
        }
    }
    // Outermost stages first: a page shows the beginning.
    rows.sort_by_key(|(is_part, _)| *is_part);
    Dataset {
        id: "stage_instances",
        title: "Stage instances".to_owned(),
        columns: vec![
            Column::text("stage", "stage"),
            Column::text("pass", "pass"),
            Column::new("ordinal", "no.", Unit::Count),
            Column::new("host_start_ns", "host start", Unit::Nanoseconds),
            Column::new("host_ns", "host range", Unit::Nanoseconds),
            Column::new("start_ns", "start", Unit::Nanoseconds),
            Column::new("time_ns", "stage time", Unit::Nanoseconds),
            Column::new("busy_ns", "busy", Unit::Nanoseconds),
            Column::new("idle_ns", "idle", Unit::Nanoseconds),
            Column::new("busy_share", "busy share", Unit::Ratio),
            Column::new("sum_ns", "sum of durations", Unit::Nanoseconds),
            Column::new("operations", "operations", Unit::Count),
            Column::new("kernels", "kernels", Unit::Count),
            Column::new("inferred", "inferred", Unit::Count),
            Column::new("steps", "steps", Unit::Count),
            Column::text("excluded", "left out because"),
        ],
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    }
}

fn instance_row(
    context: &Context<'_>,
    pass: PassId,
    label: &str,
    instance: &StageInstance,
) -> Vec<Cell> {
    let session = context.session;
    let whole = |value: Option<i64>| value.map_or(Cell::Missing, Cell::Int);
    let gpus = instance.gpus.len().max(1) as i64;
    let is_kernel = |op: &&u32| context.facts.kernel(session, **op).is_some();
    vec![
        Cell::Text(label.to_owned()),
        Cell::Text(session.pass_name(pass).to_owned()),
        Cell::Int(i64::from(instance.ordinal)),
        Cell::Int(instance.host_start),
        Cell::Int(instance.host_end - instance.host_start),
        whole(instance.projection.map(|(start, _)| start)),
        whole(instance.time()),
        whole(instance.projection.map(|_| instance.busy)),
        whole(instance.time().map(|time| time * gpus - instance.busy)),
        Cell::maybe(instance.busy_share()),
        Cell::Int(instance.sum),
        Cell::Int(instance.ops.len() as i64),
        Cell::Int(instance.ops.iter().filter(is_kernel).count() as i64),
        Cell::Int(i64::from(instance.inferred)),
        instance.steps.map_or(Cell::Missing, |steps| Cell::Int(steps as i64)),
        Cell::Text(instance.excluded.clone().unwrap_or_default()),
    ]
}
