//! The forward operator of each backward operator.
//!
//! Autograd counts the nodes of its graph by thread. A backward operator has the number of its node and that of the
//! thread which made it; an operator of the forward pass has the number of the node that is made next on its thread.
//! So of the operators with the number the latest to begin made the node, as in PyTorch's own arrows.

use rooflens_session::Ns;
use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::rows::{Key, Rows, SequenceRow};

/// Backward operators with their forward ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ties {
    /// Indices of rows: a backward operator, and its forward one.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Backward operators whose forward operator is not in the trace.
    pub(super) missing: u64,
    /// Backward operators whose number operators of several threads have.
    pub(super) ambiguous: u64,
}

/// Threads that are looked at for a number: more never have the same one.
const MAX_THREADS: usize = 256;

/// An operator that is no backward one: process, number, lane, start, end reversed, row.
type Forward = (Key, i64, u32, Ns, Reverse<Ns>, usize);

/// Finds the ties of all backward operators; `lanes` are those of the file.
pub(super) fn ties(rows: &Rows, lanes: &[(Key, Key)]) -> Ties {
    let mut ties = Ties::default();
    if rows.sequences.iter().all(|row| row.forward_thread == 0) {
        return ties;
    }
    let span = |row: &SequenceRow| rows.operators[row.operator].span;
    let process = |row: &SequenceRow| lanes[span(row).lane as usize].0;
    let (backward, forward): (Vec<&SequenceRow>, Vec<&SequenceRow>) = rows
        .sequences
        .iter()
        .partition(|row| row.forward_thread > 0);
    let key = |row: &&SequenceRow| {
        let span = span(row);
        (
            process(row),
            row.number,
            span.lane,
            span.start,
            Reverse(span.end),
            row.operator,
        )
    };
    let mut forward: Vec<Forward> = forward.iter().map(key).collect();
    forward.sort_unstable();
    let threads = threads(rows, lanes, &backward);
    for row in backward {
        let named = threads
            .get(&(process(row), row.forward_thread))
            .copied()
            .flatten();
        match made_by(&forward, (process(row), row.number), named, span(row).start) {
            Ok(Some(operator)) => ties.pairs.push((row.operator, operator)),
            Ok(None) => ties.missing += 1,
            Err(Several) => ties.ambiguous += 1,
        }
    }
    ties
}

/// Operators of several threads qualify.
struct Several;

/// The last operator of a node's number that began up to `until`, on the lane that is named, or on the only one.
fn made_by(
    forward: &[Forward],
    node: (Key, i64),
    named: Option<u32>,
    until: Ns,
) -> Result<Option<usize>, Several> {
    let from = forward.partition_point(|row| (row.0, row.1) < node);
    let from_node = &forward[from..];
    let mut rest = &from_node[..from_node.partition_point(|row| (row.0, row.1) == node)];
    let mut last = None;
    for _ in 0..MAX_THREADS {
        let Some(lane) = rest.first().map(|row| row.2) else {
            return Ok(last);
        };
        let (of_lane, lanes_after) = rest.split_at(rest.partition_point(|row| row.2 == lane));
        let began = of_lane.partition_point(|row| row.3 <= until);
        let operator = of_lane[..began]
            .last()
            .filter(|_| named.is_none_or(|named| named == lane));
        if operator.is_some() && last.is_some() {
            return Err(Several);
        }
        last = last.or(operator.map(|row| row.5));
        rest = lanes_after;
    }
    Err(Several)
}

