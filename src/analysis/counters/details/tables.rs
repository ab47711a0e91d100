//! The data sets of launches and of groups.

use rooflens_schemas::Unit;

use super::figures::Figure;
use super::groups::{Group, Launch};
use super::stalls::{STATES, Shares, ranked};
use crate::findings::{Cell, Column, Dataset};
use crate::model::{Dim3, Ns, Session};

/// Data set of launches.
pub(super) const LAUNCHES: &str = "deep_dive";

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

pub(super) fn launches() -> Dataset {
    let mut columns = vec![
        Column::text("kernel", "Kernel"),
        Column::text("pass", "Pass"),
        Column::new("launch", "Launch", Unit::Count),
        Column::text("nvtx", "NVTX"),
        Column::text("grid", "Grid"),
        Column::text("block", "Block"),
        Column::text("limiter", "Limiter"),
    ];
    columns.extend(figures_and_states());
    Dataset {
        id: LAUNCHES,
        title: "Profiled launches in depth".to_owned(),
        columns,
        rows: Vec::new(),
    }
}

pub(super) fn groups() -> Dataset {
    let mut columns = vec![
        Column::text("kernel", "Kernel"),
        Column::text("pass", "Pass"),
        Column::text("name", "Full name"),
        Column::text("grid", "Grid"),
        Column::text("block", "Block"),
        Column::new("launches", "Launches", Unit::Count),
        Column::new("time_ns", "Time", Unit::Nanoseconds),
        Column::new("time_share", "Share", Unit::Ratio),
        Column::new("timeline_ns", "Stands for", Unit::Nanoseconds),
        Column::text("limiter", "Limiter"),
        Column::text("top_stall", "Top stall"),
    ];
    columns.extend(figures_and_states());
    Dataset {
        id: GROUPS,
        title: "Groups of launches of one kernel, grid and block in depth".to_owned(),
        columns,
        rows: Vec::new(),
    }
}

fn figures_and_states() -> impl Iterator<Item = Column> {
    let figures = Figure::ALL.iter().map(|figure| figure.column());
    figures.chain(STATES.iter().map(|state| Column::new(state.column, state.reason, Unit::Ratio)))
}

pub(super) fn launch_cells(session: &Session, pass: &str, launch: &Launch) -> Vec<Cell> {
    let profile = session.kernel_profiles.row(launch.counters.profile);
    let mut cells = vec![
        Cell::Name(launch.counters.identity.short.clone()),
        Cell::Text(pass.to_owned()),
        Cell::Int(i64::from(profile.ordinal)),
        Cell::Text(session.text(profile.nvtx).to_owned()),
        extent(profile.grid),
        extent(profile.block),
        launch.figures.limiter().map_or(Cell::Missing, Cell::Text),
    ];
    cells.extend(Figure::ALL.iter().map(|figure| Cell::maybe(launch.figures.get(*figure))));
    cells.extend(state_cells(launch.stalls.as_ref()));
    cells
}

pub(super) fn group_cells(
    session: &Session,
    pass: &str,
    group: &Group,
    stands_for: Option<Ns>,
) -> Vec<Cell> {
    let top = group.stalls.as_ref().and_then(|shares| ranked(shares).first().copied());
    let mut cells = vec![
        Cell::Name(group.short.clone()),
        Cell::Text(pass.to_owned()),
        Cell::Name(session.text(group.name).to_owned()),
        extent(group.grid),
        extent(group.block),
        Cell::Int(group.launches as i64),
        Cell::Float(group.seconds * 1e9),
        Cell::Float(group.share),
        stands_for.map_or(Cell::Missing, Cell::Int),
        group.figures.limiter().map_or(Cell::Missing, Cell::Text),
        top.map_or(Cell::Missing, |(state, _)| Cell::Text(state.reason.to_owned())),
    ];
    cells.extend(Figure::ALL.iter().map(|figure| Cell::maybe(group.figures.get(*figure))));
    cells.extend(state_cells(group.stalls.as_ref()));
    cells
}

fn state_cells(shares: Option<&Shares>) -> Vec<Cell> {
    match shares {
        Some(shares) => shares.iter().map(|share| Cell::Float(*share)).collect(),
        None => vec![Cell::Missing; STATES.len()],
    }
}

/// An extent of 0 stands for one that the page does not give.
pub(super) fn extent(extent: Dim3) -> Cell {
    if extent.volume() == 0 { Cell::Missing } else { Cell::Text(extent.to_string()) }
}
