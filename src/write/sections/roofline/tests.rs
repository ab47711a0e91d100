#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{charts, column, dataset, numbers, show_keys_on, show_on};
use rooflens_analysis::counters::roofline::device;
use rooflens_analysis::testing::counters::{count, session};
use rooflens_document::chart::{Color, Plot};
use rooflens_document::{Catalogue, Cell};
use rooflens_hardware::{Gpu, Hardware, Peak};
use rooflens_session::{MeasuredPeak, PassId, ProfileId, Session, StrId};
use rooflens_units::{BytesPerSecond, FlopsPerSecond};

const TIME: &str = "gpu__time_duration.sum";
const BF16: &str = "sm__ops_path_tensor_src_bf16_dst_fp32.sum";
const READ: &str = "dram__bytes_read.sum";
const WRITE: &str = "dram__bytes_write.sum";

/// A GPU of 100 TFLOP/s and 1 TB/s; the built-in table is not needed here.
fn hardware() -> Hardware {
    let peak = Peak {
        dtype: "bf16".to_owned(),
        dense: FlopsPerSecond(100e12),
        ..Peak::default()
    };
    let gpu = Gpu {
        name: "Test GPU".to_owned(),
        memory_bandwidth: BytesPerSecond(1e12),
        peaks: vec![peak],
        ..Gpu::default()
    };
    Hardware {
        gpus: vec![gpu],
        ..Hardware::default()
    }
}

/// A product of 4 GFLOP over 100 MB in 200 µs, and a copy without operations in 50 µs.
fn product_and_copy() -> Session {
    let mut session = session(&[
        (
            "product",
            &[
                ("", TIME, "s", 2e-4),
                ("", BF16, "", 4e9),
                ("", READ, "byte", 9e7),
                ("", WRITE, "byte", 1e7),
            ],
        ),
        (
            "copy",
            &[
                ("", TIME, "s", 5e-5),
                (
                    "",
                    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
                    "inst",
                    0.0,
                ),
                (
                    "",
                    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
                    "inst",
                    0.0,
                ),
                (
                    "",
                    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
                    "inst",
                    0.0,
                ),
                ("", BF16, "", 0.0),
                ("", READ, "byte", 1e6),
                ("", WRITE, "byte", 1e6),
            ],
        ),
    ]);
    session.gpus.name[0] = session.intern("Test GPU");
    session
}

fn content(session: &Session) -> SectionContent {
    show_on(&SECTION, session, &hardware())
}

#[test]
fn a_mark_lies_at_flops_per_byte_and_flops_per_second() {
    let content = content(&product_and_copy());
    let all = charts(&content.blocks);
    let ids: Vec<&str> = all.iter().map(|c| c.id.as_str()).collect();
    // DRAM bytes alone: no chart of several levels.
    assert_eq!(ids, ["roofline-dram-ncu-decode"]);
    let Plot::Roofline(roofline) = &all[0].plot else {
        panic!("roofline")
    };
    let [point] = roofline.points.as_slice() else {
        panic!("one point")
    };
    // 4 GFLOP / 100 MB = 40 FLOP/B; 4 GFLOP / 200 µs = 20 TFLOP/s; 200 of 250 µs.
    assert!((point.x - 40.0).abs() < 1e-9);
    assert!((point.y / 20e12 - 1.0).abs() < 1e-12);
    assert!((point.weight.0 - 0.8).abs() < 1e-12);
    assert_eq!(point.color, Color::Other);
    assert_eq!(roofline.bandwidths[0].value, 1e12);
    assert_eq!(roofline.rates[0].value, 100e12);
    // Attainable: min(100 TFLOP/s, 40 FLOP/B × 1 TB/s) = 40 TFLOP/s, of which half is attained.
    let points = dataset(&content, "roofline_points");
    assert!((numbers(points, "attained_share")[0] - 0.5).abs() < 1e-12);
}

#[test]
fn a_kernel_without_operations_is_listed_next_to_the_plot() {
    let content = content(&product_and_copy());
    let unplotted = dataset(&content, "roofline_unplotted");
    // The copy in no roofline; the product in none of L2 and L1, where nothing was counted.
    assert_eq!(unplotted.rows.len(), 3);
    let reason = Catalogue::english().line("roofline.unplotted.no_flops", &[]);
    assert!(column(unplotted, "reason").contains(&Cell::Text(reason.into())));
    assert!((numbers(unplotted, "time_share")[2] - 0.2).abs() < 1e-12);
}

