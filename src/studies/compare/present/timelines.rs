//! A typical iteration of both sides on one scale: what ran when, before and after.

use rooflens_document::chart::Plot;
use rooflens_document::{Block, SectionContent, words};

use super::Pages;
use crate::Side;

/// Stages that are shown.
const SHOWN: usize = 2;

impl Pages<'_> {
    /// The stages that changed most, each with an iteration of both sides; and all operations of these for a reader who
    /// looks at them one by one.
    pub(super) fn timelines(&self) -> SectionContent {
        let mut content = SectionContent::default();
        let mut operations = Vec::new();
        for (number, stage) in self.stages.iter().copied().take(SHOWN).enumerate() {
            let sides = &self.comparison.sides;
            let mut charts = Vec::new();
            for (side, id, word) in [
                (&sides.before, "before", words!(self, "compare.before")),
                (&sides.after, "after", words!(self, "compare.after")),
            ] {
                let (chart, iteration) = self.timeline(side, stage);
                let titled = |title| {
                    words!(
                        self,
                        "compare.timeline",
                        side = word.as_str(),
                        title = title
                    )
                };
                charts.extend(chart.map(|mut chart| {
                    chart.id = format!("compare-timeline-{number}-{id}");
                    chart.title = titled(chart.title);
                    chart
                }));
                operations.extend(iteration.map(|mut iteration| {
                    iteration.label = titled(iteration.label);
                    iteration
                }));
            }
            // On one scale, the shorter iteration is shorter on the page.
            let extents = charts.iter().filter_map(|chart| match &chart.plot {
                Plot::Tracks(tracks) => Some(tracks.extent),
                _ => None,
            });
            let longest = extents.max().unwrap_or_default();
            for chart in &mut charts {
                if let Plot::Tracks(tracks) = &mut chart.plot {
                    tracks.extent = longest;
                }
            }
            content.main.extend(charts.into_iter().map(Block::Chart));
        }
        if !operations.is_empty() {
            content.main.push(Block::Iterations(operations));
        }
        content
    }

    /// The chart and the operations of the first capture of a side that has them.
    fn timeline(
        &self,
        side: &Side<'_>,
        stage: &str,
    ) -> (
        Option<rooflens_document::Chart>,
        Option<rooflens_document::chart::Iteration>,
    ) {
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
