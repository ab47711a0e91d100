//! The section for a run that is known by the sums of its kernels.

use super::{SHOWN, bounds, coverage, launches, metric, summary};
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::summed::{SPREAD, Summed, SummedLaunch};
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::{Block, Dataset, Inline, Quantity, SectionContent, Table};
use rooflens_schemas::Unit;

pub(super) fn show(context: &Context<'_>, counters: &Counters, all: &Summed) -> SectionContent {
    let introduction = say!(
        context,
        "represent.of_sums",
        pass = Inline::code(context.session.pass_name(all.pass)),
        covered = Quantity::ratio(all.covered()),
        bounds = bounds(),
        spread = Quantity::ratio(SPREAD),
    );
    let mut blocks = vec![Block::Prose(introduction)];
    blocks.extend(
        all.passes
            .iter()
            .map(|(pass, sums)| summary(context, *pass, sums)),
    );
    let (launches, of_launches) = table(context, counters, all);
    let (gaps, of_gaps) = gaps(context, all);
    blocks.push(of_launches);
    blocks.extend(of_gaps);
    let metrics = all
        .passes
        .iter()
        .map(|(pass, sums)| metric(context, counters, (*pass, sums)));
    SectionContent {
        blocks,
        metrics: metrics.collect(),
        datasets: vec![launches, gaps],
        ..SectionContent::default()
    }
}

fn table(context: &Context<'_>, counters: &Counters, all: &Summed) -> (Dataset, Block) {
    let session = context.session;
    let launch = |row: &SummedLaunch| counters.launch(row.profile);
    let sum = |row: &SummedLaunch| row.sum.clone();
    let middle =
        move |row: &SummedLaunch| sum(row).and_then(|own| own.median.or_else(|| own.mean()));
    let sum = |row: &SummedLaunch| row.sum.clone();
    let table = Table::new(context.text, "representativeness")
        .name("kernel", |row: &SummedLaunch| {
            launch(row).identity.short.as_str()
        })
        .on_page()
        .text("pass", |row| session.pass_name(launch(row).pass))
        .count("launch", |row| {
            session.kernel_profiles.ordinal[row.profile.index()]
        })
        .text("grid", |row| launch(row).grid.to_string())
        .text("block", |row| launch(row).block.to_string())
        .time("duration_ns", |row| {
            launch(row).seconds.map(|seconds| seconds * 1e9)
        })
        .on_page()
        .time("median_ns", middle)
        .on_page()
        .column("ratio", Unit::One, |row| row.ratio)
        .on_page()
        .count("stands_for", move |row| sum(row).map(|own| own.count))
        .on_page()
        .share("time_share", |row| row.share)
        .on_page()
        .text("verdict", |row| {
            launches::verdict(row.likeness, row.how.label(), "run")
        })
        .on_page()
        .text("match", |row| row.how.label());
    let shown = all.launches.len().min(SHOWN);
    let (of, first) = (all.launches.len().to_string(), shown.to_string());
    let caption = words!(context, "represent.launches", shown = first, all = of);
    let view = table.view(caption, shown);
    (table.rows(&all.launches), Block::Table(view))
}

fn gaps(context: &Context<'_>, all: &Summed) -> (Dataset, Option<Block>) {
    let (session, identities) = (context.session, &context.facts.identities);
    let identity = |gap: &KernelSum| &identities[gap.kernel.index()];
    let table = Table::new(context.text, "unprofiled_kernels")
        .name("kernel", |gap: &KernelSum| identity(gap).short.as_str())
        .on_page()
        .text("stage", |gap| session.pass_name(gap.pass))
        .text("class", |gap| identity(gap).class.label())
        .on_page()
        .count("launches", |gap| gap.count)
        .on_page()
        .time("time_ns", |gap| gap.total)
        .on_page()
        .share("share", |gap| gap.total as f64 / all.total as f64)
        .on_page()
        .name("name", |gap| session.kernel_name(gap.kernel));
    let view = coverage::gaps_view(context, &table, all.gaps.len());
    (table.rows(&all.gaps), view)
}
