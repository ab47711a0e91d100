//! The pace of small sessions.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::MetricValue;

use super::*;
use crate::testing::{column, dataset, english};
use rooflens_analysis::testing::drift::look;
use rooflens_document::Cell;

fn content(times: &[i64], left_out: usize, ranges: &[(&str, i64)]) -> SectionContent {
    look(times, left_out, ranges, |context| {
        show(&english(context)).unwrap()
    })
}

#[test]
fn a_trend_is_told_with_its_drift() {
    let times: Vec<i64> = [9_999]
        .into_iter()
        .chain((0..10).map(|n| 100 + 10 * n))
        .collect();
    let found = content(&times, 1, &[]);
    assert_eq!(
        found.metrics[0].value,
        MetricValue::Derived {
            value: 180.0 / 110.0 - 1.0
        }
    );
    assert_eq!(
        column(dataset(&found, "pace"), "trend"),
        [Cell::from("rises")]
    );
}

#[test]
fn few_instances_have_times_but_no_trend() {
    let found = content(&[5, 6, 7, 5], 0, &[]);
    assert!(
        matches!(&found.metrics[0].value, MetricValue::Unavailable { reason } if reason.contains('8'))
    );
    assert_eq!(column(dataset(&found, "pace"), "drift"), [Cell::Missing]);
    assert!(
        !found
            .blocks
            .iter()
            .any(|block| matches!(block, Block::Chart(_)))
    );
    let found = content(&[5, 6, 7], 0, &[]);
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}

#[test]
fn the_chart_rings_outliers_and_marks_what_is_left_out() {
    // Deviations from 100: 0 … 2 and 400; MAD 1.
    let found = content(&[900, 100, 101, 99, 102, 98, 500, 100, 101, 99], 1, &[]);
    let chart = found.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Tracks(plot) = &chart.unwrap().plot else {
        panic!("{chart:?}")
    };
    let [Track::Lines(lines)] = plot.tracks.as_slice() else {
        panic!("{plot:?}")
    };
    assert_eq!(lines.outliers, [(6, 500.0)]);
    assert_eq!(lines.shades, Some(("excluded".to_owned(), vec![(0, 1)])));
    assert_eq!(lines.lines[1].points[0], (1, 100.0));
    assert_eq!((plot.extent, lines.lines[0].points[3]), (9, (4, 7.0)));
}

#[test]
fn ranges_that_are_no_stage_are_shown_without_a_metric() {
    let often: Vec<(&str, i64)> = (0..9)
        .map(|_| ("step", 50))
        .chain([("once", 900), ("step", 50)])
        .collect();
    let found = content(&[5, 6, 7, 5], 0, &often);
    assert_eq!(found.metrics.len(), 1, "that of the stage");
    let pace = dataset(&found, "pace");
    assert_eq!(
        column(pace, "stage")[1..],
        [Cell::Name("step (host)".into())]
    );
    assert_eq!(column(pace, "n")[1..], [Cell::Int(10)]);
}
