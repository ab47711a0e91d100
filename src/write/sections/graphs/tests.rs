//! Replays, gaps, identities and eager kernels on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::MetricValue;

use super::*;
use crate::testing::{column, dataset, show};
use rooflens_analysis::engine::facts::Captured;
use rooflens_analysis::testing::trace;
use rooflens_document::Chart;
use rooflens_document::chart::Plot;
use rooflens_session::{GpuId, GraphLaunch, Ns, PassId, ProcessId};

fn content(events: &str) -> SectionContent {
    show(&SECTION, &trace(events))
}

fn metric<'a>(content: &'a SectionContent, id: &str, stage: Option<&str>) -> &'a MetricValue {
    let is = |one: &&Metric| one.id == id && one.scope.stage.as_deref() == stage;
    &content.metrics.iter().find(is).unwrap().value
}

fn value(content: &SectionContent, id: &str, stage: Option<&str>) -> f64 {
    metric(content, id, stage).number().unwrap()
}

/// Cells of these columns, row by row, as files hold them.
fn cells(content: &SectionContent, id: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let dataset = dataset(content, id);
    let columns: Vec<_> = columns.iter().map(|id| column(dataset, id)).collect();
    let row = |row: usize| columns.iter().map(|cells| cells[row].plain()).collect();
    (0..dataset.rows.len()).map(row).collect()
}

/// Replays [100, 120), [130, 150), [150, 170) of two kernels of 8 each, 4 apart; between the first two runs
/// another kernel in [122, 126).
const THREE_REPLAYS: &str = "
    range decode 10..60
    cudaGraphLaunch 20..23 -> a #1 100..108, b #2 112..120
    cudaLaunchKernel 25..26 -> c 122..126
    cudaGraphLaunch 30..33 -> a #1 130..138, b #2 142..150
    cudaGraphLaunch 40..43 -> a #1 150..158, b #2 162..170
";

#[test]
fn replays_gaps_and_what_is_idle() {
    let content = content(THREE_REPLAYS);
    let of = |id| value(&content, id, Some("decode"));
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
        cells(&content, "graphs", &columns),
        [["graph 1", "decode", "3", "2", "3", "3", "60"]]
    );
    assert_eq!(value(&content, "graph_capture_attributed_share", None), 0.0);
}

