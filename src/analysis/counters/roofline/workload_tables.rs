//! Data sets of the workload roofline.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::workload::{ENOUGH, StageWork, Totals, Work};
use crate::analysis::Classifier;
use crate::analysis::counters::ncu::Level;
use crate::analysis::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::analysis::counters::represent::matching::{Matching, Tier};
use crate::analysis::engine::classify::KernelClass;
use crate::findings::{Cell, Column, Dataset};
use crate::hardware::Gpu;

/// Names of the data sets, and the columns that the section shows.
pub(super) const STAGES: &str = "workload_stages";
pub(super) const KERNELS: &str = "workload_kernels";
const CLASSES: &str = "workload_classes";
pub(super) const BOUNDS: &str = "workload_bounds";

pub(super) const STAGES_SHOWN: &[&str] = &[
    "stage",
    "time_ns",
    "profiled_share",
    "flop",
    "flop_per_second",
    "hfu",
    "dram_bytes",
    "dram_bytes_per_second",
    "profiled_dram_share",
];

pub(super) const KERNELS_SHOWN: &[&str] = &[
    "kernel",
    "stage",
    "launches",
    "time_share",
    "match",
    "flop_per_second",
    "dram_bytes_per_second",
    "dram_flop_per_byte",
    "l2_flop_per_byte",
    "bound",
];

pub(super) const BOUNDS_SHOWN: &[&str] =
    &["stage", "bound", "kernels", "launches", "time_ns", "share", "seed_kernels", "seed_share"];

fn count(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// One row a stage.
pub(super) fn stages(stages: &[StageWork<'_>], gpu: Option<&Gpu>) -> Dataset {
    let row = |stage: &StageWork<'_>| {
        let totals = &stage.totals;
        // Sums over a small share of the stage say nothing of it.
        let enough = stage.covered() >= ENOUGH;
        let flops = totals.all_flops().filter(|_| enough);
        let dram = totals.bytes.dram.filter(|_| enough);
        let per_instance = |sum: f64| stage.per_instance(sum);
        let mut cells = vec![
            Cell::Text(stage.label.clone()),
            count(stage.line.summary.counted as u64),
            Cell::Float(stage.line.summary.time),
            Cell::Float(stage.covered()),
            Cell::maybe(flops.map(per_instance)),
            Cell::maybe(flops.map(|flops| stage.per_second(flops))),
            Cell::maybe(stage.hfu(gpu).ok().map(|(share, _)| share)),
            Cell::maybe(dram.map(per_instance)),
            Cell::maybe(dram.map(|_| per_instance(totals.dram_range.0))),
            Cell::maybe(dram.map(|_| per_instance(totals.dram_range.1))),
            Cell::maybe(dram.map(|bytes| stage.per_second(bytes))),
            Cell::maybe(stage.dram_share(gpu).ok().map(|(share, _)| share)),
        ];
        cells.extend([totals.bytes.l2, totals.bytes.l1].map(|b| Cell::maybe(b.map(per_instance))));
        cells
    };
    Dataset {
        id: STAGES,
        title: "Executed work per stage, from counters of profiled launches".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::new("instances", "Instances", Unit::Count),
            Column::new("time_ns", "Stage time", Unit::Nanoseconds),
            Column::new("profiled_share", "Profiled", Unit::Ratio),
            Column::new("flop", "FLOPs", Unit::Flop),
            Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
            Column::new("hfu", "HFU", Unit::Ratio),
            Column::new("dram_bytes", "DRAM bytes", Unit::Bytes),
            Column::new("dram_bytes_min", "DRAM bytes, least", Unit::Bytes),
            Column::new("dram_bytes_max", "DRAM bytes, most", Unit::Bytes),
            Column::new("dram_bytes_per_second", "DRAM rate", Unit::BytesPerSecond),
            Column::new("profiled_dram_share", "Of bandwidth", Unit::Ratio),
            Column::new("l2_bytes", "L2 bytes", Unit::Bytes),
            Column::new("l1_bytes", "L1 bytes", Unit::Bytes),
        ],
        rows: stages.iter().map(row).collect(),
    }
}

