//! Tables of call trees, and the columns that all sections of callers share.

use crate::Context;
use rooflens_analysis::engine::spans::Sum;
use rooflens_analysis::operators::PassWork;
use rooflens_analysis::operators::call_tree::{Node, NodeFlops, Tree};
use rooflens_analysis::operators::calls::{OperatorSum, ThreadSum};
use rooflens_analysis::operators::python::FunctionSum;
use rooflens_document::{Cell, Dataset, Table};
use rooflens_session::{Ns, Session};
use rooflens_units::Time;

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
    columns! { context, id, row: &Place<'_> => {
        with stage(session) of row;
        count "depth" = node(row).depth;
        with times() of row;
    } }
    .rows(places)
}

/// Columns that say where a node stands.
pub(super) fn stage<'t>(session: &'t Session, table: Table<'t, Place<'t>>) -> Table<'t, Place<'t>> {
    columns! { table, (tree, node): &Place<'_> => {
        name "path" = tree.path(*node);
        text "pass" = session.pass_name(tree.pass);
        text "stage" = tree.label.clone();
    } }
}

pub(super) fn node<'t>((tree, node): &Place<'t>) -> &'t Node {
    &tree.nodes[*node as usize]
}

/// Columns of a node's times; spans of other threads than the stage's have no host time here.
pub(super) fn times<'t>(table: Table<'t, Place<'t>>) -> Table<'t, Place<'t>> {
    columns! { table, row: &Place<'_> => {
        let (tree, node) = (row.0, node(row));
        count "calls" = on_host(row, node.sum.calls);
        time "host_total_ns" = on_host(row, node.sum.host_total);
        time "host_self_ns" = on_host(row, node.sum.host_self);
        time "host_cuda_ns" = on_host(row, node.sum.host_cuda);
        time "device_total_ns" = node.sum.within.device;
        time "device_self_ns" = node.sum.own.device;
        time "busy_ns" = node.busy;
        share "device_share" = {
            let whole = tree.nodes[0].sum.within.device;
            (whole > Ns::ZERO).then(|| node.sum.within.device.time().0 / whole.time().0)
        };
        count "launches" = node.sum.within.launches;
        "flops" = flops(row).map(|flops| flops.masked);
        "flops_self" = flops(row).map(|_| node.flops_self);
        "flops_full" = flops(row).map(|flops| flops.full);
        "flop_rate" = Some(flops(row)?.masked / device(row)?);
        share "flop_coverage" = Some(node.flops.counted.time() / device(row)?);
        time "uncounted_ns" = node.flops.uncounted;
        time "backward_ns" = tree.has_backward().then_some(node.sum.within.backward);
    } }
}

/// A number of the thread that opened the stage, if the node has spans there.
pub(super) fn on_host<C: Into<Cell>>(place: &Place<'_>, value: C) -> Option<C> {
    (node(place).sum.calls > 0).then_some(value)
}

fn flops(place: &Place<'_>) -> Option<NodeFlops> {
    Some(node(place).flops).filter(NodeFlops::is_any_counted)
}

fn device(place: &Place<'_>) -> Option<Time> {
    Some(node(place).sum.within.device.time()).filter(Time::is_positive)
}

/// What calls device work: an operator, a function or a thread, with the work of its pass.
pub(super) trait Caller {
    fn sum(&self) -> &Sum;
    fn work(&self) -> PassWork;
}

macro_rules! callers {
    ($($caller:ty),*) => {
        $(impl Caller for $caller {
            fn sum(&self) -> &Sum {
                &self.sum
            }

            fn work(&self) -> PassWork {
                self.work
            }
        })*
    };
}

callers!(FunctionSum, OperatorSum, ThreadSum);

/// Columns of host times of callers.
pub(super) fn host<C: Caller>(table: Table<'_, C>) -> Table<'_, C> {
    columns! { table, caller: &C => {
        count "calls" = caller.sum().calls;
        time "host_self_ns" = caller.sum().host_self;
        time "host_cuda_ns" = caller.sum().host_cuda;
    } }
}

/// Columns of device times of callers; missing where the trace does not say which call issued what.
pub(super) fn device_times<C: Caller>(table: Table<'_, C>) -> Table<'_, C> {
    columns! { table, caller: &C => {
        let (sum, work) = (caller.sum(), caller.work());
        time "device_self_ns" = work.known(sum.own.device);
        share "device_share" = work.share(sum.own.device);
        time "device_total_ns" = work.known(sum.within.device);
    } }
}
