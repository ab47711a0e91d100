//! The capture of two ranks that meet in every way (`h100x2-parallel`): what NCCL's payloads, PyTorch's arguments
//! and NVML's clocks say, against what scripts under `tests/reference` derived from the raw captures.

use std::path::PathBuf;

use rooflens::analysis::{ANALYSES, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::findings::{Block, Cell, Findings, Inline};
use rooflens::hardware::Hardware;
use rooflens::model::Session;
use rooflens::{bundle, ingest};

/// The tables of those files of the fixture whose paths begin so.
fn session(folder: &str) -> Session {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/h100x2-parallel");
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    bundle.files.retain(|file| file.path.starts_with(folder) || file.path.ends_with(".toml"));
    ingest::identify(&mut bundle, &mut diagnostics);
    ingest::import(&bundle, &mut diagnostics, &mut |_| {})
}

fn run(session: &Session, analysis: &str) -> Findings {
    let facts = Facts::new(session);
    let (hardware, options) = (Hardware::builtin(), Options::default());
    let context = Context::new(session, &facts, &hardware, &options);
    let analysis = ANALYSES.iter().find(|one| one.id == analysis).expect("an analysis");
    (analysis.run)(&context)
}

/// A metric by stage (empty: none), rank and class (empty: none).
fn metric(findings: &Findings, id: &str, stage: &str, rank: Option<u32>, class: &str) -> f64 {
    let found = findings.metrics.iter().find(|metric| {
        let scope = &metric.scope;
        metric.id == id
            && scope.stage.as_deref().unwrap_or("") == stage
            && scope.rank == rank
            && scope.class.as_deref().unwrap_or("") == class
    });
    let found = found.and_then(|metric| metric.value.number());
    found.unwrap_or_else(|| panic!("{id} of {stage:?}, rank {rank:?}, {class:?}"))
}

/// The cell of a data set in the first row of which these columns hold these texts.
fn cell(findings: &Findings, data: &str, keys: &[(&str, &str)], column: &str) -> Cell {
    let data = findings.datasets.iter().find(|its| its.id == data).expect("a data set");
    let at = |id: &str| data.columns.iter().position(|its| its.id == id).expect("a column");
    let holds = |row: &Vec<Cell>, (id, text): &(&str, &str)| match &row[at(id)] {
        Cell::Text(cell) | Cell::Name(cell) => cell == text,
        _ => false,
    };
    let row = data.rows.iter().find(|row| keys.iter().all(|key| holds(row, key)));
    row.unwrap_or_else(|| panic!("{keys:?}"))[at(column)].clone()
}

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-9, "{value} {expected}");
}

fn near_cell(cell: &Cell, expected: f64) {
    let Cell::Float(value) = cell else { panic!("{cell:?} is no number") };
    near(*value, expected);
}

/// `communication.py nsys/timeline.sqlite`: bytes × factor of two ranks, and nanoseconds of transfer.
#[test]
fn payloads_of_nccl_give_bandwidths() {
    let session = session("nsys/");
    // 601 calls on each rank, each of which launches one kernel.
    assert_eq!(session.collectives.len(), 1202);
    let found = run(&session, "communication");
    for (classes, bytes, time) in [
        (["all-reduce"; 2], 20_132_659_204.0, 73_100_833.0),
        (["all-gather"; 2], 10_066_329_600.0, 50_049_532.0),
        (["reduce-scatter"; 2], 10_066_329_600.0, 46_188_362.0),
        (["all-to-all"; 2], 3_355_443_200.0, 13_831_340.0),
        (["send", "receive"], 3_355_443_200.0, 10_578_563.0),
    ] {
        for (rank, class) in classes.into_iter().enumerate() {
            let bus = metric(&found, "bus_bandwidth", "", Some(rank as u32), class);
            near(bus, bytes / time * 1e9);
        }
    }
}

/// `communication.py nsys/timeline.sqlite`.
#[test]
fn all_collectives_and_messages_of_the_export_are_matched() {
    let found = run(&session("nsys/"), "communication");
    let of = |id: &str, stage: &str| [0, 1].map(|rank| metric(&found, id, stage, Some(rank), ""));
    assert_eq!(of("comm_time", ""), [454_167_961.0, 200_804_847.0]);
    assert_eq!(of("comm_exposed", ""), [433_472_838.0, 183_597_593.0]);
    assert_eq!(of("comm_wait", ""), [260_419_331.0, 9_223_172.0]);
    assert_eq!(of("comm_transfer", ""), [193_748_630.0; 2]);
    assert_eq!(of("comm_wait", "step"), [9_582_923.0, 335_039.0]);
    assert_eq!(of("comm_transfer", "step"), [7_739_955.5; 2]);
    assert_eq!(metric(&found, "clock_residual", "", None, ""), 1200.5);
    let message = |column| cell(&found, "messages", &[("from", "0"), ("to", "1")], column);
    assert_eq!(message("count"), Cell::Int(100));
    assert_eq!(message("sender_wait_ns"), Cell::Int(4_771_461));
    assert_eq!(message("receiver_wait_ns"), Cell::Int(7_953_880));
    assert_eq!(message("transfer_ns"), Cell::Float(104_274.0));
    // 2048 × 8192 numbers of two bytes.
    near_cell(&message("bandwidth"), 33_554_432.0 / 104_274.0 * 1e9);
}

