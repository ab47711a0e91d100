//! The section on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{MetricValue, PassKind};

use super::*;
use crate::testing::{column, dataset, english, show_gpu, show_gpu_keys};
use rooflens_analysis::kernels::gemm::above_roofline;
use rooflens_analysis::testing::Program;
use rooflens_analysis::{Facts, Options, Results};
use rooflens_document::Cell;
use rooflens_hardware::Hardware;
use rooflens_llm::Decoder;
use rooflens_session::{Llm, MeasuredPeak};

const NAME: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";

fn content(program: &Program) -> SectionContent {
    show_gpu(&SECTION, &program.session, "H200")
}

fn value<'a>(content: &'a SectionContent, id: &str) -> &'a MetricValue {
    &content
        .metrics
        .iter()
        .find(|metric| metric.id == id)
        .unwrap()
        .value
}

/// A stage of 400 ns of GPU time, 300 of them of a product of `m`×4096 by 4096×64. One of 100 ns before it shows how
/// short such a kernel can be.
fn with_product(m: u64) -> Program {
    let mut program = Program::default();
    program.pass("torch", PassKind::Operators);
    program.kernel_of(NAME, 100);
    program.range("prefill", &|program| {
        program.kernel_of(
            "void at::native::vectorized_elementwise_kernel<4>(int)",
            100,
        );
        let start = program.time;
        program.kernel_of(NAME, 300);
        program.operator(
            start,
            "aten::mm",
            &format!("[[{m},4096],[4096,64]]"),
            "c10::BFloat16",
        );
    });
    program
}

#[test]
fn a_memory_bound_product_against_the_bandwidth() {
    let content = content(&with_product(8));
    // Bytes 2·(8·4096 + 4096·64 + 8·64) = 590 848 at 4.8 TB/s are 123.09 ns; the 4.2 MFLOP take 4.2 ns.
    let least = 590_848.0 / 4.8e12 * 1e9;
    let recoverable = value(&content, "gemm_recoverable").number().unwrap();
    assert!(
        (recoverable - (300.0 - least)).abs() < 1e-9,
        "{recoverable}"
    );
    assert_eq!(value(&content, "gemm_time_share").number(), Some(0.75));
    assert_eq!(value(&content, "gemm_shape_coverage").number(), Some(1.0));
    let cell = |id: &str| column(dataset(&content, "gemms"), id)[0].clone();
    assert_eq!(
        (cell("bound"), cell("flops")),
        (Cell::Text("memory".into()), Cell::Float(4_194_304.0))
    );
    // 64 outputs are one tile of 64, 8 tokens one of 8; rows of N and of K are multiples of 16 bytes.
    assert_eq!(
        (cell("tile_efficiency"), cell("alignment_bytes")),
        (Cell::Float(1.0), Cell::Int(16))
    );
    // Neither registers nor the capability are recorded, so what fits on an SM is not known.
    assert_eq!(cell("waves"), Cell::Missing);
    assert!(content.diagnostics.is_empty());
}

#[test]
fn a_measured_peak_is_the_ceiling_and_of_peak_stays_that_of_the_specification() {
    let mut program = with_product(8);
    for (what, median) in [("bf16", 800e12), ("copy", 4e12)] {
        let [gpu, what, artifact] = ["", what, ""].map(|text| program.session.intern(text));
        let peak = MeasuredPeak {
            gpu,
            what,
            median,
            min: None,
            max: None,
            artifact,
        };
        program.session.measured_peaks.push(peak);
    }
    let content = content(&program);
    // The same bytes at 4 TB/s are 147.7 ns.
    let recoverable = value(&content, "gemm_recoverable").number().unwrap();
    assert!(
        (recoverable - (300.0 - 590_848.0 / 4e12 * 1e9)).abs() < 1e-9,
        "{recoverable}"
    );
    let cell = |id: &str| column(dataset(&content, "gemms"), id)[0].plain();
    assert_eq!(cell("ceiling"), "measured");
    // 4 194 304 operations in 300 ns of 989.4 TFLOP/s.
    let of_peak: f64 = cell("of_peak").parse().unwrap();
    assert!((of_peak - 4_194_304.0 / 300e-9 / 989.4e12).abs() < 1e-12);
    let captions: Vec<&str> = content
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Table(view) => Some(view.caption.as_str()),
            _ => None,
        })
        .collect();
    let ceilings = "bf16 800 TFLOP/s measured, memory 4.00 TB/s measured";
    assert!(captions[0].ends_with(ceilings), "{captions:?}");
}

#[test]
fn of_a_mixture_of_experts_the_dimensions_give_no_sizes_and_the_report_says_so() {
    let notes = |experts: u64, known: bool| {
        let mut program = if known {
            with_product(8)
        } else {
            Program::default()
        };
        if !known {
            program.pass("nsys", PassKind::Timeline);
            program.range("prefill", &|program| program.kernel(NAME));
        }
        let mut model: Llm = Decoder {
            layers: 1,
            heads: 1,
            ..Decoder::default()
        }
        .into();
        model.outline.experts = experts;
        program.session.model = Some(model);
        let is_note = |block: &&Block| matches!(block, Block::Prose(_));
        content(&program).blocks.iter().filter(is_note).count()
    };
    assert_eq!(notes(8, false), 1);
    // Operators recorded all sizes; a dense model.
    assert_eq!((notes(8, true), notes(0, false)), (0, 0));
}

