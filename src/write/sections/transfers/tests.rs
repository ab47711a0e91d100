//! Copies of a small session, by hand.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{self, column, dataset, show};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;
use rooflens_session::Session;

/// A kernel at [100, 200), a pageable copy at [150, 250), a pinned one at [240, 300), a memset, one back.
fn session() -> Session {
    trace(
        "stream 7: gemm 100..200
         stream 7: memcpy HtoD pageable 3MiB 150..250, memcpy HtoD pinned 1MiB 240..300
         stream 7: memset 512B 300..310, memcpy DtoH 1000B 320..330",
    )
}

/// The metric of the whole pass, of a direction or of all copies.
fn metric(content: &SectionContent, id: &str, class: Option<&str>) -> Option<f64> {
    testing::metric(content, id, |scope| {
        scope.stage.is_none() && scope.class.as_deref() == class
    })
}

#[test]
fn copies_have_a_rate_and_a_part_that_no_kernel_hides() {
    let found = show(&SECTION, &session());
    let copies = dataset(&found, "copies");
    // By time: 100, 60, 10, 10 ns. The kernel hides [150, 200) of the first.
    assert_eq!(
        column(copies, "exposed_ns"),
        [50, 60, 10, 10].map(Cell::Int)
    );
    assert_eq!(
        column(copies, "overlapped_ns"),
        [50, 0, 0, 0].map(Cell::Int)
    );
    // 3 145 728 B in 100 ns.
    assert_eq!(
        column(copies, "rate")[0],
        Cell::Float(3_145_728.0 / 100.0 * 1e9)
    );
    assert_eq!(column(copies, "large"), [1, 1, 0, 0].map(Cell::Int));
    assert_eq!(column(copies, "link_share")[0], Cell::Missing);
    // Memsets are no copies: 100 + 60 + 10 ns; [200, 300) and [320, 330) exposed, where two overlap once.
    assert_eq!(metric(&found, "copy_time", None), Some(170.0));
    assert_eq!(metric(&found, "copy_exposed", None), Some(110.0));
    assert_eq!(
        metric(&found, "copy_time", Some("memcpy HtoD")),
        Some(160.0)
    );
    // Three of the four MiB whose memory is known.
    assert_eq!(metric(&found, "pageable_share", None), Some(0.75));
}

#[test]
fn the_share_of_the_link_needs_the_link() {
    let mut session = session();
    session.add_fact("smi.xml", "gpu 0", "maximum PCIe generation", "3");
    session.add_fact("smi.xml", "gpu 0", "maximum PCIe width", "16x");
    let found = show(&SECTION, &session);
    let Cell::Float(share) = column(dataset(&found, "copies"), "link_share")[1] else {
        panic!()
    };
    // 1 048 576 B in 60 ns against 16 · 8 GT/s · 128 / 130 / 8 = 15.754 GB/s.
    assert!((share - 1_048_576.0 / 60.0 * 1e9 / 15.753_846e9).abs() < 1e-3 * share);
}

#[test]
fn groups_are_by_size_and_range_without_memsets() {
    let found = show(&SECTION, &session());
    let groups = dataset(&found, "copy_groups");
    assert_eq!(column(groups, "total_ns"), [100, 60, 10].map(Cell::Int));
    assert_eq!(
        column(groups, "range"),
        [Cell::Missing, Cell::Missing, Cell::Missing]
    );
}
