//! Communication: collectives, how much of them shows, and which rank the others wait for.

mod metrics;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use rooflens_schemas::Unit;
use rooflens_session::Ns;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::straggler::CHANCE;
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Quantity, SectionContent};

/// Collectives and ranks.
pub(super) static SECTION: Section = Section {
    id: "communication",
    show,
};

/// Rows of each table on the page, and bars.
const SHOWN: usize = 16;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = SectionContent::default();
    let runs = &context.results.communication()?.runs;
    let Some(first) = runs.first() else {
        return Ok(content);
    };
    content
        .main
        .push(Block::Prose(text::introduction(context, first)));
    content.main.push(Block::Chart(chart(context, first)));
    let straggler = first.straggler.as_ref();
    // The report has the finding.
    content
        .blocks
        .extend(straggler.map(|rank| Block::Prose(text::straggler(context, first, rank))));
    content
        .blocks
        .extend(text::messages(context, first).map(Block::Prose));
    tables::add(context, runs, &mut content);
    for ranks in runs {
        content.metrics.extend(
            ranks
                .lines
                .iter()
                .flat_map(|line| metrics::of_line(context, line)),
        );
        content.metrics.extend(metrics::imbalances(context, ranks));
        content.metrics.extend(metrics::clock(ranks));
        content.metrics.extend(metrics::bus(context, ranks));
        content.diagnostics.extend(text::mismatched(ranks));
    }
    content
        .methods
        .push(method!(context, "communication", chance = CHANCE));
    Ok(content)
}

/// What each rank's time goes to: bars of one stage, or of each.
fn chart(context: &Context<'_>, ranks: &Ranks) -> Chart {
    let stages = ranks.lines.iter().any(|line| line.stage.is_some());
    let shown: Vec<&RankTimes> = ranks
        .lines
        .iter()
        .filter(|line| line.stage.is_some() == stages)
        .take(SHOWN)
        .collect();
    let bar = |line: &&RankTimes| {
        let parts = line.sum.parts;
        let idle = line.sum.time - parts.busy;
        let rest = parts.busy - parts.compute - parts.communication_exposed;
        let share = parts.communication.time() / line.sum.time.max(Ns(1)).time();
        let values = [parts.compute, parts.communication_exposed, rest, idle];
        Bar {
            label: words!(
                context,
                "communication.bar",
                stage = line.stage_name(context),
                rank = line.rank.to_string()
            ),
            values: values.map(|value| value.time().0).to_vec(),
            note: words!(
                context,
                "communication.bar_note",
                share = Quantity::ratio(share)
            ),
        }
    };
    let share = |line: &RankTimes| {
        line.sum.parts.communication_exposed.time() / line.sum.time.max(Ns(1)).time()
    };
    // Of stages with equal shares the first.
    let by_time = |line: &&&RankTimes| line.sum.parts.communication_exposed;
    let most = shown.iter().rev().max_by_key(by_time);
    Chart {
        id: "ranks".to_owned(),
        title: words!(
            context,
            "communication.chart",
            share = Quantity::ratio(most.map_or(0.0, |line| share(line))),
            stage = most.and_then(|line| line.stage_name(context)),
            rank = most.map(|line| line.rank.to_string()),
        ),
        description: words!(
            context,
            "communication.chart_description",
            pass = ranks.run.name.as_str()
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: vec![
                Part::new(words!(context, "communication.computing"), Color::Gemm),
                Part::new(
                    words!(context, "communication.exposed"),
                    Color::Communication,
                ),
                Part::new(words!(context, "communication.copies"), Color::Copy),
                Part::new(words!(context, "communication.idle"), Color::Idle),
            ],
            bars: shown.iter().map(bar).collect(),
        }),
    }
}
