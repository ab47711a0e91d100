//! Chains of clones, and each way in which they lead nowhere.

use super::*;
use crate::StageTables;
use rooflens_analysis::testing::trace;
use rooflens_session::{GraphCreation, GraphLaunch, GraphNode, Ns, PassId};

/// A stage with two ranges on one thread of one process, and these operations.
fn session(operations: &str) -> Session {
    trace(&format!(
        "range forward 5..30
         range attention 10..20
         range mlp 20..30
         {operations}"
    ))
}

fn node(session: &mut Session, thread: ThreadId, time: Ns, node: u64, original: Option<u64>) {
    session.graph_nodes.push(GraphNode {
        time,
        pass: PassId(0),
        thread,
        node,
        original,
    });
}

/// What the operations were captured in, by name or reason, in the order of their starts.
fn captured(session: &Session) -> Vec<String> {
    let facts = StageTables::new(session);
    let say = |one: &Captured| match one {
        Captured::Range(range) => session.text(session.ranges.name[range.index()]).to_owned(),
        other => format!("{other:?}"),
    };
    facts.ops.captured.iter().map(say).collect()
}

const THREAD: ThreadId = ThreadId(0);
const PROCESS: ProcessId = ProcessId(0);

#[test]
fn a_clone_of_a_clone_belongs_to_the_range_of_its_root() {
    let mut session = session(
        "stream 7: memset #21 100..101, memset #22 101..102, memset #23 102..103
         stream 7: memset #24 103..104, memset #11 104..105, memset #2 105..106, memset 106..107",
    );
    // Created: 1 in `attention`, 2 at the first moment of `mlp`, 3 in `forward` alone, 4 after all ranges.
    for (time, number) in [(12, 1), (20, 2), (7, 3), (30, 4)] {
        node(&mut session, THREAD, Ns(time), number, None);
        // Instantiated later, outside of all ranges; the exporter repeats the creation without the original.
        node(&mut session, THREAD, Ns(40), number + 10, Some(number));
        node(&mut session, THREAD, Ns(41), number + 10, None);
        node(&mut session, THREAD, Ns(50), number + 20, Some(number + 10));
    }
    let expected = [
        "attention",
        "mlp",
        "forward",
        "Outside",
        "attention",
        "mlp",
        "NoGraph",
    ];
    assert_eq!(captured(&session), expected);
}

#[test]
fn what_the_events_do_not_decide_stays_open_with_its_reason() {
    let numbers = [1, 77, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let replay = |(start, number)| format!("stream 7: memset #{number} {start}..{}\n", start + 1);
    let mut session = session(&(100..).zip(numbers).map(replay).collect::<String>());
    node(&mut session, THREAD, Ns(12), 1, None);
    // The original 99 was captured before the trace began.
    node(&mut session, THREAD, Ns(40), 2, Some(99));
    node(&mut session, THREAD, Ns(40), 3, Some(2));
    // Originals that differ, and creations in different ranges.
    node(&mut session, THREAD, Ns(40), 4, Some(1));
    node(&mut session, THREAD, Ns(40), 4, Some(2));
    node(&mut session, THREAD, Ns(12), 5, None);
    node(&mut session, THREAD, Ns(25), 5, None);
    node(&mut session, THREAD, Ns(40), 6, Some(5));
    // Circles of one and of two, and a node that leads into one.
    node(&mut session, THREAD, Ns(40), 7, Some(7));
    node(&mut session, THREAD, Ns(40), 8, Some(9));
    node(&mut session, THREAD, Ns(40), 9, Some(8));
    node(&mut session, THREAD, Ns(40), 10, Some(9));
    let expected = [
        "attention",
        "UnknownNode",
        "UnknownOriginal",
        "UnknownOriginal",
        "Ambiguous",
        "Ambiguous",
        "Ambiguous",
        "Cycle",
        "Cycle",
        "Cycle",
        "Cycle",
    ];
    assert_eq!(captured(&session), expected);
}

#[test]
fn node_numbers_are_those_of_one_process() {
    let mut session = session(
        "stream 7: memset #1 100..101
         rank 1
         stream 7: memset #1 101..102
         rank 2
         stream 7: memset #1 102..103",
    );
    let thread = ThreadId(1);
    node(&mut session, THREAD, Ns(12), 1, None);
    // The same number in another process, at a time when only the first one has a range open.
    node(&mut session, thread, Ns(25), 1, None);
    assert_eq!(captured(&session), ["attention", "Outside", "NoEvents"]);
}

#[test]
fn a_whole_graph_belongs_to_the_range_in_which_it_was_created() {
    let mut session = session("");
    // Graph 1 in `mlp`, 2 a clone of it, 3 a clone of one that was created before the trace.
    for (time, graph, original) in [(25, 1, None), (40, 2, Some(1)), (41, 3, Some(99))] {
        let (pass, thread) = (PassId(0), THREAD);
        session.graph_creations.push(GraphCreation {
            time: Ns(time),
            pass,
            thread,
            graph,
            original,
        });
    }
    for (start, graph) in [
        (100, Some(1)),
        (101, Some(2)),
        (102, Some(3)),
        (103, Some(4)),
        (104, None),
    ] {
        session.graph_launches.push(GraphLaunch {
            start: Ns(start),
            end: Ns(start + 1),
            pass: PassId(0),
            gpu: rooflens_session::GpuId(0),
            process: PROCESS,
            stream: 7,
            correlation: Some(start),
            graph,
        });
    }
    assert_eq!(
        captured(&session),
        ["mlp", "mlp", "UnknownOriginal", "Whole", "Whole"]
    );
}

#[test]
fn a_graph_launch_makes_its_operations_work_of_a_graph_also_without_node_numbers() {
    let session = session(
        "hipGraphLaunch 60..61 -> memset 100..101
         cudaMemsetAsync 60..61 -> memset 101..102",
    );
    assert_eq!(captured(&session), ["NoNode", "NoGraph"]);
}
