//! Which range work in a CUDA graph was captured in: from its node to the node's original, and from the
//! moment of that one's creation to the range that was open then on the capturing thread.
//!
//! Where the events do not lead to one range the reason is kept, and nothing is guessed.

use rustc_hash::FxHashMap;

use super::sweep;
use crate::tables::{Captured, OpSource, Ops};
use rooflens_session::{Ns, ProcessId, RangeId, Session, StrId, ThreadId};

/// What stands in the names of all calls that replay a graph: `cudaGraphLaunch`, `cuGraphLaunch`, `hipGraphLaunch`.
const LAUNCH: &str = "GraphLaunch";

/// A node or graph of a process.
type Key = (ProcessId, u64);

/// Fills [`Ops::captured`]. `ranges` are those that count, by thread, outer before inner. O(operations + events).
pub(super) fn attribute(session: &Session, ops: &mut Ops, ranges: &[Vec<RangeId>]) {
    let mut nodes = Origins::new(session, ranges, node_events(session));
    let mut graphs = Origins::new(session, ranges, graph_events(session));
    let mut launches_graph = LaunchNames::default();
    for op in 0..ops.len() {
        let source = ops.source[op];
        let mut replayed = |op: usize| {
            let name = ops.api_call[op].map(|call| session.api_calls.name[call.index()]);
            name.is_some_and(|name| launches_graph.holds(session, name))
        };
        let process = ops.process[op];
        ops.captured[op] = match (source, node_of(session, source)) {
            (OpSource::Graph(graph), _) => {
                let graph = session.graph_launches.graph[graph.index()];
                // One operation and no node: what nodes cannot tell is reported as one reason.
                match graph.map(|graph| graphs.find((process, graph))) {
                    None | Some(Captured::NoEvents | Captured::UnknownNode) => Captured::Whole,
                    Some(found) => found,
                }
            }
            (_, Some(node)) => nodes.find((process, node)),
            _ if in_a_graph(session, source) || replayed(op) => Captured::NoNode,
            _ => Captured::NoGraph,
        };
    }
}

/// The creation of a node or graph: thread, time, number and the number of the original.
type Event = (ThreadId, Ns, u64, Option<u64>);

fn node_events(session: &Session) -> Vec<Event> {
    let nodes = &session.graph_nodes;
    let row = |row| {
        (
            nodes.thread[row],
            nodes.time[row],
            nodes.node[row],
            nodes.original[row],
        )
    };
    (0..nodes.len()).map(row).collect()
}

fn graph_events(session: &Session) -> Vec<Event> {
    let graphs = &session.graph_creations;
    let row = |row| {
        (
            graphs.thread[row],
            graphs.time[row],
            graphs.graph[row],
            graphs.original[row],
        )
    };
    (0..graphs.len()).map(row).collect()
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
        *self
            .0
            .entry(name)
            .or_insert_with(|| session.text(name).contains(LAUNCH))
    }
}

/// What the events of one node or graph say.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is a clone of that node.
    CloneOf(u64),
    /// It was captured here.
    Known(Captured),
    /// It is being followed: to come here again is a circle.
    Open,
}

/// Nodes or graphs by process and number.
struct Origins {
    steps: FxHashMap<Key, Step>,
    /// Processes with events, by [`ProcessId`].
    seen: Vec<bool>,
}

impl Origins {
    fn new(session: &Session, ranges: &[Vec<RangeId>], mut events: Vec<Event>) -> Self {
        events.sort_unstable();
        let open = ranges_at(session, ranges, &events);
        let mut origins = Self {
            steps: FxHashMap::with_capacity_and_hasher(events.len(), rustc_hash::FxBuildHasher),
            seen: vec![false; session.processes.len()],
        };
        for ((thread, _, number, original), open) in events.into_iter().zip(open) {
            let process = session.threads.process[thread.index()];
            let event = match original {
                Some(original) => Step::CloneOf(original),
                None => Step::Known(open.map_or(Captured::Outside, Captured::Range)),
            };
            origins.seen[process.index()] = true;
            let slot = origins.steps.entry((process, number)).or_insert(event);
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
        let capture = loop {
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
            self.steps.insert(node, Step::Known(capture));
        }
        capture
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

/// The innermost range that was open on the thread of each event at its time; events are sorted.
fn ranges_at(session: &Session, ranges: &[Vec<RangeId>], events: &[Event]) -> Vec<Option<RangeId>> {
    let mut open = Vec::with_capacity(events.len());
    for of_thread in events.chunk_by(|a, b| a.0 == b.0) {
        let calls = of_thread
            .first()
            .and_then(|event| ranges.get(event.0.index()));
        let times = of_thread.iter().map(|event| (event.1, event.1));
        sweep(
            session,
            calls.map_or(&[], Vec::as_slice),
            times,
            |_, found| open.push(found),
        );
    }
    open
}

#[cfg(test)]
mod tests;