#[test]
fn the_bar_adds_up_to_the_time_from_first_to_last_replay() {
    let content = content(THREE_REPLAYS);
    let bars = content.blocks.iter().find_map(|block| match block {
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
    let another = "
        range decode 70..90
        cudaGraphLaunch 75..78 -> a #1 200..290, b #2 290..300
    ";
    let mut session = trace(&[THREE_REPLAYS, another].concat());
    session.workload.warmup = Some(1);
    let content = show(&SECTION, &session);
    assert_eq!(value(&content, "graph_replays", Some("decode")), 1.0);
    assert_eq!(value(&content, "graph_replay_time", Some("decode")), 100.0);
    // One replay has none before it in its instance.
    assert!(
        metric(&content, "graph_gap", Some("decode"))
            .number()
            .is_none()
    );
}

#[test]
fn graphs_are_told_apart_by_nodes_and_without_them_by_kernels() {
    // The trace lost node 1 of the second replay; nodes 3 and 4 run the same kernels in another graph.
    let content = content(
        "pass nsys timeline
         cudaGraphLaunch 1..4 -> a #1 10..11, b #2 11..12
         cudaGraphLaunch 2..5 -> b #2 21..22
         cudaGraphLaunch 3..6 -> a #3 30..31, b #4 31..32
         pass torch operators
         cudaGraphLaunch 1..4 -> a 10..11, b 11..12
         cudaGraphLaunch 2..5 -> b 20..21, a 21..22
         cudaGraphLaunch 3..6 -> b 30..31, b 31..32",
    );
    let rows = cells(&content, "graphs", &["pass", "graph", "replays"]);
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
    let mut session = trace("range decode 0..50\ncudaGraphLaunch 5..7");
    for (start, correlation) in [(100, Some(0)), (130, None)] {
        session.graph_launches.push(GraphLaunch {
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
    let content = show(&SECTION, &session);
    let MetricValue::Unavailable { reason } = metric(&content, "graph_busy_share", Some("decode"))
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
    assert_eq!(cells(&content, "graphs", &columns), expected);
    let rows = cells(
        &content,
        "graph_nodes_by_range",
        &["range", "found", "total_ns"],
    );
    assert_eq!(rows, [["", Captured::Whole.reason(), "40"]]);
    assert!(
        content
            .metrics
            .iter()
            .all(|one| one.id != "graph_eager_matched_share")
    );
}

/// Whole graphs of 200 in three iterations of 1000, and nodes of the same graph in two of 1600.
fn traced_twice() -> rooflens_session::Session {
    let mut events = String::new();
    for start in [0, 1000, 2000] {
        events += &format!("range decode {start}..{}\n", start + 900);
        events += &format!(
            "launch {start}..{} -> axpy {}..{}\n",
            start + 5,
            start + 10,
            start + 60
        );
        events += &format!("cudaGraphLaunch {}..{}\n", start + 100, start + 120);
    }
    events += "pass nsys-nodes timeline\n";
    for start in [0, 2000] {
        events += &format!("range decode {start}..{}\n", start + 1500);
        events += &format!(
            "launch {start}..{} -> axpy {}..{}\n",
            start + 5,
            start + 10,
            start + 60
        );
        events += &format!(
            "cudaGraphLaunch {}..{} -> gemm #1 ",
            start + 100,
            start + 1100
        );
        events += &format!(
            "{}..{}, gemm #2 {}..{}\n",
            start + 1110,
            start + 1200,
            start + 1210,
            start + 1310
        );
    }
    let mut session = trace(&events);
    for (start, call) in [(0, 1), (1000, 3), (2000, 5)] {
        session.graph_launches.push(GraphLaunch {
            start: Ns(start + 130),
            end: Ns(start + 330),
            pass: PassId(0),
            gpu: GpuId(0),
            process: ProcessId(0),
            stream: 7,
            correlation: Some(call),
            graph: Some(4),
        });
    }
    session
}

#[test]
fn times_are_those_of_whole_graphs_and_what_nodes_cost_is_said() {
    let session = traced_twice();
    let facts = rooflens_analysis::Facts::new(&session);
    // The other one has more operations.
    assert_eq!(facts.primary_pass(&session), Some(PassId(0)));
    assert_eq!(facts.kernel_pass(&session), Some(PassId(1)));
    let content = crate::testing::show_keys(&SECTION, &session);
    let mut blocks = content.main.iter();
    let prose = blocks.find_map(|block| match block {
        Block::Prose(prose) => {
            let text: String = prose.iter().map(Inline::plain).collect();
            Some(text).filter(|text| text.starts_with("graphs.cost"))
        }
        _ => None,
    });
    // 1000 ÷ 20, and from the first start to the last end 1300 ÷ 320.
    let expected = "graphs.cost{stage=decode, whole=nsys, nodes=nsys-nodes, whole_launch=20.0 ns, nodes_launch=1.00 µs, \
        launch_ratio=50.0, whole_time=320 ns, nodes_time=1.30 µs, time_ratio=4.06}";
    assert_eq!(prose.as_deref(), Some(expected));
}

#[test]
fn a_bundle_without_graphs_has_no_section() {
    let content = content("launch 0..1 -> a 1..2\nlaunch 2..3 -> b 3..4");
    assert!(content.blocks.is_empty() && content.metrics.is_empty() && content.methods.is_empty());
    assert!(content.datasets.is_empty());
}

/// An eager pass names the kernels of the graphs of another one: `b` was launched by `aten::mm` in `fc1`,
/// `x` only runs in the graph, `y` only without it.
#[test]
fn an_eager_pass_names_the_kernels_of_replays() {
    let content = content(
        "pass eager operators
         range step 0..20
         frame nn.Module: net_0 1..12
         frame nn.Module: fc1_0 3..7
         operator aten::mm 4..6
         frame f 4..5
         launch 2..3 -> a 3..4
         launch 4..5 -> b 5..6
         launch 6..7 -> y 7..8
         launch 8..9 -> a 9..10
         pass graph operators
         cudaGraphLaunch 5..8 -> a 100..110, b 110..130, x 130..131, a 131..141
         cudaGraphLaunch 6..9 -> a 200..210, b 210..230, x 230..231, a 231..241",
    );
    // 80 of 82 ns have a twin.
    assert_eq!(
        value(&content, "graph_eager_matched_share", None),
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
    assert_eq!(cells(&content, "graph_nodes_by_range", &columns), expected);
    let unmatched = cells(
        &content,
        "graph_unmatched_kernels",
        &["name", "launches", "total_ns"],
    );
    assert_eq!(unmatched, [["x", "2", "2"]]);
}

/// Streams of a graph run side by side, so the order of starts may change from replay to replay. With nodes each
/// kernel keeps its twin; without, each order is aligned, and a kernel that moved past another one has no partner.
#[test]
fn the_order_may_change_from_replay_to_replay() {
    let rows = |[a, b]: [&str; 2]| {
        // Cut off: of the first replay only one kernel is in the trace.
        let content = content(&format!(
            "range outer 0..9
             range left 0..2
             range right 2..9
             launch 0..1 -> a 1..2
             launch 2..3 -> b 3..4
             cudaGraphLaunch 10..13 -> b{b} 50..60
             cudaGraphLaunch 20..23 -> a{a} 100..110, b{b} 110..120
             cudaGraphLaunch 30..33 -> b{b} 200..210, a{a} 205..215"
        ));
        cells(
            &content,
            "graph_nodes_by_range",
            &["range", "operations", "total_ns"],
        )
    };
    assert_eq!(
        rows([" #1", " #2"]),
        [["right", "3", "30"], ["left", "2", "20"]]
    );
    let without = rows(["", ""]);
    assert_eq!(without.len(), 3);
    assert_eq!(
        without.iter().find(|row| row[0].is_empty()).unwrap()[1],
        "1"
    );
}

#[test]
fn work_of_another_kind_is_no_twin() {
    let content = content(
        "range eager 0..9
         launch 0..1 -> a 1..2
         launch 2..3 -> p 3..4
         launch 4..5 -> q 5..6
         cudaGraphLaunch 20..23 -> a #1 100..110, b #2 110..120, c #3 120..130",
    );
    assert_eq!(value(&content, "graph_eager_matched_share", None), 0.0);
    let rows = cells(
        &content,
        "graph_nodes_by_range",
        &["range", "found", "operations"],
    );
    assert_eq!(rows, [["", Captured::NoEvents.reason(), "3"]]);
}
