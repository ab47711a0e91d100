//! The timeline: what the GPU does over time, how much of it is in use, and instances of stages close up.

mod bands;
pub(crate) mod bins;
mod overview;
mod sampled;
mod tables;
mod tracks;
mod zoom;

use std::collections::BTreeMap;

use crate::analysis::system::power::samples::{Device, devices};
use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Findings, Inline, Method, View};
use crate::model::{GpuId, PassId, Session};
use crate::prose;

use overview::Overview;
use sampled::Counters;
use tables::Sums;

/// Timeline.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "timeline", title: "Timeline", missing: |_| None, run };

/// Passes that have a chart.
const MAX_PASSES: usize = 2;

fn run(context: &Context<'_>) -> Findings {
    let mut findings = Findings::default();
    let counters = sampled::counters(context.session);
    let devices = devices(context.session);
    let passes = shown_passes(context, &counters, &devices);
    let overviews: Vec<Overview> =
        passes.iter().filter_map(|pass| overview::of_pass(context, *pass)).collect();
    let Some(primary) = overviews.first() else { return findings };
    findings.blocks.push(Block::Prose(introduction(context.session, &overviews, &counters)));
    for overview in &overviews {
        findings.blocks.push(Block::Chart(overview.chart(context, &counters, &devices)));
    }
    findings.blocks.extend(zoom::charts(context, primary).into_iter().map(Block::Chart));
    findings.datasets.push(tables::timeline(context, &overviews));
    add_gpu_metrics(context, &counters, &mut findings);
    findings.methods.push(method());
    findings
}

/// The primary pass, and of the others the first with samples that it lacks.
fn shown_passes(
    context: &Context<'_>,
    counters: &BTreeMap<(PassId, GpuId), Counters>,
    devices: &[Device],
) -> Vec<PassId> {
    let session = context.session;
    let Some(primary) = context.facts.primary_pass(session) else { return Vec::new() };
    let sampled = |pass: PassId| {
        let nvml = session.passes.utc_origin[pass.index()].is_some_and(|origin| {
            let ops = context.facts.ops_of(pass);
            let table = &context.facts.ops;
            let ends = ops.clone().next().zip(ops.map(|row| table.end[row]).max());
            ends.is_some_and(|(first, end)| {
                let window = (table.start[first], end);
                devices.iter().any(|device| device.within(origin, window).len() > 1)
            })
        });
        nvml || counters.keys().any(|(own, _)| *own == pass)
    };
    let mut passes = vec![primary];
    if !sampled(primary) {
        let others = session.passes.ids().filter(|pass| *pass != primary && sampled(*pass));
        passes.extend(others.take(MAX_PASSES - 1));
    }
    passes
}

fn introduction(
    session: &Session,
    overviews: &[Overview],
    counters: &BTreeMap<(PassId, GpuId), Counters>,
) -> Vec<Inline> {
    let mut text = prose![
        "What the GPU does over time: in each stretch the share in which it runs each class of operations; white is idle. \
         Bands are stages, placed where their GPU work is."
    ];
    for overview in overviews {
        let own = counters.iter().find(|((pass, _), _)| *pass == overview.pass);
        if let Some(period) = own.and_then(|(_, counters)| sampled::period(counters)) {
            let name = session.pass_name(overview.pass);
            text.extend(prose![
                " Pass ",
                Inline::Code(name.to_owned()),
                " also holds samples of hardware counters, one every ",
                crate::findings::Quantity::new(period, rooflens_schemas::Unit::Nanoseconds),
                "."
            ]);
        }
    }
    text
}

fn add_gpu_metrics(
    context: &Context<'_>,
    counters: &BTreeMap<(PassId, GpuId), Counters>,
    findings: &mut Findings,
) {
    let sums: Vec<Sums<'_>> = counters
        .iter()
        .map(|(key, own)| Sums {
            counters: own,
            stages: sampled::of_stages(context, *key, own),
            several: counters.keys().filter(|(pass, _)| *pass == key.0).count() > 1,
        })
        .collect();
    let dataset = tables::gpu_metrics(context, &sums);
    if dataset.rows.is_empty() {
        return;
    }
    let mut columns = vec!["stage", "pass"];
    if sums.iter().any(|sums| sums.several) {
        columns.push("gpu");
    }
    columns.extend([
        "samples",
        "sm_active",
        "tensor_active",
        "dram_read",
        "dram_write",
        "sm_clock_hz",
    ]);
    let caption = "Sampled GPU metrics: means within the stages' projections";
    findings.blocks.push(Block::Table(View::new("gpu_metrics", caption, &columns, 16)));
    findings.datasets.push(dataset);
    findings.metrics.extend(sums.iter().flat_map(|sums| tables::metrics(context, sums)));
}

fn method() -> Method {
    Method {
        title: "Timeline".to_owned(),
        text: prose![
            "The window of a pass reaches from the first start to the last end of the GPU operations of its stages and is cut \
             into 300 equal stretches. Each busy moment of a GPU belongs to one class: to a computing kernel (of several, \
             the one that began first), then to a collective, then to a copy, so that the classes of a stretch add up to its \
             busy time. Samples are averaged in the same stretches. A GPU metric is the mean over the period that ends with the \
             sample; “active” counts cycles in which at least one warp is resident on an SM, or in which tensor pipes issue, \
             averaged over all SMs, and says nothing about how much each cycle did. DRAM read and write are shares of the \
             cycles of the memory interface. A sample belongs to a stage if it lies within the projection of a counted \
             instance; stages not much longer than the sampling period are blurred by what runs before them."
        ],
    }
}

#[cfg(test)]
mod tests;
