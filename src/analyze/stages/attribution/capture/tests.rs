//! Chains of clones, and each way in which they lead nowhere.

use rooflens_schemas::PassKind;

use super::*;
use crate::StageTables;
use rooflens_session::{
    ApiCall, ApiLevel, Copy, CopyKind, GraphCreation, GraphLaunch, GraphNode, MemoryKind, Ns,
    PassId, Range, RangeKind,
};

/// One thread of one process with the ranges `attention` in [10, 20) and `mlp` in [20, 30), both in
/// `forward` [5, 30), which is the stage.
fn session() -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
    let process = session.process(pass, 1, 1);
    let thread = session.thread(process, 1);
    for (name, start, end) in [("forward", 5, 30), ("attention", 10, 20), ("mlp", 20, 30)] {
        let (name, domain) = (session.intern(name), session.intern(""));
        let kind = RangeKind::PushPop;
        session.ranges.push(Range {
            start: Ns(start),
            end: Ns(end),
            name,
            domain,
            kind,
            unclosed: false,
            pass,
            thread,
        });
    }
    session
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

/// A memset of the process, replayed by a call at `start`.
fn replay(session: &mut Session, process: ProcessId, start: Ns, graph_node: Option<u64>) {
    session.copies.push(Copy {
        start,
        end: start + Ns(1),
        kind: CopyKind::Memset,
        bytes: 1,
        source: MemoryKind::Unknown,
        destination: MemoryKind::Device,
        pass: PassId(0),
        gpu: rooflens_session::GpuId(0),
        process,
        stream: 7,
        correlation: Some(start.0),
        graph_node,
        graph: None,
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
    let mut session = session();
    // Created: 1 in `attention`, 2 at the first moment of `mlp`, 3 in `forward` alone, 4 after all ranges.
    for (time, number) in [(12, 1), (20, 2), (7, 3), (30, 4)] {
        node(&mut session, THREAD, Ns(time), number, None);
        // Instantiated later, outside of all ranges; the exporter repeats the creation without the original.
        node(&mut session, THREAD, Ns(40), number + 10, Some(number));
        node(&mut session, THREAD, Ns(41), number + 10, None);
        node(&mut session, THREAD, Ns(50), number + 20, Some(number + 10));
    }
    for (start, number) in [
        (100, 21),
        (101, 22),
        (102, 23),
        (103, 24),
        (104, 11),
        (105, 2),
    ] {
        replay(&mut session, PROCESS, Ns(start), Some(number));
    }
    replay(&mut session, PROCESS, Ns(106), None);
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
    let mut session = session();
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
    for (at, number) in [1, 77, 2, 3, 4, 5, 6, 7, 8, 9, 10].into_iter().enumerate() {
        replay(&mut session, PROCESS, Ns(100 + at as i64), Some(number));
    }
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
    let mut session = session();
    let other = session.process(PassId(0), 2, 2);
    let silent = session.process(PassId(0), 3, 3);
    let thread = session.thread(other, 9);
    node(&mut session, THREAD, Ns(12), 1, None);
    // The same number in another process, at a time when only the first one has a range open.
    node(&mut session, thread, Ns(25), 1, None);
    for (start, process) in [(100, PROCESS), (101, other), (102, silent)] {
        replay(&mut session, process, Ns(start), Some(1));
    }
    assert_eq!(captured(&session), ["attention", "Outside", "NoEvents"]);
}

#[test]
fn a_whole_graph_belongs_to_the_range_in_which_it_was_created() {
    let mut session = session();
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
    let mut session = session();
    for (correlation, name) in [(100, "hipGraphLaunch"), (101, "cudaMemsetAsync")] {
        let name = session.intern(name);
        session.api_calls.push(ApiCall {
            start: Ns(60),
            end: Ns(61),
            name,
            level: ApiLevel::Runtime,
            nested: false,
            pass: PassId(0),
            process: PROCESS,
            thread: THREAD,
            correlation: Some(correlation),
        });
        replay(&mut session, PROCESS, Ns(correlation), None);
    }
    assert_eq!(captured(&session), ["NoNode", "NoGraph"]);
}
