//! The data set of profiled launches.

use rooflens_schemas::Unit;

use crate::analysis::Classifier;
use crate::analysis::counters::bound::{THRESHOLDS, Verdict};
use crate::analysis::counters::{KernelCounters, Level};
use crate::findings::{Cell, Column, Dataset};
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
    "sol_l2_percent",
    "achieved_occupancy_percent",
    "waves",
    "dram_bytes_per_second",
    "bound",
    "bound_reason",
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
    Column::text("bound_seed", "Bound (seed rule)"),
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
            pass: session.text(session.passes.name[pass.index()]).to_owned(),
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
            crate::analysis::counters::flops::Flops::Counted(_) => "",
            crate::analysis::counters::flops::Flops::NotCounted(reason) => reason,
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
            Cell::Text(self.seed.bound.label().to_owned()),
        ]
    }
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
