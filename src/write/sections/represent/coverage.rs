//! How much of each stage the profiled launches represent, and what to profile next.

use std::collections::BTreeSet;

use rooflens_schemas::Unit;
use rooflens_session::Ns;

use crate::{Context, joined};
use rooflens_analysis::counters::represent::matching::{Line, Matching, Tier};
use rooflens_analysis::counters::represent::{Gap, Representativeness};
use rooflens_analysis::kernels::kernel_sums::{ENOUGH, command};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, Dataset, Inline, Quantity, Table};
use rooflens_units::Ratio;

/// Kernels without a profiled launch that the section shows.
const SHOWN_GAPS: usize = 8;

/// One row a stage.
pub(super) fn coverage(context: &Context<'_>, matching: &Matching) -> Dataset {
    let columns = columns! { context, "profile_coverage", line: &Line => {
        text "stage" = line.summary.label(context.session, context.facts);
        time "time_ns" = line.time;
        share "profiled_share" = line.covered();
        share "stage_share" = share_by(line, Tier::Stage);
        share "grid_share" = share_by(line, Tier::Grid);
        share "kernel_share" = share_by(line, Tier::Kernel);
        count "launches" = line.groups.iter().map(|group| group.launches).sum::<u64>();
        count "matched_launches" = matched_launches(line);
    } };
    columns.rows(matching.lines.iter().filter(|line| line.time > Ns::ZERO))
}

/// Share of the time that is matched in one way.
fn share_by(line: &Line, tier: Tier) -> Ratio {
    line.share(|group| group.tier == Some(tier))
}

fn matched_launches(line: &Line) -> u64 {
    let mut launches = 0;
    for group in &line.groups {
        if group.tier.is_some() {
            launches += group.launches;
        }
    }
    launches
}

/// One bar a phase: matched how, and not at all.
pub(super) fn chart(context: &Context<'_>, matching: &Matching) -> Option<Chart> {
    let bar = |line: &Line| {
        let matched = line.covered();
        let mut values: Vec<f64> = Tier::ALL
            .iter()
            .map(|tier| share_by(line, *tier).0)
            .collect();
        values.push(matched.rest().max(Ratio::ZERO).0);
        Bar {
            label: line.summary.label(context.session, context.facts),
            values,
            note: Quantity::from(matched).to_string(),
        }
    };
    let bars: Vec<Bar> = matching
        .outermost(context.facts)
        .map(|(_, line)| bar(line))
        .collect();
    let shares: Vec<String> = bars
        .iter()
        .map(|bar| format!("{}{}{}", bar.label, context.text.colon(), bar.note))
        .collect();
    (!bars.is_empty()).then(|| Chart {
        id: "profile-coverage".to_owned(),
        title: words!(context, "represent.chart.title"),
        description: words!(
            context,
            "represent.chart.description",
            stages = shares.join(context.text.semicolon())
        ),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Ratio,
            normalized: true,
            parts: vec![
                Part::new(
                    words!(context, "represent.chart.stage"),
                    Color::ComputeBound,
                ),
                Part::new(words!(context, "represent.chart.grid"), Color::Elementwise),
                Part::new(words!(context, "represent.chart.kernel"), Color::Copy),
                Part::new(words!(context, "represent.chart.none"), Color::Idle),
            ],
            bars,
        }),
    })
}

/// One row a kernel and outermost stage, those with the largest share of their stage first, and its view.
pub(super) fn gaps(
    context: &Context<'_>,
    matching: &Matching,
    all: &Representativeness,
) -> (Dataset, Option<Block>) {
    let (session, facts) = (context.session, context.facts);
    let table = columns! { context, "unprofiled_kernels", gap: &Gap => {
        let identity = &facts.identities[gap.kernel.index()];
        let label = matching.lines[gap.line].summary.label(session, facts);
        name "kernel" = identity.short.as_str(), page;
        text "stage" = label, page;
        text "class" = identity.class.label(), page;
        count "launches" = gap.launches, page;
        time "time_ns" = gap.time, page;
        share "share" = gap.share, page;
        name "name" = session.kernel_name(gap.kernel);
    } };
    let view = gaps_view(context, &table, all.gaps.len());
    (table.rows(&all.gaps), view)
}

/// The first of the kernels without a profiled launch, if there are any.
pub(super) fn gaps_view<T>(
    context: &Context<'_>,
    table: &Table<'_, T>,
    all: usize,
) -> Option<Block> {
    let shown = all.min(SHOWN_GAPS);
    let caption = words!(
        context,
        "represent.gaps",
        shown = shown.to_string(),
        all = all.to_string()
    );
    (shown > 0).then(|| Block::Table(table.view(caption, shown)))
}

/// The commands that list what to profile, one a phase that is not covered.
pub(super) fn commands(context: &Context<'_>, matching: &Matching) -> Option<Vec<Inline>> {
    let mut stages = BTreeSet::new();
    let mut commands = Vec::new();
    for (_, line) in matching.outermost(context.facts) {
        if line.covered() < ENOUGH && stages.insert(&line.summary.stage(context.facts).name) {
            commands.push(vec![Inline::Code(command(context, &line.summary))]);
        }
    }
    let commands = joined(commands, "; ")?;
    Some(say!(context, "represent.commands", commands = commands))
}
