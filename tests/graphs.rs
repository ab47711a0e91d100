//! CUDA graphs of the fixture against figures that were derived outside of this program: Python over the raw
//! exports, where a replay is the set of kernels with one correlation id and a graph node.

use std::path::PathBuf;

use rooflens::analysis::engine::facts::Captured;
use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::Findings;
use rooflens::hardware::Hardware;
use rooflens::model::{PassId, Range, RangeKind, Session};
use rooflens::{bundle, ingest};

fn read() -> Session {
    read_fixture("h200-cuda-graph")
}

fn read_fixture(name: &str) -> Session {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    ingest::identify(&mut bundle, &mut diagnostics);
    ingest::import(&bundle, &mut diagnostics, &mut |_| {})
}

fn pass(session: &Session, name: &str) -> PassId {
    let is = |pass: &PassId| session.text(session.passes.name[pass.index()]) == name;
    session.passes.ids().find(is).expect("the pass is there")
}

fn findings(session: &Session, facts: &Facts) -> Findings {
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(session, facts, &hardware, &options);
    let all = analysis::run(&context);
    let graphs = all.into_iter().find(|(analysis, _)| analysis.id == "graphs");
    graphs.expect("the analysis is registered").1
}

/// The metric of a pass and, if one is named, a stage.
fn metric(findings: &Findings, id: &str, pass: &str, stage: Option<&str>) -> Option<f64> {
    let metric = findings.metrics.iter().find(|one| {
        one.id == id
            && one.scope.pass.as_deref() == Some(pass)
            && one.scope.stage.as_deref() == stage
    });
    metric.unwrap_or_else(|| panic!("{id} of {pass} {stage:?}")).value.number()
}

/// Cells of a data set, row by row, as files hold them.
fn cells(findings: &Findings, id: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let dataset = findings.datasets.iter().find(|one| one.id == id).expect("the data set is there");
    let at = |id: &&str| dataset.columns.iter().position(|one| one.id == *id).expect("a column");
    let columns: Vec<usize> = columns.iter().map(at).collect();
    let rows = dataset.rows.iter();
    rows.map(|row| columns.iter().map(|at| row[*at].plain()).collect()).collect()
}

#[test]
fn replays_of_both_ways_of_tracing() {
    let session = read();
    let facts = Facts::new(&session);
    let findings = findings(&session, &facts);
    let all = |pass: &str, stage: &str| {
        ["graph_replays", "graph_replay_time", "graph_busy_share", "graph_gap"]
            .map(|id| metric(&findings, id, pass, Some(stage)))
    };
    let share = |busy: i64, time: i64| Some(busy as f64 / time as f64);
    assert_eq!(
        all("nsys-node", "decode"),
        [Some(20.0), Some(677_170.0), share(13_359_408, 13_535_724), Some(4_384.0)]
    );
    assert_eq!(
        all("nsys-node", "offload"),
        [Some(4.0), Some(678_994.5), share(2_684_636, 2_720_745), Some(2_442_888.0)]
    );
    assert_eq!(all("nsys-graph", "decode"), [Some(20.0), Some(665_570.0), None, Some(3_136.0)]);
    assert_eq!(all("nsys-graph", "offload"), [Some(4.0), Some(666_418.0), None, Some(2_444_776.0)]);
    let columns = ["pass", "stage", "nodes", "gap_idle_ns", "launch_ns", "total_ns", "graph_id"];
    let rows = cells(&findings, "graphs", &columns);
    assert_eq!(rows[0], ["nsys-node", "decode", "88", "4384", "55774.5", "13535724", ""]);
    assert_eq!(rows[1], ["nsys-node", "offload", "88", "20544", "66212.5", "2720745", ""]);
    assert_eq!(rows[2][..3], ["nsys-graph", "decode", ""]);
    assert_eq!(rows[2][4..], ["10708.5", "13314123", "1"]);
}