/// `communication.py torch/rank0… torch/rank1…`: the same sizes from PyTorch's arguments.
#[test]
fn both_tools_state_the_same_sizes() {
    let sizes = |folder: &str| {
        let session = session(folder);
        let table = &session.collectives;
        let mut sizes: Vec<Option<u64>> =
            table.bytes_in.iter().zip(&table.bytes_out).map(|(a, b)| *a.max(b)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        (sizes, session)
    };
    let (of_torch, session) = sizes("torch/");
    let (mut of_nsys, _) = sizes("nsys/");
    // The barrier's single number of four bytes is before PyTorch's window.
    of_nsys.retain(|size| *size != Some(4));
    assert_eq!(of_torch, [33_554_432, 134_217_728].map(Some));
    assert_eq!(of_nsys, of_torch);
    let found = run(&session, "communication");
    let bus = |rank, class| metric(&found, "bus_bandwidth", "", Some(rank), class);
    near(bus(0, "all-to-all"), 268_435_456.0 / 1_015_501.0 * 1e9);
    near(bus(1, "receive"), 268_435_456.0 / 829_259.0 * 1e9);
    let message = |column| cell(&found, "messages", &[("from", "0"), ("to", "1")], column);
    assert_eq!((message("count"), message("transfer_ns")), (Cell::Int(8), Cell::Float(103_169.5)));
    assert_eq!(message("sender_wait_ns"), Cell::Int(0));
    assert_eq!(message("receiver_wait_ns"), Cell::Int(657_825));
}

/// `communication.py nsys/timeline.sqlite nsys/nvml.csv`: 65 and 66 samples within the steps.
#[test]
fn the_power_cap_is_why_the_second_rank_is_late() {
    let found = run(&session("nsys/"), "communication");
    let of = |rank, column| cell(&found, "ranks", &[("stage", "step"), ("rank", rank)], column);
    near_cell(&of("1", "slowdown"), 1.234_250_269_909_164_2);
    near_cell(&of("0", "sm_clock_hz"), 1_962_923_076.923_077);
    near_cell(&of("1", "sm_clock_hz"), 1_603_636_363.636_363_7);
    let share = (1_962_923_076.923_077 / 1_603_636_363.636_363_7 - 1.0) / 0.234_250_269_909_164_2;
    near_cell(&of("1", "by_clock"), share);
    assert_eq!(of("1", "clock_limit"), Cell::Name("sw_power_cap".to_owned()));
    near_cell(&of("1", "clock_limit_share"), 63.0 / 66.0);
    let text: String = found.blocks.iter().map(words).collect();
    // 453 of the 501 collectives that are no messages, less 7 of 8 in stage instances that are left out.
    assert!(text.contains("Rank 1 is the straggler: it came last in 446 of 493"), "{text}");
    assert!(text.contains("because its SM clock is lower: 1.604 GHz"), "{text}");
}

/// `critical_path.py nsys/timeline.sqlite step`: the host runs ahead, so all was issued before the step.
#[test]
fn the_critical_path_of_a_step_that_was_issued_before_it_began() {
    let found = run(&session("nsys/"), "critical-path");
    let of = |id: &str| metric(&found, id, "step", None, "");
    let length = of("critical_path");
    assert_eq!(length, 56_696_488.0);
    for (category, time) in [
        ("compute", 48_575_683.0),
        ("communication", 7_855_011.0),
        ("copy", 24_064.0),
        ("gap", 241_730.0),
        ("launch", 0.0),
        ("calls", 0.0),
        ("host", 0.0),
        ("unknown", 0.0),
    ] {
        let share = of(&format!("critical_path_share_{category}"));
        assert!((share * length - time).abs() < 1e-3, "{category}: {}", share * length);
    }
}

fn words(block: &Block) -> String {
    let text = |inline: &Inline| match inline {
        Inline::Text(text) | Inline::Code(text) | Inline::Strong(text) => text.clone(),
        Inline::Quantity(quantity) => quantity.to_string(),
    };
    match block {
        Block::Prose(inlines) => inlines.iter().map(text).collect(),
        _ => String::new(),
    }
}
