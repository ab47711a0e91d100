//! What the section shows of small sessions, by hand.

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::Made;
use rooflens_document::Cell;

/// The greatest wait is at start-up, before the range: it comes last, and in a table of its own.
#[test]
fn waits_outside_of_stages_come_after_those_within() {
    let mut program = Made::timeline();
    program.launch(-9_000..-8_990, -8_980..-8_000);
    program.call("cudaDeviceSynchronize", -8_500, -7_900, -1);
    program.range_at("decode", 0, 300);
    program.launch(0..5, 10..100);
    program.call("cudaStreamSynchronize", 20, 105, -1);
    program.launch(110..115, 130..140);
    let found = show(&SECTION, &program.session);
    let data = dataset(&found, "synchronization");
    let (stages, calls) = (column(data, "stage"), column(data, "call"));
    let name = |name: &str| Cell::Name(name.to_owned());
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
    let mut program = Made::timeline();
    program.launch(0..5, 10..100);
    let found = show(&SECTION, &program.session);
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}
