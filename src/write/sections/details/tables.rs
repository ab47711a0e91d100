//! The data sets of launches, groups, rules and histograms.

use rooflens_schemas::Unit;

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
    Table::new(context.text, "deep_dive")
        .name("kernel", |(kernel, _): &Row<'_>| {
            kernel.identity.short.as_str()
        })
        .text("pass", |(kernel, _)| session.pass_name(kernel.pass))
        .count("launch", |(kernel, _)| {
            profiles.ordinal[kernel.profile.index()]
        })
        .text("nvtx", |(kernel, _)| {
            session.text(profiles.nvtx[kernel.profile.index()])
        })
        .text("grid", |(kernel, _)| extent(kernel.grid))
        .text("block", |(kernel, _)| extent(kernel.block))
        .text("limiter", |(_, launch)| launch.figures.limiter())
        .with(|table| figures(table, |row| &row.1.figures, |row| row.1.stalls.as_ref()))
        .rows(&rows)
}

/// All groups, by pass.
pub(super) fn groups(context: &Context<'_>, passes: &[PassDetails]) -> Dataset {
    let session = context.session;
    type Row<'a> = (&'a PassDetails, &'a Group);
    let rows: Vec<Row<'_>> = passes
        .iter()
        .flat_map(|pass| pass.groups.iter().map(move |one| (pass, one)))
        .collect();
    Table::new(context.text, GROUPS)
        .name("kernel", |(_, group): &Row<'_>| group.short.as_str())
        .text("pass", |(pass, _)| session.pass_name(pass.pass))
        .name("name", |(_, group)| session.text(group.name))
        .text("grid", |(_, group)| extent(group.grid))
        .text("block", |(_, group)| extent(group.block))
        .count("launches", |(_, group)| group.launches)
        .time("time_ns", |(_, group)| group.seconds * 1e9)
        .share("time_share", |(_, group)| group.share)
        .time("timeline_ns", |(_, group)| group.stands_for)
        .text("limiter", |(_, group)| group.figures.limiter())
        .text("top_stall", |(_, group)| {
            Some(ranked(group.stalls.as_ref()?).first()?.0.reason)
        })
        .with(|table| figures(table, |row| &row.1.figures, |row| row.1.stalls.as_ref()))
        .rows(&rows)
}

/// Adds one column a figure and one a warp state.
fn figures<'t, R>(
    table: Table<'t, R>,
    of: fn(&R) -> &Figures,
    states: fn(&R) -> Option<&Shares>,
) -> Table<'t, R>
where
    R: 't,
{
    let table = Figure::ALL.iter().fold(table, |table, figure| {
        let (id, unit) = figure.column();
        table.column(id, unit, move |row| of(row).get(*figure))
    });
    STATES.iter().enumerate().fold(table, |table, (at, state)| {
        table.share(state.column, move |row| {
            states(row).map(|shares| shares[at])
        })
    })
}

/// What ncu's rules estimate.
pub(super) fn rules(context: &Context<'_>, passes: &[PassDetails]) -> Dataset {
    let session = context.session;
    type Row<'a> = (&'a PassDetails, &'a RuleSum);
    let rows: Vec<Row<'_>> = passes
        .iter()
        .flat_map(|pass| pass.rules.iter().map(move |sum| (pass, sum)))
        .collect();
    Table::new(context.text, RULES)
        .text("rule", |(_, sum): &Row<'_>| session.text(sum.rule))
        .text("pass", |(pass, _)| session.pass_name(pass.pass))
        .text("section", |(_, sum)| session.text(sum.section))
        .count("launches", |(_, sum)| sum.launches)
        .time("time_ns", |(_, sum)| sum.seconds * 1e9)
        .share("time_share", |(pass, sum)| pass.share(sum.seconds))
        .time("saved_ns", |(_, sum)| sum.saved.map(|saved| saved * 1e9))
        .share("saved_share", |(pass, sum)| pass.share(sum.saved?))
        .column("local_percent", Unit::Percent, |(_, sum)| sum.local)
        .text("remark", |(_, sum)| session.text(sum.remark))
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
    Table::new(context.text, "deep_dive_histograms")
        .text("figure", |(_, histogram, _): &Row<'_>| {
            histogram.figure.column().0
        })
        .text("pass", |(pass, ..)| session.pass_name(pass.pass))
        .text("from", move |(_, histogram, bin)| end(histogram, *bin))
        .text("to", move |(_, histogram, bin)| end(histogram, bin + 1))
        .count("launches", |(_, histogram, bin)| histogram.bins[*bin].0)
        .time("time_ns", |(_, histogram, bin)| {
            histogram.bins[*bin].1 * 1e9
        })
        .rows(&rows)
}
