//! Concurrency of small sessions.

use rooflens_schemas::MetricValue;

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;

#[test]
fn one_stream_makes_no_section() {
    let found = show(&SECTION, &trace("stream 7: gemm 0..10, gemm 8..20"));
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}

#[test]
fn the_share_is_of_busy_time() {
    let session = trace(
        "stream 7: gemm 0..10
         stream 9: memcpy HtoD 6..16, memcpy HtoD 90..94",
    );
    let found = show(&SECTION, &session);
    // 4 of 20 ns; the whole capture is the one stage, so the pass is not counted again.
    let values: Vec<_> = found
        .metrics
        .iter()
        .map(|metric| metric.value.clone())
        .collect();
    assert_eq!(values, [MetricValue::Derived { value: 0.2 }]);
    let basis = basis!(
        "basis.concurrent_share",
        concurrent = 4,
        busy = 20,
        streams = 2
    );
    assert_eq!(found.metrics[0].basis, basis);
    // Stream 9 copies for 14 ns, 4 of them next to the kernel; the kernel's stream is the less busy one.
    let cell = |id| column(dataset(&found, "stream_overlap"), id).remove(0);
    assert_eq!([cell("stream"), cell("other")], ["9", "7"].map(Cell::from));
    assert_eq!(
        [cell("overlap_ns"), cell("share")],
        [Cell::Int(4), Cell::Float(0.4)]
    );
}
