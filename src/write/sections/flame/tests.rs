//! Flame graphs of small stages, with times that can be added up in the head.

#![allow(clippy::unwrap_used)]

use crate::testing::english;
use rooflens_schemas::PassKind;

use super::*;
use rooflens_analysis::operators::call_tree::{Spans, trees};
use rooflens_analysis::testing::Trace;
use rooflens_analysis::{Facts, Options, Results};
use rooflens_hardware::Hardware;
use rooflens_session::PassId;

const KERNEL: &str = "ampere_sgemm_128x64_tn";

/// `decode` [0, 200) holds layers 0 [10, 100) and 1 [100, 180); layer 0 holds its `mlp` [20, 60). Calls: at 30
/// in the mlp, at 70 in layer 0, at 110 in layer 1, at 190 in none of them.
fn decode() -> Trace {
    let mut capture = Trace::new(PassKind::Timeline, KERNEL);
    capture.range("decode", 0, 200);
    capture.range("model.layers.0", 10, 100);
    capture.range("model.layers.0.mlp", 20, 60);
    capture.range("model.layers.1", 100, 180);
    capture.launch(0, 30, (1_000, 1_100));
    capture.launch(0, 70, (1_050, 1_200));
    capture.launch(0, 110, (1_300, 1_400));
    capture.launch(0, 190, (1_500, 1_507));
    capture
}

/// Of GPU time and of host time of the first stage.
fn flames(capture: &Trace) -> [Flame; 2] {
    let facts = Facts::new(&capture.session);
    let (hardware, options) = (Hardware::default(), Options::default());
    let context = rooflens_analysis::Context::new(&capture.session, &facts, &hardware, &options);
    let results = Results::compute(&context);
    let context = context.with(&results);
    let tree = &trees(&context, &Spans::of_modules(&capture.session), PassId(0))[0];
    let id = || "flame".to_owned();
    let context = english(&context);
    [
        of_device(&context, tree, id()),
        of_host(&context, tree, id()),
    ]
    .map(flame)
}

fn flame(chart: Option<Chart>) -> Flame {
    match chart.unwrap().plot {
        Plot::Flame(flame) => flame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_lie_within_the_frames_that_call_them() {
    let [device, host] = flames(&decode());
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
    let mut capture = Trace::new(PassKind::Timeline, KERNEL);
    capture.range("decode", 0, 2_000);
    for at in 0..100 {
        // Names that do not fold.
        capture.range(&format!("part{at}x"), 10 * at, 10 * at + 10);
        let time = if at == 0 { 90_000 } else { 100 };
        let start = 100_000 * (at + 1);
        capture.launch(0, 10 * at + 1, (start, start + time));
    }
    let [device, _] = flames(&capture);
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
