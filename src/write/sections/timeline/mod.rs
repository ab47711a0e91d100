//! The timeline: what the GPU does over time, how much of it is in use, and instances of stages close up.

mod iterations;
mod overview;
mod tables;
#[cfg(test)]
mod tests;
mod tracks;
mod zoom;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::time::timeline::Timeline;
use rooflens_document::{Block, Chart, Inline, SectionContent, chart};
use rooflens_session::GpuId;
use rooflens_units::Ratio;

/// Timeline.
pub(super) static SECTION: Section = Section {
    id: "timeline",
    show,
};

/// Instances close up in the report; the appendix has the others.
const SHOWN_ZOOMS: usize = 1;

/// Idle share of an instance from which on it has gaps to look at; below, the bars of stages say the same.
const GAPS: Ratio = Ratio(0.1);

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let timeline = context.results.timeline()?;
    let mut content = SectionContent::default();
    if timeline.passes.is_empty() {
        return Ok(content);
    }
    let introduction = Block::Prose(introduction(context, timeline));
    let charts = timeline
        .passes
        .iter()
        .map(|pass| overview::chart(context, timeline, pass));
    let (mut with_gaps, mut busy) = (Vec::new(), Vec::new());
    for zoom in &timeline.zooms {
        let zooms = match zoom.busy_share().rest() >= GAPS {
            true => &mut with_gaps,
            false => &mut busy,
        };
        zooms.push(Block::Chart(zoom::chart(context, zoom)));
    }
    let (mut charts, mut with_gaps) = (charts.map(Block::Chart), with_gaps.into_iter());
    content.main.push(introduction);
    content.main.extend(charts.next());
    content
        .main
        .extend(iterations::block(context, &timeline.iterations));
    content.main.extend(with_gaps.by_ref().take(SHOWN_ZOOMS));
    content.blocks.extend(charts.chain(with_gaps).chain(busy));
    tables::add(context, timeline, &mut content);
    content
        .methods
        .push(method!(context, "timeline", least = tracks::THROTTLED));
    Ok(content)
}

/// A typical iteration of a stage close up, and all its operations, where there are some.
pub fn of_stage(context: &Context<'_>, stage: &str) -> (Option<Chart>, Option<chart::Iteration>) {
    let Ok(timeline) = context.results.timeline() else {
        return (None, None);
    };
    let is_of_stage = |summary: &Summary| summary.label(context.session, context.facts) == stage;
    let mut zooms = timeline.zooms.iter();
    let mut iterations = timeline.iterations.iter();
    let zoom = zooms.find(|zoom| is_of_stage(&zoom.summary));
    let iteration = iterations.find(|iteration| is_of_stage(&iteration.summary));
    (
        zoom.map(|zoom| zoom::chart(context, zoom)),
        iteration.map(|iteration| iterations::shown(context, iteration)),
    )
}

fn introduction(context: &Context<'_>, timeline: &Timeline) -> Vec<Inline> {
    let mut text = say!(context, "timeline.introduction");
    for overview in &timeline.passes {
        let counters = timeline
            .counters
            .iter()
            .find(|counter| counter.pass == overview.pass);
        if let Some(period) = counters.and_then(|counters| counters.period()) {
            let pass = Inline::code(context.session.pass_name(overview.pass));

            text.extend(say!(
                context,
                "timeline.counters",
                pass = pass,
                period = period
            ));
        }
    }
    text
}

fn ordinal(context: &Context<'_>, gpu: GpuId) -> u32 {
    context.session.gpus.ordinal[gpu.index()]
}

/// The number of a GPU for words that name it only where there are several.
fn number(context: &Context<'_>, gpu: GpuId, several: bool) -> Option<String> {
    several.then(|| ordinal(context, gpu).to_string())
}
