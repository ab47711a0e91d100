//! Steps made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;
use rustc_hash::FxHashMap;

use super::walk::{Piece, Segment, path, slack};
use super::*;
use crate::Facts;
use crate::testing::{api_call, launch};
use rooflens_session::{ApiCall, Launch, Session};

struct Program {
    session: Session,
    pass: PassId,
    correlation: i64,
}

impl Program {
    fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
        Self {
            session,
            pass,
            correlation: 0,
        }
    }

    fn call(&mut self, process: i64, name: &str, (start, end): (i64, i64)) {
        self.correlation += 1;
        let process = self.session.process(self.pass, process, process);
        let thread = self.session.thread(process, 1);
        let correlation = Some(self.correlation);
        let call = api_call(self.pass, self.session.intern(name), start..end);
        self.session.api_calls.push(ApiCall {
            process,
            thread,
            correlation,
            ..call
        });
    }

    /// A launch by the process of that number, onto the GPU of the same number.
    fn launch(&mut self, process: i64, call: (i64, i64), kernel: (&str, u64, i64, i64)) {
        self.call(process, "cudaLaunchKernel", call);
        let (name, stream, start, end) = kernel;
        let gpu = self.session.gpu(self.pass, process as u32);
        let process = self.session.process(self.pass, process, process);
        let correlation = Some(self.correlation);
        let launch = launch(self.pass, self.session.kernel(name, ""), start..end);
        self.session.launches.push(Launch {
            process,
            gpu,
            stream,
            correlation,
            ..launch
        });
    }

    /// Pieces of the path from the first to the last (kind, length), and the slack by operation.
    fn solve(&self, last_rank: &[(u32, u32)]) -> (Vec<(&'static str, Ns)>, Vec<Ns>) {
        let facts = Facts::new(&self.session);
        let (hardware, options) = (
            rooflens_hardware::Hardware::default(),
            crate::Options::default(),
        );
        let context = Context::new(&self.session, &facts, &hardware, &options);
        let step = Step {
            pass: self.pass,
            processes: self.session.processes.ids().collect(),
            start: *facts.ops.start.iter().min().unwrap(),
            end: *facts.ops.end.iter().max().unwrap(),
        };
        let last_rank: FxHashMap<u32, u32> = last_rank.iter().copied().collect();
        let graph = Graph::new(&context, &step, &last_rank);
        let mut segments = path(&graph, &step);
        assert_eq!(
            segments.iter().map(Segment::length).sum::<Ns>(),
            step.end - step.start
        );
        segments.reverse();
        let kind = |piece| match piece {
            Piece::Op(_) => "op",
            Piece::Gap(_) => "gap",
            Piece::Launch(_) => "launch",
            Piece::Call(_) => "call",
            Piece::Return(_) => "return",
            Piece::Host(_) => "host",
            Piece::Unknown => "unknown",
        };
        let pieces = segments
            .iter()
            .map(|one| (kind(one.piece), one.length()))
            .collect();
        (pieces, slack(&graph, &step))
    }
}

#[test]
fn the_path_goes_through_launch_host_and_wait() {
    let mut program = Program::new();
    // The first runs long; the host waits for it, works, and launches again: [0, 100) and [130, 150).
    program.launch(0, (-10, -4), ("gemm", 7, 0, 100));
    program.call(0, "cudaStreamSynchronize", (5, 104));
    program.launch(0, (114, 120), ("gemm", 7, 130, 150));
    // Queued behind it.
    program.launch(0, (121, 125), ("gemm", 7, 152, 160));
    let (pieces, slack) = program.solve(&[]);
    let expected = [
        ("op", Ns(100)),    // [0, 100)
        ("return", Ns(4)),  // until 104
        ("host", Ns(10)),   // until 114
        ("call", Ns(6)),    // until 120
        ("launch", Ns(10)), // until 130
        ("op", Ns(20)),     // until 150
        ("gap", Ns(2)),     // until 152
        ("op", Ns(8)),
    ];
    assert_eq!(pieces, expected);
    assert_eq!(slack, [Ns::ZERO, Ns::ZERO, Ns::ZERO]);
}

