//! Steps made by hand.

#![allow(clippy::unwrap_used)]

use rustc_hash::FxHashMap;

use super::walk::{Piece, Segment, path, slack};
use super::*;
use crate::testing::{trace, with_results};

/// Pieces of the path from the first to the last (kind, length), and the slack by operation.
fn solve(events: &str, last_rank: &[(u32, u32)]) -> (Vec<(&'static str, Ns)>, Vec<Ns>) {
    with_results(&trace(events), |context| {
        let ops = &context.facts.ops;
        let step = Step {
            pass: PassId(0),
            processes: context.session.processes.ids().collect(),
            start: *ops.start.iter().min().unwrap(),
            end: *ops.end.iter().max().unwrap(),
        };
        let last_rank: FxHashMap<u32, u32> = last_rank.iter().copied().collect();
        let graph = Graph::new(context, &step, &last_rank);
        let mut segments = path(&graph, &step);
        let length: Ns = segments.iter().map(Segment::length).sum();
        assert_eq!(length, step.end - step.start);
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
            .map(|segment| (kind(segment.piece), segment.length()))
            .collect();
        (pieces, slack(&graph, &step))
    })
}

#[test]
fn the_path_goes_through_launch_host_and_wait() {
    // The first runs long; the host waits for it, works, and launches again: [0, 100) and [130, 150).
    let (pieces, slack) = solve(
        "launch -10..-4 -> gemm 0..100
         cudaStreamSynchronize 5..104
         launch 114..120 -> gemm 130..150
         launch 121..125 -> gemm 152..160 // queued behind it",
        &[],
    );
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
    let us = 1000;
    // The second product is hidden behind the collective: it could end 80 µs later. The stream of `adam` was free at
    // 102 µs, its launch long ago: it waited for the collective.
    let (pieces, slack) = solve(
        "launch -20us..-19us -> gemm 0us..100us
         launch -16us..-15us -> gemm 100us..102us
         launch -14us..-13us -> adam 182us..200us
         stream 9
         launch -18us..-17us -> ncclDevKernel_AllReduce(T) 10us..180us",
        &[],
    );
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
    let us = 1000;
    // The collective is the first of its stream, issued before the step: it waited for the product.
    let (pieces, slack) = solve(
        "launch -20us..-19us -> gemm 0us..49us
         stream 9
         launch -18us..-17us -> ncclDevKernel_AllReduce(T) 50us..100us",
        &[],
    );
    assert_eq!(
        pieces,
        [("op", Ns(49 * us)), ("gap", Ns(us)), ("op", Ns(50 * us))]
    );
    assert_eq!(slack, [Ns::ZERO, Ns::ZERO]);
}

#[test]
fn what_is_queued_says_nothing_of_how_long_a_launch_takes() {
    let us = 1000;
    // A launch takes 6 µs, as the call before the step shows; the next ones wait for their stream.
    let (pieces, _) = solve(
        "launch -6us..-5us -> gemm 0us..100us
         launch 10us..12us -> gemm 101us..200us
         launch 20us..22us -> gemm 201us..210us",
        &[],
    );
    let expected = [("op", 100), ("gap", 1), ("op", 99), ("gap", 1), ("op", 9)];
    assert_eq!(
        pieces,
        expected.map(|(kind, length)| (kind, Ns(length * us)))
    );
}

#[test]
fn what_begins_in_the_tail_of_a_kernel_waited_for_room() {
    let us = 1000;
    // In the last fifth of the product, with nothing else to wait for.
    let (pieces, slack) = solve(
        "launch -20us..-19us -> gemm 0us..100us
         stream 9
         launch -18us..-17us -> ncclDevKernel_AllReduce(T) 80us..150us",
        &[],
    );
    assert_eq!(pieces, [("op", Ns(80 * us)), ("op", Ns(70 * us))]);
    assert_eq!(slack, [Ns::ZERO, Ns::ZERO]);
}

#[test]
fn a_collective_is_followed_to_the_rank_that_came_last() {
    let us = 1000;
    // Rank 0 computes for 50 µs and waits; rank 1 computes for 90 µs.
    // Operations by start: 0 and 1 the products, 2 and 3 the collectives.
    let (pieces, slack) = solve(
        "launch -20us..-19us -> gemm 0us..50us
         launch -18us..-17us -> ncclDevKernel_AllReduce(T) 50us..100us
         launch -16us..-15us -> adam 100us..120us
         rank 1
         launch -20us..-19us -> gemm 0us..90us
         launch -18us..-17us -> ncclDevKernel_AllReduce(T) 90us..100us",
        &[(2, 3)],
    );
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
