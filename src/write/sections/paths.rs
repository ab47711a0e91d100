//! Tables of call trees, and the columns that all sections of callers share.

use crate::Context;
use rooflens_schemas::Unit;

use rooflens_analysis::engine::spans::Sum;
use rooflens_analysis::operators::PassWork;
use rooflens_analysis::operators::call_tree::{Flops, Node, Tree};
use rooflens_document::{Cell, Dataset, Table};
use rooflens_session::Session;

/// Stages that a section shows; the data sets hold all.
const SHOWN_STAGES: usize = 4;

/// A node of a tree.
pub(super) type Place<'t> = (&'t Tree, u32);

/// Stages of the first process with something within them.
pub(super) fn shown_stages<'t>(trees: impl Iterator<Item = &'t Tree> + Clone) -> Vec<&'t Tree> {
    let first = trees
        .clone()
        .find(|tree| tree.has_inner())
        .map(|tree| tree.process);
    let of_first = |tree: &&Tree| Some(tree.process) == first && tree.has_inner();
    trees.filter(of_first).take(SHOWN_STAGES).collect()
}

/// The nodes of trees that are listed, those within a node after it, those with the most device time first.
pub(super) fn places<'t>(
    trees: impl Iterator<Item = &'t Tree>,
    is_listed: &dyn Fn(&Tree, &Node) -> bool,
) -> Vec<Place<'t>> {
    let mut places = Vec::new();
    for tree in trees {
        let nodes = tree.depth_first(&|node| node.sum.within.device);
        let listed = nodes
            .into_iter()
            .filter(|node| is_listed(tree, &tree.nodes[*node as usize]));
        places.extend(listed.map(|node| (tree, node)));
    }
    places
}

/// One row per place.
pub(super) fn dataset<'t>(
    context: &Context<'t>,
    id: &'static str,
    places: &[Place<'t>],
) -> Dataset {
    let session = context.session;
    Table::new(context.text, id)
        .with(|table| stage(table, session))
        .count("depth", |place| node(place).depth)
        .with(times)
        .rows(places)
}

/// Columns that say where a node stands.
pub(super) fn stage<'t>(table: Table<'t, Place<'t>>, session: &'t Session) -> Table<'t, Place<'t>> {
    table
        .name("path", |(tree, node)| tree.path(*node))
        .text("pass", |(tree, _)| session.pass_name(tree.pass))
        .text("stage", |(tree, _)| tree.label.clone())
}

pub(super) fn node<'t>((tree, node): &Place<'t>) -> &'t Node {
    &tree.nodes[*node as usize]
}

/// Columns of a node's times; spans of other threads than the stage's have no host time here.
pub(super) fn times<'t>(table: Table<'t, Place<'t>>) -> Table<'t, Place<'t>> {
    table
        .count("calls", |place| on_host(place, node(place).sum.calls))
        .time("host_total_ns", |place| {
            on_host(place, node(place).sum.host_total)
        })
        .time("host_self_ns", |place| {
            on_host(place, node(place).sum.host_self)
        })
        .time("host_cuda_ns", |place| {
            on_host(place, node(place).sum.host_cuda)
        })
        .time("device_total_ns", |place| node(place).sum.within.device)
        .time("device_self_ns", |place| node(place).sum.own.device)
        .time("busy_ns", |place| node(place).busy)
        .share("device_share", |place| {
            let whole = place.0.nodes[0].sum.within.device;
            (whole > 0).then(|| node(place).sum.within.device as f64 / whole as f64)
        })
        .count("launches", |place| node(place).sum.within.launches)
        .column("flops", Unit::Flop, |place| {
            flops(place).map(|flops| flops.masked)
        })
        .column("flops_self", Unit::Flop, |place| {
            flops(place).map(|_| node(place).flops_self)
        })
        .column("flops_full", Unit::Flop, |place| {
            flops(place).map(|flops| flops.full)
        })
        // FLOPs a nanosecond are billions a second.
        .column("flop_rate", Unit::FlopPerSecond, |place| {
            Some(flops(place)?.masked / device(place)? * 1e9)
        })
        .share("flop_coverage", |place| {
            Some(node(place).flops.counted as f64 / device(place)?)
        })
        .time("uncounted_ns", |place| node(place).flops.uncounted)
        .time("backward_ns", |place| {
            place
                .0
                .has_backward()
                .then(|| node(place).sum.within.backward)
        })
}

/// A number of the thread that opened the stage, if the node has spans there.
pub(super) fn on_host<C: Into<Cell>>(place: &Place<'_>, value: C) -> Option<C> {
    (node(place).sum.calls > 0).then_some(value)
}

fn flops(place: &Place<'_>) -> Option<Flops> {
    Some(node(place).flops).filter(Flops::is_any_counted)
}

fn device(place: &Place<'_>) -> Option<f64> {
    Some(node(place).sum.within.device as f64).filter(|time| *time > 0.0)
}

/// Columns of host times of callers.
pub(super) fn host<'t, R: 't>(
    table: Table<'t, R>,
    sum: impl Fn(&R) -> &Sum + Copy + 't,
) -> Table<'t, R> {
    table
        .count("calls", move |row| sum(row).calls)
        .time("host_self_ns", move |row| sum(row).host_self)
        .time("host_cuda_ns", move |row| sum(row).host_cuda)
}

/// Columns of device times of callers; missing where the trace does not say which call issued what.
pub(super) fn device_times<'t, R: 't>(
    table: Table<'t, R>,
    sum: impl Fn(&R) -> (&Sum, PassWork) + Copy + 't,
) -> Table<'t, R> {
    table
        .time("device_self_ns", move |row| {
            let (sum, work) = sum(row);
            work.known(sum.own.device)
        })
        .share("device_share", move |row| {
            let (sum, work) = sum(row);
            work.share(sum.own.device)
        })
        .time("device_total_ns", move |row| {
            let (sum, work) = sum(row);
            work.known(sum.within.device)
        })
}