/// The lanes that the framework's numbers of threads mean, where arrows tell; none where they contradict.
fn threads(
    rows: &Rows,
    lanes: &[(Key, Key)],
    backward: &[&SequenceRow],
) -> FxHashMap<(Key, u32), Option<u32>> {
    let starts: FxHashMap<i64, u32> = rows
        .gradient_starts
        .iter()
        .map(|row| (row.id, row.lane))
        .collect();
    let ends: FxHashMap<(u32, Ns), i64> = rows
        .gradient_ends
        .iter()
        .map(|row| ((row.lane, row.time), row.id))
        .collect();
    let mut threads = FxHashMap::default();
    for row in backward {
        let span = rows.operators[row.operator].span;
        let arrow = ends
            .get(&(span.lane, span.start))
            .and_then(|id| starts.get(id))
            .copied();
        if let Some(lane) = arrow {
            let process = lanes[span.lane as usize].0;
            let forward_lane = threads
                .entry((process, row.forward_thread))
                .or_insert(Some(lane));
            *forward_lane = forward_lane.filter(|forward_lane| *forward_lane == lane);
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::{Ties, ties};
    use crate::torch::rows::{FlowRow, Key, OperatorRow, Rows, SequenceRow, Span};
    use rooflens_session::Ns;

    const LANES: [(Key, Key); 3] = [
        (Key::Number(1), Key::Number(10)),
        (Key::Number(1), Key::Number(11)),
        (Key::Number(2), Key::Number(20)),
    ];

    #[derive(Default)]
    struct Trace(Rows);

    impl Trace {
        fn operator(mut self, lane: u32, at: (i64, i64), number: i64, forward_thread: u32) -> Self {
            let span = Span {
                start: Ns(at.0),
                end: Ns(at.1),
                name: 0,
                lane,
            };
            let operator = self.0.operators.len();
            let (external, shapes, strides, types, inputs) = (None, 0, 0, 0, 0);
            self.0.operators.push(OperatorRow {
                span,
                external,
                shapes,
                strides,
                types,
                inputs,
            });
            self.0.sequences.push(SequenceRow {
                operator,
                number,
                forward_thread,
            });
            self
        }

        fn arrow(mut self, id: i64, from: (u32, i64), to: (u32, i64)) -> Self {
            self.0.gradient_starts.push(FlowRow {
                lane: from.0,
                time: Ns(from.1),
                id,
            });
            self.0.gradient_ends.push(FlowRow {
                lane: to.0,
                time: Ns(to.1),
                id,
            });
            self
        }

        fn ties(&self) -> Ties {
            ties(&self.0, &LANES)
        }
    }

    #[test]
    fn the_last_operator_with_the_number_made_the_node() {
        // `linear` 0 around `t` 1 and `addmm` 2; dropout 3 that does nothing and `add` 4; and their nodes.
        let trace = Trace::default()
            .operator(0, (0, 100), 7, 0)
            .operator(0, (5, 10), 7, 0)
            .operator(0, (20, 90), 8, 0)
            .operator(0, (110, 120), 9, 0)
            .operator(0, (130, 140), 9, 0)
            .operator(1, (200, 220), 9, 1)
            .operator(1, (230, 260), 8, 1)
            .operator(1, (235, 255), 8, 1)
            .operator(1, (270, 280), 7, 1)
            // The next step's first operator.
            .operator(0, (300, 310), 7, 0);
        assert_eq!(trace.ties().pairs, [(5, 4), (6, 2), (7, 2), (8, 1)]);
    }

    #[test]
    fn nodes_of_before_the_trace_are_missing() {
        let trace = Trace::default()
            .operator(1, (0, 10), 7, 1)
            .operator(0, (20, 30), 7, 0)
            // The same number in another process.
            .operator(2, (40, 50), 7, 1);
        assert_eq!(
            trace.ties(),
            Ties {
                pairs: Vec::new(),
                missing: 2,
                ambiguous: 0
            }
        );
    }

    #[test]
    fn numbers_of_several_threads_are_left_out_unless_arrows_tell_them_apart() {
        let trace = || {
            Trace::default()
                .operator(0, (0, 10), 7, 0)
                .operator(1, (5, 15), 7, 0)
                .operator(1, (20, 30), 7, 1)
                .operator(0, (40, 50), 8, 0)
                .operator(1, (60, 70), 8, 1)
        };
        assert_eq!(
            trace().ties(),
            Ties {
                pairs: vec![(4, 3)],
                missing: 0,
                ambiguous: 1
            }
        );
        let told = trace().arrow(3, (0, 40), (1, 60));
        assert_eq!(told.ties().pairs, [(2, 0), (4, 3)]);
        // Arrows that contradict one another tell nothing.
        let contradicting = told.arrow(4, (1, 5), (1, 20));
        assert_eq!(contradicting.ties().ambiguous, 1);
    }
}
