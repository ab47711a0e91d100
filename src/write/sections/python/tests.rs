//! Functions of small traces, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, metric, show, show_keys};
use rooflens_analysis::testing::trace;
use rooflens_document::chart::Plot;
use rooflens_document::{Cell, Dataset};

fn section(events: &[&str]) -> SectionContent {
    show(&SECTION, &trace(&events.concat()))
}

/// `main` [0, 1000) calls `step` [100, 400) and [500, 900). The first step computes in `loss` [200, 300) within the
/// frames of a module, of PyTorch's call of it and of a built-in function; the second calls itself.
const TRAINING: &str = "pass torch operators
    frame /srv/jobs/example/train.py(9): main 0..1_000
    frame /srv/jobs/example/train.py(3): step 100..400
    frame nn.Module: Loss_0 190..310
    frame torch/nn/modules/module.py(1783): _call_impl 195..305
    frame /srv/jobs/example/loss.py(1): loss 200..300
    frame <built-in method add of Tensor object at 0x7f00> 210..290
    frame /srv/jobs/example/train.py(3): step 500..900
    frame /srv/jobs/example/train.py(3): step 600..700
    launch 220..225 -> axpy 250..270 // in `loss`; the GPU idles in [270, 630)
    launch 620..625 -> scale 630..640 // in the inner second step; the GPU idles in [640, 810)
    launch 800..805 -> axpy 810..840 // in the outer second step
";

fn ints(dataset: &Dataset, function: &str, columns: &[&str]) -> Vec<i64> {
    let name = Cell::Name(function.into());
    let row = dataset.rows.iter().position(|row| row[0] == name).unwrap();
    let int = |id: &&str| match column(dataset, id)[row] {
        Cell::Int(value) => value,
        ref other => panic!("{other:?}"),
    };
    columns.iter().map(int).collect()
}

#[test]
fn times_belong_to_the_innermost_function_and_to_those_around_it() {
    let content = section(&[TRAINING]);
    let functions = dataset(&content, "python_functions");
    let [main, step, loss] = [
        "example/train.py:9(main)",
        "example/train.py:3(step)",
        "example/loss.py:1(loss)",
    ];
    assert_eq!(functions.rows.len(), 3);
    let host = |name| {
        ints(
            functions,
            name,
            &["calls", "host_total_ns", "host_self_ns", "host_cuda_ns"],
        )
    };
    // 100 ns less the call; 700 ns less the loss's 100 and two calls; 1000 less 700.
    assert_eq!(host(loss), [1, 100, 95, 5]);
    assert_eq!(host(step), [3, 700, 590, 10]);
    assert_eq!(host(main), [1, 1_000, 300, 0]);
    let device = |name| {
        ints(
            functions,
            name,
            &["device_total_ns", "device_self_ns", "launches"],
        )
    };
    assert_eq!(device(loss), [20, 20, 1]);
    assert_eq!(device(step), [60, 40, 3]);
    assert_eq!(device(main), [60, 0, 3]);
    // Of the idle, [270, 300) is the loss's; [300, 400), [500, 630), [640, 810) the step's; [400, 500) main's.
    let idle = |name| ints(functions, name, &["idle_ns", "idle_self_ns"]);
    assert_eq!(idle(loss), [30, 30]);
    assert_eq!(idle(step), [430, 400]);
    assert_eq!(idle(main), [530, 100]);
    assert_eq!(metric(&content, "python_coverage", |_| true), Some(1.0));
}

#[test]
fn functions_are_listed_by_device_time_and_again_by_host_time() {
    let content = section(&[TRAINING]);
    let first = |id: &str| column(dataset(&content, id), "function")[0].plain();
    assert_eq!(first("python_functions"), "example/train.py:3(step)");
    assert_eq!(
        first("python_functions_by_host"),
        "example/train.py:3(step)"
    );
    let order = column(dataset(&content, "python_functions"), "function");
    let expected = ["example/loss.py:1(loss)", "example/train.py:9(main)"];
    assert_eq!(order[1..], expected.map(|name| Cell::Name(name.into())));
}

#[test]
fn paths_and_flame_graphs_are_of_the_functions_alone() {
    let content = section(&[TRAINING]);
    let tree = dataset(&content, "python_tree");
    let path = "example/train.py:9(main) / example/train.py:3(step) / example/loss.py:1(loss)";
    assert_eq!(
        ints(tree, path, &["device_total_ns", "host_total_ns", "depth"]),
        [20, 100, 3]
    );
    let keys = show_keys(&SECTION, &trace(TRAINING));
    let chart = keys.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Flame(flame) = &chart.unwrap().plot else {
        panic!("a flame graph")
    };
    let labels: Vec<&str> = flame
        .frames
        .iter()
        .map(|frame| &*frame.label)
        .take(4)
        .collect();
    assert_eq!(
        labels[1..],
        [
            "example/train.py:9(main)",
            "example/train.py:3(step)",
            "axpy"
        ]
    );
    assert!(
        chart.unwrap().title.contains("by=flame.function"),
        "{}",
        chart.unwrap().title
    );
}

#[test]
fn work_of_the_backward_pass_belongs_to_the_function_of_its_forward_operator() {
    let backward = "
        operator forward 210..230
        thread 2
        operator gradient 910..990
        backward gradient of forward
        launch 920..925 -> axpy 930..937
    ";
    let content = section(&[TRAINING, backward]);
    let functions = dataset(&content, "python_functions");
    let of = |name| ints(functions, name, &["backward_ns", "device_total_ns"]);
    assert_eq!(of("example/loss.py:1(loss)"), [7, 20]);
    assert_eq!(of("example/train.py:9(main)"), [7, 60]);
    // The other thread runs no Python: 60 of 67 ns.
    assert_eq!(
        metric(&content, "python_coverage", |_| true),
        Some(60.0 / 67.0)
    );
}

#[test]
fn without_gpu_work_device_times_are_missing_and_without_functions_all_is() {
    let content = section(&["pass torch operators\nframe train.py(9): main 0..1_000"]);
    let functions = dataset(&content, "python_functions");
    assert_eq!(column(functions, "device_self_ns"), [Cell::Missing]);
    let content = section(&["pass torch operators\nframe nn.Module: Linear_0 0..1_000"]);
    assert!(content.blocks.is_empty() && content.datasets.is_empty());
}
