//! The roofline of the report without counters, on a stage made by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{charts, show_gpu};
use rooflens_analysis::testing::Program;
use rooflens_document::chart::{Color, Plot, Point, StackedBars};

const PRODUCT: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";
const ADD: &str = "void at::native::vectorized_elementwise_kernel<4>(int)";

/// 100 ns of additions, and a product of 8×4096 by 4096×64 that takes `duration`. One of 100 ns before the stage shows how
/// short such a kernel can be.
fn with_product(duration: i64) -> Program {
    let mut program = Program::default();
    program.pass("torch", PassKind::Operators);
    program.kernel_of(PRODUCT, 100);
    program.range("prefill", &|program| {
        program.kernel_of(ADD, 100);
        let start = program.time;
        program.kernel_of(PRODUCT, duration);
        let shapes = "[[8,4096],[4096,64]]";
        program.operator(start, "aten::mm", shapes, "c10::BFloat16");
    });
    program
}

/// The marks of the roofline, and the bars of what bounds GPU time.
fn page(duration: i64) -> (Vec<Point>, Option<StackedBars>) {
    let content = show_gpu(&SECTION, &with_product(duration).session, "H200");
    let (mut marks, mut classes) = (Vec::new(), None);
    for chart in charts(&content.main) {
        match &chart.plot {
            Plot::Roofline(plot) => marks.clone_from(&plot.points),
            Plot::StackedBars(plot) => classes = Some(plot.clone()),
            _ => {}
        }
    }
    (marks, classes)
}

/// 2·8·4096·64 FLOPs and 2·(8·4096 + 4096·64 + 8·64) bytes.
#[test]
fn sizes_of_a_product_give_a_hollow_mark() {
    let (marks, _) = page(150);
    let [mark] = marks.as_slice() else {
        panic!("{marks:?}")
    };
    assert!(mark.hollow);
    assert!((mark.x - 4_194_304.0 / 590_848.0).abs() < 1e-9);
    assert!((mark.y / (4_194_304.0 / 150e-9) - 1.0).abs() < 1e-9);
    // 150 of 250 ns.
    assert!((mark.weight.0 - 0.6).abs() < 1e-9);
}

/// The bytes take 123 ns at 4.8 TB/s. That is most of 150 ns, so that device memory bounds them, and less than half of 300.
#[test]
fn a_product_near_its_roofline_is_bound_by_memory_and_a_slow_one_by_nothing_known() {
    let (_, classes) = page(150);
    let classes = classes.unwrap();
    let colors: Vec<Color> = classes.parts.iter().map(|part| part.color).collect();
    assert_eq!(colors, [Color::DramBound, Color::Other]);
    assert_eq!(classes.bars[0].values, [150.0, 100.0]);
    let (marks, classes) = page(300);
    assert_eq!((marks.len(), classes), (1, None));
}
