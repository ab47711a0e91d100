//! Functions of small traces, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::analysis::test_session::call_and_launch;
use crate::analysis::{Facts, Options, Results};
use crate::findings::chart::Plot;
use crate::findings::{Cell, Dataset};
use crate::hardware::Hardware;

use crate::model::{BackwardOperator, Frame, Ns, Operator, OperatorId, StrId, ThreadId};

const PASS: PassId = PassId(0);

struct Trace {
    session: Session,
    threads: [ThreadId; 2],
}

impl Trace {
    fn new() -> Self {
        let mut session = Session::default();
        let pass = session.add_pass("torch", PassKind::Operators, "torch/trace.json");
        let process = session.process(pass, 1, 1);
        let threads = [session.thread(process, 1), session.thread(process, 2)];
        session.gpu(pass, 0);
        Self { session, threads }
    }

    fn frame(&mut self, name: &str, start: Ns, end: Ns) {
        let (name, thread) = (self.session.intern(name), self.threads[0]);
        self.session.frames.push(Frame { start, end, name, pass: PASS, thread });
    }

    /// A call of 5 ns at `at` on a thread, and its kernel.
    fn launch(&mut self, thread: usize, at: Ns, kernel: (Ns, Ns)) {
        let of = (PASS, self.threads[thread]);
        call_and_launch(&mut self.session, of, at..at + 5, "axpy", kernel.0..kernel.1);
    }

    fn operator(&mut self, thread: usize, start: Ns, end: Ns) -> OperatorId {
        let (name, text) = (self.session.intern("op"), StrId::default());
        let thread = self.threads[thread];
        let (shapes, types, inputs, external) = (text, text, text, None);
        let pass = PASS;
        let row = Operator { start, end, name, pass, thread, external, shapes, types, inputs };
        self.session.operators.push(row)
    }

    fn findings(&self) -> Findings {
        let (facts, hardware) = (Facts::new(&self.session), Hardware::default());
        let (session, options) = (&self.session, Options::default());
        let context = Context::new(session, &facts, &hardware, &options);
        run(&context.with(&Results::compute(&context)))
    }
}

/// `main` [0, 1000) calls `step` [100, 400) and [500, 900). The first step computes in `loss` [200, 300) within the
/// frames of a module, of PyTorch's call of it and of a built-in function; the second calls itself.
fn training() -> Trace {
    let mut trace = Trace::new();
    trace.frame("/srv/jobs/example/train.py(9): main", 0, 1_000);
    trace.frame("/srv/jobs/example/train.py(3): step", 100, 400);
    trace.frame("nn.Module: Loss_0", 190, 310);
    trace.frame("torch/nn/modules/module.py(1783): _call_impl", 195, 305);
    trace.frame("/srv/jobs/example/loss.py(1): loss", 200, 300);
    trace.frame("<built-in method add of Tensor object at 0x7f00>", 210, 290);
    trace.frame("/srv/jobs/example/train.py(3): step", 500, 900);
    trace.frame("/srv/jobs/example/train.py(3): step", 600, 700);
    // In `loss`, in the inner and in the outer second step. The GPU idles in [270, 630) and [640, 810).
    trace.launch(0, 220, (250, 270));
    trace.launch(0, 620, (630, 640));
    trace.launch(0, 800, (810, 840));
    trace
}

fn dataset<'a>(findings: &'a Findings, id: &str) -> &'a Dataset {
    findings.datasets.iter().find(|dataset| dataset.id == id).unwrap()
}

fn ints(dataset: &Dataset, function: &str, columns: &[&str]) -> Vec<i64> {
    let row = dataset.rows.iter().find(|row| row[0] == Cell::Name(function.to_owned())).unwrap();
    let int = |id: &&str| match row[dataset.columns.iter().position(|one| one.id == *id).unwrap()] {
        Cell::Int(value) => value,
        ref other => panic!("{other:?}"),
    };
    columns.iter().map(int).collect()
}

