//! Which range work in a CUDA graph was captured in: from its node to the node's original, and from the
//! moment of that one's creation to the range that was open then on the capturing thread.
//!
//! Where the events do not lead to one range the reason is kept, and nothing is guessed.

use rustc_hash::FxHashMap;

use super::sweep;
use crate::analysis::facts::{Captured, OpSource, Ops};
use crate::model::{ProcessId, RangeId, Session, StrId, ThreadId};

/// What stands in the names of all calls that replay a graph: `cudaGraphLaunch`, `cuGraphLaunch`, `hipGraphLaunch`.
const LAUNCH: &str = "GraphLaunch";

/// A node of a process.
type Key = (ProcessId, u64);

/// Fills [`Ops::captured`]. `ranges` are those that count, by thread, outer before inner. O(operations + events).
pub(super) fn attribute(session: &Session, ops: &mut Ops, ranges: &[Vec<RangeId>]) {
    let mut origins = Origins::new(session, ranges);
    let mut launches_graph = LaunchNames::default();
    for op in 0..ops.len() {
        let source = ops.source[op];
        let mut replayed = |op: usize| {
            let name = ops.api_call[op].map(|call| session.api_calls.name[call.index()]);
            name.is_some_and(|name| launches_graph.holds(session, name))
        };
        ops.captured[op] = match node_of(session, source) {
            Some(node) => origins.find((ops.process[op], node)),
            None if matches!(source, OpSource::Graph(_)) => Captured::Whole,
            None if in_a_graph(session, source) || replayed(op) => Captured::NoNode,
            None => Captured::NoGraph,
        };
    }
}

fn node_of(session: &Session, source: OpSource) -> Option<u64> {
    match source {
        OpSource::Launch(launch) => session.launches.graph_node[launch.index()],
        OpSource::Copy(copy) => session.copies.graph_node[copy.index()],
        OpSource::Graph(_) => None,
    }
}

fn in_a_graph(session: &Session, source: OpSource) -> bool {
    match source {
        OpSource::Launch(launch) => session.launches.graph[launch.index()].is_some(),
        OpSource::Copy(copy) => session.copies.graph[copy.index()].is_some(),
        OpSource::Graph(_) => true,
    }
}

/// Which names of API calls are those of graph launches; each name is looked at once.
#[derive(Default)]
struct LaunchNames(FxHashMap<StrId, bool>);

impl LaunchNames {
    fn holds(&mut self, session: &Session, name: StrId) -> bool {
        *self.0.entry(name).or_insert_with(|| session.text(name).contains(LAUNCH))
    }
}

/// What the events of one node say.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is a clone of that node.
    CloneOf(u64),
    /// It was captured here.
    Known(Captured),
    /// It is being followed: to come here again is a circle.
    Open,
}

/// Nodes by process and number.
struct Origins {
    steps: FxHashMap<Key, Step>,
    /// Processes with events, by [`ProcessId`].
    seen: Vec<bool>,
}

impl Origins {
    fn new(session: &Session, ranges: &[Vec<RangeId>]) -> Self {
        let nodes = &session.graph_nodes;
        let open = ranges_at_creation(session, ranges);
        let mut origins = Self {
            steps: FxHashMap::with_capacity_and_hasher(nodes.len(), rustc_hash::FxBuildHasher),
            seen: vec![false; session.processes.len()],
        };
        for (row, open) in open.into_iter().enumerate() {
            let process = session.threads.process[nodes.thread[row].index()];
            let event = match nodes.original[row] {
                Some(original) => Step::CloneOf(original),
                None => Step::Known(open.map_or(Captured::Outside, Captured::Range)),
            };
            origins.seen[process.index()] = true;
            let slot = origins.steps.entry((process, nodes.node[row])).or_insert(event);
            *slot = merge(*slot, event);
        }
        origins
    }

    /// Where a node was captured. Each node is followed once, whatever the order of questions.
    fn find(&mut self, key: Key) -> Captured {
        if !self.seen.get(key.0.index()).is_some_and(|seen| *seen) {
            return Captured::NoEvents;
        }
        let (mut path, mut at) = (Vec::new(), key);
        let found = loop {
            match self.steps.get(&at).copied() {
                None if path.is_empty() => return Captured::UnknownNode,
                None => break Captured::UnknownOriginal,
                Some(Step::Open) => break Captured::Cycle,
                Some(Step::Known(captured)) => break captured,
                Some(Step::CloneOf(original)) => {
                    self.steps.insert(at, Step::Open);
                    path.push(at);
                    at = (at.0, original);
                }
            }
        };
        for node in path {
            self.steps.insert(node, Step::Known(found));
        }
        found
    }
}

/// Two events of one node. That of a clone names its original, and a second one tells its creation again.
fn merge(known: Step, event: Step) -> Step {
    match (known, event) {
        (Step::CloneOf(a), Step::CloneOf(b)) if a == b => known,
        (Step::Known(a), Step::Known(b)) if a == b => known,
        (Step::CloneOf(_), Step::Known(Captured::Range(_) | Captured::Outside)) => known,
        (Step::Known(Captured::Range(_) | Captured::Outside), Step::CloneOf(_)) => event,
        _ => Step::Known(Captured::Ambiguous),
    }
}

/// The innermost range that was open on the creating thread when each node was created, by row.
fn ranges_at_creation(session: &Session, ranges: &[Vec<RangeId>]) -> Vec<Option<RangeId>> {
    let nodes = &session.graph_nodes;
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    let key = |row: &u32| (nodes.thread[*row as usize], nodes.time[*row as usize], *row);
    order.sort_unstable_by_key(key);
    let mut open = vec![None; nodes.len()];
    let thread = |row: &u32| -> ThreadId { nodes.thread[*row as usize] };
    for rows in order.chunk_by(|a, b| thread(a) == thread(b)) {
        let Some(own) = rows.first().and_then(|row| ranges.get(thread(row).index())) else {
            continue;
        };
        let times = rows.iter().map(|row| (nodes.time[*row as usize], nodes.time[*row as usize]));
        sweep(session, own, times, |at, found| open[rows[at] as usize] = found);
    }
    open
}

#[cfg(test)]
mod tests;
