//! The tables of stages and of their instances.

use crate::Context;
use rooflens_analysis::engine::facts::StageInstance;
use rooflens_analysis::engine::stage_names::{engine_step, is_of_engine};
use rooflens_analysis::time::stage_times::{StageTime, StageTimes};
use rooflens_document::{Block, SectionContent, Table, View};
use rooflens_session::Arrange;
use rooflens_units::Count;

/// Stages and instances that a page shows; the files have all.
const SHOWN_STAGES: usize = 40;
const SHOWN_INSTANCES: usize = 24;

/// Adds both data sets and their views; passes other than the primary one follow.
pub(super) fn add(context: &Context<'_>, times: &StageTimes, content: &mut SectionContent) {
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
            .any(|stage| stage.summary.steps.is_some())
            .then_some("steps"),
    );
    let inferred = stages
        .iter()
        .any(|stage| stage.summary.inferred_share.is_positive());
    columns.extend(inferred.then_some("inferred_share"));
    let caption = words!(context, "stage_times.caption");
    let limit = stages.len().min(SHOWN_STAGES);
    content
        .blocks
        .push(Block::Table(View::new("stages", caption, &columns, limit)));
    content
        .datasets
        .push(stages_table(context).rows(stages.iter().copied()));
    let instances = instances(context, &stages);
    let table = instances_table(context, several_passes);
    let limit = instances.len().min(SHOWN_INSTANCES);
    let caption = words!(context, "stage_times.caption_instances");
    content
        .blocks
        .push(Block::Table(table.view(caption, limit)));
    content.datasets.push(table.rows(&instances));
}

fn stages_table<'t>(context: &Context<'t>) -> Table<'t, StageTime> {
    let (session, facts) = (context.session, context.facts);
    columns! { context, "stages", stage: &StageTime => {
        text "stage" = stage.summary.label(session, facts);
        text "pass" = session.pass_name(stage.pass);
        text "instances" = format!("{} of {}", stage.summary.counted, stage.summary.instances);
        "time_ns" = stage.summary.time;
        "time_min_ns" = stage.summary.time_range.0;
        "time_max_ns" = stage.summary.time_range.1;
        "host_ns" = stage.summary.host;
        "busy_share" = stage.summary.busy_share;
        "operations" = stage.summary.operations;
        "operation_mean_ns" = stage.summary.sum / stage.summary.operations.max(Count(1.0));
        "inferred_share" = stage.summary.inferred_share;
        "steps" = stage.summary.steps;
    } }
}

/// An instance with its stage.
type Row<'a> = (&'a StageTime, &'a StageInstance);

/// The instances of outermost stages first: a page shows the beginning.
fn instances<'a>(context: &Context<'a>, stages: &[&'a StageTime]) -> Vec<Row<'a>> {
    let facts = context.facts;
    let of_stage = |stage: &&'a StageTime| {
        let (stage, process) = (*stage, stage.summary.process);
        let instances = facts.instances_of(stage.summary.stage(facts)).iter();
        instances
            .filter(move |instance| instance.process == process)
            .map(move |instance| (stage, instance))
    };
    let mut rows: Vec<Row<'_>> = stages.iter().flat_map(of_stage).collect();
    rows.arrange_by_key(|(stage, _)| !stage.summary.is_outermost(facts));
    rows
}

fn instances_table<'t>(context: &Context<'t>, several_passes: bool) -> Table<'t, Row<'t>> {
    let (session, facts) = (context.session, context.facts);
    let table = columns! { context, "stage_instances", (stage, instance): &Row<'_> => {
        text "stage" = stage.summary.label(session, facts), page;
        text "pass" = session.pass_name(stage.pass), page if several_passes;
        count "ordinal" = instance.ordinal, page;
        time "host_start_ns" = instance.host_start;
        time "host_ns" = instance.host_end - instance.host_start;
        time "start_ns" = instance.projection.map(|(start, _)| start);
        time "time_ns" = instance.time(), page;
        time "busy_ns" = instance.projection.map(|_| instance.busy), page;
        time "idle_ns" = Some(instance.time()? * instance.gpus.len().max(1) as i64 - instance.busy);
        share "busy_share" = instance.busy_share(), page;
        time "sum_ns" = instance.sum;
        count "operations" = instance.ops.len(), page;
        count "kernels" = instance.ops.iter().filter(|op| facts.kernel(session, **op).is_some()).count();
        count "inferred" = instance.inferred;
        count "steps" = instance.steps;
        text "excluded" = instance.excluded.map(|reason| reason.to_string()).unwrap_or_default(), page;
    } };
    let table = match session.model_calls.is_empty() {
        true => table,
        false => columns! { table, (_, instance): &Row<'_> => {
            count "batch" = instance.sizes.batch, page;
            count "sequence_tokens" = instance.sizes.tokens, page;
            count "keys" = instance.sizes.keys, page;
        } },
    };
    if !facts
        .stages
        .iter()
        .any(|stage| is_of_engine(session, facts, stage))
    {
        return table;
    }
    columns! { table, (_, instance): &Row<'_> => {
        count "requests" = engine_step(session, instance)?.requests, page;
        count "tokens" = engine_step(session, instance)?.tokens, page;
    } }
}
