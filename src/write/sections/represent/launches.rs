//! Every profiled launch against the launches of the timeline that it is said to represent.

use super::SHOWN;
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::matching::{Group, Matching};
use rooflens_analysis::counters::represent::{Comparison, Likeness, Representativeness};
use rooflens_document::{Block, Dataset, View};

/// The data set, those that represent most time first, and its view.
pub(super) fn table(
    context: &Context<'_>,
    (counters, matching): (&Counters, &Matching),
    all: &Representativeness,
) -> (Dataset, Block) {
    let (session, facts) = (context.session, context.facts);
    let ordinals = &session.kernel_profiles.ordinal;
    let table = columns! { context, "representativeness", row: &Comparison => {
        let launch = counters.launch(row.profile);
        let line = row.line.map(|line| &matching.lines[line]);
        let group = Some(&line?.groups[row.group?]);
        let how = matching.kernels[row.profile.index()].how.label();
        name "kernel" = launch.identity.short.as_str(), page;
        text "pass" = session.pass_name(launch.pass), page;
        count "launch" = ordinals[row.profile.index()], page;
        text "stage" = line.map(|line| line.summary.label(session, facts)), page;
        text "grid" = launch.grid.to_string();
        text "block" = launch.block.to_string();
        time "duration_ns" = launch.seconds, page;
        time "median_ns" = group.and_then(Group::median), page;
        text "ratio" = row.ratio, page;
        share "alike_share" = group.and_then(Group::alike);
        count "stands_for" = group.map(|group| group.launches), page;
        share "time_share" = row.share, page;
        text "verdict" = {
            let stage = line.map(|line| line.summary.stage(facts).name.as_str());
            verdict(row.likeness, how, stage.unwrap_or("any stage"))
        }, page;
        text "match" = how;
    } };
    let shown = all.launches.len().min(SHOWN);
    let (of, shown_rows) = (all.launches.len().to_string(), shown.to_string());
    let caption = words!(context, "represent.launches", shown = shown_rows, all = of);
    let view: View = table.view(caption, shown);
    (table.rows(&all.launches), Block::Table(view))
}

pub(super) fn verdict(likeness: Likeness, how: &str, stage: &str) -> String {
    match likeness {
        Likeness::NotInTimeline => format!("kernel not in the timeline ({how})"),
        Likeness::NoGrid => format!("grid does not occur in {stage}"),
        Likeness::NoKernel => format!("kernel does not occur in {stage}"),
        Likeness::NoDuration => "no duration".to_owned(),
        Likeness::Longer => "longer than the median".to_owned(),
        Likeness::Shorter => "shorter than the median".to_owned(),
        Likeness::Mixed => "launches of this grid differ".to_owned(),
        Likeness::Representative => "representative".to_owned(),
    }
}
