//! Data sets of the timeline, and the metrics of sampled counters.

use rooflens_schemas::{Metric, Scope};

use super::ordinal;
use crate::Context;
use rooflens_analysis::engine::classify::{ClassGroup, GroupTimes};
use rooflens_analysis::time::timeline::Timeline;
use rooflens_analysis::time::timeline::overview::Overview;
use rooflens_analysis::time::timeline::sampled::{Counter, GpuCounters, StageSums};
use rooflens_document::catalogue::{DRAM_BANDWIDTH_SHARE, SM_ACTIVE, TENSOR_ACTIVE};
use rooflens_document::{Block, Quantity, SectionContent, Table};
use rooflens_session::GpuId;

/// Columns of groups of classes, in the order of [`ClassGroup::ALL`].
const GROUPS: [&str; ClassGroup::ALL.len()] = [
    "gemm_ns",
    "attention_ns",
    "normalization_ns",
    "elementwise_ns",
    "copy_ns",
    "communication_ns",
    "other_ns",
];

/// Rows of stages that the page shows.
const SHOWN: usize = 16;

/// A stretch of a pass on a GPU: its number and its busy time by group of classes.
type Stretch<'a> = (&'a Overview, GpuId, usize, &'a GroupTimes);

/// Samples of a GPU within a stage.
type Sums<'a> = (&'a GpuCounters, &'a StageSums);

/// Adds the data sets, the view of the sampled counters and their metrics.
pub(super) fn add(context: &Context<'_>, timeline: &Timeline, content: &mut SectionContent) {
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for overview in &timeline.passes {
        for (gpu, mix) in &overview.gpus {
            stretches.extend(
                mix.iter()
                    .enumerate()
                    .map(|(at, times)| (overview, *gpu, at, times)),
            );
        }
    }
    content
        .datasets
        .push(stretches_table(context).rows(&stretches));
    let sums = timeline
        .counters
        .iter()
        .flat_map(|gpu| gpu.stages.iter().map(move |stage| (gpu, stage)));
    let sums: Vec<Sums<'_>> = sums.collect();
    if !sums.is_empty() {
        let several = timeline
            .counters
            .iter()
            .any(|counter| timeline.samples_several(counter.pass));
        let table = counters_table(context, several);
        let caption = words!(context, "timeline.caption");
        content
            .blocks
            .push(Block::Table(table.view(caption, SHOWN)));
        content.datasets.push(table.rows(&sums));
        let metrics = sums
            .iter()
            .flat_map(|sums| metrics(context, timeline, sums));
        content.metrics.extend(metrics);
    }
}

/// Busy time by group in each stretch of the charts.
fn stretches_table<'t>(context: &Context<'t>) -> Table<'t, Stretch<'t>> {
    let session = context.session;
    let mut table = columns! { context, "timeline", (overview, gpu, bin, times): &Stretch<'_> => {
        name "pass" = session.pass_name(overview.pass);
        count "gpu" = session.gpus.ordinal[gpu.index()];
        time "start_ns" = overview.window.edge(*bin);
        time "end_ns" = overview.window.edge(bin + 1);
    } };
    for (group, id) in ClassGroup::ALL.into_iter().zip(GROUPS) {
        table = columns! { table, (.., times): &Stretch<'_> => {
            time (id) = times[group as usize];
        } };
    }
    table
}

/// Means of the samples within each stage.
fn counters_table<'t>(context: &Context<'t>, several: bool) -> Table<'t, Sums<'t>> {
    let (session, stages) = (context.session, &context.facts.stages);
    columns! { context, "gpu_metrics", (gpu, sums): &Sums<'_> => {
        name "stage" = stages[sums.stage].name.as_str(), page;
        name "pass" = session.pass_name(gpu.pass), page;
        count "gpu" = session.gpus.ordinal[gpu.gpu.index()], page if several;
        count "instances" = sums.instances;
        count "samples" = sums.samples(), page;
        share "sm_active" = sums.mean(Counter::SmActive), page;
        share "tensor_active" = sums.mean(Counter::TensorActive), page;
        share "dram_read" = sums.mean(Counter::DramRead), page;
        share "dram_write" = sums.mean(Counter::DramWrite), page;
        Hertz "sm_clock_hz" = sums.mean(Counter::Clock), page;
    } }
}

/// The metrics of a stage on a GPU.
fn metrics(context: &Context<'_>, timeline: &Timeline, (gpu, of): &Sums<'_>) -> Vec<Metric> {
    let session = context.session;
    let several = timeline.samples_several(gpu.pass);
    let scope = Scope {
        pass: Some(session.pass_name(gpu.pass).to_owned()),
        stage: Some(context.facts.stages[of.stage].name.clone()),
        gpu: several.then(|| ordinal(context, gpu.gpu)),
        ..Scope::default()
    };
    let evidence = session.evidence(gpu.pass, "counter_samples", of.samples());
    let defs: [(_, &[Counter], _); 3] = [
        (&SM_ACTIVE, &[Counter::SmActive], of.mean(Counter::SmActive)),
        (
            &TENSOR_ACTIVE,
            &[Counter::TensorActive],
            of.mean(Counter::TensorActive),
        ),
        (
            &DRAM_BANDWIDTH_SHARE,
            &[Counter::DramRead, Counter::DramWrite],
            of.traffic(),
        ),
    ];
    let metric = |(metric, counters, value): (&rooflens_document::MetricDef, &[Counter], _)| {
        let Some(value) = value else {
            return metric.unavailable(scope.clone(), why(gpu, of, counters));
        };
        let sampled = counters
            .iter()
            .filter_map(|counter| gpu.sampled.get(counter));
        let names: Vec<&str> = sampled.map(|sampled| session.text(sampled.name)).collect();
        let basis = basis!(
            "basis.sampled",
            counters = names.join(" + "),
            samples = of.samples(),
            instances = of.instances
        );
        let mut metric = metric.measured(scope.clone(), value, basis);
        metric.evidence.push(evidence.clone());
        metric
    };
    defs.into_iter().map(metric).collect()
}

/// Why a stage has no mean.
fn why(gpu: &GpuCounters, of: &StageSums, counters: &[Counter]) -> String {
    if counters
        .iter()
        .any(|counter| !gpu.sampled.contains_key(counter))
    {
        return basis!("basis.no_counter");
    }
    let every = gpu
        .period()
        .map(|period| Quantity::from(period).to_string());
    basis!(
        "basis.no_sample",
        time = Quantity::ns(of.time),
        period = every.unwrap_or_else(|| "–".to_owned())
    )
}
