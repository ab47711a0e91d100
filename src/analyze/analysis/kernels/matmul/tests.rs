//! Sizes that go from one pass to another, on tables made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::Program;
use rooflens_session::PassId;

const NSYS: &str = "void Kernel<(int)128, (bool)1>_nvjet_tst_64x8_64x16_2x1_v_bz_TNT(T1::Params)";
const TORCH: &str = "void Kernel<128, true>_nvjet_tst_64x8_64x16_2x1_v_bz_TNT(float*)";
const SPLIT: &str = "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT";
const REDUCE: &str = "void cublasLt::splitKreduce_kernel<32>(int)";

/// Rows M and source of the kernels of a pass, in the order in which they ran.
fn found(program: &Program, pass: u32) -> Vec<Option<(u64, Source, bool)>> {
    let facts = Facts::new(&program.session);
    let products = Products::new(&program.session, &facts);
    let ops =
        (0..facts.ops.len() as OpIndex).filter(|op| facts.ops.pass[*op as usize] == PassId(pass));
    ops.map(|op| {
        let product = products.get(op)?;
        let Shape::Gemm(gemm) = product.shape else {
            return None;
        };
        assert_eq!(((gemm.n, gemm.k), product.operand), ((8, 4), "bf16"));
        Some((gemm.m, product.source, product.main))
    })
    .collect()
}

/// A recorded pass in which one kernel computes two sizes.
fn recorded() -> Program {
    let mut program = Program::default();
    program.pass("torch", PassKind::Operators);
    program.range("prefill", &|program| {
        program.product(16, &[TORCH]);
        program.product(32, &[SPLIT, REDUCE]);
        program.product(64, &[TORCH]);
        program.product(16, &[TORCH]);
    });
    program
}

#[test]
fn an_operator_gives_its_kernels_its_sizes_once() {
    use Source::Operator;
    // `aten::linear` around `aten::mm` is not counted again; the sum after the split is a helper.
    let expected = [(16, true), (32, true), (32, false), (64, true), (16, true)]
        .map(|(m, main)| Some((m, Operator, main)));
    assert_eq!(found(&recorded(), 0), expected);
}

#[test]
fn a_range_that_is_named_after_an_operator_gives_its_sizes() {
    let mut program = Program::default();
    program.pass("nsys", PassKind::Timeline);
    let linear =
        "aten::linear, op_id = 1, sizes = [[2, 16, 4], [8, 4], [8]], input_op_ids = [(0,0)]";
    let addmm = "aten::addmm, seq = 7, op_id = 2, sizes = [[8], [32, 4], [4, 8], [], []]";
    program.range("prefill", &|program| {
        program.range(linear, &|program| {
            program.range(addmm, &|program| program.kernel(NSYS))
        });
        program.range("aten::mul, sizes = [[32, 8], []]", &|program| {
            program.kernel(NSYS)
        });
        program.range("aten::mm, sizes = [[16, 4]", &|program| {
            program.kernel(NSYS)
        });
    });
    let facts = Facts::new(&program.session);
    let products = Products::new(&program.session, &facts);
    let of = |op: OpIndex| {
        products
            .get(op)
            .map(|product| (product.shape, product.source))
    };
    // [32, 4] × [4, 8] of the innermost one; a multiplication by elements and a name that is cut have none.
    let Some((Shape::Gemm(gemm), Source::Operator)) = of(0) else {
        panic!("{:?}", of(0).is_some())
    };
    assert_eq!((gemm.m, gemm.n, gemm.k), (32, 8, 4));
    assert!(of(1).is_none() && of(2).is_none());
}

#[test]
fn the_same_kernels_in_the_same_order_have_the_same_sizes() {
    let mut program = recorded();
    program.pass("nsys", PassKind::Timeline);
    program.range("prefill", &|program| {
        [NSYS, SPLIT, REDUCE, NSYS, NSYS]
            .iter()
            .for_each(|kernel| program.kernel(kernel));
    });
    use Source::SameOrder;
    let expected = [(16, true), (32, true), (32, false), (64, true), (16, true)]
        .map(|(m, main)| Some((m, SameOrder, main)));
    assert_eq!(found(&program, 1), expected);
}

#[test]
fn a_sequence_that_is_alike_is_aligned_and_one_that_is_not_is_left() {
    let mut program = recorded();
    program.pass("nsys", PassKind::Timeline);
    program.range("prefill", &|program| {
        // A product of another kernel between them.
        [NSYS, SPLIT, REDUCE, "other_gemm", NSYS, NSYS]
            .iter()
            .for_each(|kernel| program.kernel(kernel));
    });
    program.range("prefill", &|program| {
        ["other_gemm", "other_gemm", NSYS]
            .iter()
            .for_each(|kernel| program.kernel(kernel));
    });
    let sizes: Vec<Option<u64>> = found(&program, 1)
        .iter()
        .map(|found| found.map(|it| it.0))
        .collect();
    assert_eq!(
        sizes[..6],
        [Some(16), Some(32), Some(32), None, Some(64), Some(16)]
    );
    assert_eq!(sizes[6..], [None, None, None]);
    assert_eq!(found(&program, 1)[0].unwrap().1, Source::Aligned);
}

#[test]
fn a_stage_without_a_name_in_the_trace_is_found_by_its_kernels() {
    let mut program = recorded();
    program.pass("nsys", PassKind::Timeline);
    let kernels = [SPLIT, REDUCE, NSYS, NSYS];
    program.range("backward", &|program| {
        kernels.iter().for_each(|kernel| program.kernel(kernel))
    });
    let sizes: Vec<u64> = found(&program, 1)
        .iter()
        .map(|found| found.unwrap().0)
        .collect();
    assert_eq!(sizes, [32, 32, 64, 16]);
}

#[test]
fn a_log_gives_sizes_by_the_order_of_tiles() {
    let mut program = Program::default();
    program.pass("nsys", PassKind::Timeline);
    program.range("prefill", &|program| {
        [NSYS, SPLIT, REDUCE, NSYS, NSYS]
            .iter()
            .for_each(|kernel| program.kernel(kernel));
    });
    // Column-major in the log: 8 × m. A call of another tile stands before.
    program.log((8, 1, 4), (128, 128), 1);
    for (m, parts) in [(16, 1), (32, 3), (64, 1), (16, 1)] {
        program.log((8, m, 4), (64, 8), parts);
    }
    use Source::Log;
    let expected = [(16, true), (32, true), (32, false), (64, true), (16, true)]
        .map(|(m, main)| Some((m, Log, main)));
    assert_eq!(found(&program, 0), expected);
    // A second place with other sizes: only what both agree on is taken.
    for (m, parts) in [(16, 1), (32, 3), (65, 1), (16, 1)] {
        program.log((8, m, 4), (64, 8), parts);
    }
    assert_eq!(found(&program, 0)[3], None);
    assert_eq!(found(&program, 0)[4].unwrap().0, 16);
}

#[test]
fn a_log_that_contradicts_operators_is_counted_and_a_transposed_call_is_none() {
    let mut program = recorded();
    for (m, n, parts) in [(16, 8, 1), (8, 32, 3), (8, 65, 1), (8, 16, 1)] {
        program.log((m, n, 4), (64, 8), parts);
    }
    let facts = Facts::new(&program.session);
    assert_eq!(Products::new(&program.session, &facts).contradictions(), 1);
}
