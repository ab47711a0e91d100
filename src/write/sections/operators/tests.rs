//! SectionContent about the operators of small traces.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{self, column, dataset, show};
use rooflens_analysis::operators::calls;
use rooflens_analysis::testing::trace;
use rooflens_analysis::{Facts, Options};
use rooflens_document::{Cell, Dataset};
use rooflens_hardware::Hardware;

fn section(events: &[&str]) -> SectionContent {
    let events = [&["pass torch operators\n"], events].concat();
    show(&SECTION, &trace(&events.concat()))
}

/// The cell of an operator in a column.
fn cell(dataset: &Dataset, operator: &str, id: &str) -> Cell {
    let name = Cell::Name(operator.into());
    let row = dataset.rows.iter().position(|row| row[0] == name).unwrap();
    column(dataset, id)[row].clone()
}

fn metric(content: &SectionContent, id: &str) -> Option<f64> {
    testing::metric(content, id, |_| true)
}

/// linear [0, 100) around mm [10, 60), which makes a call [20, 30) whose kernel takes 1000 ns.
const LINEAR: &str = "
    operator aten::linear [[8,32],[16,32],[]] 0..100
    operator aten::mm [[8,32],[32,16]] 10..60
    launch 20..30 -> gemm_kernel 500..1_500
";

#[test]
fn own_time_is_without_what_is_nested_and_device_time_goes_to_the_innermost() {
    let content = section(&[LINEAR]);
    let operators = dataset(&content, "operators");
    let int = |operator, column| match cell(operators, operator, column) {
        Cell::Int(value) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (
            int("aten::linear", "host_total_ns"),
            int("aten::linear", "host_self_ns")
        ),
        (100, 50)
    );
    assert_eq!(int("aten::mm", "host_self_ns"), 40, "50 less the call's 10");
    assert_eq!(int("aten::mm", "host_cuda_ns"), 10);
    assert_eq!(
        (
            int("aten::mm", "device_self_ns"),
            int("aten::mm", "device_total_ns")
        ),
        (1000, 1000)
    );
    assert_eq!(int("aten::linear", "device_self_ns"), 0);
    assert_eq!(int("aten::linear", "device_total_ns"), 1000);
    assert_eq!(int("aten::linear", "launches"), 1);
    assert_eq!(metric(&content, "operator_coverage"), Some(1.0));
}

#[test]
fn flops_are_counted_once_at_the_innermost_operator_with_a_formula() {
    let content = section(&[LINEAR]);
    let operators = dataset(&content, "operators");
    // 2 · 8 · 16 · 32 in 1000 ns are 8.192 GFLOP/s, for mm and for the linear around it.
    for operator in ["aten::mm", "aten::linear"] {
        assert_eq!(cell(operators, operator, "flops"), Cell::Float(8192.0));
        assert_eq!(cell(operators, operator, "flop_rate"), Cell::Float(8.192e9));
    }
    assert_eq!(metric(&content, "flop_coverage"), Some(1.0));
    let shapes = dataset(&content, "operator_shapes");
    assert_eq!(
        cell(shapes, "aten::mm", "shapes"),
        Cell::Name("[[8,32],[32,16]]".into())
    );
}

