//! What the section shows of small sessions, by hand.

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;

/// The greatest wait is at start-up, before the range: it comes last, and in a table of its own.
#[test]
fn waits_outside_of_stages_come_after_those_within() {
    let session = trace(
        "launch -9_000..-8_990 -> gemm -8_980..-8_000
         cudaDeviceSynchronize -8_500..-7_900
         range decode 0..300
         launch 0..5 -> gemm 10..100
         cudaStreamSynchronize 20..105
         launch 110..115 -> gemm 130..140",
    );
    let found = show(&SECTION, &session);
    let data = dataset(&found, "synchronization");
    let (stages, calls) = (column(data, "stage"), column(data, "call"));
    let name = |name: &str| Cell::Name(name.into());
    // The gap [-8 000, 10) is charged to the first call, [100, 130) to the second.
    assert_eq!(stages, [name("decode"), Cell::Missing]);
    assert_eq!(
        calls,
        [name("cudaStreamSynchronize"), name("cudaDeviceSynchronize")]
    );
    assert_eq!(column(data, "time_ns"), [85, 600].map(Cell::Int));
    assert_eq!(column(data, "idle_ns"), [30, 8_010].map(Cell::Int));
    let views: Vec<(usize, usize)> = found
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Table(view) => Some((view.skip, view.limit)),
            _ => None,
        })
        .collect();
    assert_eq!(views, [(0, 1), (1, 1)]);
}

#[test]
fn without_waits_nothing_is_said() {
    let found = show(&SECTION, &trace("launch 0..5 -> gemm 10..100"));
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}
