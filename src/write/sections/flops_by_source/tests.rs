//! The section on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{MetricValue, PassKind};

use super::*;
use crate::testing::show_gpu;
use rooflens_analysis::testing::Program;
use rooflens_llm::Decoder;
use rooflens_session::CounterSample;

/// A prefill of one layer: 1 of 8 tokens, sizes of two dtypes, 1000 ns of kernels in a row.
fn program() -> Program {
    let mut program = Program::default();
    program.pass("torch", PassKind::Operators);
    program.range("prefill", &|program| {
        program.kernel_of(
            "void at::native::vectorized_elementwise_kernel<4>(int)",
            198,
        );
        for (name, dtype) in [
            ("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", "c10::BFloat16"),
            ("nvjet_qqtst_64x8_64x16_2x1_v_bz_TNT", "c10::Float8_e4m3fn"),
        ] {
            let start = program.time;
            program.kernel_of(name, 398);
            program.operator(start, "aten::_scaled_mm", "[[512,512],[512,512]]", dtype);
        }
    });
    let metric = program.session.intern("GPC Clock Frequency [MHz]");
    for (time, value) in [(-5, 1.0), (100, 1000.0), (900, 1440.0), (90_000, 1.0)] {
        let pass = program.pass;
        program.session.counter_samples.push(CounterSample {
            time: Ns(time),
            metric,
            value,
            pass,
            gpu: None,
        });
    }
    program.session.workload.batch = Some(1);
    program.session.workload.prompt_tokens = Some(8);
    program.session.workload.dtype = Some("bf16".to_owned());
    program.session.model = Some(
        Decoder {
            hidden: 1024,
            intermediate: 1024,
            layers: 1,
            heads: 8,
            kv_heads: 8,
            head_dim: 128,
            vocab: 1000,
            ..Decoder::default()
        }
        .into(),
    );
    program
}

fn content(program: &Program) -> SectionContent {
    show_gpu(&SECTION, &program.session, "H200")
}

fn value(content: &SectionContent, id: &str) -> MetricValue {
    content
        .metrics
        .iter()
        .find(|metric| metric.id == id)
        .unwrap()
        .value
        .clone()
}

fn near(found: &MetricValue, expected: f64) -> bool {
    found
        .number()
        .is_some_and(|found| (found - expected).abs() <= 1e-9 * expected)
}

#[test]
fn each_dtype_counts_at_its_own_peak() {
    let content = content(&program());
    // 2·512³ FLOPs each, at 989.4 and at 1978.9 TFLOP/s; from the first kernel's start to the last one's end the two
    // launches between them add 2 ns each to 994.
    let one = 2.0 * 512.0 * 512.0 * 512.0;
    let ideal = (one / 989.4e12 + one / 1978.9e12) * 1e9;
    assert!(near(&value(&content, "ideal_time"), ideal));
    assert!(near(
        &value(&content, "mixed_dtype_utilization"),
        ideal / 998.0
    ));
    assert!(near(&value(&content, "operator_flops"), 2.0 * one));
    assert!(near(&value(&content, "flop_coverage"), 796.0 / 994.0));
    assert!(matches!(
        value(&content, "gemm_log_flops"),
        MetricValue::Unavailable { .. }
    ));
    assert!(content.diagnostics.is_empty());
}

#[test]
fn the_clock_of_the_stage_scales_the_peak() {
    let content = content(&program());
    // Parameters 4·1024² + 2·1024², 8 tokens; 36 pairs · 4·128 · 8 heads; head 2·1024·1000.
    let flops =
        2.0 * 8.0 * 6.0 * 1024.0 * 1024.0 + 36.0 * 4.0 * 128.0 * 8.0 + 2.0 * 1024.0 * 1000.0;
    let mfu = flops / (998.0e-9 * 989.4e12);
    // Of the samples at 100 and 900 ns, 1220 MHz, against the boost clock of 1830: half as much again.
    assert!(near(&value(&content, "clock_normalized_mfu"), mfu * 1.5));
}

#[test]
fn more_than_the_peak_allows_is_an_error() {
    let mut program = program();
    let shapes = program.session.intern("[[512,512],[512,5120]]");
    program.session.operators.shapes.fill(shapes);
    let content = content(&program);
    assert!(matches!(
        value(&content, "mixed_dtype_utilization"),
        MetricValue::Unavailable { .. }
    ));
    let codes: Vec<_> = content.diagnostics.iter().map(|one| one.code).collect();
    assert_eq!(codes, ["flops/above-one"]);
}
