//! Waits of a small session, by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::charges::{charge, gaps};
use super::*;
use crate::analysis::{Facts, Options};
use crate::hardware::Hardware;
use crate::model::{ApiCall, ApiLevel, Dim3, Launch, Range, RangeKind};

/// A thread that launches, waits and launches again.
struct Program {
    session: Session,
    pass: PassId,
    correlation: i64,
}

impl Program {
    fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
        Self { session, pass, correlation: 0 }
    }

    fn call(&mut self, name: &str, times: (Ns, Ns)) {
        self.correlation += 1;
        let process = self.session.process(self.pass, 1, 1);
        let call = ApiCall {
            start: times.0,
            end: times.1,
            name: self.session.intern(name),
            level: ApiLevel::Runtime,
            nested: false,
            pass: self.pass,
            process,
            thread: self.session.thread(process, 1),
            correlation: Some(self.correlation),
        };
        self.session.api_calls.push(call);
    }

    fn launch(&mut self, call: (Ns, Ns), kernel: (Ns, Ns)) {
        self.call("cudaLaunchKernel", call);
        let process = self.session.process(self.pass, 1, 1);
        let launch = Launch {
            start: kernel.0,
            end: kernel.1,
            kernel: self.session.kernel("gemm", ""),
            pass: self.pass,
            gpu: self.session.gpu(self.pass, 0),
            process,
            stream: 7,
            correlation: Some(self.correlation),
            grid: Dim3::default(),
            block: Dim3::default(),
            registers: None,
            shared_bytes: None,
            graph_node: None,
            graph: None,
        };
        self.session.launches.push(launch);
    }

    fn range(&mut self, name: &str, times: (Ns, Ns)) {
        let process = self.session.process(self.pass, 1, 1);
        let range = Range {
            start: times.0,
            end: times.1,
            name: self.session.intern(name),
            domain: StrId::default(),
            kind: RangeKind::PushPop,
            unclosed: false,
            pass: self.pass,
            thread: self.session.thread(process, 1),
        };
        self.session.ranges.push(range);
    }
}

/// Kernels at [10, 100), [130, 140), [150, 160), [200, 210); the host waits at [20, 105) and [165, 166).
fn program() -> Program {
    let mut program = Program::new();
    program.range("decode", (0, 300));
    program.launch((0, 5), (10, 100));
    program.call("cudaStreamSynchronize", (20, 105));
    program.launch((110, 115), (130, 140));
    // Issued before the gap [140, 150) begins: the queue's.
    program.launch((116, 120), (150, 160));
    program.call("cudaMemcpy", (165, 166));
    program.launch((170, 175), (200, 210));
    program
}

#[test]
fn each_gap_is_charged_to_the_first_wait_in_it() {
    let Program { session, pass, .. } = program();
    let facts = Facts::new(&session);
    let found: Vec<(Ns, Ns)> = gaps(&facts, pass).iter().map(|gap| (gap.start, gap.end)).collect();
    assert_eq!(found, [(100, 130), (140, 150), (160, 200)]);
    let charges = charge(&session, &facts, pass);
    let charged: Vec<(Ns, Ns)> = charges.calls.iter().map(|call| (call.idle, call.after)).collect();
    // [100, 130): 25 after the return at 105. [160, 200): 34 after the return at 166.
    assert_eq!(charged, [(30, 25), (40, 34)]);
}

#[test]
fn a_wait_that_ended_before_the_gap_is_not_charged() {
    let mut program = Program::new();
    program.launch((0, 5), (10, 100));
    program.call("cudaEventSynchronize", (20, 60));
    program.launch((110, 115), (130, 140));
    let facts = Facts::new(&program.session);
    let charges = charge(&program.session, &facts, program.pass);
    assert_eq!(charges.calls.iter().map(|call| call.idle).collect::<Vec<_>>(), [0]);
}

#[test]
fn stages_and_places_hold_what_their_calls_cost() {
    let Program { session, .. } = program();
    let facts = Facts::new(&session);
    let (hardware, options) = (Hardware::default(), Options::default());
    let found = run(&Context::new(&session, &facts, &hardware, &options));
    let metric = |id: &str| {
        let mut own = found.metrics.iter().filter(|metric| metric.id == id);
        own.find(|metric| metric.scope.stage.as_deref() == Some("decode")).unwrap().value.number()
    };
    assert_eq!(metric("sync_calls"), Some(2.0));
    assert_eq!(metric("sync_time"), Some(86.0));
    assert_eq!(metric("sync_idle"), Some(70.0));
    let data = &found.datasets[0];
    let names: Vec<String> =
        data.rows.iter().map(|row| row[1].plain() + " in " + &row[3].plain()).collect();
    assert_eq!(names, ["cudaMemcpy in decode", "cudaStreamSynchronize in decode"]);
}

/// The greatest wait is at start-up, before the range: it comes last, and in a table of its own.
#[test]
fn waits_outside_of_stages_come_after_those_within() {
    let mut program = Program::new();
    program.launch((-9_000, -8_990), (-8_980, -8_000));
    program.call("cudaDeviceSynchronize", (-8_500, -7_900));
    program.range("decode", (0, 300));
    program.launch((0, 5), (10, 100));
    program.call("cudaStreamSynchronize", (20, 105));
    program.launch((110, 115), (130, 140));
    let facts = Facts::new(&program.session);
    let (hardware, options) = (Hardware::default(), Options::default());
    let session = &program.session;
    let found = run(&Context::new(session, &facts, &hardware, &options));
    let rows = &found.datasets[0].rows;
    let shown: Vec<_> =
        rows.iter().map(|row| (row[0].clone(), row[1].plain(), row[6].clone())).collect();
    let decode = Cell::Name("decode".to_owned());
    // The gap [-8 000, 10) is charged to the first call, [100, 130) to the second.
    assert_eq!(shown[0], (decode, "cudaStreamSynchronize".to_owned(), Cell::Int(85)));
    assert_eq!(shown[1], (Cell::Missing, "cudaDeviceSynchronize".to_owned(), Cell::Int(600)));
    assert_eq!((&rows[0][7], &rows[1][7]), (&Cell::Int(30), &Cell::Int(8_010)));
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
    let mut program = Program::new();
    program.launch((0, 5), (10, 100));
    let facts = Facts::new(&program.session);
    let (hardware, options) = (Hardware::default(), Options::default());
    let session = &program.session;
    let found = run(&Context::new(session, &facts, &hardware, &options));
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}