#[test]
fn another_stream_is_waited_for_and_what_is_hidden_has_slack() {
    let mut program = Program::new();
    let us = 1000;
    program.launch(0, (-20 * us, -19 * us), ("gemm", 7, 0, 100 * us));
    program.launch(
        0,
        (-18 * us, -17 * us),
        ("ncclDevKernel_AllReduce(T)", 9, 10 * us, 180 * us),
    );
    // Hidden behind the collective: it could end 80 µs later.
    program.launch(0, (-16 * us, -15 * us), ("gemm", 7, 100 * us, 102 * us));
    // Its stream was free at 102 µs, its launch long ago: it waited for the collective.
    program.launch(0, (-14 * us, -13 * us), ("adam", 7, 182 * us, 200 * us));
    let (pieces, slack) = program.solve(&[]);
    // Before the collective there is no operation of its stream, and its launch lies before the window.
    assert_eq!(
        pieces,
        [
            ("unknown", Ns(10 * us)),
            ("op", Ns(170 * us)),
            ("gap", Ns(2 * us)),
            ("op", Ns(18 * us))
        ]
    );
    assert_eq!(slack, [80 * us, 0, 80 * us, 0].map(Ns));
}

#[test]
fn what_was_issued_before_the_step_could_begin_with_it() {
    let mut program = Program::new();
    let us = 1000;
    program.launch(0, (-20 * us, -19 * us), ("gemm", 7, 0, 49 * us));
    // The first of its stream, issued before the step: it waited for the product.
    program.launch(
        0,
        (-18 * us, -17 * us),
        ("ncclDevKernel_AllReduce(T)", 9, 50 * us, 100 * us),
    );
    let (pieces, slack) = program.solve(&[]);
    assert_eq!(
        pieces,
        [("op", Ns(49 * us)), ("gap", Ns(us)), ("op", Ns(50 * us))]
    );
    assert_eq!(slack, [Ns::ZERO, Ns::ZERO]);
}

#[test]
fn what_is_queued_says_nothing_of_how_long_a_launch_takes() {
    let mut program = Program::new();
    let us = 1000;
    // A launch takes 6 µs, as the call before the step shows; the next ones wait for their stream.
    program.launch(0, (-6 * us, -5 * us), ("gemm", 7, 0, 100 * us));
    program.launch(0, (10 * us, 12 * us), ("gemm", 7, 101 * us, 200 * us));
    program.launch(0, (20 * us, 22 * us), ("gemm", 7, 201 * us, 210 * us));
    let (pieces, _) = program.solve(&[]);
    let expected = [("op", 100), ("gap", 1), ("op", 99), ("gap", 1), ("op", 9)];
    assert_eq!(
        pieces,
        expected.map(|(kind, length)| (kind, Ns(length * us)))
    );
}

#[test]
fn what_begins_in_the_tail_of_a_kernel_waited_for_room() {
    let mut program = Program::new();
    let us = 1000;
    program.launch(0, (-20 * us, -19 * us), ("gemm", 7, 0, 100 * us));
    // In the last fifth of the product, with nothing else to wait for.
    program.launch(
        0,
        (-18 * us, -17 * us),
        ("ncclDevKernel_AllReduce(T)", 9, 80 * us, 150 * us),
    );
    let (pieces, slack) = program.solve(&[]);
    assert_eq!(pieces, [("op", Ns(80 * us)), ("op", Ns(70 * us))]);
    assert_eq!(slack, [Ns::ZERO, Ns::ZERO]);
}

#[test]
fn a_collective_is_followed_to_the_rank_that_came_last() {
    let mut program = Program::new();
    let us = 1000;
    // Rank 0 computes for 50 µs and waits; rank 1 computes for 90 µs.
    program.launch(0, (-20 * us, -19 * us), ("gemm", 7, 0, 50 * us));
    program.launch(1, (-20 * us, -19 * us), ("gemm", 7, 0, 90 * us));
    program.launch(
        0,
        (-18 * us, -17 * us),
        ("ncclDevKernel_AllReduce(T)", 7, 50 * us, 100 * us),
    );
    program.launch(
        1,
        (-18 * us, -17 * us),
        ("ncclDevKernel_AllReduce(T)", 7, 90 * us, 100 * us),
    );
    program.launch(0, (-16 * us, -15 * us), ("adam", 7, 100 * us, 120 * us));
    // Operations by start: 0 and 1 the products, 2 and 3 the collectives.
    let (pieces, slack) = program.solve(&[(2, 3)]);
    assert_eq!(
        pieces,
        [
            ("op", Ns(90 * us)),
            ("op", Ns(10 * us)),
            ("op", Ns(20 * us))
        ]
    );
    // Rank 0's product could end 40 µs later.
    assert_eq!(slack, [40 * us, 0, 0, 0, 0].map(Ns));
}
