//! Allocators of small traces, with bytes that can be added up in the head.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::{Facts, Options};
use crate::findings::chart::Plot;
use crate::findings::{Cell, Dataset};
use crate::hardware::Hardware;
use crate::model::{
    ApiCall, ApiLevel, Copy, CopyKind, GpuId, MemoryEvent, MemoryKind, Ns, Operator, PassId,
    ProcessId, Range, RangeKind, StrId, ThreadId,
};

const PASS: PassId = PassId(0);

struct Trace {
    session: Session,
    process: ProcessId,
    thread: ThreadId,
    allocated: i64,
}

impl Trace {
    /// A trace with the stage `prefill` in [100, 300), whose one GPU operation lies there too.
    fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("torch", PassKind::Operators, "torch/trace.json");
        let process = session.process(pass, 1, 1);
        let thread = session.thread(process, 1);
        session.gpu(pass, 0);
        let mut trace = Self { session, process, thread, allocated: 1_000 };
        trace.range("prefill", 100, 300);
        trace.copy(110, 1);
        trace
    }

    fn range(&mut self, name: &str, start: Ns, end: Ns) {
        let (name, domain) = (self.session.intern(name), StrId::default());
        let (kind, pass, thread) = (RangeKind::Annotation, PASS, self.thread);
        let range = Range { start, end, name, domain, kind, unclosed: false, pass, thread };
        self.session.ranges.push(range);
    }

    /// A copy that a call at `at` issues.
    fn copy(&mut self, at: Ns, correlation: i64) {
        let correlation = Some(correlation);
        self.call("cudaMemcpyAsync", at, at + 5, correlation);
        self.session.copies.push(Copy {
            start: at + 20,
            end: at + 30,
            kind: CopyKind::HostToDevice,
            bytes: 1,
            source: MemoryKind::Pinned,
            destination: MemoryKind::Device,
            pass: PASS,
            gpu: GpuId(0),
            process: self.process,
            stream: 7,
            correlation,
            graph_node: None,
            graph: None,
        });
    }

    fn call(&mut self, name: &str, start: Ns, end: Ns, correlation: Option<i64>) {
        let (name, level, nested) = (self.session.intern(name), ApiLevel::Runtime, false);
        let (pass, process, thread) = (PASS, self.process, self.thread);
        let call = ApiCall { start, end, name, level, nested, pass, process, thread, correlation };
        self.session.api_calls.push(call);
    }

    fn operator(&mut self, name: &str, start: Ns, end: Ns) {
        let name = self.session.intern(name);
        let (pass, thread, text) = (PASS, self.thread, StrId::default());
        let (shapes, types, inputs) = (text, text, text);
        let external = None;
        let operator = Operator { start, end, name, pass, thread, external, shapes, types, inputs };
        self.session.operators.push(operator);
    }

    /// Allocates at an address, or frees what is there; 2000 bytes are reserved.
    fn event(&mut self, time: Ns, address: u64, bytes: i64) {
        self.allocated += bytes;
        self.session.memory_events.push(MemoryEvent {
            time,
            pass: PASS,
            thread: Some(self.thread),
            device: Some(0),
            address,
            bytes,
            allocated: Some(self.allocated),
            reserved: Some(2_000),
        });
    }

    fn findings(&self) -> Findings {
        let facts = Facts::new(&self.session);
        let (hardware, options) = (Hardware::default(), Options::default());
        let session = &self.session;
        run(&Context::new(session, &facts, &hardware, &options))
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

fn dataset<'a>(findings: &'a Findings, id: &str) -> &'a Dataset {
    findings.datasets.iter().find(|dataset| dataset.id == id).unwrap()
}

fn metric(findings: &Findings, id: &str, stage: Option<&str>) -> Option<f64> {
    let of = |metric: &&Metric| metric.id == id && metric.scope.stage.as_deref() == stage;
    findings.metrics.iter().find(of)?.value.number()
}

#[test]
fn a_state_holds_until_the_next_event() {
    let findings = prefill().findings();
    // 1900 from 200 to 250.
    assert_eq!(metric(&findings, "memory_peak_allocated", Some("prefill")), Some(1_900.0));
    assert_eq!(metric(&findings, "memory_peak_allocated", None), Some(1_900.0));
    assert_eq!(metric(&findings, "memory_peak_reserved", Some("prefill")), Some(2_000.0));
    // Of 2000: 900 unused in [100, 150), 300 in [150, 200), 100 in [200, 250), 700 in [250, 300).
    let unused = metric(&findings, "memory_fragmentation", Some("prefill")).unwrap();
    assert!((unused - 0.25).abs() < 1e-12, "{unused}");
    let row = &dataset(&findings, "memory").rows[1];
    assert_eq!(row[0], Cell::Text("prefill".to_owned()));
    assert_eq!(row[4], Cell::Int(150), "from the first event at 50 to 200");
    assert_eq!(row[9..], [Cell::Float(2.0), Cell::Float(800.0)]);
}

#[test]
fn the_peak_is_held_by_what_no_event_freed() {
    let findings = prefill().findings();
    let rows = &dataset(&findings, "memory_at_peak").rows;
    let held: Vec<(String, String, String, String)> = rows
        .iter()
        .map(|row| (row[0].plain(), row[1].plain(), row[4].plain(), row[5].plain()))
        .collect();
    let row = |a: &str, b: &str, c: &str, d: &str| {
        (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned())
    };
    // 600 + 200 within mm, be it within empty or not; 100 at 50 before any range.
    let expected = [
        row("before the trace began", "", "", "1000"),
        row("aten::mm", "prefill", "2", "800"),
        row("outside of operators", "", "1", "100"),
    ];
    assert_eq!(held, expected);
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
    let findings = trace.findings();
    let chart = findings.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Series(series) = &chart.unwrap().plot else { panic!("a line over time") };
    let labels: Vec<&str> = series.panels.iter().map(|panel| &*panel.label).collect();
    assert_eq!(labels, ["allocated", "beyond the least allocated"], "the reserve does not change");
    assert_eq!(series.bands, [("prefill".to_owned(), 100, 300)]);
    let points = &series.panels[0].points;
    assert!(points.len() <= 1_000 && points.contains(&(100_001, 1_900.0)), "{}", points.len());
}

#[test]
fn calls_that_allocate_count_within_stages() {
    let mut trace = Trace::new();
    trace.call("cudaMalloc", 50, 60, None);
    trace.call("cudaMalloc", 150, 180, None);
    trace.call("cudaFree", 190, 200, None);
    trace.call("cudaMemsetAsync", 210, 220, None);
    let findings = trace.findings();
    assert_eq!(metric(&findings, "allocator_calls", Some("prefill")), Some(2.0));
    assert_eq!(metric(&findings, "memory_peak_allocated", None), None, "no allocator events");
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
    let rows = &dataset(&findings, "allocator_calls").rows;
    let stages: Vec<String> = rows.iter().map(|row| row[2].plain()).collect();
    assert_eq!(stages, ["decode", "decode_step"]);
    assert_eq!(metric(&findings, "allocator_calls", Some("decode_step")), Some(1.0));
}
