//! The timeline: what the GPU does over time, how much of it is in use, and instances of stages close up.

mod overview;
mod tables;
#[cfg(test)]
mod tests;
mod tracks;
mod zoom;

use rooflens_schemas::Unit;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::timeline::Timeline;
use rooflens_findings::{Block, Findings, Inline, Method, Quantity, prose};
use rooflens_model::{GpuId, Session};

/// Timeline.
pub(super) static SECTION: Section = Section { id: "timeline", show };

fn show(context: &Context<'_>) -> Known<Findings> {
    let timeline = context.results.timeline()?;
    let mut findings = Findings::default();
    if timeline.passes.is_empty() {
        return Ok(findings);
    }
    findings.blocks.push(Block::Prose(introduction(context.session, timeline)));
    let charts = timeline.passes.iter().map(|pass| overview::chart(context, timeline, pass));
    let zooms = timeline.zooms.iter().map(|zoom| zoom::chart(context, zoom));
    findings.blocks.extend(charts.chain(zooms).map(Block::Chart));
    tables::add(context, timeline, &mut findings);
    findings.methods.push(method());
    Ok(findings)
}

fn introduction(session: &Session, timeline: &Timeline) -> Vec<Inline> {
    let mut text = prose![
        "What the GPU does over time: in each stretch the share in which it runs each class of operations; white is idle. \
         Bands are stages, placed where their GPU work is."
    ];
    for overview in &timeline.passes {
        let own = timeline.counters.iter().find(|own| own.pass == overview.pass);
        if let Some(period) = own.and_then(|own| own.period()) {
            text.extend(prose![
                " Pass ",
                Inline::Code(session.pass_name(overview.pass).to_owned()),
                " also holds samples of hardware counters, one every ",
                Quantity::new(period, Unit::Nanoseconds),
                "."
            ]);
        }
    }
    text
}

fn ordinal(context: &Context<'_>, gpu: GpuId) -> u32 {
    context.session.gpus.ordinal[gpu.index()]
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
