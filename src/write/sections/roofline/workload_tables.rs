//! Data sets of the workload roofline.

use std::ops::Div;

use crate::Context;
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::counters::represent::matching::WHOLE;
use rooflens_analysis::counters::roofline::workload::{StageWork, Sum, Totals, Work};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::utilization::mfu::hfu;
use rooflens_document::{Block, Dataset, View};
use rooflens_session::Arrange;
use rooflens_units::{Bytes, BytesPerSecond, FlopsPerSecond, Ratio, Seconds};

/// Rows of the table of kernels in the section.
const SHOWN_KERNELS: usize = 15;

fn label(context: &Context<'_>, stage: &StageWork) -> String {
    stage.summary.label(context.session, context.facts)
}

/// One row a stage.
pub(super) fn stages(context: &Context<'_>, stages: &[StageWork]) -> (Dataset, Block) {
    // Sums over too small a share of the stage are not its own.
    let per_instance = |stage: &StageWork, sum: Option<Bytes>| {
        let sum = sum.filter(|_| stage.covered >= WHOLE)?;
        Some(stage.per_instance(sum))
    };
    let table = columns! { context, "workload_stages", stage: &StageWork => {
        let dram = stage.dram_bytes().ok();
        text "stage" = label(context, stage), page;
        count "instances" = stage.summary.counted;
        time "time_ns" = stage.summary.time, page;
        share "profiled_share" = stage.covered, page;
        Flop "flop" = stage.executed_flops(), page;
        FlopPerSecond "flop_per_second" = {
            let flops = stage.executed_flops().and(stage.totals.all_flops());
            flops.map(|flops| -> FlopsPerSecond { stage.per_second(flops) })
        }, page;
        share "hfu" = hfu(context, stage).ok().map(|hfu| hfu.share), page;
        bytes "dram_bytes" = per_instance(stage, dram), page;
        bytes "dram_bytes_min" = per_instance(stage, dram.map(|_| stage.totals.dram_range.0));
        bytes "dram_bytes_max" = per_instance(stage, dram.map(|_| stage.totals.dram_range.1));
        BytesPerSecond "dram_bytes_per_second" = dram.map(|bytes| -> BytesPerSecond { stage.per_second(bytes) }), page;
        share "profiled_dram_share" = stage.dram_share.ok(), page;
        bytes "l2_bytes" = per_instance(stage, stage.totals.bytes.l2);
        bytes "l1_bytes" = per_instance(stage, stage.totals.bytes.l1);
    } };
    (
        table.rows(stages),
        Block::Table(table.view(words!(context, "workload.stages"), 12)),
    )
}

/// A work in its stage.
type Kernel<'a> = (&'a StageWork, &'a Work);

fn time_share((stage, work): &Kernel<'_>) -> Ratio {
    Ratio::of(work.time, stage.time)
}

/// One row a kernel, grid and size of an outermost stage: the largest share of its stage first.
pub(super) fn kernels(context: &Context<'_>, phases: &[&StageWork]) -> (Dataset, Block) {
    let (identities, rule) = (&context.facts.identities, context.options.classifier);
    let works = phases
        .iter()
        .flat_map(|stage| stage.works.iter().map(|work| (*stage, work)));
    let mut rows: Vec<Kernel<'_>> = works.collect();
    // Equal shares keep the order of stages and groups.
    rows.arrange_by(|a, b| time_share(b).total_cmp(&time_share(a)));
    let intensity = |level| move |(_, work): &Kernel<'_>| work.intensity(level);
    let table = columns! { context, "workload_kernels", row: &Kernel<'_> => {
        let (stage, work) = row;
        name "kernel" = identities[work.kernel.index()].short.as_str(), page;
        text "stage" = label(context, stage), page;
        text "class" = work.class.label();
        text "grid" = work.grid.to_string();
        text "block" = work.block.to_string();
        count "launches" = work.launches, page;
        time "time_ns" = work.time;
        share "time_share" = time_share(row), page;
        text "match" = work.tier.label(), page;
        count "profiled" = work.profiled;
        Flop "flop" = work.flops();
        FlopPerSecond "flop_per_second" = work.per_second::<_, FlopsPerSecond>(work.flops()), page;
        bytes "dram_bytes" = work.bytes.dram;
        bytes "dram_bytes_min" = work.dram.map(|spread| spread.min);
        bytes "dram_bytes_max" = work.dram.map(|spread| spread.max);
        BytesPerSecond "dram_bytes_per_second" = work.per_second::<_, BytesPerSecond>(work.bytes.dram), page;
        FlopPerByte "dram_flop_per_byte" = intensity(Level::Dram)(row), page;
        FlopPerByte "l2_flop_per_byte" = intensity(Level::L2)(row), page;
        FlopPerByte "l1_flop_per_byte" = intensity(Level::L1)(row);
        text "bound" = work.bound(rule).label(), page;
    } };
    let shown = rows.len().min(SHOWN_KERNELS);
    let (some, all) = (shown.to_string(), rows.len().to_string());
    let caption = words!(context, "workload.kernels", shown = some, all = all);
    (table.rows(&rows), Block::Table(table.view(caption, shown)))
}

