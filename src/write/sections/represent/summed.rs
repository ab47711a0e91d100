//! The section for a run that is known by the sums of its kernels.

use super::{SHOWN, bounds, coverage, launches, metric, summary};
use crate::Context;
use rooflens_analysis::counters::ncu::Counters;
use rooflens_analysis::counters::represent::summed::{SPREAD, Summed, SummedLaunch};
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_document::{Block, Dataset, Inline, SectionContent};

pub(super) fn show(context: &Context<'_>, counters: &Counters, all: &Summed) -> SectionContent {
    let introduction = say!(
        context,
        "represent.of_sums",
        pass = Inline::code(context.session.pass_name(all.pass)),
        covered = all.covered(),
        bounds = bounds(),
        spread = SPREAD,
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
    let table = columns! { context, "representativeness", row: &SummedLaunch => {
        let launch = counters.launch(row.profile);
        let sum = row.sum.clone();
        let middle = sum.and_then(|sum| sum.median.or_else(|| sum.mean()));
        let sum = row.sum.clone();
        name "kernel" = launch.identity.short.as_str(), page;
        text "pass" = session.pass_name(launch.pass);
        count "launch" = session.kernel_profiles.ordinal[row.profile.index()];
        text "grid" = launch.grid.to_string();
        text "block" = launch.block.to_string();
        time "duration_ns" = launch.seconds, page;
        time "median_ns" = middle, page;
        text "ratio" = row.ratio, page;
        count "stands_for" = sum.map(|sum| sum.count), page;
        share "time_share" = row.share, page;
        text "verdict" = launches::verdict(row.likeness, row.how.label(), "run"), page;
        text "match" = row.how.label();
    } };
    let shown = all.launches.len().min(SHOWN);
    let (of, first) = (all.launches.len().to_string(), shown.to_string());
    let caption = words!(context, "represent.launches", shown = first, all = of);
    let view = table.view(caption, shown);
    (table.rows(&all.launches), Block::Table(view))
}

fn gaps(context: &Context<'_>, all: &Summed) -> (Dataset, Option<Block>) {
    let (session, identities) = (context.session, &context.facts.identities);
    let table = columns! { context, "unprofiled_kernels", gap: &KernelSum => {
        let identity = &identities[gap.kernel.index()];
        name "kernel" = identity.short.as_str(), page;
        text "stage" = session.pass_name(gap.pass);
        text "class" = identity.class.label(), page;
        count "launches" = gap.count, page;
        time "time_ns" = gap.total, page;
        share "share" = gap.total.time().0 / all.total.time().0, page;
        name "name" = session.kernel_name(gap.kernel);
    } };
    let view = coverage::gaps_view(context, &table, all.gaps.len());
    (table.rows(&all.gaps), view)
}
