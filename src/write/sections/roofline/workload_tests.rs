#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{self, charts, column, dataset, numbers, show_on};
use rooflens_analysis::testing::counters as ncu;
use rooflens_analysis::testing::represent::{launch, session};
use rooflens_document::Cell;
use rooflens_document::chart::{Color, Plot};
use rooflens_hardware::{Gpu, Hardware, Peak};
use rooflens_session::{Ns, ProfileId, Session};
use rooflens_units::{BytesPerSecond, FlopsPerSecond};

const BF16: &str = "sm__ops_path_tensor_src_bf16_dst_fp32.sum";
const FADD: &str = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum";
const FMUL: &str = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum";
const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

/// 1 TFLOP/s in bf16, 10 GFLOP/s in fp32, 1 TB/s.
fn hardware() -> Hardware {
    let peak = |dtype: &str, dense| Peak {
        dtype: dtype.to_owned(),
        dense: FlopsPerSecond(dense),
        ..Peak::default()
    };
    let gpu = Gpu {
        name: "Test GPU".to_owned(),
        memory_bandwidth: BytesPerSecond(1e12),
        peaks: vec![peak("bf16", 1e12), peak("fp32", 1e10)],
        ..Gpu::default()
    };
    Hardware {
        gpus: vec![gpu],
        ..Hardware::default()
    }
}

fn count(session: &mut Session, profile: u32, metric: &str, unit: &str, value: f64) {
    ncu::count(session, ProfileId(profile), ("", metric, unit, value));
}

/// The session of the matching's tests, whose launches without counters are cut to 40, 30 and 20 ns: 360 of 450 ns
/// have some. Its timeline lasts 1120 ns.
fn cut() -> Session {
    let mut session = session();
    for (row, end) in [(4, 640), (5, 1030), (6, 1120)] {
        session.launches.end[row] = Ns(end);
    }
    session
}

/// The same, with 100 and 300 additions in the two `add` and 20 000 operations of
/// tensor cores in the product.
fn counted() -> Session {
    let mut session = cut();
    for (profile, additions) in [(0, 100.0), (1, 300.0), (2, 0.0), (3, 0.0)] {
        count(&mut session, profile, FADD, "inst", additions);
        count(&mut session, profile, FMUL, "inst", 0.0);
        count(&mut session, profile, FFMA, "inst", 0.0);
    }
    count(&mut session, 2, BF16, "", 20_000.0);
    for row in 0..session.gpus.len() {
        session.gpus.name[row] = session.intern("Test GPU");
    }
    session
}

fn content(session: &Session) -> SectionContent {
    show_on(&SECTION, session, &hardware())
}

fn metric(content: &SectionContent, id: &str) -> Option<f64> {
    testing::metric(content, id, |_| true)
}

#[test]
fn counters_are_spread_over_the_launches_that_they_stand_for() {
    let content = content(&counted());
    let near = |id, expected: f64| {
        let value = metric(&content, id).unwrap();
        assert!(
            (value / expected - 1.0).abs() < 1e-9,
            "{id}: {value} for {expected}"
        );
    };
    // 360 of 450 ns.
    near("profiled_share", 0.8);
    // Two adds with 2000 bytes each, one with half the blocks, one product with 64 000.
    near("dram_bytes", 69_000.0);
    // 69 kB in 1120 ns of 1 TB/s.
    near("profiled_dram_share", 69_000.0 / 1.12e6);
    // 2 × 200 + 100 additions at 10 GFLOP/s are 50 ns, 20 000 operations at 1 TFLOP/s are 20 ns; of 1120 ns.
    near("hfu", 70.0 / 1120.0);
    let basis = &content
        .metrics
        .iter()
        .find(|metric| metric.id == "dram_bytes")
        .unwrap()
        .basis;
    // 2 × 1000 + 500 + 64 000 and 2 × 3000 + 1500 + 64 000.
    assert!(basis.contains("66.5 kB to 71.5 kB"), "{basis}");
}

#[test]
fn marks_have_the_time_of_the_timeline() {
    let content = content(&counted());
    let charts = charts(&content.blocks);
    let points = |id: &str| {
        let chart = charts.iter().find(|chart| chart.id == id);
        match &chart.expect("the chart").plot {
            Plot::Roofline(roofline) => &roofline.points,
            _ => panic!("a roofline"),
        }
    };
    // 20 000 operations in 110 ns, and per 64 kB.
    let product = points("roofline-workload-whole-capture")
        .iter()
        .find(|point| point.color == Color::Gemm)
        .unwrap();
    assert!((product.x - 20_000.0 / 64_000.0).abs() < 1e-12);
    assert!((product.y / (20_000.0 / 110e-9) - 1.0).abs() < 1e-12);
    assert!((product.weight.0 - 110.0 / 450.0).abs() < 1e-12);
    // All 20 500 operations over the stage time.
    let stage = points("roofline-workload")
        .iter()
        .find(|point| point.color == Color::Stage)
        .unwrap();
    assert!((stage.y / (20_500.0 / 1120e-9) - 1.0).abs() < 1e-12);
    assert!((stage.x - 20_500.0 / 69_000.0).abs() < 1e-12);
}

#[test]
fn time_by_bound_class_adds_up_to_the_time_of_kernels() {
    let content = content(&counted());
    let bounds = dataset(&content, "workload_bounds");
    let sum = |id: &str| numbers(bounds, id).iter().sum::<f64>();
    assert!((sum("time_ns") - 450.0).abs() < 1e-9);
    assert!((sum("seed_share") - 1.0).abs() < 1e-9);
}

#[test]
fn a_stage_of_which_less_than_four_fifths_were_profiled_has_no_sum() {
    let mut session = counted();
    let pass = session.launches.pass[0];
    launch(&mut session, pass, "long", [1, 1, 1], 2000..2050);
    let content = content(&session);
    // 360 of 500 ns.
    assert!((metric(&content, "profiled_share").unwrap() - 0.72).abs() < 1e-12);
    for id in ["hfu", "dram_bytes", "profiled_dram_share"] {
        assert_eq!(metric(&content, id), None, "{id}");
    }
    // Marks of kernels are true without the rest of the stage; those of classes and stages are not.
    let charts = charts(&content.blocks);
    let ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
    assert!(ids.contains(&"roofline-workload-whole-capture"));
    assert!(!ids.contains(&"roofline-workload"));
}

#[test]
fn operations_that_were_not_counted_are_missing_and_not_zero() {
    let content = content(&cut());
    assert_eq!(
        column(dataset(&content, "workload_stages"), "flop")[0],
        Cell::Missing
    );
    assert_eq!(metric(&content, "hfu"), None);
    // The bytes were counted.
    assert!((metric(&content, "dram_bytes").unwrap() - 69_000.0).abs() < 1e-6);
}

#[test]
fn more_than_a_peak_is_no_result() {
    let mut session = counted();
    count(
        &mut session,
        2,
        "sm__ops_path_tensor_src_bf16_dst_bf16.sum",
        "",
        1e9,
    );
    let content = content(&session);
    assert!(content.metrics.iter().any(|metric| metric.id == "hfu"));
    assert_eq!(metric(&content, "hfu"), None);
}
