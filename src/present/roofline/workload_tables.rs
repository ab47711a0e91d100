//! Data sets of the workload roofline.

use rooflens_schemas::Unit::{BytesPerSecond, Flop, FlopPerByte, FlopPerSecond};

use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::counters::represent::matching::ENOUGH;
use rooflens_analysis::counters::roofline::workload::{StageWork, Sum, Totals, Work};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::{Classifier, Context};
use rooflens_findings::{Block, Dataset, Table, View};

/// Rows of the table of kernels in the section.
const SHOWN_KERNELS: usize = 15;

fn label(context: &Context<'_>, stage: &StageWork) -> String {
    stage.summary.label(context.session, context.facts)
}

/// Sums over a small share of the stage say nothing of it.
fn enough(stage: &StageWork, sum: Option<f64>) -> Option<f64> {
    sum.filter(|_| stage.covered >= ENOUGH)
}

/// One row a stage.
pub(super) fn stages(context: &Context<'_>, stages: &[StageWork]) -> (Dataset, Block) {
    let flops = |stage: &StageWork| enough(stage, stage.totals.all_flops());
    let dram = |stage: &StageWork| enough(stage, stage.totals.bytes.dram);
    let each = |stage: &StageWork, sum: Option<f64>| sum.map(|sum| stage.per_instance(sum));
    let title = "Executed work per stage, from counters of profiled launches";
    let table = Table::new("workload_stages", title)
        .text("stage", "Stage", |stage: &StageWork| label(context, stage))
        .on_page()
        .count("instances", "Instances", |stage| stage.summary.counted)
        .time("time_ns", "Stage time", |stage| stage.summary.time)
        .on_page()
        .share("profiled_share", "Profiled", |stage| stage.covered)
        .on_page()
        .column("flop", "FLOPs", Flop, move |stage| each(stage, flops(stage)))
        .on_page()
        .column("flop_per_second", "FLOP rate", FlopPerSecond, move |stage| {
            flops(stage).map(|flops| stage.per_second(flops))
        })
        .on_page()
        .share("hfu", "HFU", |stage| stage.hfu.as_ref().ok().map(|hfu| hfu.share))
        .on_page()
        .bytes("dram_bytes", "DRAM bytes", move |stage| each(stage, dram(stage)))
        .on_page()
        .bytes("dram_bytes_min", "DRAM bytes, least", move |stage| {
            each(stage, dram(stage).map(|_| stage.totals.dram_range.0))
        })
        .bytes("dram_bytes_max", "DRAM bytes, most", move |stage| {
            each(stage, dram(stage).map(|_| stage.totals.dram_range.1))
        })
        .column("dram_bytes_per_second", "DRAM rate", BytesPerSecond, move |stage| {
            dram(stage).map(|bytes| stage.per_second(bytes))
        })
        .on_page()
        .share("profiled_dram_share", "Of bandwidth", |stage| stage.dram_share.ok())
        .on_page()
        .bytes("l2_bytes", "L2 bytes", move |stage| each(stage, stage.totals.bytes.l2))
        .bytes("l1_bytes", "L1 bytes", move |stage| each(stage, stage.totals.bytes.l1));
    (table.rows(stages), Block::Table(table.view("Executed work per stage", 12)))
}

/// A work in its stage.
type Kernel<'a> = (&'a StageWork, &'a Work);

fn time_share((stage, work): &Kernel<'_>) -> f64 {
    work.time as f64 / stage.time as f64
}

