//! The tables of stages and of their instances.

use crate::Context;
use rooflens_analysis::engine::facts::StageInstance;
use rooflens_analysis::engine::stage_names::{engine_step, is_of_engine};
use rooflens_analysis::time::stage_times::{StageTime, StageTimes};
use rooflens_document::{Block, SectionContent, Table, View};
use rooflens_session::Arrange;

/// Stages and instances that a page shows; the files have all.
const SHOWN_STAGES: usize = 40;
const SHOWN_INSTANCES: usize = 24;

/// Adds both data sets and their views; passes other than the primary one follow.
pub(super) fn add(context: &Context<'_>, times: &StageTimes, findings: &mut SectionContent) {
    let stages: Vec<&StageTime> = times.primary_first().collect();
    let several_passes = context
        .facts
        .stages
        .iter()
        .any(|stage| stage.pass != times.primary);
    let mut columns = vec!["stage"];
    columns.extend(several_passes.then_some("pass"));
    columns.extend([
        "instances",
        "time_ns",
        "host_ns",
        "busy_share",
        "operations",
        "operation_mean_ns",
    ]);
    columns.extend(
        stages
            .iter()
            .any(|one| one.summary.steps.is_some())
            .then_some("steps"),
    );
    let inferred = stages.iter().any(|one| one.summary.inferred_share > 0.0);
    columns.extend(inferred.then_some("inferred_share"));
    let caption = words!(context, "stage_times.caption");
    let limit = stages.len().min(SHOWN_STAGES);
    findings
        .blocks
        .push(Block::Table(View::new("stages", caption, &columns, limit)));
    findings.datasets.push(stages_table(context).rows(&stages));
    let instances = instances(context, &stages);
    let table = instances_table(context, several_passes);
    let limit = instances.len().min(SHOWN_INSTANCES);
    let caption = words!(context, "stage_times.caption_instances");
    findings
        .blocks
        .push(Block::Table(table.view(caption, limit)));
    findings.datasets.push(table.rows(&instances));
}

fn stages_table<'t>(context: &Context<'t>) -> Table<'t, &'t StageTime> {
    let (session, facts) = (context.session, context.facts);
    Table::new(context.text, "stages")
        .text("stage", |one: &&StageTime| {
            one.summary.label(session, facts)
        })
        .text("pass", |one| session.pass_name(one.pass))
        .text("instances", |one| {
            format!("{} of {}", one.summary.counted, one.summary.instances)
        })
        .time("time_ns", |one| one.summary.time)
        .time("time_min_ns", |one| one.summary.time_range.0)
        .time("time_max_ns", |one| one.summary.time_range.1)
        .time("host_ns", |one| one.summary.host)
        .share("busy_share", |one| one.summary.busy_share)
        .count("operations", |one| one.summary.operations)
        .time("operation_mean_ns", |one| {
            one.summary.sum / one.summary.operations.max(1.0)
        })
        .share("inferred_share", |one| one.summary.inferred_share)
        .count("steps", |one| one.summary.steps)
}

/// An instance with its stage.
type Row<'a> = (&'a StageTime, &'a StageInstance);

/// The instances of outermost stages first: a page shows the beginning.
fn instances<'a>(context: &Context<'a>, stages: &[&'a StageTime]) -> Vec<Row<'a>> {
    let facts = context.facts;
    let of_stage = |stage: &&'a StageTime| {
        let (stage, process) = (*stage, stage.summary.process);
        let all = facts.instances_of(stage.summary.stage(facts)).iter();
        all.filter(move |one| one.process == process)
            .map(move |one| (stage, one))
    };
    let mut rows: Vec<Row<'_>> = stages.iter().flat_map(of_stage).collect();
    rows.arrange_by_key(|(stage, _)| !stage.summary.is_outermost(facts));
    rows
}

fn instances_table<'t>(context: &Context<'t>, several_passes: bool) -> Table<'t, Row<'t>> {
    let (session, facts) = (context.session, context.facts);
    let table = Table::new(context.text, "stage_instances")
        .text("stage", |(stage, _): &Row<'_>| {
            stage.summary.label(session, facts)
        })
        .on_page()
        .text("pass", |(stage, _)| session.pass_name(stage.pass))
        .on_page_if(several_passes)
        .count("ordinal", |(_, one)| one.ordinal)
        .on_page()
        .time("host_start_ns", |(_, one)| one.host_start)
        .time("host_ns", |(_, one)| one.host_end - one.host_start)
        .time("start_ns", |(_, one)| {
            one.projection.map(|(start, _)| start)
        })
        .time("time_ns", |(_, one)| one.time())
        .on_page()
        .time("busy_ns", |(_, one)| one.projection.map(|_| one.busy))
        .on_page()
        .time("idle_ns", |(_, one)| {
            Some(one.time()? * one.gpus.len().max(1) as i64 - one.busy)
        })
        .share("busy_share", |(_, one)| one.busy_share())
        .on_page()
        .time("sum_ns", |(_, one)| one.sum)
        .count("operations", |(_, one)| one.ops.len())
        .on_page()
        .count("kernels", |(_, one)| {
            one.ops
                .iter()
                .filter(|op| facts.kernel(session, **op).is_some())
                .count()
        })
        .count("inferred", |(_, one)| one.inferred)
        .count("steps", |(_, one)| one.steps)
        .text("excluded", |(_, one)| {
            one.excluded.clone().unwrap_or_default()
        })
        .on_page();
    if !facts
        .stages
        .iter()
        .any(|stage| is_of_engine(session, facts, stage))
    {
        return table;
    }
    table
        .count("requests", |(_, one)| engine_step(session, one)?.requests)
        .on_page()
        .count("tokens", |(_, one)| engine_step(session, one)?.tokens)
        .on_page()
}