/// Charts of stage time have one colour for GEMMs and convolutions: their sum is reported where both run.
#[test]
fn convolutions_stand_next_to_the_gemms() {
    let said = |with: bool| {
        let mut program = Program::default();
        program.pass("nsys", PassKind::Timeline);
        program.range("train_step", &|program| {
            program.kernel_of(NAME, 300);
            if with {
                program.kernel_of("sm90_xmma_wgrad_implicit_gemm_bf16bf16", 150);
            }
        });
        let main = show_gpu_keys(&SECTION, &program.session, "H200").main;
        let Some(Block::Facts(facts)) = main.into_iter().next() else {
            panic!("no facts")
        };
        facts[0].1.iter().map(Inline::plain).collect::<String>()
    };
    let (alone, with_convolutions) = (said(false), said(true));
    assert!(
        alone.contains("share=100 %") && !alone.contains("convolutions="),
        "{alone}"
    );
    assert!(
        with_convolutions.contains("time=300 ns") && with_convolutions.contains("share=66.7 %"),
        "{with_convolutions}"
    );
    assert!(
        with_convolutions.ends_with("convolutions=150 ns}"),
        "{with_convolutions}"
    );
}

#[test]
fn a_product_above_the_peak_is_an_error() {
    // 2·8192·4096·64 FLOPs in 300 ns are 14.3 PFLOP/s.
    let content = content(&with_product(8192));
    let codes: Vec<_> = content
        .diagnostics
        .iter()
        .map(|one| (one.code, one.severity))
        .collect();
    assert_eq!(codes, [("gemms/above-one", Severity::Error)]);
}

#[test]
fn without_sizes_nothing_is_recoverable_and_without_products_there_is_no_section() {
    let mut program = Program::default();
    program.pass("nsys", PassKind::Timeline);
    program.range("prefill", &|program| program.kernel(NAME));
    let unknown = content(&program);
    assert!(matches!(
        value(&unknown, "gemm_recoverable"),
        MetricValue::Unavailable { .. }
    ));
    assert_eq!(value(&unknown, "gemm_shape_coverage").number(), Some(0.0));
    let missing = unknown
        .blocks
        .iter()
        .filter(|block| matches!(block, Block::Missing(_)))
        .count();
    assert_eq!(missing, 1);
    assert!(content(&Program::default()).blocks.is_empty());
}

#[test]
fn a_log_alone_is_shown_by_size() {
    let mut program = Program::default();
    program.pass("nsys", PassKind::Timeline);
    [3, 3, 5]
        .into_iter()
        .for_each(|m| program.log((8, m, 4), (64, 8), 1));
    let found = content(&program);
    let ids = [
        "shape", "m", "n", "k", "batch", "dtype", "tile", "calls", "flops",
    ];
    let log = dataset(&found, "gemm_log");
    let row = |at: usize| ids.map(|id| column(log, id)[at].plain());
    // Column-major 8 × m; twice 2·3·8·4 and once 2·5·8·4 FLOPs.
    assert_eq!(
        row(0),
        [
            "3 × 8 × 4",
            "3",
            "8",
            "4",
            "1",
            "R_16BF",
            "64 × 8",
            "2",
            "384"
        ]
    );
    assert_eq!(
        row(1),
        [
            "5 × 8 × 4",
            "5",
            "8",
            "4",
            "1",
            "R_16BF",
            "64 × 8",
            "1",
            "320"
        ]
    );
    assert!(matches!(&found.blocks[..], [Block::Table(view)] if view.dataset == "gemm_log"));
}

/// As above: 590 848 bytes take 123.09 ns of 300.
#[test]
fn what_a_stage_gains_with_its_products_at_the_roofline() {
    let program = with_product(8);
    let hardware = Hardware::builtin();
    let options = Options {
        gpu: Some("H200".to_owned()),
        ..Options::default()
    };
    let facts = Facts::new(&program.session);
    let context = rooflens_analysis::Context::new(&program.session, &facts, &hardware, &options);
    let results = Results::compute(&context);
    let context = context.with(&results);
    let above = above_roofline(&context);
    assert_eq!(above.len(), 1);
    assert!((above[0].2.0 - (300.0 - 590_848.0 / 4.8e12 * 1e9)).abs() < 1e-9);
    // As much less than the stage time.
    let results = rooflens_analysis::Results::compute(&context);
    let all = crate::run(&english(&context.with(&results)));
    let number = |id: &str| {
        let mut metrics = all.iter().flat_map(|(_, _, content)| &content.metrics);
        metrics
            .find(|metric| metric.id == id)
            .unwrap()
            .value
            .number()
            .unwrap()
    };
    let gain = number("stage_time") - number("bound_matrix_products");
    assert!((gain - above[0].2.0).abs() < 1e-9);
}
