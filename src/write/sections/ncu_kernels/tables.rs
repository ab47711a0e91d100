//! The data sets of profiled launches and of their bound classes.

use crate::Context;
use crate::extent;
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::bound::{Bound, THRESHOLDS, Verdict};
use rooflens_analysis::counters::ncu::flops::FlopCount;
use rooflens_analysis::counters::ncu::{Counters, KernelCounters, Level};
use rooflens_analysis::counters::ncu_kernels::{BoundSum, PassBounds};
use rooflens_document::{Block, Dataset, Quantity, Table, View};
use rooflens_session::Arrange;
use rooflens_units::Seconds;

/// Name of the data set of launches.
const LAUNCHES: &str = "profiled_kernels";

/// The columns that the section shows.
const ESSENTIALS: &[&str] = &[
    "kernel",
    "pass",
    "duration_ns",
    "sol_compute_percent",
    "sol_dram_percent",
    "bound",
    "bound_reason",
    "borderline",
    "bound_seed",
];

/// Rows of the table in the section; the data set holds all.
const SHOWN_ROWS: usize = 20;

/// A launch with its class by each rule.
struct Row<'a> {
    kernel: &'a KernelCounters,
    rooflens: Verdict,
    seed: Verdict,
}

/// All launches, the longest first; those without a duration last.
pub(super) fn launches(context: &Context<'_>, counters: &Counters) -> (Dataset, Block) {
    let row = |kernel| Row {
        kernel,
        rooflens: THRESHOLDS.classify(Classifier::Rooflens, kernel),
        seed: THRESHOLDS.classify(Classifier::Seed, kernel),
    };
    let mut rows: Vec<Row<'_>> = counters.launches.iter().map(row).collect();
    rows.arrange_by(|a, b| {
        let time = |row: &Row<'_>| row.kernel.seconds.unwrap_or(Seconds(-1.0));
        time(b)
            .total_cmp(&time(a))
            .then(a.kernel.profile.cmp(&b.kernel.profile))
    });
    let shown = rows.len().min(SHOWN_ROWS);
    let (shown, all) = (shown.to_string(), rows.len().to_string());
    let caption = words!(context, "profiled.launches", shown = shown, all = all);
    let view = View::new(LAUNCHES, caption, ESSENTIALS, SHOWN_ROWS);
    (columns(context).rows(&rows), Block::Table(view))
}

fn columns<'a>(context: &Context<'a>) -> Table<'a, Row<'a>> {
    let (session, text) = (context.session, context.text);
    let profiles = &session.kernel_profiles;
    columns! { Table::new(text, LAUNCHES), row: &Row<'_> => {
        name "kernel" = row.kernel.identity.short.as_str();
        text "pass" = session.pass_name(row.kernel.pass);
        count "launch" = profiles.ordinal[row.kernel.profile.index()];
        name "name" = session.text(row.kernel.name);
        text "class" = row.kernel.identity.class.label();
        text "nvtx" = session.text(profiles.nvtx[row.kernel.profile.index()]);
        text "grid" = extent(row.kernel.grid);
        text "block" = extent(row.kernel.block);
        time "duration_ns" = row.kernel.seconds;
        Percent "sol_compute_percent" = row.kernel.sol.compute;
        Percent "sol_dram_percent" = row.kernel.sol.memory.dram;
        Percent "sol_l2_percent" = row.kernel.sol.memory.l2;
        Percent "sol_l1_percent" = row.kernel.sol.memory.l1;
        Percent "achieved_occupancy_percent" = row.kernel.achieved_occupancy;
        Percent "theoretical_occupancy_percent" = row.kernel.theoretical_occupancy;
        text "waves" = row.kernel.waves;
        count "registers" = row.kernel.registers;
        bytes "dram_bytes" = row.kernel.bytes.dram;
        bytes "l2_bytes" = row.kernel.bytes.l2;
        bytes "l1_bytes" = row.kernel.bytes.l1;
        BytesPerSecond "dram_bytes_per_second" = row.kernel.dram_rate();
        Flop "flop" = row.kernel.flops.total();
        text "flop_dtype" = row.kernel.flops.main().map(|part| part.dtype);
        text "flop_note" = match row.kernel.flops {
            FlopCount::Counted(_) => String::new(),
            FlopCount::NotCounted(reason) => text.line(reason, &[]),
        };
        FlopPerSecond "flop_per_second" = row.kernel.flop_rate();
        FlopPerByte "dram_flop_per_byte" = row.kernel.intensity(Level::Dram);
        Percent "l1_hit_percent" = row.kernel.l1_hit_rate;
        Percent "l2_hit_percent" = row.kernel.l2_hit_rate;
        text "top_stall" = row.kernel.top_stall.as_ref().map(|stall| stall.reason.as_str());
        share "top_stall_share" = row.kernel.top_stall.as_ref().map(|stall| stall.share);
        text "bound" = row.rooflens.bound.label();
        text "bound_reason" = row.rooflens
        .reason
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
        text "borderline" = borderline(&row.rooflens);
        text "next_points" = row.rooflens.next.map(|next| next.points);
        text "next" = row.rooflens.next.map_or("", |next| next.bound.label());
        text "bound_seed" = row.seed.bound.label();
        text "borderline_seed" = borderline(&row.seed);
    } }
}

/// How near another class is, where it is near; empty elsewhere.
fn borderline(verdict: &Verdict) -> String {
    let text = verdict.borderline().map(|next| {
        let points = Quantity::new(next.points.0, rooflens_schemas::Unit::One);
        format!("{points} points from {}", next.bound.label())
    });
    text.unwrap_or_default()
}

/// A bound class of a pass, by both rules.
struct Class<'a> {
    pass: &'a PassBounds,
    bound: Bound,
    rooflens: BoundSum,
    seed: BoundSum,
}

/// Launches, kernels and time of each bound class of each pass, by both rules.
pub(super) fn classes(context: &Context<'_>, passes: &[PassBounds]) -> (Dataset, Block) {
    let mut rows = Vec::new();
    for pass in passes {
        let occurs =
            |bound: &Bound| pass.rooflens.contains_key(bound) || pass.seed.contains_key(bound);
        rows.extend(Bound::ALL.into_iter().filter(occurs).map(|bound| Class {
            pass,
            bound,
            rooflens: pass.rooflens.get(&bound).cloned().unwrap_or_default(),
            seed: pass.seed.get(&bound).cloned().unwrap_or_default(),
        }));
    }
    let table = columns! { context, "bound_classes", row: &Class<'_> => {
        text "bound" = row.bound.label(), page;
        text "pass" = context.session.pass_name(row.pass.pass), page;
        count "launches" = row.rooflens.launches, page;
        count "kernels" = row.rooflens.kernels.len(), page;
        time "duration_ns" = row.rooflens.seconds, page;
        share "share" = row.pass.share(row.rooflens.seconds), page;
        count "seed_launches" = row.seed.launches;
        count "seed_kernels" = row.seed.kernels.len();
        time "seed_duration_ns" = row.seed.seconds;
        share "seed_share" = row.pass.share(row.seed.seconds);
        count "borderline" = row.rooflens.borderline;
    } };
    let mut view = table.view(words!(context, "profiled.classes"), 16);
    view.columns.extend([
        "borderline",
        "seed_launches",
        "seed_duration_ns",
        "seed_share",
    ]);
    (table.rows(&rows), Block::Table(view))
}
