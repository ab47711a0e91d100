//! The section on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{column, dataset, show_gpu};
use rooflens_analysis::testing::Program;
use rooflens_document::Cell;

const FORWARD: &str = "flash_fwd_splitkv_kernel";
const COMBINE: &str = "flash_fwd_splitkv_combine_kernel";

/// Two decode steps, of 5 and 6 keys, of which the pass with operators has the first alone.
fn program() -> Program {
    let mut program = Program::default();
    let step = |program: &mut Program| {
        program.kernel_of(FORWARD, 40);
        program.kernel_of(COMBINE, 10);
    };
    program.pass("torch", PassKind::Operators);
    program.range("decode", &|program| {
        program.range("decode_step", &|program| {
            let start = program.time;
            step(program);
            let shapes = "[[2,8,1,16],[2,4,5,16],[2,4,5,16],[],[],[],[],[]]";
            program.operator(
                start,
                "aten::scaled_dot_product_attention",
                shapes,
                "c10::BFloat16",
            );
        });
    });
    program.pass("nsys", PassKind::Timeline);
    program.range("decode", &|program| {
        for _ in 0..2 {
            program.range("decode_step", &step);
        }
    });
    program
}

#[test]
fn the_keys_of_a_loop_grow_and_its_steps_are_one_row() {
    let found = show_gpu(&SECTION, &program().session, "H200");
    let dataset = dataset(&found, "attention");
    let cells = |row: usize, ids: &[&str]| -> Vec<Cell> {
        ids.iter()
            .map(|id| column(dataset, id)[row].clone())
            .collect()
    };
    assert_eq!(dataset.rows.len(), 2);
    let text = |text: &str| Cell::Text(text.into());
    assert_eq!(
        cells(
            0,
            &[
                "pass",
                "shape",
                "launches",
                "time_ns",
                "helper_ns",
                "source",
                "bound"
            ]
        ),
        [
            text("nsys"),
            text("B 2, H 8/4, 1 × 5–6, D 16"),
            Cell::Float(2.0),
            Cell::Float(100.0),
            Cell::Float(20.0),
            text("operator, aligned"),
            text("memory"),
        ]
    );
    // 11 pairs · 2 sequences · 8 heads · 4·16. Queries and output 2·8·16 each a step, keys and values 2·4·16 a key, 2 bytes each.
    assert_eq!(
        cells(0, &["flops", "flops_full", "bytes"]),
        [
            Cell::Float(11_264.0),
            Cell::Float(11_264.0),
            Cell::Float(2.0 * (4.0 * 256.0 + 22.0 * 128.0))
        ]
    );
}
