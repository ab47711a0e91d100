//! A typical iteration of both sides on one scale: what ran when, before and after.

use rooflens_document::chart::{Iteration, Plot};
use rooflens_document::{Block, Chart, SectionContent, words};

use super::Pages;
use crate::{Pair, Side};

/// Stages that are shown.
const SHOWN: usize = 2;

impl Pages<'_> {
    /// The stages that changed most, or parts of them, each with an iteration of both sides; and all operations of these
    /// for a reader who looks at them one by one.
    pub(super) fn timelines(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let (mut operations, mut shown) = (Vec::new(), 0);
        for stage in self.stages_and_parts() {
            let Pair { before, after } =
                Pair::of(&self.comparison.sides, |side| self.timeline(side, &stage));
            let words = [
                words!(self, "compare.before"),
                words!(self, "compare.after"),
            ];
            let titled =
                |side: &str, title| words!(self, "compare.timeline", side = side, title = title);
            if let (Some(before), Some(after)) = (before.1, after.1)
                && operations.len() < 2 * SHOWN
            {
                for (side, mut iteration) in words.iter().zip([before, after]) {
                    iteration.label = titled(side, iteration.label);
                    operations.push(iteration);
                }
            }
            let (Some(before), Some(after)) = (before.0, after.0) else {
                continue;
            };
            if shown == SHOWN {
                continue;
            }
            let mut charts = [before, after];
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
    fn stages_and_parts(&self) -> Vec<String> {
        let mut stages: Vec<String> = Vec::new();
        stages.extend(self.stages.iter().copied().map(str::to_owned));
        for capture in &self.comparison.sides.before.captures {
            let (session, facts) = (capture.context.session, capture.context.facts);
            for summary in facts.run_summaries() {
                let stage = summary.label(session, facts);
                if !stages.contains(&stage) {
                    stages.push(stage);
                }
            }
        }
        stages
    }

    /// The chart and the operations of the first capture of a side that has them.
    fn timeline(&self, side: &Side<'_>, stage: &str) -> (Option<Chart>, Option<Iteration>) {
        let (mut chart, mut iteration) = (None, None);
        for capture in &side.captures {
            let context = rooflens_sections::Context::new(capture.context, self.text);
            let of_capture = rooflens_sections::timeline_of_stage(&context, stage);
            chart = chart.or(of_capture.0);
            iteration = iteration.or(of_capture.1);
        }
        (chart, iteration)
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