#[test]
fn times_belong_to_the_innermost_function_and_to_those_around_it() {
    let findings = training().findings();
    let functions = dataset(&findings, "python_functions");
    let [main, step, loss] =
        ["example/train.py:9(main)", "example/train.py:3(step)", "example/loss.py:1(loss)"];
    assert_eq!(functions.rows.len(), 3);
    let host =
        |name| ints(functions, name, &["calls", "host_total_ns", "host_self_ns", "host_cuda_ns"]);
    // 100 ns less the call; 700 ns less the loss's 100 and two calls; 1000 less 700.
    assert_eq!(host(loss), [1, 100, 95, 5]);
    assert_eq!(host(step), [3, 700, 590, 10]);
    assert_eq!(host(main), [1, 1_000, 300, 0]);
    let device = |name| ints(functions, name, &["device_total_ns", "device_self_ns", "launches"]);
    assert_eq!(device(loss), [20, 20, 1]);
    assert_eq!(device(step), [60, 40, 3]);
    assert_eq!(device(main), [60, 0, 3]);
    // Of the idle, [270, 300) is the loss's; [300, 400), [500, 630), [640, 810) the step's; [400, 500) main's.
    let idle = |name| ints(functions, name, &["idle_ns", "idle_self_ns"]);
    assert_eq!(idle(loss), [30, 30]);
    assert_eq!(idle(step), [430, 400]);
    assert_eq!(idle(main), [530, 100]);
    let coverage = findings.metrics.iter().find(|metric| metric.id == "python_coverage").unwrap();
    assert_eq!(coverage.value.number(), Some(1.0));
}

#[test]
fn functions_are_listed_by_device_time_and_again_by_host_time() {
    let findings = training().findings();
    let first = |id: &str| dataset(&findings, id).rows[0][0].plain();
    assert_eq!(first("python_functions"), "example/train.py:3(step)");
    assert_eq!(first("python_functions_by_host"), "example/train.py:3(step)");
    let order: Vec<String> =
        dataset(&findings, "python_functions").rows.iter().map(|row| row[0].plain()).collect();
    assert_eq!(order[1..], ["example/loss.py:1(loss)", "example/train.py:9(main)"]);
}

#[test]
fn paths_and_flame_graphs_are_of_the_functions_alone() {
    let findings = training().findings();
    let tree = dataset(&findings, "python_tree");
    let path = "example/train.py:9(main) / example/train.py:3(step) / example/loss.py:1(loss)";
    assert_eq!(ints(tree, path, &["device_total_ns", "host_total_ns", "depth"]), [20, 100, 3]);
    let chart = findings.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Flame(flame) = &chart.unwrap().plot else { panic!("a flame graph") };
    let labels: Vec<&str> = flame.frames.iter().map(|frame| &*frame.label).take(4).collect();
    assert_eq!(labels[1..], ["example/train.py:9(main)", "example/train.py:3(step)", "axpy"]);
    assert!(chart.unwrap().title.contains("by Python function"), "{}", chart.unwrap().title);
}

#[test]
fn work_of_the_backward_pass_belongs_to_the_function_of_its_forward_operator() {
    let mut trace = training();
    let forward = trace.operator(0, 210, 230);
    let operator = trace.operator(1, 910, 990);
    trace.session.backward_operators.push(BackwardOperator { operator, forward });
    trace.launch(1, 920, (930, 937));
    let findings = trace.findings();
    let functions = dataset(&findings, "python_functions");
    let of = |name| ints(functions, name, &["backward_ns", "device_total_ns"]);
    assert_eq!(of("example/loss.py:1(loss)"), [7, 20]);
    assert_eq!(of("example/train.py:9(main)"), [7, 60]);
    let coverage = findings.metrics.iter().find(|metric| metric.id == "python_coverage").unwrap();
    // The other thread runs no Python: 60 of 67 ns.
    assert_eq!(coverage.value.number(), Some(60.0 / 67.0));
}

#[test]
fn without_gpu_work_device_times_are_missing_and_without_functions_all_is() {
    let mut trace = Trace::new();
    trace.frame("train.py(9): main", 0, 1_000);
    let findings = trace.findings();
    let functions = dataset(&findings, "python_functions");
    let at = functions.columns.iter().position(|one| one.id == "device_self_ns").unwrap();
    assert_eq!(functions.rows[0][at], Cell::Missing);
    let mut trace = Trace::new();
    trace.frame("nn.Module: Linear_0", 0, 1_000);
    let findings = trace.findings();
    assert!(findings.blocks.is_empty() && findings.datasets.is_empty());
}
