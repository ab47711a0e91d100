//! The data set of profiled launches.

use rooflens_schemas::Unit;

use crate::analysis::Classifier;
use crate::analysis::counters::ncu::bound::{Bound, THRESHOLDS, Verdict};
use crate::analysis::counters::ncu::{KernelCounters, Level};
use crate::findings::{Cell, Column, Dataset, Quantity};
use crate::model::{Dim3, Session};

/// Name of the data set.
pub(super) const ID: &str = "profiled_kernels";

/// The columns that the section shows.
pub(super) const ESSENTIALS: &[&str] = &[
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

const COLUMNS: &[Column] = &[
    Column::text("kernel", "Kernel"),
    Column::text("pass", "Pass"),
    Column::new("launch", "Launch", Unit::Count),
    Column::text("name", "Full name"),
    Column::text("class", "Class"),
    Column::text("nvtx", "NVTX"),
    Column::text("grid", "Grid"),
    Column::text("block", "Block"),
    Column::new("duration_ns", "Duration", Unit::Nanoseconds),
    Column::new("sol_compute_percent", "SM", Unit::Percent),
    Column::new("sol_dram_percent", "DRAM", Unit::Percent),
    Column::new("sol_l2_percent", "L2", Unit::Percent),
    Column::new("sol_l1_percent", "L1", Unit::Percent),
    Column::new("achieved_occupancy_percent", "Occupancy", Unit::Percent),
    Column::new("theoretical_occupancy_percent", "Theoretical occupancy", Unit::Percent),
    Column::new("waves", "Waves", Unit::One),
    Column::new("registers", "Registers", Unit::Count),
    Column::new("dram_bytes", "DRAM bytes", Unit::Bytes),
    Column::new("l2_bytes", "L2 bytes", Unit::Bytes),
    Column::new("l1_bytes", "L1 bytes", Unit::Bytes),
    Column::new("dram_bytes_per_second", "DRAM rate", Unit::BytesPerSecond),
    Column::new("flop", "FLOPs", Unit::Flop),
    Column::text("flop_dtype", "Main dtype"),
    Column::text("flop_note", "FLOP note"),
    Column::new("flop_per_second", "FLOP rate", Unit::FlopPerSecond),
    Column::new("dram_flop_per_byte", "Intensity", Unit::FlopPerByte),
    Column::new("l1_hit_percent", "L1 hits", Unit::Percent),
    Column::new("l2_hit_percent", "L2 hits", Unit::Percent),
    Column::text("top_stall", "Top stall"),
    Column::new("top_stall_share", "Stall share", Unit::Ratio),
    Column::text("bound", "Bound"),
    Column::text("bound_reason", "Reason"),
    Column::text("borderline", "Borderline"),
    Column::new("next_points", "Points to the next class", Unit::One),
    Column::text("next", "Next class"),
    Column::text("bound_seed", "Seed rule"),
    Column::text("borderline_seed", "Borderline (seed rule)"),
];

/// A launch with its class by each rule.
pub(super) struct Row {
    pub(super) kernel: KernelCounters,
    pass: String,
    ordinal: u32,
    rooflens: Verdict,
    seed: Verdict,
}

impl Row {
    pub(super) fn new(session: &Session, kernel: KernelCounters) -> Self {
        let at = kernel.profile.index();
        let pass = session.kernel_profiles.pass[at];
        Self {
            pass: session.pass_name(pass).to_owned(),
            ordinal: session.kernel_profiles.ordinal[at],
            rooflens: THRESHOLDS.classify(Classifier::Rooflens, &kernel),
            seed: THRESHOLDS.classify(Classifier::Seed, &kernel),
            kernel,
        }
    }

    pub(super) const fn verdict(&self, rule: Classifier) -> &Verdict {
        match rule {
            Classifier::Rooflens => &self.rooflens,
            Classifier::Seed => &self.seed,
        }
    }

    fn cells(&self, session: &Session) -> Vec<Cell> {
        let kernel = &self.kernel;
        let profile = session.kernel_profiles.row(kernel.profile);
        let main = kernel.flops.main();
        let note = match &kernel.flops {
            crate::analysis::counters::ncu::flops::Flops::Counted(_) => "",
            crate::analysis::counters::ncu::flops::Flops::NotCounted(reason) => reason,
        };
        let rate = kernel.flops.total().zip(kernel.seconds).map(|(flops, time)| flops / time);
        let stall = kernel.top_stall.as_ref();
        vec![
            Cell::Name(kernel.identity.short.clone()),
            Cell::Text(self.pass.clone()),
            Cell::Int(i64::from(self.ordinal)),
            Cell::Name(session.text(profile.name).to_owned()),
            Cell::Text(kernel.identity.class.label().to_owned()),
            Cell::Text(session.text(profile.nvtx).to_owned()),
            extent(profile.grid),
            extent(profile.block),
            Cell::maybe(kernel.seconds.map(|seconds| seconds * 1e9)),
            Cell::maybe(kernel.sol.compute),
            Cell::maybe(kernel.sol.memory.dram),
            Cell::maybe(kernel.sol.memory.l2),
            Cell::maybe(kernel.sol.memory.l1),
            Cell::maybe(kernel.achieved_occupancy),
            Cell::maybe(kernel.theoretical_occupancy),
            Cell::maybe(kernel.waves),
            Cell::maybe(kernel.registers),
            Cell::maybe(kernel.bytes.dram),
            Cell::maybe(kernel.bytes.l2),
            Cell::maybe(kernel.bytes.l1),
            Cell::maybe(kernel.dram_rate()),
            Cell::maybe(kernel.flops.total()),
            main.map_or(Cell::Missing, |part| Cell::Text(part.dtype.to_owned())),
            Cell::Text(note.to_owned()),
            Cell::maybe(rate.filter(|rate| rate.is_finite())),
            Cell::maybe(kernel.intensity(Level::Dram)),
            Cell::maybe(kernel.l1_hit_rate),
            Cell::maybe(kernel.l2_hit_rate),
            stall.map_or(Cell::Missing, |stall| Cell::Text(stall.reason.clone())),
            Cell::maybe(stall.map(|stall| stall.share)),
            Cell::Text(self.rooflens.bound.label().to_owned()),
            Cell::Text(self.rooflens.reason.clone()),
            borderline(&self.rooflens),
            Cell::maybe(self.rooflens.next.map(|next| next.points)),
            Cell::Text(self.rooflens.next.map_or("", |next| next.bound.label()).to_owned()),
            Cell::Text(self.seed.bound.label().to_owned()),
            borderline(&self.seed),
        ]
    }
}

/// How near another class is, where it is near; empty elsewhere.
fn borderline(verdict: &Verdict) -> Cell {
    let text = verdict.borderline().map(|next| {
        let points = Quantity::new(next.points, Unit::One);
        format!("{points} points from {}", next.bound.label())
    });
    Cell::Text(text.unwrap_or_default())
}

/// All launches, the longest first; those without a duration last.
pub(super) fn dataset(session: &Session, mut rows: Vec<Row>) -> Dataset {
    rows.sort_by(|a, b| {
        let time = |row: &Row| row.kernel.seconds.unwrap_or(-1.0);
        time(b).total_cmp(&time(a)).then(a.kernel.profile.cmp(&b.kernel.profile))
    });
    Dataset {
        id: ID,
        title: "Profiled launches".to_owned(),
        columns: COLUMNS.to_vec(),
        rows: rows.iter().map(|row| row.cells(session)).collect(),
    }
}

/// An extent of 0 stands for one that the page does not give.
fn extent(extent: Dim3) -> Cell {
    if extent.volume() == 0 { Cell::Missing } else { Cell::Text(extent.to_string()) }
}

/// Name of the data set of class sums.
pub(super) const CLASSES: &str = "bound_classes";

/// Launches, kernels and time of each bound class of each pass, by both rules.
pub(super) fn classes(session: &Session, rows: &[Row]) -> Dataset {
    let mut passes: Vec<&str> = rows.iter().map(|row| row.pass.as_str()).collect();
    passes.dedup();
    let mut cells = Vec::new();
    for pass in passes {
        let of_pass: Vec<&Row> = rows.iter().filter(|row| row.pass == pass).collect();
        let time = |rows: &[&Row]| rows.iter().filter_map(|row| row.kernel.seconds).sum::<f64>();
        let whole = time(&of_pass);
        for bound in Bound::ALL {
            let of = |rule| -> Vec<&Row> {
                of_pass.iter().copied().filter(|row| row.verdict(rule).bound == bound).collect()
            };
            let (ours, seed) = (of(Classifier::Rooflens), of(Classifier::Seed));
            if ours.is_empty() && seed.is_empty() {
                continue;
            }
            let near = ours.iter().filter(|row| row.rooflens.borderline().is_some()).count();
            let mut row = vec![Cell::Text(bound.label().to_owned()), Cell::Text(pass.to_owned())];
            for rows in [&ours, &seed] {
                let mut names: Vec<_> = rows
                    .iter()
                    .map(|row| session.kernel_profiles.name[row.kernel.profile.index()])
                    .collect();
                names.sort_unstable();
                names.dedup();
                let seconds = 0.0 + time(rows);
                row.extend([rows.len(), names.len()].map(|n| Cell::Int(n as i64)));
                row.push(Cell::Float(seconds * 1e9));
                row.push(Cell::maybe((whole > 0.0).then(|| seconds / whole)));
            }
            row.push(Cell::Int(near as i64));
            cells.push(row);
        }
    }
    Dataset {
        id: CLASSES,
        title: "Profiled launches by bound class".to_owned(),
        columns: vec![
            Column::text("bound", "Bound"),
            Column::text("pass", "Pass"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("kernels", "Kernels", Unit::Count),
            Column::new("duration_ns", "Time", Unit::Nanoseconds),
            Column::new("share", "Share", Unit::Ratio),
            Column::new("seed_launches", "Launches (seed)", Unit::Count),
            Column::new("seed_kernels", "Kernels (seed)", Unit::Count),
            Column::new("seed_duration_ns", "Time (seed)", Unit::Nanoseconds),
            Column::new("seed_share", "Share (seed)", Unit::Ratio),
            Column::new("borderline", "Borderline", Unit::Count),
        ],
        rows: cells,
    }
}
