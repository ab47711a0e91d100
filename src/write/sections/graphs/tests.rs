//! Replays, gaps, identities and eager kernels on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{MetricValue, PassKind};

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::testing::{Made, Node};
use rooflens_document::Chart;
use rooflens_document::chart::Plot;
use rooflens_session::{Frame, GpuId, GraphLaunch, Ns, Operator, PassId, ProcessId, ThreadId};

fn replay(made: &mut Made, start: i64, kernels: &[Node<'_>]) {
    made.issue("cudaGraphLaunch", start..start + 3, kernels);
}

/// One kernel a call, each launched 1 after the other from `start` on.
fn eager(made: &mut Made, start: i64, names: &[&str]) {
    for (at, name) in names.iter().enumerate() {
        let start = start + 2 * at as i64;
        let kernel = (*name, start + 1, start + 2, None);
        made.issue("cudaLaunchKernel", start..start + 1, &[kernel]);
    }
}

fn findings(made: &Made) -> SectionContent {
    show(&SECTION, &made.session)
}

fn metric<'a>(findings: &'a SectionContent, id: &str, stage: Option<&str>) -> &'a MetricValue {
    let is = |one: &&Metric| one.id == id && one.scope.stage.as_deref() == stage;
    &findings.metrics.iter().find(is).unwrap().value
}

fn value(findings: &SectionContent, id: &str, stage: Option<&str>) -> f64 {
    metric(findings, id, stage).number().unwrap()
}

/// Cells of these columns, row by row, as files hold them.
fn cells(findings: &SectionContent, id: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let dataset = dataset(findings, id);
    let columns: Vec<_> = columns.iter().map(|id| column(dataset, id)).collect();
    let row = |row: usize| columns.iter().map(|cells| cells[row].plain()).collect();
    (0..dataset.rows.len()).map(row).collect()
}

/// Replays [100, 120), [130, 150), [150, 170) of two kernels of 8 each, 4 apart; between the first two runs
/// another kernel in [122, 126).
fn three_replays() -> Made {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    made.span("decode", 10..60);
    for (call, start) in [(20, 100), (30, 130), (40, 150)] {
        replay(
            &mut made,
            call,
            &[
                ("a", start, start + 8, Some(1)),
                ("b", start + 12, start + 20, Some(2)),
            ],
        );
    }
    made.issue("cudaLaunchKernel", 25..26, &[("c", 122, 126, None)]);
    made
}

#[test]
fn replays_gaps_and_what_is_idle() {
    let findings = findings(&three_replays());
    let of = |id| value(&findings, id, Some("decode"));
    assert_eq!(of("graph_replays"), 3.0);
    assert_eq!(of("graph_replay_time"), 20.0);
    // 16 of 20.
    assert_eq!(of("graph_busy_share"), 0.8);
    // Gaps of 10 and 0; of the first, 4 are busy.
    assert_eq!(of("graph_gap"), 5.0);
    let columns = [
        "graph",
        "stage",
        "replays",
        "nodes",
        "gap_idle_ns",
        "launch_ns",
        "total_ns",
    ];
    assert_eq!(
        cells(&findings, "graphs", &columns),
        [["graph 1", "decode", "3", "2", "3", "3", "60"]]
    );
    assert_eq!(
        value(&findings, "graph_capture_attributed_share", None),
        0.0
    );
}

#[test]
fn the_bar_adds_up_to_the_time_from_first_to_last_replay() {
    let findings = findings(&three_replays());
    let bars = findings.blocks.iter().find_map(|block| match block {
        Block::Chart(Chart {
            plot: Plot::StackedBars(bars),
            ..
        }) => Some(&bars.bars),
        _ => None,
    });
    // 48 busy, 12 idle inside, 4 other work, 6 idle between: 70 from 100 to 170.
    assert_eq!(bars.unwrap()[0].values, [48.0, 12.0, 4.0, 6.0]);
}