#[test]
fn totals_of_recursive_operators_count_the_outer_call_once() {
    let content = section(&["
        operator aten::arange 0..100
        operator aten::arange 20..80
        launch 30..40 -> gemm_kernel 500..507
    "]);
    let operators = dataset(&content, "operators");
    assert_eq!(cell(operators, "aten::arange", "calls"), Cell::Int(2));
    assert_eq!(
        cell(operators, "aten::arange", "host_total_ns"),
        Cell::Int(100)
    );
    // 100 − 60 outside, 60 − 10 inside.
    assert_eq!(
        cell(operators, "aten::arange", "host_self_ns"),
        Cell::Int(90)
    );
    assert_eq!(
        cell(operators, "aten::arange", "device_total_ns"),
        Cell::Int(7)
    );
}

#[test]
fn threads_do_not_nest_in_one_another_and_work_outside_operators_is_in_no_row() {
    let content = section(&["
        operator aten::forward_part 0..100
        thread 2
        operator MmBackward0 10..50
        launch 20..30 -> gemm_kernel 500..530
        launch 60..70 -> gemm_kernel 600..610
    "]);
    let operators = dataset(&content, "operators");
    assert_eq!(
        cell(operators, "aten::forward_part", "host_self_ns"),
        Cell::Int(100)
    );
    assert_eq!(
        cell(operators, "aten::forward_part", "device_total_ns"),
        Cell::Int(0)
    );
    assert_eq!(
        cell(operators, "MmBackward0", "device_self_ns"),
        Cell::Int(30)
    );
    // 30 of 40 ns.
    assert_eq!(metric(&content, "operator_coverage"), Some(0.75));
    assert_eq!(metric(&content, "flop_coverage"), Some(0.0));
    assert_eq!(content.diagnostics[0].code, "operators/uncovered-gpu-time");
    assert!(content.diagnostics[0].message.starts_with("25.0 %"));
}

#[test]
fn without_gpu_work_device_times_are_missing_and_not_zero() {
    let content = section(&["operator aten::mm [[8,32],[32,16]] 0..100"]);
    let operators = dataset(&content, "operators");
    assert_eq!(cell(operators, "aten::mm", "device_self_ns"), Cell::Missing);
    assert_eq!(cell(operators, "aten::mm", "flop_rate"), Cell::Missing);
    assert_eq!(
        cell(operators, "aten::mm", "flops"),
        Cell::Float(8192.0),
        "shapes are there"
    );
    assert_eq!(metric(&content, "operator_coverage"), None);
    assert!(
        content
            .blocks
            .iter()
            .any(|block| matches!(block, Block::Missing(_)))
    );
}

#[test]
fn operators_are_listed_by_device_time_and_again_by_host_time() {
    let content = section(&["
        operator slow_on_host 0..1_000
        operator slow_on_device 1_000..1_100
        launch 1_010..1_020 -> gemm_kernel 2_000..9_000
    "]);
    let first = |id: &str| column(dataset(&content, id), "name")[0].clone();
    assert_eq!(first("operators"), Cell::Name("slow_on_device".into()));
    assert_eq!(
        first("operators_by_host"),
        Cell::Name("slow_on_host".into())
    );
}

#[test]
fn calls_without_gpu_work_within_are_told_apart_from_those_with() {
    // A cast that copies, and one that does nothing.
    let content = section(&["
        operator aten::to 0..100
        operator aten::copy_ 10..90
        launch 20..30 -> gemm_kernel 500..600
        operator aten::to 200..207
        operator aten::view 300..303
    "]);
    let quiet = dataset(&content, "operators_without_gpu_work");
    assert_eq!(
        column(quiet, "name"),
        ["aten::to", "aten::view"].map(|name| Cell::Name(name.into()))
    );
    let of = |column| cell(quiet, "aten::to", column);
    assert_eq!(
        (of("quiet_calls"), of("calls")),
        (Cell::Int(1), Cell::Int(2))
    );
    assert_eq!(of("quiet_self_ns"), Cell::Int(7));
    // Own host time: 20 and 7 of the casts, 80 − 10 of the copy, 3 of the view.
    assert_eq!(of("quiet_share"), Cell::Float(0.07));
}

#[test]
fn threads_are_listed_with_their_own_times() {
    let backward = "
        thread 2
        operator MmBackward0 10..50
        launch 20..30 -> gemm_kernel 2_000..2_030
    ";
    let content = section(&[LINEAR, backward]);
    let threads = dataset(&content, "operator_threads");
    // 50 of linear and 40 of mm; 40 − 10.
    assert_eq!(column(threads, "host_self_ns"), [90, 30].map(Cell::Int));
    assert_eq!(column(threads, "device_self_ns"), [1000, 30].map(Cell::Int));
    let shown = |content: &SectionContent| {
        let of_threads = |block: &&Block| matches!(block, Block::Table(view) if view.dataset == "operator_threads");
        content.blocks.iter().filter(of_threads).count()
    };
    assert_eq!((shown(&content), shown(&section(&[LINEAR]))), (1, 0));
}

/// 1000 ns of a product; on the thread of the backward pass 700 of its gradient and 300 of accumulation.
#[test]
fn gradients_are_listed_by_the_operator_of_the_forward_pass() {
    let gradients = "
        thread 2
        operator autograd::engine::evaluate_function: MmBackward0 200..300
        operator MmBackward0 210..290
        backward MmBackward0 of aten::mm
        launch 220..230 -> gemm_kernel 3_000..3_700
        operator autograd::engine::evaluate_function: torch::autograd::AccumulateGrad 300..400
        launch 320..330 -> add_kernel 4_000..4_300
    ";
    let content = section(&[LINEAR, gradients]);
    let backward = dataset(&content, "backward_by_operator");
    assert_eq!(backward.rows.len(), 1);
    let of = |column| cell(backward, "aten::linear / aten::mm", column);
    assert_eq!(
        (of("device_total_ns"), of("backward_ns")),
        (Cell::Int(1000), Cell::Int(700))
    );
    assert_eq!(of("ratio"), Cell::Float(0.7));
    assert_eq!(metric(&content, "backward_coverage"), Some(0.7));
    let tree = dataset(&content, "operator_tree");
    assert_eq!(cell(tree, "aten::linear", "backward_ns"), Cell::Int(700));
    assert_eq!(cell(tree, "aten::linear", "flops"), Cell::Float(8192.0));
    assert_eq!(
        cell(tree, "aten::linear", "flop_rate"),
        Cell::Float(8.192e9)
    );
    assert_eq!(metric(&section(&[LINEAR]), "backward_coverage"), None);
}

#[test]
fn paths_tell_callers_apart() {
    let another = "
        operator aten::mm [[8,32],[32,16]] 200..250
        launch 210..220 -> gemm_kernel 3_000..3_010
    ";
    let content = section(&[LINEAR, another]);
    let tree = dataset(&content, "operator_tree");
    let time = |path| cell(tree, path, "device_total_ns");
    assert_eq!(time("aten::linear / aten::mm"), Cell::Int(1000));
    assert_eq!(time("aten::mm"), Cell::Int(10));
    let charts = |blocks: &[Block]| {
        blocks
            .iter()
            .filter(|b| matches!(b, Block::Chart(_)))
            .count()
    };
    assert_eq!((charts(&content.blocks), charts(&content.appendix)), (1, 1));
}

#[test]
fn sessions_without_a_trace_say_what_to_record() {
    let made = |session: &Session| {
        let (facts, options, hardware) =
            (Facts::new(session), Options::default(), Hardware::default());
        calls::compute(&rooflens_analysis::Context::new(
            session, &facts, &hardware, &options,
        ))
    };
    let missing = made(&Session::default()).unwrap_err();
    assert_eq!(missing.0, "missing.operators");
    assert!(made(&trace(LINEAR)).is_ok());
}
