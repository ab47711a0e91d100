//! Every profiled launch against the launches of the timeline that it is said to stand for.

use rooflens_schemas::Unit;

use super::SHOWN;
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::matching::{Group, Matching};
use rooflens_analysis::counters::represent::{Comparison, Likeness, Representativeness};
use rooflens_document::{Block, Dataset, Table, View};

/// The data set, those that stand for most time first, and its view.
pub(super) fn table(
    context: &Context<'_>,
    (counters, matching): (&Counters, &Matching),
    all: &Representativeness,
) -> (Dataset, Block) {
    let (session, facts) = (context.session, context.facts);
    let launch = |row: &Comparison| counters.launch(row.profile);
    let line = |row: &Comparison| row.line.map(|line| &matching.lines[line]);
    let group = |row: &Comparison| Some(&line(row)?.groups[row.group?]);
    let ordinals = &session.kernel_profiles.ordinal;
    let how = |row: &Comparison| matching.kernels[row.profile.index()].how.label();
    let table = Table::new(context.text, "representativeness")
        .name("kernel", |row: &Comparison| {
            launch(row).identity.short.as_str()
        })
        .on_page()
        .text("pass", |row| session.pass_name(launch(row).pass))
        .on_page()
        .count("launch", |row| ordinals[row.profile.index()])
        .on_page()
        .text("stage", |row| {
            line(row).map(|line| line.summary.label(session, facts))
        })
        .on_page()
        .text("grid", |row| launch(row).grid.to_string())
        .text("block", |row| launch(row).block.to_string())
        .time("duration_ns", |row| {
            launch(row).seconds.map(|seconds| seconds * 1e9)
        })
        .on_page()
        .time("median_ns", |row| group(row).and_then(Group::median))
        .on_page()
        .column("ratio", Unit::One, |row| row.ratio)
        .on_page()
        .share("alike_share", |row| group(row).and_then(Group::alike))
        .count("stands_for", |row| group(row).map(|group| group.launches))
        .on_page()
        .share("time_share", |row| row.share)
        .on_page()
        .text("verdict", |row| {
            let stage = line(row).map(|line| line.summary.stage(facts).name.as_str());
            verdict(row.likeness, how(row), stage.unwrap_or("any stage"))
        })
        .on_page()
        .text("match", how);
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
