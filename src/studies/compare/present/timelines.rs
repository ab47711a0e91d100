//! A typical iteration of both sides on one scale: what ran when, before and after.

use rooflens_document::chart::{Iteration, Plot};
use rooflens_document::{Block, Catalogue, Chart, SectionContent, words};

use super::Pages;
use crate::{Analyzed, Pair};

/// Stages that are shown.
const SHOWN: usize = 2;

/// Stages whose iterations are looked at: each takes a look at all operations.
const MOST: usize = 64;

/// A typical iteration of a stage.
#[derive(Clone, Default)]
pub(crate) struct Timeline {
    stage: String,
    chart: Option<Chart>,
    /// Its operations one by one.
    iteration: Option<Iteration>,
}

/// Adds the iterations of a capture whose stages have none yet.
pub(crate) fn add_timelines(
    timelines: &mut Vec<Timeline>,
    capture: &Analyzed<'_>,
    text: &'static Catalogue,
) {
    let (session, facts) = (capture.context.session, capture.context.facts);
    let context = rooflens_sections::Context::new(capture.context, text);
    for summary in facts.run_summaries() {
        let stage = summary.label(session, facts);
        let known = timelines.iter().position(|known| known.stage == stage);
        let known = known.unwrap_or_else(|| {
            timelines.push(Timeline {
                stage: stage.clone(),
                ..Timeline::default()
            });
            timelines.len() - 1
        });
        let timeline = &mut timelines[known];
        let is_open = timeline.chart.is_none() || timeline.iteration.is_none();
        if is_open && known < MOST {
            let (chart, iteration) = rooflens_sections::timeline_of_stage(&context, &stage);
            timeline.chart = timeline.chart.take().or(chart);
            timeline.iteration = timeline.iteration.take().or(iteration);
        }
    }
}

impl Pages<'_> {
    /// The stages that changed most, or parts of them, each with an iteration of both sides; and all operations of these
    /// for a reader who looks at them one by one.
    pub(super) fn timelines(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let (mut operations, mut shown) = (Vec::new(), 0);
        for Pair { before, after } in self.stages_and_parts() {
            let words = [
                words!(self, "compare.before"),
                words!(self, "compare.after"),
            ];
            let titled =
                |side: &str, title| words!(self, "compare.timeline", side = side, title = title);
            if let (Some(before), Some(after)) = (&before.iteration, &after.iteration)
                && operations.len() < 2 * SHOWN
            {
                for (side, iteration) in words.iter().zip([before, after]) {
                    operations.push(Iteration {
                        label: titled(side, iteration.label.clone()),
                        ..iteration.clone()
                    });
                }
            }
            let (Some(before), Some(after)) = (&before.chart, &after.chart) else {
                continue;
            };
            if shown == SHOWN {
                continue;
            }
            let mut charts = [before.clone(), after.clone()];
            for (side, chart) in words.iter().zip(&mut charts) {
                chart.title = titled(side, std::mem::take(&mut chart.title));
            }
            charts[0].id = format!("compare-timeline-{shown}-before");
            charts[1].id = format!("compare-timeline-{shown}-after");
            on_one_scale(&mut charts);
            content.main.extend(charts.map(Block::Chart));
            shown += 1;
        }
        if !operations.is_empty() {
            content.main.push(Block::Iterations(operations));
        }
        content
    }

    /// The outermost stages, the largest change first, then the stages within.
    fn stages_and_parts(&self) -> Vec<Pair<&Timeline>> {
        let rank = |timeline: &Timeline| {
            let mut stages = self.stages.iter();
            stages.position(|stage| *stage == timeline.stage)
        };
        let mut timelines = Vec::new();
        for before in &self.comparison.timelines.before {
            let mut others = self.comparison.timelines.after.iter();
            if let Some(after) = others.find(|after| after.stage == before.stage) {
                timelines.push(Pair { before, after });
            }
        }
        timelines.sort_by_key(|pair| rank(pair.before).unwrap_or(usize::MAX));
        timelines
    }
}

/// Gives both charts the longer axis: the shorter iteration is shorter on the page.
fn on_one_scale(charts: &mut [Chart; 2]) {
    let extent = |chart: &Chart| match &chart.plot {
        Plot::Tracks(tracks) => tracks.extent,
        _ => 0,
    };
    let longest = charts.iter().map(extent).max().unwrap_or_default();
    for chart in charts {
        if let Plot::Tracks(tracks) = &mut chart.plot {
            tracks.extent = longest;
        }
    }
}