/// A kernel class of a stage.
struct Class<'a> {
    stage: &'a StageWork,
    class: KernelClass,
    launches: u64,
    totals: Totals,
}

impl Class<'_> {
    fn per_second<A: Div<Seconds>>(&self, sum: Option<A>) -> Option<A::Output> {
        sum.map(|sum| sum / self.totals.time.seconds())
    }
}

/// One row a class of an outermost stage.
pub(super) fn classes(context: &Context<'_>, phases: &[&StageWork]) -> Dataset {
    let of_stage = |stage| {
        KernelClass::ALL.into_iter().filter_map(move |class| {
            let works = || of_class(stage, class);
            let launches = works().map(|work| work.launches).sum();
            (launches > 0).then(|| Class {
                stage,
                class,
                launches,
                totals: Totals::of(works()),
            })
        })
    };
    let rows: Vec<Class<'_>> = phases.iter().copied().flat_map(of_stage).collect();
    columns! { context, "workload_classes", row: &Class<'_> => {
        text "class" = row.class.label();
        text "stage" = label(context, row.stage);
        count "launches" = row.launches;
        time "time_ns" = row.totals.time;
        share "time_share" = row.totals.time / row.stage.time.time();
        Flop "flop" = row.totals.all_flops();
        FlopPerSecond "flop_per_second" = row.per_second(row.totals.all_flops());
        bytes "dram_bytes" = row.totals.bytes.dram;
        BytesPerSecond "dram_bytes_per_second" = row.per_second(row.totals.bytes.dram);
        FlopPerByte "dram_flop_per_byte" = row.totals.intensity();
    } }
    .rows(&rows)
}

/// The works of a class of a stage.
pub(super) fn of_class(stage: &StageWork, class: KernelClass) -> impl Iterator<Item = &Work> {
    stage.works.iter().filter(move |work| work.class == class)
}

/// A bound class of a stage, by both rules; none: not profiled.
struct Bounded<'a> {
    stage: &'a StageWork,
    bound: Option<Bound>,
    rooflens: Sum,
    seed: Sum,
}

/// GPU time of each outermost stage by bound class, by both rules; what was not profiled is a row too.
pub(super) fn bounds(context: &Context<'_>, phases: &[&StageWork]) -> (Dataset, Block) {
    let mut rows = Vec::new();
    for stage in phases.iter().copied() {
        let (rooflens, seed) = (
            stage.bounds(Classifier::Rooflens),
            stage.bounds(Classifier::Seed),
        );
        let occurs = |bound: &Bound| rooflens.contains_key(bound) || seed.contains_key(bound);
        rows.extend(Bound::ALL.into_iter().filter(occurs).map(|bound| Bounded {
            stage,
            bound: Some(bound),
            rooflens: rooflens.get(&bound).copied().unwrap_or_default(),
            seed: seed.get(&bound).copied().unwrap_or_default(),
        }));
        let rest = stage.unprofiled;
        rows.push(Bounded {
            stage,
            bound: None,
            rooflens: rest,
            seed: rest,
        });
    }
    let share = |row: &Bounded<'_>, sum: Sum| sum.time.time().0 / row.stage.time.time().0;
    let table = columns! { context, "workload_bounds", row: &Bounded<'_> => {
        text "stage" = label(context, row.stage), page;
        text "bound" = row.bound.map_or("not profiled", Bound::label), page;
        count "kernels" = row.rooflens.kernels, page;
        count "launches" = row.rooflens.launches, page;
        time "time_ns" = row.rooflens.time, page;
        share "share" = share(row, row.rooflens), page;
        count "seed_kernels" = row.seed.kernels, page;
        count "seed_launches" = row.seed.launches;
        time "seed_time_ns" = row.seed.time;
        share "seed_share" = share(row, row.seed), page;
    } };
    let view: View = table.view(words!(context, "workload.bounds"), 16);
    (table.rows(&rows), Block::Table(view))
}