/// One row a kernel, grid and size of a phase: the largest share of its phase first.
pub(super) fn kernels(phases: &[&StageWork<'_>], matching: &Matching, rule: Classifier) -> Dataset {
    let mut rows: Vec<(f64, Vec<Cell>)> = Vec::new();
    for stage in phases {
        for work in &stage.works {
            let share = work.group.time as f64 / stage.line.time as f64;
            rows.push((share, kernel(stage, work, share, matching, rule)));
        }
    }
    // Equal shares keep the order of stages and groups.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    Dataset {
        id: KERNELS,
        title: "Kernels of the workload with the counters that stand for them".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("stage", "Stage"),
            Column::text("class", "Class"),
            Column::text("grid", "Grid"),
            Column::text("block", "Block"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::text("match", "Match"),
            Column::new("profiled", "Profiled launches", Unit::Count),
            Column::new("flop", "FLOPs a launch", Unit::Flop),
            Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
            Column::new("dram_bytes", "DRAM bytes a launch", Unit::Bytes),
            Column::new("dram_bytes_min", "Least", Unit::Bytes),
            Column::new("dram_bytes_max", "Most", Unit::Bytes),
            Column::new("dram_bytes_per_second", "DRAM rate", Unit::BytesPerSecond),
            Column::new("dram_flop_per_byte", "DRAM intensity", Unit::FlopPerByte),
            Column::new("l2_flop_per_byte", "L2 intensity", Unit::FlopPerByte),
            Column::new("l1_flop_per_byte", "L1 intensity", Unit::FlopPerByte),
            Column::text("bound", "Bound"),
        ],
        rows: rows.into_iter().map(|(_, cells)| cells).collect(),
    }
}

fn kernel(
    stage: &StageWork<'_>,
    work: &Work<'_>,
    share: f64,
    matching: &Matching,
    rule: Classifier,
) -> Vec<Cell> {
    let group = work.group;
    let intensity = |level| Cell::maybe(work.intensity(level));
    vec![
        Cell::Name(work.short.to_owned()),
        Cell::Text(stage.label.clone()),
        Cell::Text(work.class.label().to_owned()),
        Cell::Text(group.grid.to_string()),
        Cell::Text(group.block.to_string()),
        count(group.launches),
        Cell::Int(group.time),
        Cell::Float(share),
        Cell::Text(group.tier.map_or("", Tier::label).to_owned()),
        count(group.from.len() as u64),
        Cell::maybe(work.flops()),
        Cell::maybe(work.per_second(work.flops())),
        Cell::maybe(work.bytes.dram),
        Cell::maybe(work.dram.map(|spread| spread.min)),
        Cell::maybe(work.dram.map(|spread| spread.max)),
        Cell::maybe(work.per_second(work.bytes.dram)),
        intensity(Level::Dram),
        intensity(Level::L2),
        intensity(Level::L1),
        Cell::Text(bound(work, matching, rule).label().to_owned()),
    ]
}

/// The class of the longest profiled launch that stands for a work.
fn bound(work: &Work<'_>, matching: &Matching, rule: Classifier) -> Bound {
    let counters = work.group.from.iter().map(|at| &matching.profiles[*at].counters);
    let longest =
        counters.reduce(|best, next| if next.seconds > best.seconds { next } else { best });
    longest.map_or(Bound::Unknown, |counters| THRESHOLDS.classify(rule, counters).bound)
}

