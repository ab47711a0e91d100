//! Flame graphs of small stages, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use crate::testing::english;

use super::*;
use rooflens_analysis::operators::call_tree::{Spans, trees};
use rooflens_analysis::testing::{trace, with_results};
use rooflens_session::PassId;

/// `decode` [0, 200) holds layers 0 [10, 100) and 1 [100, 180); layer 0 holds its `mlp` [20, 60). Calls: at 30
/// in the mlp, at 70 in layer 0, at 110 in layer 1, at 190 in none of them.
const DECODE: &str = "
    range decode 0..200
    range model.layers.0 10..100
    range model.layers.0.mlp 20..60
    range model.layers.1 100..180
    launch 30..35 -> gemm 1_000..1_100
    launch 70..75 -> gemm 1_050..1_200
    launch 110..115 -> gemm 1_300..1_400
    launch 190..195 -> gemm 1_500..1_507
";

/// Of GPU time and of host time of the first stage.
fn flames(events: &str) -> [Flame; 2] {
    let session = trace(events);
    with_results(&session, |context| {
        let tree = &trees(context, &Spans::of_modules(&session), PassId(0))[0];
        let id = || "flame".to_owned();
        let context = english(context);
        let charts = [
            of_device(&context, tree, id()),
            of_host(&context, tree, id()),
        ];
        charts.map(flame)
    })
}

fn flame(chart: Option<Chart>) -> Flame {
    match chart.unwrap().plot {
        Plot::Flame(flame) => flame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_lie_within_the_frames_that_call_them() {
    let [device, host] = flames(DECODE);
    let frames = |flame: &Flame| -> Vec<(String, u32, f64, f64)> {
        let one = |frame: &FlameFrame| {
            (
                frame.label.clone(),
                frame.depth,
                frame.start.0,
                frame.time.0,
            )
        };
        flame.frames.iter().map(one).collect()
    };
    let kernel = device
        .frames
        .iter()
        .find(|frame| frame.part.is_some())
        .unwrap()
        .label
        .clone();
    let expected = [
        ("decode", 0, 0.0, 357.0),
        ("model.layers.*", 1, 0.0, 350.0),
        (&*kernel, 2, 0.0, 250.0),
        ("mlp", 2, 250.0, 100.0),
        (&*kernel, 3, 250.0, 100.0),
        (&*kernel, 1, 350.0, 7.0),
    ];
    assert_eq!(
        frames(&device),
        expected.map(|(name, row, at, time)| (name.to_owned(), row, at, time))
    );
    assert_eq!(host.total, Time(200.0));
    // Calls of layers, of the mlp, of the stage.
    let calls = host
        .frames
        .iter()
        .filter(|frame| frame.part.is_some())
        .map(|frame| frame.time);
    assert_eq!(calls.sum::<Time>(), Time(20.0));
}

#[test]
fn narrow_frames_are_merged_and_keep_their_time() {
    let mut events = "range decode 0..2_000\n".to_owned();
    for number in 0..100 {
        let begin = 10 * number;
        // Names that do not fold.
        events += &format!("range part{number}x {begin}..{}\n", begin + 10);
        let start = 100_000 * (number + 1);
        let end = start + if number == 0 { 90_000 } else { 100 };
        events += &format!(
            "launch {}..{} -> gemm {start}..{end}\n",
            begin + 1,
            begin + 6
        );
    }
    let [device, _] = flames(&events);
    // 99 ranges of 100 ns each are 0.1 % of 99 900 ns, and 9.9 % together.
    let merged = device
        .frames
        .iter()
        .find(|frame| frame.label == "99 more")
        .unwrap();
    assert_eq!(
        (merged.depth, merged.start, merged.time),
        (1, Time(90_000.0), Time(9_900.0))
    );
    assert_eq!(device.frames.len(), 4);
}
