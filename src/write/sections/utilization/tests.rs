//! The section on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{metric, show_gpu, show_gpu_keys};
use rooflens_analysis::testing::Program;
use rooflens_llm::Decoder;

const ADD: &str = "void at::native::vectorized_elementwise_kernel<4>(int)";

/// A decode of 1000 ns, half of it busy, and a stage of another pass with nothing known.
fn program(known: bool) -> Program {
    let mut program = Program::default();
    program.pass("nsys", PassKind::Timeline);
    program.range("decode", &|program| {
        program.kernel_of(ADD, 250);
        program.time += 498;
        program.kernel_of(ADD, 250);
    });
    program.session.workload.dtype = Some("bf16".to_owned());
    if known {
        program.session.workload.batch = Some(1);
        program.session.workload.prompt_tokens = Some(8);
        program.session.workload.output_tokens = Some(1);
        // 4·64² + 2·64·128 = 32 768 parameters, a head of 64·100 and one row of the embedding; 2·64 a cached position.
        program.session.model = Some(
            Decoder {
                hidden: 64,
                intermediate: 128,
                layers: 1,
                heads: 1,
                kv_heads: 1,
                head_dim: 64,
                vocab: 100,
                ..Decoder::default()
            }
            .into(),
        );
    }
    program
}

fn content(program: &Program) -> SectionContent {
    show_gpu(&SECTION, &program.session, "H200")
}

#[test]
fn a_decode_that_is_busy_half_of_the_time_has_twice_its_mbu_in_kernels() {
    let content = content(&program(true));
    let value = |id: &str| metric(&content, id, |_| true).unwrap();
    // Weights, head, one embedding row; 9 positions read and 1 written; 2 bytes each, in 1000 ns at 4.8 TB/s.
    let bytes = 2.0 * (32_768.0 + 6_400.0 + 64.0 + 10.0 * 128.0);
    assert!((value("mbu") - bytes / (1000e-9 * 4.8e12)).abs() < 1e-12);
    assert!((value("kernel_time_mbu") - 2.0 * value("mbu")).abs() < 1e-12);
    assert_eq!(content.datasets[0].rows.len(), 1);
}

#[test]
fn a_stage_without_counted_work_is_in_no_table_and_the_reason_is_said_once() {
    let content = show_gpu_keys(&SECTION, &program(false).session, "H200");
    assert!(content.datasets.is_empty());
    let said: Vec<&Block> = content
        .blocks
        .iter()
        .filter(|block| !matches!(block, Block::Facts(_)))
        .collect();
    let reason = "utilization.without_work{stages=decode, reason=unavailable.no_model}";
    assert_eq!(said, [&Block::Missing(reason.to_owned())]);
}
