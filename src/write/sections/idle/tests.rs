//! What the section shows of small sessions, by hand.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, metric, show};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;
use rooflens_document::chart::{Chart, Plot, Track};

/// What a page shows of a gap: 10 to 200 030 in the range `layer`, in a pause of the host.
#[test]
fn the_longest_gaps_say_where_the_host_was() {
    let session = trace(
        "range decode 0..300_000
         range layer 20..200_050
         launch 0..1 -> axpy 2..10
         os read 100_000..100_030
         frame /home/me/run/train.py(3): main 5..300_000
         frame /home/me/run/data.py(7): __next__ 50..200_010
         frame <built-in method acquire of lock object at 0x7f00> 100..200_000
         frame /home/me/run/data.py(9): other 200_000..200_010
         launch 200_020..200_025 -> axpy 200_030..200_032",
    );
    let found = show(&SECTION, &session);
    let of = |id| column(dataset(&found, "gaps"), id)[0].clone();
    assert_eq!(of("frame"), Cell::Name("run/data.py:7(__next__)".into()));
    assert_eq!(
        (of("start_ns"), of("length_ns")),
        (Cell::Int(10), Cell::Int(200_020))
    );
    assert_eq!(of("cause"), Cell::Text("host code".into()));
    // The middle of the pause from 10 to 200 020 is 100 015.
    assert_eq!(of("host"), Cell::Text("read".into()));
    assert_eq!(of("path"), Cell::Name("decode / layer".into()));
    assert_eq!(of("issued_by"), Cell::Name("cudaLaunchKernel".into()));
}

/// The queue of three launches: calls return at 5, 6 and 7, kernels begin at 10, 20 and 30.
#[test]
fn the_queue_over_time_is_a_chart() {
    let session = trace(
        "range prefill 0..8
         launch 4..5 -> axpy 10..20
         launch 5..6 -> axpy 20..30
         launch 6..7 -> axpy 30..40",
    );
    let found = show(&SECTION, &session);
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
    let session = trace(
        "range prefill 0..70
         launch 0..1 -> gemm 0..40
         launch 50..55 -> axpy 60..80
         cudaMemcpyAsync 56..57 -> memcpy HtoD pinned 70..100",
    );
    let found = show(&SECTION, &session);
    // The copies with 20 first, then two of 15 in their order; a gain of 0 is no row.
    let whats = column(dataset(&found, "bounds"), "what");
    let expected = [
        "copies overlapped",
        "no launching gaps",
        "no gaps because of the host",
    ];
    assert_eq!(whats, expected.map(|what| Cell::Text(what.into())));
    assert_eq!(metric(&found, "bound_launching", |_| true), Some(85.0));
}
