//! The data sets of launches, groups, rules and histograms.

use rooflens_schemas::Unit;

use crate::extent;
use rooflens_analysis::Context;
use rooflens_analysis::counters::details::figures::{Figure, Figures};
use rooflens_analysis::counters::details::groups::{Group, Launch};
use rooflens_analysis::counters::details::histograms::{BINS, Histogram};
use rooflens_analysis::counters::details::remarks::RuleSum;
use rooflens_analysis::counters::details::stalls::{STATES, Shares, ranked};
use rooflens_analysis::counters::details::{Details, PassDetails};
use rooflens_analysis::counters::ncu::{Counters, KernelCounters};
use rooflens_findings::{Dataset, Table};
use rooflens_model::Session;

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
pub(super) const RULE_ESSENTIALS: &[&str] =
    &["rule", "section", "launches", "time_share", "saved_ns", "saved_share", "local_percent"];

/// All launches, by pass.
pub(super) fn launches(context: &Context<'_>, counters: &Counters, details: &Details) -> Dataset {
    type Row<'a> = (&'a KernelCounters, &'a Launch);
    let (session, profiles) = (context.session, &context.session.kernel_profiles);
    let ids = details.passes.iter().flat_map(|pass| &pass.launches);
    let rows: Vec<Row<'_>> = ids.map(|id| (counters.launch(*id), details.launch(*id))).collect();
    Table::new("deep_dive", "Profiled launches in depth")
        .name("kernel", "Kernel", |(kernel, _): &Row<'_>| kernel.identity.short.as_str())
        .text("pass", "Pass", |(kernel, _)| session.pass_name(kernel.pass))
        .count("launch", "Launch", |(kernel, _)| profiles.ordinal[kernel.profile.index()])
        .text("nvtx", "NVTX", |(kernel, _)| session.text(profiles.nvtx[kernel.profile.index()]))
        .text("grid", "Grid", |(kernel, _)| extent(kernel.grid))
        .text("block", "Block", |(kernel, _)| extent(kernel.block))
        .text("limiter", "Limiter", |(_, launch)| launch.figures.limiter())
        .with(|table| figures(table, |row| &row.1.figures, |row| row.1.stalls.as_ref()))
        .rows(&rows)
}

/// All groups, by pass.
pub(super) fn groups(session: &Session, passes: &[PassDetails]) -> Dataset {
    type Row<'a> = (&'a PassDetails, &'a Group);
    let rows: Vec<Row<'_>> =
        passes.iter().flat_map(|pass| pass.groups.iter().map(move |one| (pass, one))).collect();
    let title = "Groups of launches of one kernel, grid and block in depth";
    Table::new(GROUPS, title)
        .name("kernel", "Kernel", |(_, group): &Row<'_>| group.short.as_str())
        .text("pass", "Pass", |(pass, _)| session.pass_name(pass.pass))
        .name("name", "Full name", |(_, group)| session.text(group.name))
        .text("grid", "Grid", |(_, group)| extent(group.grid))
        .text("block", "Block", |(_, group)| extent(group.block))
        .count("launches", "Launches", |(_, group)| group.launches)
        .time("time_ns", "Time", |(_, group)| group.seconds * 1e9)
        .share("time_share", "Share", |(_, group)| group.share)
        .time("timeline_ns", "Stands for", |(_, group)| group.stands_for)
        .text("limiter", "Limiter", |(_, group)| group.figures.limiter())
        .text("top_stall", "Top stall", |(_, group)| {
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
        let (id, title, unit) = figure.column();
        table.column(id, title, unit, move |row| of(row).get(*figure))
    });
    STATES.iter().enumerate().fold(table, |table, (at, state)| {
        table.share(state.column, state.reason, move |row| states(row).map(|shares| shares[at]))
    })
}

/// What ncu's rules estimate.
pub(super) fn rules(session: &Session, passes: &[PassDetails]) -> Dataset {
    type Row<'a> = (&'a PassDetails, &'a RuleSum);
    let rows: Vec<Row<'_>> =
        passes.iter().flat_map(|pass| pass.rules.iter().map(move |sum| (pass, sum))).collect();
    Table::new(RULES, "What ncu's rules estimate, by pass and rule")
        .text("rule", "Rule", |(_, sum): &Row<'_>| session.text(sum.rule))
        .text("pass", "Pass", |(pass, _)| session.pass_name(pass.pass))
        .text("section", "Section", |(_, sum)| session.text(sum.section))
        .count("launches", "Launches", |(_, sum)| sum.launches)
        .time("time_ns", "Time", |(_, sum)| sum.seconds * 1e9)
        .share("time_share", "Share", |(pass, sum)| pass.share(sum.seconds))
        .time("saved_ns", "Saved", |(_, sum)| sum.saved.map(|saved| saved * 1e9))
        .share("saved_share", "Saved share", |(pass, sum)| pass.share(sum.saved?))
        .column("local_percent", "Local", Unit::Percent, |(_, sum)| sum.local)
        .text("remark", "Remark on the longest launch", |(_, sum)| session.text(sum.remark))
        .rows(&rows)
}

/// How figures spread.
pub(super) fn histograms(session: &Session, passes: &[PassDetails]) -> Dataset {
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
    Table::new("deep_dive_histograms", "Histograms of figures over profiled launches")
        .text("figure", "Figure", |(_, histogram, _): &Row<'_>| histogram.figure.column().0)
        .text("pass", "Pass", |(pass, ..)| session.pass_name(pass.pass))
        .text("from", "From", move |(_, histogram, bin)| end(histogram, *bin))
        .text("to", "To", move |(_, histogram, bin)| end(histogram, bin + 1))
        .count("launches", "Launches", |(_, histogram, bin)| histogram.bins[*bin].0)
        .time("time_ns", "Time", |(_, histogram, bin)| histogram.bins[*bin].1 * 1e9)
        .rows(&rows)
}