/// One row a class of a phase.
pub(super) fn classes(phases: &[&StageWork<'_>]) -> Dataset {
    let mut rows = Vec::new();
    for stage in phases {
        for class in KernelClass::ALL {
            let own = || stage.works.iter().filter(|work| work.class == class);
            let launches: u64 = own().map(|work| work.group.launches).sum();
            if launches == 0 {
                continue;
            }
            let totals = Totals::of(own());
            let (flops, seconds) = (totals.all_flops(), totals.time / 1e9);
            rows.push(vec![
                Cell::Text(class.label().to_owned()),
                Cell::Text(stage.label.clone()),
                count(launches),
                Cell::Float(totals.time),
                Cell::Float(totals.time / stage.line.time as f64),
                Cell::maybe(flops),
                Cell::maybe(flops.map(|flops| flops / seconds)),
                Cell::maybe(totals.bytes.dram),
                Cell::maybe(totals.bytes.dram.map(|bytes| bytes / seconds)),
                Cell::maybe(totals.intensity()),
            ]);
        }
    }
    Dataset {
        id: CLASSES,
        title: "Kernel classes of the workload, launches with counters only".to_owned(),
        columns: vec![
            Column::text("class", "Class"),
            Column::text("stage", "Stage"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::new("flop", "FLOPs", Unit::Flop),
            Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
            Column::new("dram_bytes", "DRAM bytes", Unit::Bytes),
            Column::new("dram_bytes_per_second", "DRAM rate", Unit::BytesPerSecond),
            Column::new("dram_flop_per_byte", "DRAM intensity", Unit::FlopPerByte),
        ],
        rows,
    }
}

/// Kernels, launches and time of a bound class.
#[derive(Clone, Copy, Default)]
struct Sum {
    kernels: u64,
    launches: u64,
    time: i64,
}

/// GPU time of each phase by bound class, by both rules; what was not profiled is a row too.
pub(super) fn bounds(phases: &[&StageWork<'_>], matching: &Matching) -> Dataset {
    let mut rows = Vec::new();
    for stage in phases {
        let sums = |rule| {
            let mut sums = BTreeMap::<Bound, Sum>::new();
            for work in &stage.works {
                let sum = sums.entry(bound(work, matching, rule)).or_default();
                sum.kernels += 1;
                sum.launches += work.group.launches;
                sum.time += work.group.time;
            }
            sums
        };
        let (ours, seed) = (sums(Classifier::Rooflens), sums(Classifier::Seed));
        let share = |time: i64| Cell::Float(time as f64 / stage.line.time as f64);
        for bound in Bound::ALL {
            let (own, other) = (ours.get(&bound), seed.get(&bound));
            if own.is_none() && other.is_none() {
                continue;
            }
            let mut cells =
                vec![Cell::Text(stage.label.clone()), Cell::Text(bound.label().to_owned())];
            for sum in [own, other].map(Option::<&Sum>::copied).map(Option::unwrap_or_default) {
                cells.extend([
                    count(sum.kernels),
                    count(sum.launches),
                    Cell::Int(sum.time),
                    share(sum.time),
                ]);
            }
            rows.push(cells);
        }
        let rest: Vec<_> = stage.line.groups.iter().filter(|group| group.tier.is_none()).collect();
        let launches = rest.iter().map(|group| group.launches).sum();
        let time: i64 = rest.iter().map(|group| group.time).sum();
        let sum = || [count(rest.len() as u64), count(launches), Cell::Int(time), share(time)];
        let mut cells =
            vec![Cell::Text(stage.label.clone()), Cell::Text("not profiled".to_owned())];
        cells.extend(sum().into_iter().chain(sum()));
        rows.push(cells);
    }
    Dataset {
        id: BOUNDS,
        title: "GPU time of the workload by bound class".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("bound", "Bound"),
            Column::new("kernels", "Kernels and grids", Unit::Count),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("time_ns", "Time", Unit::Nanoseconds),
            Column::new("share", "Share", Unit::Ratio),
            Column::new("seed_kernels", "Kernels (seed rule)", Unit::Count),
            Column::new("seed_launches", "Launches (seed rule)", Unit::Count),
            Column::new("seed_time_ns", "Time (seed rule)", Unit::Nanoseconds),
            Column::new("seed_share", "Share (seed rule)", Unit::Ratio),
        ],
        rows,
    }
}
