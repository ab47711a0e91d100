//! Data sets of the workload roofline.

use rooflens_schemas::Unit::{BytesPerSecond, Flop, FlopPerByte, FlopPerSecond};

use crate::Context;
use rooflens_analysis::Classifier;
use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::counters::represent::matching::WHOLE;
use rooflens_analysis::counters::roofline::workload::{StageWork, Sum, Totals, Work};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::utilization::mfu::hfu;
use rooflens_document::{Block, Dataset, Table, View};
use rooflens_session::Arrange;

/// Rows of the table of kernels in the section.
const SHOWN_KERNELS: usize = 15;

fn label(context: &Context<'_>, stage: &StageWork) -> String {
    stage.summary.label(context.session, context.facts)
}

/// One row a stage.
pub(super) fn stages(context: &Context<'_>, stages: &[StageWork]) -> (Dataset, Block) {
    let dram = |stage: &StageWork| stage.dram_bytes().ok();
    // Sums over too small a share of the stage are not its own.
    let each = |stage: &StageWork, sum: Option<f64>| {
        sum.filter(|_| stage.covered >= WHOLE)
            .map(|sum| stage.per_instance(sum))
    };
    let table = Table::new(context.text, "workload_stages")
        .text("stage", |stage: &StageWork| label(context, stage))
        .on_page()
        .count("instances", |stage| stage.summary.counted)
        .time("time_ns", |stage| stage.summary.time)
        .on_page()
        .share("profiled_share", |stage| stage.covered)
        .on_page()
        .column("flop", Flop, |stage| stage.executed_flops())
        .on_page()
        .column("flop_per_second", FlopPerSecond, |stage| {
            let flops = stage.executed_flops().and(stage.totals.all_flops());
            flops.map(|flops| stage.per_second(flops))
        })
        .on_page()
        .share("hfu", |stage| hfu(context, stage).ok().map(|hfu| hfu.share))
        .on_page()
        .bytes("dram_bytes", move |stage| each(stage, dram(stage)))
        .on_page()
        .bytes("dram_bytes_min", move |stage| {
            each(stage, dram(stage).map(|_| stage.totals.dram_range.0))
        })
        .bytes("dram_bytes_max", move |stage| {
            each(stage, dram(stage).map(|_| stage.totals.dram_range.1))
        })
        .column("dram_bytes_per_second", BytesPerSecond, move |stage| {
            dram(stage).map(|bytes| stage.per_second(bytes))
        })
        .on_page()
        .share("profiled_dram_share", |stage| stage.dram_share.ok())
        .on_page()
        .bytes("l2_bytes", move |stage| each(stage, stage.totals.bytes.l2))
        .bytes("l1_bytes", move |stage| each(stage, stage.totals.bytes.l1));
    (
        table.rows(stages),
        Block::Table(table.view(words!(context, "workload.stages"), 12)),
    )
}

/// A work in its stage.
type Kernel<'a> = (&'a StageWork, &'a Work);

fn time_share((stage, work): &Kernel<'_>) -> f64 {
    work.time as f64 / stage.time as f64
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
    let table = Table::new(context.text, "workload_kernels")
        .name("kernel", |(_, work): &Kernel<'_>| {
            identities[work.kernel.index()].short.as_str()
        })
        .on_page()
        .text("stage", |(stage, _)| label(context, stage))
        .on_page()
        .text("class", |(_, work)| work.class.label())
        .text("grid", |(_, work)| work.grid.to_string())
        .text("block", |(_, work)| work.block.to_string())
        .count("launches", |(_, work)| work.launches)
        .on_page()
        .time("time_ns", |(_, work)| work.time)
        .share("time_share", time_share)
        .on_page()
        .text("match", |(_, work)| work.tier.label())
        .on_page()
        .count("profiled", |(_, work)| work.profiled)
        .column("flop", Flop, |(_, work)| work.flops())
        .column("flop_per_second", FlopPerSecond, |(_, work)| {
            work.per_second(work.flops())
        })
        .on_page()
        .bytes("dram_bytes", |(_, work)| work.bytes.dram)
        .bytes("dram_bytes_min", |(_, work)| {
            work.dram.map(|spread| spread.min)
        })
        .bytes("dram_bytes_max", |(_, work)| {
            work.dram.map(|spread| spread.max)
        })
        .column("dram_bytes_per_second", BytesPerSecond, |(_, work)| {
            work.per_second(work.bytes.dram)
        })
        .on_page()
        .column("dram_flop_per_byte", FlopPerByte, intensity(Level::Dram))
        .on_page()
        .column("l2_flop_per_byte", FlopPerByte, intensity(Level::L2))
        .on_page()
        .column("l1_flop_per_byte", FlopPerByte, intensity(Level::L1))
        .text("bound", move |(_, work)| work.bound(rule).label())
        .on_page();
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
    fn per_second(&self, sum: Option<f64>) -> Option<f64> {
        sum.map(|sum| sum / (self.totals.time / 1e9))
    }
}

/// One row a class of an outermost stage.
pub(super) fn classes(context: &Context<'_>, phases: &[&StageWork]) -> Dataset {
    let of_stage = |stage| {
        KernelClass::ALL.into_iter().filter_map(move |class| {
            let own = || of_class(stage, class);
            let launches = own().map(|work| work.launches).sum();
            (launches > 0).then(|| Class {
                stage,
                class,
                launches,
                totals: Totals::of(own()),
            })
        })
    };
    let rows: Vec<Class<'_>> = phases.iter().copied().flat_map(of_stage).collect();
    Table::new(context.text, "workload_classes")
        .text("class", |row: &Class<'_>| row.class.label())
        .text("stage", |row| label(context, row.stage))
        .count("launches", |row| row.launches)
        .time("time_ns", |row| row.totals.time)
        .share("time_share", |row| row.totals.time / row.stage.time as f64)
        .column("flop", Flop, |row| row.totals.all_flops())
        .column("flop_per_second", FlopPerSecond, |row| {
            row.per_second(row.totals.all_flops())
        })
        .bytes("dram_bytes", |row| row.totals.bytes.dram)
        .column("dram_bytes_per_second", BytesPerSecond, |row| {
            row.per_second(row.totals.bytes.dram)
        })
        .column("dram_flop_per_byte", FlopPerByte, |row| {
            row.totals.intensity()
        })
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
    let share = |row: &Bounded<'_>, sum: Sum| sum.time as f64 / row.stage.time as f64;
    let table = Table::new(context.text, "workload_bounds")
        .text("stage", |row: &Bounded<'_>| label(context, row.stage))
        .on_page()
        .text("bound", |row| {
            row.bound.map_or("not profiled", Bound::label)
        })
        .on_page()
        .count("kernels", |row| row.rooflens.kernels)
        .on_page()
        .count("launches", |row| row.rooflens.launches)
        .on_page()
        .time("time_ns", |row| row.rooflens.time)
        .on_page()
        .share("share", move |row| share(row, row.rooflens))
        .on_page()
        .count("seed_kernels", |row| row.seed.kernels)
        .on_page()
        .count("seed_launches", |row| row.seed.launches)
        .time("seed_time_ns", |row| row.seed.time)
        .share("seed_share", move |row| share(row, row.seed))
        .on_page();
    let view: View = table.view(words!(context, "workload.bounds"), 16);
    (table.rows(&rows), Block::Table(view))
}
