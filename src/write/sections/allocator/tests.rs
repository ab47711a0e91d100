//! Allocators of small traces, with bytes that can be added up in the head.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{self, column, dataset, show, show_keys};
use rooflens_analysis::testing::trace;
use rooflens_document::Cell;
use rooflens_document::chart::Plot;
use rooflens_session::{MemoryEvent, Ns, PassId, Session, ThreadId};

/// A trace with the stage `prefill` in [100, 300), whose one GPU operation lies there too.
const PREFILL: &str = "
    pass torch operators
    range prefill 100..300
    cudaMemcpyAsync 110..115 -> memcpy HtoD 130..140
";

/// Allocates at an address, or frees what is there: time, address, bytes. 1000 bytes are allocated before, and 2000
/// are reserved.
fn add_events(session: &mut Session, events: &[(i64, u64, i64)]) {
    let mut allocated = 1_000;
    for (time, address, bytes) in events.iter().copied() {
        allocated += bytes;
        session.memory_events.push(MemoryEvent {
            time: Ns(time),
            pass: PassId(0),
            thread: Some(ThreadId(0)),
            device: Some(0),
            address,
            bytes,
            allocated: Some(allocated),
            reserved: Some(2_000),
        });
    }
}

/// Five events within and around two operators.
fn prefill() -> SectionContent {
    let operators = "
        operator aten::mm 140..260
        operator aten::empty 145..160
    ";
    let mut session = trace(&[PREFILL, operators].concat());
    let allocated = [(50, 1, 100), (150, 2, 600), (200, 3, 200)];
    let freed = [(250, 2, -600), (400, 3, -200)];
    add_events(&mut session, &[&allocated[..], &freed].concat());
    show(&SECTION, &session)
}

fn metric(content: &SectionContent, id: &str, stage: Option<&str>) -> Option<f64> {
    testing::metric(content, id, |scope| scope.stage.as_deref() == stage)
}

#[test]
fn a_state_holds_until_the_next_event() {
    let content = prefill();
    // 1900 from 200 to 250.
    assert_eq!(
        metric(&content, "memory_peak_allocated", Some("prefill")),
        Some(1_900.0)
    );
    assert_eq!(
        metric(&content, "memory_peak_allocated", None),
        Some(1_900.0)
    );
    assert_eq!(
        metric(&content, "memory_peak_reserved", Some("prefill")),
        Some(2_000.0)
    );
    // Of 2000: 900 unused in [100, 150), 300 in [150, 200), 100 in [200, 250), 700 in [250, 300).
    let unused = metric(&content, "memory_fragmentation", Some("prefill")).unwrap();
    assert!((unused - 0.25).abs() < 1e-12, "{unused}");
    let of = |id: &str| column(dataset(&content, "memory"), id)[1].clone();
    assert_eq!(of("stage"), Cell::Text("prefill".into()));
    assert_eq!(
        of("peak_time_ns"),
        Cell::Int(150),
        "from the first event at 50 to 200"
    );
    assert_eq!(
        (of("allocations"), of("allocated_bytes")),
        (Cell::Float(2.0), Cell::Float(800.0))
    );
}

#[test]
fn the_peak_is_held_by_what_no_event_freed() {
    let content = prefill();
    let holders = dataset(&content, "memory_at_peak");
    let held = ["operator", "range", "allocations", "bytes"]
        .map(|id| -> Vec<String> { column(holders, id).iter().map(Cell::plain).collect() });
    // 600 + 200 within mm, be it within empty or not; 100 at 50 before any range.
    assert_eq!(
        held[0],
        ["before the trace began", "aten::mm", "outside of operators"]
    );
    assert_eq!(held[1], ["", "prefill", ""]);
    assert_eq!(held[2], ["", "2", "1"]);
    assert_eq!(held[3], ["1000", "800", "100"]);
}

#[test]
fn the_chart_keeps_peaks_of_long_traces() {
    let mut session = trace(PREFILL);
    let pair = |time: i64| [(10 * time, 7, 100), (10 * time + 5, 7, -100)];
    let mut events: Vec<_> = (0..10_000).flat_map(pair).collect();
    events.extend([(100_001, 8, 900), (100_002, 8, -900), (200_000, 9, 1)]);
    add_events(&mut session, &events);
    let content = show_keys(&SECTION, &session);
    let chart = content.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Series(series) = &chart.unwrap().plot else {
        panic!("a line over time")
    };
    let labels: Vec<&str> = series.panels.iter().map(|panel| &*panel.label).collect();
    assert_eq!(
        labels,
        ["allocator.allocated", "allocator.beyond_least"],
        "the reserve does not change"
    );
    assert_eq!(series.bands, [("prefill".to_owned(), 100, 300)]);
    let points = &series.panels[0].points;
    assert!(
        points.len() <= 1_000 && points.contains(&(100_001, 1_900.0)),
        "{}",
        points.len()
    );
}

#[test]
fn calls_that_allocate_count_within_stages() {
    let calls = "
        cudaMalloc 50..60
        cudaMalloc 150..180
        cudaFree 190..200
        cudaMemsetAsync 210..220
    ";
    let content = show(&SECTION, &trace(&[PREFILL, calls].concat()));
    assert_eq!(
        metric(&content, "allocator_calls", Some("prefill")),
        Some(2.0)
    );
    assert_eq!(
        metric(&content, "memory_peak_allocated", None),
        None,
        "no allocator events"
    );
    let none = show(&SECTION, &trace(PREFILL));
    assert_eq!(metric(&none, "allocator_calls", Some("prefill")), Some(0.0));
    assert!(none.blocks.is_empty(), "nothing to say");
}

#[test]
fn calls_within_a_part_of_a_stage_are_listed_once() {
    let decode = "
        range decode 400..500
        range decode_step 410..490
        cudaMemcpyAsync 415..420 -> memcpy HtoD 435..445
        cudaMalloc 420..430
        range decode_step 600..700 // outside of the stage, as in warm-up
        cudaMemcpyAsync 610..615 -> memcpy HtoD 630..640
        cudaMalloc 620..630
    ";
    let content = show(&SECTION, &trace(&[PREFILL, decode].concat()));
    let stages = column(dataset(&content, "allocator_calls"), "stage");
    assert_eq!(stages, ["decode", "decode_step"].map(Cell::from));
    assert_eq!(
        metric(&content, "allocator_calls", Some("decode_step")),
        Some(1.0)
    );
}
