//! The data set of what the host did in idle time: in stages, between them, and in the rest of the run.

use super::tables::SHOWN;
use crate::Context;
use rooflens_analysis::time::account::Iterations;
use rooflens_analysis::time::idle::sources::{ActivityIdle, IdleSource, Sources};
use rooflens_analysis::time::idle::{Cause, IdleTime, StageIdle};
use rooflens_document::{Block, SectionContent, Table};
use rooflens_session::{Arrange, Ns, StrId};
use rooflens_units::Ratio;

/// Sources of an activity in one place that the data set lists.
const LISTED: usize = 10;

/// Idle time of one activity and source in one place.
struct Row<'a> {
    /// The stage, or the stages around it.
    stage: String,
    /// When in the run.
    phase: &'static str,
    sources: &'a Sources,
    activity: &'a ActivityIdle,
    source: &'a IdleSource,
}

fn table<'t>(context: &'t Context<'_>) -> Table<'t, Row<'t>> {
    let text = |name: StrId| context.session.text(name).to_owned();
    columns! { context, "idle_sources", row: &Row<'_> => {
        text "stage" = row.stage.clone(), page;
        text "phase" = row.phase, page;
        text "activity" = row.activity.activity.label(), page;
        text "cause" = row.source.cause.label();
        text "subject" = row.source.subject.map(text);
        text "open" = row.source.path.first().map(|source| text(source.name())), page;
        time "total_ns" = row.source.time, page;
        share "activity_share" = Ratio::of(row.source.time, row.activity.time().max(Ns(1)));
        count "gaps" = row.source.gaps;
        count "occurs_in" = row.source.windows, page;
        count "windows" = row.sources.windows as u64, page;
    } }
}

/// Adds the data set; a page shows the sources with the most time.
pub(super) fn add(
    context: &Context<'_>,
    idle: &IdleTime,
    order: &[&StageIdle],
    content: &mut SectionContent,
) {
    let mut rows = Vec::new();
    for line in order {
        let stage = line.label(context);
        rows.extend(rows_of(&stage, Iterations::Steady.label(), &line.sources));
    }
    for phase in &idle.outside {
        let stage = phase.phase.name(context.session, context.facts);
        rows.extend(rows_of(&stage, phase.phase.label(), &phase.sources));
    }
    if rows.is_empty() {
        return;
    }
    rows.arrange_by_key(|row| std::cmp::Reverse(row.source.time));
    let table = table(context);
    let caption = words!(context, "idle.caption_sources");
    let shown = rows.len().min(SHOWN);
    content
        .blocks
        .push(Block::Table(table.view(caption, shown)));
    content.datasets.push(table.rows(&rows));
}

/// The sources for which the host is late, the most time first.
fn rows_of<'a>(stage: &str, phase: &'static str, sources: &'a Sources) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for activity in &sources.activities {
        let of_activity = activity.sources.iter();
        let of_host = of_activity.filter(|source| Cause::HOST.contains(&source.cause));
        for source in of_host.take(LISTED) {
            rows.push(Row {
                stage: stage.to_owned(),
                phase,
                sources,
                activity,
                source,
            });
        }
    }
    rows
}
