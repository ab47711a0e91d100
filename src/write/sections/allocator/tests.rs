//! Allocators of small traces, with bytes that can be added up in the head.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{self, column, dataset, show, show_keys};
use rooflens_analysis::testing::{Made, api_call, copy};
use rooflens_document::Cell;
use rooflens_document::chart::Plot;
use rooflens_session::{ApiCall, Copy, MemoryEvent, Ns, ThreadId};

struct Trace {
    made: Made,
    allocated: i64,
}

impl Trace {
    /// A trace with the stage `prefill` in [100, 300), whose one GPU operation lies there too.
    fn new() -> Self {
        let mut trace = Self {
            made: Made::default(),
            allocated: 1_000,
        };
        trace.made.pass("torch", PassKind::Operators);
        trace.range("prefill", 100, 300);
        trace.copy(110, 1);
        trace
    }

    fn range(&mut self, name: &str, start: i64, end: i64) {
        self.made.span(name, start..end);
    }

    /// A copy that a call at `at` issues.
    fn copy(&mut self, at: i64, correlation: i64) {
        let (pass, correlation) = (self.made.pass, Some(correlation));
        self.call("cudaMemcpyAsync", at, at + 5, correlation);
        self.made.session.copies.push(Copy {
            correlation,
            ..copy(pass, 1, at + 20..at + 30)
        });
    }

    fn call(&mut self, name: &str, start: i64, end: i64, correlation: Option<i64>) {
        let name = self.made.session.intern(name);
        let call = api_call(self.made.pass, name, start..end);
        self.made.session.api_calls.push(ApiCall {
            correlation,
            ..call
        });
    }

    fn operator(&mut self, name: &str, start: i64, end: i64) {
        self.made.time = end;
        self.made.operator(start, name, "", "");
    }

    /// Allocates at an address, or frees what is there; 2000 bytes are reserved.
    fn event(&mut self, time: i64, address: u64, bytes: i64) {
        self.allocated += bytes;
        self.made.session.memory_events.push(MemoryEvent {
            time: Ns(time),
            pass: self.made.pass,
            thread: Some(ThreadId(0)),
            device: Some(0),
            address,
            bytes,
            allocated: Some(self.allocated),
            reserved: Some(2_000),
        });
    }

    fn findings(&self) -> SectionContent {
        show(&SECTION, &self.made.session)
    }
}

/// 1000 bytes are allocated before; +100 at 50, +600 at 150, +200 at 200, −600 at 250, −200 at 400.
fn prefill() -> Trace {
    let mut trace = Trace::new();
    trace.operator("aten::mm", 140, 260);
    trace.operator("aten::empty", 145, 160);
    trace.event(50, 1, 100);
    trace.event(150, 2, 600);
    trace.event(200, 3, 200);
    trace.event(250, 2, -600);
    trace.event(400, 3, -200);
    trace
}

fn metric(findings: &SectionContent, id: &str, stage: Option<&str>) -> Option<f64> {
    testing::metric(findings, id, |scope| scope.stage.as_deref() == stage)
}

#[test]
fn a_state_holds_until_the_next_event() {
    let findings = prefill().findings();
    // 1900 from 200 to 250.
    assert_eq!(
        metric(&findings, "memory_peak_allocated", Some("prefill")),
        Some(1_900.0)
    );
    assert_eq!(
        metric(&findings, "memory_peak_allocated", None),
        Some(1_900.0)
    );
    assert_eq!(
        metric(&findings, "memory_peak_reserved", Some("prefill")),
        Some(2_000.0)
    );
    // Of 2000: 900 unused in [100, 150), 300 in [150, 200), 100 in [200, 250), 700 in [250, 300).
    let unused = metric(&findings, "memory_fragmentation", Some("prefill")).unwrap();
    assert!((unused - 0.25).abs() < 1e-12, "{unused}");
    let of = |id: &str| column(dataset(&findings, "memory"), id)[1].clone();
    assert_eq!(of("stage"), Cell::Text("prefill".to_owned()));
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
    let findings = prefill().findings();
    let holders = dataset(&findings, "memory_at_peak");
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
    let mut trace = Trace::new();
    for time in 0..10_000 {
        trace.event(10 * time, 7, 100);
        trace.event(10 * time + 5, 7, -100);
    }
    trace.event(100_001, 8, 900);
    trace.event(100_002, 8, -900);
    trace.event(200_000, 9, 1);
    let findings = show_keys(&SECTION, &trace.made.session);
    let chart = findings.blocks.iter().find_map(|block| match block {
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
    let mut trace = Trace::new();
    trace.call("cudaMalloc", 50, 60, None);
    trace.call("cudaMalloc", 150, 180, None);
    trace.call("cudaFree", 190, 200, None);
    trace.call("cudaMemsetAsync", 210, 220, None);
    let findings = trace.findings();
    assert_eq!(
        metric(&findings, "allocator_calls", Some("prefill")),
        Some(2.0)
    );
    assert_eq!(
        metric(&findings, "memory_peak_allocated", None),
        None,
        "no allocator events"
    );
    let none = Trace::new().findings();
    assert_eq!(metric(&none, "allocator_calls", Some("prefill")), Some(0.0));
    assert!(none.blocks.is_empty(), "nothing to say");
}

#[test]
fn calls_within_a_part_of_a_stage_are_listed_once() {
    let mut trace = Trace::new();
    trace.range("decode", 400, 500);
    trace.range("decode_step", 410, 490);
    trace.copy(415, 2);
    trace.call("cudaMalloc", 420, 430, None);
    // A step outside of the stage, as in warm-up.
    trace.range("decode_step", 600, 700);
    trace.copy(610, 3);
    trace.call("cudaMalloc", 620, 630, None);
    let findings = trace.findings();
    let stages = column(dataset(&findings, "allocator_calls"), "stage");
    assert_eq!(stages, ["decode", "decode_step"].map(Cell::from));
    assert_eq!(
        metric(&findings, "allocator_calls", Some("decode_step")),
        Some(1.0)
    );
}