/// The graph was captured before the first range, so nothing names its kernels but the eager run: the sequences
/// of (name, grid, block) of all 24 replays equal that of the 88 kernels in `eager`.
#[test]
fn kernels_of_replays_are_those_of_the_eager_run() {
    let session = read();
    let facts = Facts::new(&session);
    let node = pass(&session, "nsys-node");
    let ops = (0..facts.ops.len()).filter(|op| facts.ops.pass[*op] == node);
    let outside = ops.filter(|op| facts.ops.captured[*op] == Captured::Outside).count();
    assert_eq!(outside, 24 * 88);
    let findings = findings(&session, &facts);
    assert_eq!(metric(&findings, "graph_capture_attributed_share", "nsys-node", None), Some(0.0));
    assert_eq!(metric(&findings, "graph_eager_matched_share", "nsys-node", None), Some(1.0));
    let rows = cells(
        &findings,
        "graph_nodes_by_range",
        &["range", "found", "pass", "operations", "total_ns"],
    );
    let expected = [
        ["eager", "same place in eager", "nsys-node", "2112", "16058284"],
        ["", "no range was open at capture", "nsys-graph", "24", "15980628"],
    ];
    assert_eq!(rows, expected);
}

/// Had ranges been open at capture: of the 2112 kernels 312 with 2 332 697 ns go back to nodes that were created
/// before 3 199 000 000 ns, all others to later ones; each through one clone. In the pass with whole graphs the
/// one with 24 executions was created at 2 965 670 135 ns, the others later.
#[test]
fn kernels_of_replays_belong_to_the_ranges_of_capture() {
    let mut session = read();
    for (pass_name, name, start, end) in [
        ("nsys-node", "first", 3_198_000_000, 3_199_000_000),
        ("nsys-node", "second", 3_199_000_000, 3_200_200_000),
        ("nsys-graph", "whole", 2_965_670_000, 2_965_671_000),
    ] {
        let own = pass(&session, pass_name);
        let known = session.ranges.ids().find(|id| session.ranges.pass[id.index()] == own);
        let known = session.ranges.row(known.expect("it has ranges"));
        let name = session.intern(name);
        let kind = RangeKind::PushPop;
        session.ranges.push(Range { name, start, end, kind, ..known.clone() });
    }
    let facts = Facts::new(&session);
    let findings = findings(&session, &facts);
    for pass in ["nsys-node", "nsys-graph"] {
        assert_eq!(metric(&findings, "graph_capture_attributed_share", pass, None), Some(1.0));
    }
    let columns = ["range", "found", "operations", "total_ns"];
    let expected = [
        ["second", "open at capture", "1800", "13725587"],
        ["first", "open at capture", "312", "2332697"],
        ["whole", "open at capture", "24", "15980628"],
    ];
    assert_eq!(cells(&findings, "graph_nodes_by_range", &columns), expected);
}

/// A capture that lies in the trace, with ranges open around it. Sums by Python over the raw export: kernel → node →
/// original node → its first creation event → the range around it.
#[test]
fn a_capture_in_the_trace_names_the_parts_of_the_model() {
    let session = read_fixture("h200-graph-ranges");
    let facts = Facts::new(&session);
    let findings = findings(&session, &facts);
    let columns = ["pass", "range", "operations", "total_ns"];
    let rows = cells(&findings, "graph_nodes_by_range", &columns);
    assert_eq!(rows[0], ["nsys-node", "mlp", "240", "687264"]);
    assert_eq!(rows[1], ["nsys-node", "mix", "120", "305439"]);
    let attributed = |pass| metric(&findings, "graph_capture_attributed_share", pass, None);
    assert_eq!((attributed("nsys-node"), attributed("torch")), (Some(1.0), Some(0.0)));
    // PyTorch's trace has no nodes: ten replays of 36 kernels are aligned with the eager run's 36.
    assert_eq!(metric(&findings, "graph_eager_matched_share", "torch", None), Some(1.0));
}
