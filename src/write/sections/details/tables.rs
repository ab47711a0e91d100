//! The data sets of launches, groups, rules and histograms.

use crate::Context;
use crate::extent;
use rooflens_analysis::counters::details::figures::{Figure, Figures};
use rooflens_analysis::counters::details::groups::{Group, Launch};
use rooflens_analysis::counters::details::histograms::{BINS, Histogram};
use rooflens_analysis::counters::details::remarks::RuleSum;
use rooflens_analysis::counters::details::stalls::{STATES, Shares, ranked};
use rooflens_analysis::counters::details::{Details, PassDetails};
use rooflens_analysis::counters::ncu::{Counters, KernelCounters};
use rooflens_document::{Dataset, Table};

/// Data set of groups.
pub(super) const GROUPS: &str = "deep_dive_groups";

/// The columns of groups that the section shows.
pub(super) const ESSENTIALS: &[&str] = &[
    "kernel",
    "launches",
    "time_share",
    "achieved_occupancy_percent",
    "limiter",
    "no_eligible_percent",
    "tensor_pipe_percent",
    "waves",
    "tail_percent",
    "top_stall",
];

/// Data set of rules.
pub(super) const RULES: &str = "deep_dive_rules";

/// The columns of rules that the section shows.
pub(super) const RULE_ESSENTIALS: &[&str] = &[
    "rule",
    "section",
    "launches",
    "time_share",
    "saved_ns",
    "saved_share",
    "local_percent",
];

/// All launches, by pass.
pub(super) fn launches(context: &Context<'_>, counters: &Counters, details: &Details) -> Dataset {
    type Row<'a> = (&'a KernelCounters, &'a Launch);
    let (session, profiles) = (context.session, &context.session.kernel_profiles);
    let ids = details.passes.iter().flat_map(|pass| &pass.launches);
    let rows: Vec<Row<'_>> = ids
        .map(|id| (counters.launch(*id), details.launch(*id)))
        .collect();
    columns! { context, "deep_dive", (kernel, launch): &Row<'_> => {
        name "kernel" = kernel.identity.short.as_str();
        text "pass" = session.pass_name(kernel.pass);
        count "launch" = profiles.ordinal[kernel.profile.index()];
        text "nvtx" = session.text(profiles.nvtx[kernel.profile.index()]);
        text "grid" = extent(kernel.grid);
        text "block" = extent(kernel.block);
        text "limiter" = launch.figures.limiter();
        with figures() of &launch.figures;
        with states() of &launch.stalls;
    } }
    .rows(&rows)
}

/// All groups, by pass.
pub(super) fn groups(context: &Context<'_>, passes: &[PassDetails]) -> Dataset {
    let session = context.session;
    type Row<'a> = (&'a PassDetails, &'a Group);
    let rows: Vec<Row<'_>> = passes
        .iter()
        .flat_map(|pass| pass.groups.iter().map(move |group| (pass, group)))
        .collect();
    columns! { context, GROUPS, (pass, group): &Row<'_> => {
        name "kernel" = group.short.as_str();
        text "pass" = session.pass_name(pass.pass);
        name "name" = session.text(group.name);
        text "grid" = extent(group.grid);
        text "block" = extent(group.block);
        count "launches" = group.launches;
        time "time_ns" = group.seconds;
        share "time_share" = group.share;
        time "timeline_ns" = group.stands_for;
        text "limiter" = group.figures.limiter();
        text "top_stall" = Some(ranked(group.stalls.as_ref()?).first()?.0.reason);
        with figures() of &group.figures;
        with states() of &group.stalls;
    } }
    .rows(&rows)
}

/// A column a figure.
fn figures(mut table: Table<'_, Figures>) -> Table<'_, Figures> {
    for figure in Figure::ALL {
        let (id, unit) = figure.column();
        table = table.column(id, unit, move |figures| figures.get(*figure));
    }
    table
}

/// A column a warp state.
fn states(mut table: Table<'_, Option<Shares>>) -> Table<'_, Option<Shares>> {
    for (position, state) in STATES.iter().enumerate() {
        table = columns! { table, shares: &Option<Shares> => {
            share (state.column) = Some(shares.as_ref()?[position]);
        } };
    }
    table
}

/// What ncu's rules estimate.
pub(super) fn rules(context: &Context<'_>, passes: &[PassDetails]) -> Dataset {
    let session = context.session;
    type Row<'a> = (&'a PassDetails, &'a RuleSum);
    let rows: Vec<Row<'_>> = passes
        .iter()
        .flat_map(|pass| pass.rules.iter().map(move |sum| (pass, sum)))
        .collect();
    columns! { context, RULES, (pass, sum): &Row<'_> => {
        text "rule" = session.text(sum.rule);
        text "pass" = session.pass_name(pass.pass);
        text "section" = session.text(sum.section);
        count "launches" = sum.launches;
        time "time_ns" = sum.seconds;
        share "time_share" = pass.share(sum.seconds);
        time "saved_ns" = sum.saved;
        share "saved_share" = pass.share(sum.saved?);
        Percent "local_percent" = sum.local;
        text "remark" = session.text(sum.remark);
    } }
    .rows(&rows)
}

/// How figures spread.
pub(super) fn histograms(context: &Context<'_>, passes: &[PassDetails]) -> Dataset {
    let session = context.session;
    type Row<'a> = (&'a PassDetails, &'a Histogram, usize);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for pass in passes {
        let bins = |histogram| (0..BINS).map(move |bin| (pass, histogram, bin));
        rows.extend(pass.histograms.iter().flat_map(bins));
    }
    let end = |histogram: &Histogram, bin: usize| {
        let (low, width) = histogram.range;
        low + width * bin as f64
    };
    columns! { context, "deep_dive_histograms", (pass, histogram, bin): &Row<'_> => {
        text "figure" = histogram.figure.column().0;
        text "pass" = session.pass_name(pass.pass);
        text "from" = end(histogram, *bin);
        text "to" = end(histogram, bin + 1);
        count "launches" = histogram.bins[*bin].0;
        time "time_ns" = histogram.bins[*bin].1;
    } }
    .rows(&rows)
}