#[test]
fn replays_in_instances_that_do_not_count_are_left_out() {
    let mut made = three_replays();
    made.span("decode", 70..90);
    replay(
        &mut made,
        75,
        &[("a", 200, 290, Some(1)), ("b", 290, 300, Some(2))],
    );
    made.session.workload.warmup = Some(1);
    let findings = findings(&made);
    assert_eq!(value(&findings, "graph_replays", Some("decode")), 1.0);
    assert_eq!(value(&findings, "graph_replay_time", Some("decode")), 100.0);
    // One replay has none before it in its instance.
    assert!(
        metric(&findings, "graph_gap", Some("decode"))
            .number()
            .is_none()
    );
}

#[test]
fn graphs_are_told_apart_by_nodes_and_without_them_by_kernels() {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    replay(
        &mut made,
        1,
        &[("a", 10, 11, Some(1)), ("b", 11, 12, Some(2))],
    );
    // The trace lost node 1 of this replay; nodes 3 and 4 run the same kernels in another graph.
    replay(&mut made, 2, &[("b", 21, 22, Some(2))]);
    replay(
        &mut made,
        3,
        &[("a", 30, 31, Some(3)), ("b", 31, 32, Some(4))],
    );
    made.pass("torch", PassKind::Operators);
    replay(&mut made, 1, &[("a", 10, 11, None), ("b", 11, 12, None)]);
    replay(&mut made, 2, &[("b", 20, 21, None), ("a", 21, 22, None)]);
    replay(&mut made, 3, &[("b", 30, 31, None), ("b", 31, 32, None)]);
    let findings = findings(&made);
    let rows = cells(&findings, "graphs", &["pass", "graph", "replays"]);
    let expected = [
        ["nsys", "graph 1", "2"],
        ["nsys", "graph 2", "1"],
        ["torch", "graph 1", "2"],
        ["torch", "graph 2", "1"],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_graph_traced_as_a_whole_is_busy_but_not_said_to_be_full() {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    made.span("decode", 0..50);
    made.issue("cudaGraphLaunch", 5..7, &[]);
    for (start, correlation) in [(100, Some(1)), (130, None)] {
        made.session.graph_launches.push(GraphLaunch {
            start: Ns(start),
            end: Ns(start + 20),
            pass: PassId(0),
            gpu: GpuId(0),
            process: ProcessId(0),
            stream: 7,
            correlation,
            graph: Some(4),
        });
    }
    let findings = findings(&made);
    let MetricValue::Unavailable { reason } = metric(&findings, "graph_busy_share", Some("decode"))
    else {
        panic!("nothing is known of what runs inside")
    };
    assert!(reason.contains("--cuda-graph-trace=node"));
    let columns = [
        "graph_id",
        "stage",
        "replays",
        "nodes",
        "busy_share",
        "replay_ns",
        "gap_ns",
    ];
    let expected = [
        ["4", "decode", "1", "", "", "20", ""],
        ["4", "", "1", "", "", "20", ""],
    ];
    assert_eq!(cells(&findings, "graphs", &columns), expected);
    let rows = cells(
        &findings,
        "graph_nodes_by_range",
        &["range", "found", "total_ns"],
    );
    assert_eq!(
        rows,
        [["", "traced as a whole, created outside of the trace", "40"]]
    );
    assert!(
        findings
            .metrics
            .iter()
            .all(|one| one.id != "graph_eager_matched_share")
    );
}

#[test]
fn a_bundle_without_graphs_has_no_section() {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    eager(&mut made, 0, &["a", "b"]);
    let findings = findings(&made);
    assert!(
        findings.blocks.is_empty() && findings.metrics.is_empty() && findings.methods.is_empty()
    );
    assert!(findings.datasets.is_empty());
}

/// An eager pass names the kernels of the graphs of another one: `b` was launched by `aten::mm` in `fc1`,
/// `x` only runs in the graph, `y` only without it.
#[test]
fn an_eager_pass_names_the_kernels_of_replays() {
    let mut made = Made::default();
    made.pass("eager", PassKind::Operators);
    made.span("step", 0..20);
    eager(&mut made, 2, &["a", "b", "y", "a"]);
    let name = made.session.intern("aten::mm");
    let empty = made.session.intern("");
    let thread = ThreadId(0);
    made.session.operators.push(Operator {
        start: Ns(4),
        end: Ns(6),
        name,
        pass: PassId(0),
        thread,
        external: None,
        shapes: empty,
        types: empty,
        inputs: empty,
    });
    for (text, start, end) in [
        ("nn.Module: net_0", 1, 12),
        ("nn.Module: fc1_0", 3, 7),
        ("f", 4, 5),
    ] {
        let name = made.session.intern(text);
        made.session.frames.push(Frame {
            start: Ns(start),
            end: Ns(end),
            name,
            pass: PassId(0),
            thread,
        });
    }
    made.pass("graph", PassKind::Operators);
    let kernels = |at: i64| {
        [
            ("a", at, at + 10),
            ("b", at + 10, at + 30),
            ("x", at + 30, at + 31),
            ("a", at + 31, at + 41),
        ]
        .map(|(name, start, end)| (name, start, end, None))
    };
    replay(&mut made, 5, &kernels(100));
    replay(&mut made, 6, &kernels(200));
    let findings = findings(&made);
    // 80 of 82 ns have a twin.
    assert_eq!(
        value(&findings, "graph_eager_matched_share", None),
        80.0 / 82.0
    );
    let columns = [
        "range",
        "operator",
        "module",
        "found",
        "operations",
        "total_ns",
    ];
    let expected = [
        [
            "step",
            "",
            "nn.Module: net_0",
            "same place in step of eager",
            "4",
            "40",
        ],
        [
            "step",
            "aten::mm",
            "nn.Module: fc1_0",
            "same place in step of eager",
            "2",
            "40",
        ],
        [
            "",
            "",
            "",
            "the artifact names no graph node; not in the run without graphs",
            "2",
            "2",
        ],
    ];
    assert_eq!(cells(&findings, "graph_nodes_by_range", &columns), expected);
    let unmatched = cells(
        &findings,
        "graph_unmatched_kernels",
        &["name", "launches", "total_ns"],
    );
    assert_eq!(unmatched, [["x", "2", "2"]]);
}

/// Streams of a graph run side by side, so the order of starts may change from replay to replay. With nodes each
/// kernel keeps its twin; without, each order is aligned, and a kernel that moved past another one has no partner.
#[test]
fn the_order_may_change_from_replay_to_replay() {
    let rows = |nodes: [Option<u64>; 2]| {
        let mut made = Made::default();
        made.pass("nsys", PassKind::Timeline);
        made.span("outer", 0..9);
        made.span("left", 0..2);
        made.span("right", 2..9);
        eager(&mut made, 0, &["a", "b"]);
        let [a, b] = nodes;
        // Cut off: of the first replay only one kernel is in the trace.
        replay(&mut made, 10, &[("b", 50, 60, b)]);
        replay(&mut made, 20, &[("a", 100, 110, a), ("b", 110, 120, b)]);
        replay(&mut made, 30, &[("b", 200, 210, b), ("a", 205, 215, a)]);
        cells(
            &findings(&made),
            "graph_nodes_by_range",
            &["range", "operations", "total_ns"],
        )
    };
    assert_eq!(
        rows([Some(1), Some(2)]),
        [["right", "3", "30"], ["left", "2", "20"]]
    );
    let without = rows([None, None]);
    assert_eq!(without.len(), 3);
    assert_eq!(
        without.iter().find(|row| row[0].is_empty()).unwrap()[1],
        "1"
    );
}

#[test]
fn work_of_another_kind_is_no_twin() {
    let mut made = Made::default();
    made.pass("nsys", PassKind::Timeline);
    made.span("eager", 0..9);
    eager(&mut made, 0, &["a", "p", "q"]);
    replay(
        &mut made,
        20,
        &[
            ("a", 100, 110, Some(1)),
            ("b", 110, 120, Some(2)),
            ("c", 120, 130, Some(3)),
        ],
    );
    let findings = findings(&made);
    assert_eq!(value(&findings, "graph_eager_matched_share", None), 0.0);
    let rows = cells(
        &findings,
        "graph_nodes_by_range",
        &["range", "found", "operations"],
    );
    assert_eq!(
        rows,
        [["", "the artifact has no events of graph nodes", "3"]]
    );
}
