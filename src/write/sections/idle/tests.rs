//! What the section shows of small sessions, by hand.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, metric, show};
use rooflens_analysis::testing::Made;
use rooflens_document::Cell;
use rooflens_document::chart::{Chart, Plot, Track};
use rooflens_session::MemoryKind;

/// What a page shows of a gap: 10 to 200 030 in the range `layer`, in a pause of the host.
#[test]
fn the_longest_gaps_say_where_the_host_was() {
    let mut made = Made::timeline();
    made.range_at("decode", 0, 300_000);
    made.range_at("layer", 20, 200_050);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel_at("axpy", 2, 10, 1);
    made.os_call(100_000, 100_030);
    for (name, start, end) in [
        ("/home/me/run/train.py(3): main", 5, 300_000),
        ("/home/me/run/data.py(7): __next__", 50, 200_010),
        (
            "<built-in method acquire of lock object at 0x7f00>",
            100,
            200_000,
        ),
        ("/home/me/run/data.py(9): other", 200_000, 200_010),
    ] {
        made.frame(name, start, end);
    }
    made.call("cudaLaunchKernel", 200_020, 200_025, 2);
    made.kernel_at("axpy", 200_030, 200_032, 2);
    let found = show(&SECTION, &made.session);
    let of = |id| column(dataset(&found, "gaps"), id)[0].clone();
    assert_eq!(
        of("frame"),
        Cell::Name("run/data.py:7(__next__)".to_owned())
    );
    assert_eq!(
        (of("start_ns"), of("length_ns")),
        (Cell::Int(10), Cell::Int(200_020))
    );
    assert_eq!(of("cause"), Cell::Text("host code".to_owned()));
    // The middle of the pause from 10 to 200 020 is 100 015.
    assert_eq!(of("host"), Cell::Text("read".to_owned()));
    assert_eq!(of("path"), Cell::Name("decode / layer".to_owned()));
    assert_eq!(of("issued_by"), Cell::Name("cudaLaunchKernel".to_owned()));
}

/// The queue of three launches: calls return at 5, 6 and 7, kernels begin at 10, 20 and 30.
#[test]
fn the_queue_over_time_is_a_chart() {
    let mut made = Made::timeline();
    made.range_at("prefill", 0, 8);
    for number in 0..3 {
        made.call("cudaLaunchKernel", 4 + number, 5 + number, number);
        made.kernel_at("axpy", 10 + 10 * number, 20 + 10 * number, number);
    }
    let found = show(&SECTION, &made.session);
    // Busy throughout: with work that waits until 30, and without from then on.
    let shares = found.blocks.iter().find_map(|block| match block {
        Block::Chart(Chart {
            plot: Plot::Tracks(plot),
            ..
        }) => match &plot.tracks[1] {
            Track::Areas(areas) => Some(areas.shares.clone()),
            _ => None,
        },
        _ => None,
    });
    let (waits, empty) = (
        [vec![1.0; 20], vec![0.0; 10]],
        [vec![0.0; 20], vec![1.0; 10]],
    );
    assert_eq!(
        shares,
        Some(vec![waits.concat(), empty.concat(), vec![0.0; 30]])
    );
}

/// 100: `gemm` [0, 40), launching until 55 and 5 of latency, `axpy` [60, 80), a copy [70, 100) of which 20 stand alone.
#[test]
fn gains_are_listed_from_the_greatest() {
    let mut made = Made::timeline();
    made.range_at("prefill", 0, 70);
    made.call("cudaLaunchKernel", 0, 1, 1);
    made.kernel_at("gemm", 0, 40, 1);
    made.call("cudaLaunchKernel", 50, 55, 2);
    made.kernel_at("axpy", 60, 80, 2);
    made.call("cudaMemcpyAsync", 56, 57, 3);
    made.copy_at(MemoryKind::Pinned, 70, 100, 3);
    let found = show(&SECTION, &made.session);
    // The copies with 20 first, then two of 15 in their order; a gain of 0 is no row.
    let whats = column(dataset(&found, "bounds"), "what");
    let expected = [
        "copies overlapped",
        "no launching gaps",
        "no gaps because of the host",
    ];
    assert_eq!(whats, expected.map(|what| Cell::Text(what.to_owned())));
    assert_eq!(metric(&found, "bound_launching", |_| true), Some(85.0));
}