/// One row a kernel, grid and size of an outermost stage: the largest share of its stage first.
pub(super) fn kernels(context: &Context<'_>, phases: &[&StageWork]) -> (Dataset, Block) {
    let (identities, rule) = (&context.facts.identities, context.options.classifier);
    let works = phases.iter().flat_map(|stage| stage.works.iter().map(|work| (*stage, work)));
    let mut rows: Vec<Kernel<'_>> = works.collect();
    // Equal shares keep the order of stages and groups.
    rows.sort_by(|a, b| time_share(b).total_cmp(&time_share(a)));
    let intensity = |level| move |(_, work): &Kernel<'_>| work.intensity(level);
    let title = "Kernels of the workload with the counters that stand for them";
    let table = Table::new("workload_kernels", title)
        .name("kernel", "Kernel", |(_, work): &Kernel<'_>| {
            identities[work.kernel.index()].short.as_str()
        })
        .on_page()
        .text("stage", "Stage", |(stage, _)| label(context, stage))
        .on_page()
        .text("class", "Class", |(_, work)| work.class.label())
        .text("grid", "Grid", |(_, work)| work.grid.to_string())
        .text("block", "Block", |(_, work)| work.block.to_string())
        .count("launches", "Launches", |(_, work)| work.launches)
        .on_page()
        .time("time_ns", "Time", |(_, work)| work.time)
        .share("time_share", "Share", time_share)
        .on_page()
        .text("match", "Match", |(_, work)| work.tier.label())
        .on_page()
        .count("profiled", "Profiled launches", |(_, work)| work.profiled)
        .column("flop", "FLOPs a launch", Flop, |(_, work)| work.flops())
        .column("flop_per_second", "FLOP rate", FlopPerSecond, |(_, work)| {
            work.per_second(work.flops())
        })
        .on_page()
        .bytes("dram_bytes", "DRAM bytes a launch", |(_, work)| work.bytes.dram)
        .bytes("dram_bytes_min", "Least", |(_, work)| work.dram.map(|spread| spread.min))
        .bytes("dram_bytes_max", "Most", |(_, work)| work.dram.map(|spread| spread.max))
        .column("dram_bytes_per_second", "DRAM rate", BytesPerSecond, |(_, work)| {
            work.per_second(work.bytes.dram)
        })
        .on_page()
        .column("dram_flop_per_byte", "DRAM intensity", FlopPerByte, intensity(Level::Dram))
        .on_page()
        .column("l2_flop_per_byte", "L2 intensity", FlopPerByte, intensity(Level::L2))
        .on_page()
        .column("l1_flop_per_byte", "L1 intensity", FlopPerByte, intensity(Level::L1))
        .text("bound", "Bound", move |(_, work)| work.bound(rule).label())
        .on_page();
    let shown = rows.len().min(SHOWN_KERNELS);
    let caption = format!("Kernels of the workload by time, {shown} of {}", rows.len());
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
            (launches > 0).then(|| Class { stage, class, launches, totals: Totals::of(own()) })
        })
    };
    let rows: Vec<Class<'_>> = phases.iter().copied().flat_map(of_stage).collect();
    Table::new("workload_classes", "Kernel classes of the workload, launches with counters only")
        .text("class", "Class", |row: &Class<'_>| row.class.label())
        .text("stage", "Stage", |row| label(context, row.stage))
        .count("launches", "Launches", |row| row.launches)
        .time("time_ns", "Time", |row| row.totals.time)
        .share("time_share", "Share", |row| row.totals.time / row.stage.time as f64)
        .column("flop", "FLOPs", Flop, |row| row.totals.all_flops())
        .column("flop_per_second", "FLOP rate", FlopPerSecond, |row| {
            row.per_second(row.totals.all_flops())
        })
        .bytes("dram_bytes", "DRAM bytes", |row| row.totals.bytes.dram)
        .column("dram_bytes_per_second", "DRAM rate", BytesPerSecond, |row| {
            row.per_second(row.totals.bytes.dram)
        })
        .column("dram_flop_per_byte", "DRAM intensity", FlopPerByte, |row| row.totals.intensity())
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
        let (rooflens, seed) = (stage.bounds(Classifier::Rooflens), stage.bounds(Classifier::Seed));
        let occurs = |bound: &Bound| rooflens.contains_key(bound) || seed.contains_key(bound);
        rows.extend(Bound::ALL.into_iter().filter(occurs).map(|bound| Bounded {
            stage,
            bound: Some(bound),
            rooflens: rooflens.get(&bound).copied().unwrap_or_default(),
            seed: seed.get(&bound).copied().unwrap_or_default(),
        }));
        let rest = stage.unprofiled;
        rows.push(Bounded { stage, bound: None, rooflens: rest, seed: rest });
    }
    let share = |row: &Bounded<'_>, sum: Sum| sum.time as f64 / row.stage.time as f64;
    let table = Table::new("workload_bounds", "GPU time of the workload by bound class")
        .text("stage", "Stage", |row: &Bounded<'_>| label(context, row.stage))
        .on_page()
        .text("bound", "Bound", |row| row.bound.map_or("not profiled", Bound::label))
        .on_page()
        .count("kernels", "Kernels and grids", |row| row.rooflens.kernels)
        .on_page()
        .count("launches", "Launches", |row| row.rooflens.launches)
        .on_page()
        .time("time_ns", "Time", |row| row.rooflens.time)
        .on_page()
        .share("share", "Share", move |row| share(row, row.rooflens))
        .on_page()
        .count("seed_kernels", "Kernels (seed rule)", |row| row.seed.kernels)
        .on_page()
        .count("seed_launches", "Launches (seed rule)", |row| row.seed.launches)
        .time("seed_time_ns", "Time (seed rule)", |row| row.seed.time)
        .share("seed_share", "Share (seed rule)", move |row| share(row, row.seed))
        .on_page();
    let caption =
        "GPU time of the workload by bound class of the profiled launches that stand for it";
    let view: View = table.view(caption, 16);
    (table.rows(&rows), Block::Table(view))
}