#[test]
fn a_kernel_has_one_mark_a_memory_level_at_one_height() {
    let mut session = product_and_copy();
    // 400 MB at L2 and 1 GB at L1 under 4 GFLOP: 10 and 4 FLOP/B.
    for (metric, value) in [("lts__t_bytes.sum", 4e8), ("l1tex__t_bytes.sum", 1e9)] {
        count(&mut session, ProfileId(0), ("", metric, "byte", value));
    }
    let content = content(&session);
    let all = charts(&content.blocks);
    let chart = all
        .iter()
        .find(|chart| chart.id == "roofline-levels-ncu-decode")
        .unwrap();
    let Plot::Roofline(roofline) = &chart.plot else {
        panic!("roofline")
    };
    assert!((roofline.points[0].x - 40.0).abs() < 1e-9);
    let marks: Vec<(usize, f64, Color)> = roofline
        .levels
        .iter()
        .map(|mark| (mark.point, mark.x.round(), mark.color))
        .collect();
    assert_eq!(marks, [(0, 10.0, Color::L2), (0, 4.0, Color::L1)]);
}

#[test]
fn operations_are_summed_by_dtype_and_pipe() {
    let content = content(&product_and_copy());
    let types = dataset(&content, "executed_flops_types");
    let cell = |id: &str| column(types, id)[0].plain();
    // 4 GFLOP in 200 µs; the peak of the test's GPU.
    let row = ["dtype", "pass", "pipe", "launches"].map(cell);
    assert_eq!(row, ["bf16", "ncu-decode", "tensor cores", "1"]);
    let peaks = ["peak_flop_per_second", "measured_flop_per_second"].map(cell);
    assert_eq!(
        (types.rows.len(), peaks),
        (1, ["100000000000000".to_owned(), String::new()])
    );
    assert!((numbers(types, "flop_per_second")[0] / 20e12 - 1.0).abs() < 1e-12);
}

#[test]
fn launches_of_one_kernel_grid_and_block_are_one_mark() {
    let launch: &[(&str, &str, &str, f64)] = &[
        ("", TIME, "s", 1e-6),
        ("", BF16, "", 1e6),
        ("", READ, "byte", 1e5),
        ("", WRITE, "byte", 0.0),
    ];
    let content = content(&session(&[("k", launch), ("k", launch)]));
    let points = dataset(&content, "roofline_points");
    assert_eq!(points.rows.len(), 1);
    assert_eq!(numbers(points, "launches")[0], 2.0);
    assert!((numbers(points, "flop")[0] - 2e6).abs() < 1e-6);
    assert!((numbers(points, "dram_flop_per_byte")[0] - 10.0).abs() < 1e-9);
}

#[test]
fn an_unknown_gpu_has_no_specified_ceilings_and_measured_ones_are_dashed() {
    let mut session = product_and_copy();
    session.gpus.name[0] = StrId::default();
    let empty = StrId::default();
    let what = session.intern("bf16");
    session.measured_peaks.push(MeasuredPeak {
        gpu: empty,
        what,
        median: 80e12,
        min: None,
        max: None,
        artifact: empty,
    });
    let content = show_keys_on(&SECTION, &session, &hardware());
    let Plot::Roofline(roofline) = &charts(&content.blocks)[0].plot else {
        panic!("roofline")
    };
    assert!(roofline.bandwidths.is_empty());
    assert_eq!(roofline.rates.len(), 1);
    assert!(roofline.rates[0].measured);
    assert_eq!(roofline.rates[0].value, 80e12);
    assert_eq!(
        content.blocks[1],
        Block::Prose(prose!["roofline.ceilings_unknown"])
    );
}

#[test]
fn a_details_page_borrows_the_name_of_the_same_capability() {
    let mut session = product_and_copy();
    session.gpus.name[0] = StrId::default();
    session.gpus.compute_capability[0] = Some(90);
    let pass = session.add_pass("nsys", rooflens_schemas::PassKind::Timeline, "nsys.sqlite");
    let gpu = session.gpu(pass, 0);
    session.gpus.compute_capability[gpu.index()] = Some(90);
    session.gpus.name[gpu.index()] = session.intern("Test GPU");
    let device = device::of_pass(&session, PassId::at(0)).unwrap();
    assert_eq!(device.name, "Test GPU");
    // Two names for one capability decide nothing.
    let second = session.gpu(pass, 1);
    session.gpus.compute_capability[second.index()] = Some(90);
    session.gpus.name[second.index()] = session.intern("Other GPU");
    assert_eq!(device::of_pass(&session, PassId::at(0)), None);
}
