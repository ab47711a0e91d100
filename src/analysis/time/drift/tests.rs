//! The pace of small sessions.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{MetricValue, PassKind, StageKind};

use super::*;
use crate::analysis::Options;
use crate::analysis::engine::facts::{Facts, Stage, StageInstance};
use crate::analysis::engine::stage_stats::summarize;
use crate::hardware::Hardware;
use crate::model::{Ns, ProcessId, Range, RangeKind, Session, StrId};

/// A stage whose instances have these times on the GPU; the first `left_out` do not count.
fn findings(times: &[Ns], left_out: usize, ranges: &[(&str, Ns)]) -> Findings {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let process = session.process(pass, 0, 1);
    let thread = session.thread(process, 1);
    session.gpu(pass, 0);
    for (n, (name, length)) in ranges.iter().enumerate() {
        let (name, start) = (session.intern(name), n as Ns * 1_000);
        session.ranges.push(Range {
            start,
            end: start + length,
            name,
            domain: StrId::default(),
            kind: RangeKind::PushPop,
            unclosed: false,
            pass,
            thread,
        });
    }
    // Instances begin every 1000, as ranges do.
    let instance = |(n, time): (usize, &Ns)| StageInstance {
        process: ProcessId(0),
        ordinal: n as u32,
        host_start: n as Ns * 1_000,
        host_end: n as Ns * 1_000 + 7,
        projection: Some((0, *time)),
        excluded: (n < left_out).then(|| "warm-up".to_owned()),
        ..StageInstance::default()
    };
    let mut facts = Facts {
        stages: vec![Stage {
            pass,
            name: "decode_step".to_owned(),
            kind: StageKind::DecodeStep,
            parent: None,
            instances: 0..times.len(),
        }],
        instances: times.iter().enumerate().map(instance).collect(),
        ..Facts::default()
    };
    facts.summaries = summarize(&facts);
    let (hardware, options) = (Hardware::default(), Options::default());
    run(&Context::new(&session, &facts, &hardware, &options))
}

#[test]
fn a_steady_rise_is_a_drift_from_the_first_to_the_last_third() {
    // One left out, then 100, 110, …, 190: slope 10. Thirds: median of 100, 110, 120 and of 170, 180, 190.
    let times: Vec<Ns> = [9_999].into_iter().chain((0..10).map(|n| 100 + 10 * n)).collect();
    let found = findings(&times, 1, &[]);
    assert_eq!(found.metrics[0].value, MetricValue::Derived { value: 180.0 / 110.0 - 1.0 });
    let row = &found.datasets[0].rows[0];
    assert_eq!((&row[2], &row[3]), (&Cell::Int(10), &Cell::Int(1)));
    assert_eq!(row[5..8], [Cell::Float(110.0), Cell::Float(180.0), Cell::Float(10.0)]);
    // All 45 pairs rise: (45 − 1) ÷ √(10 · 9 · 25 ÷ 18) = 44 ÷ √125.
    assert_eq!(row[9], Cell::Float(44.0 / 125.0_f64.sqrt()));
    assert_eq!((&row[10], &row[11]), (&Cell::Text("rises".to_owned()), &Cell::Int(0)));
}

#[test]
fn few_instances_have_times_but_no_trend() {
    let found = findings(&[5, 6, 7, 5], 0, &[]);
    assert!(
        matches!(&found.metrics[0].value, MetricValue::Unavailable { reason } if reason.contains('8'))
    );
    assert_eq!(found.datasets[0].rows[0][8], Cell::Missing);
    assert!(!found.blocks.iter().any(|block| matches!(block, Block::Chart(_))));
    let found = findings(&[5, 6, 7], 0, &[]);
    assert!(found.blocks.is_empty() && found.metrics.is_empty() && found.datasets.is_empty());
}

#[test]
fn the_chart_rings_outliers_and_marks_what_is_left_out() {
    // Deviations from 100: 0 … 2 and 400; MAD 1.
    let found = findings(&[900, 100, 101, 99, 102, 98, 500, 100, 101, 99], 1, &[]);
    let chart = found.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let Plot::Tracks(plot) = &chart.unwrap().plot else { panic!("{chart:?}") };
    let [Track::Lines(lines)] = plot.tracks.as_slice() else { panic!("{plot:?}") };
    assert_eq!(lines.outliers, [(6, 500.0)]);
    assert_eq!(lines.shades, Some(("left out".to_owned(), vec![(0, 1)])));
    assert_eq!(lines.lines[1].points[0], (1, 100.0));
    assert_eq!((plot.extent, lines.lines[0].points[3]), (9, (4, 7.0)));
}

#[test]
fn ranges_that_are_no_stage_are_shown_without_a_metric() {
    let often: Vec<(&str, Ns)> =
        (0..9).map(|_| ("step", 50)).chain([("once", 900), ("step", 50)]).collect();
    let found = findings(&[5, 6, 7, 5], 0, &often);
    assert_eq!(found.metrics.len(), 1, "that of the stage");
    let labels: Vec<_> =
        found.datasets[0].rows.iter().map(|row| (row[0].clone(), row[2].clone())).collect();
    assert_eq!(labels[1], (Cell::Name("step (host)".to_owned()), Cell::Int(10)));
    assert_eq!(labels.len(), 2);
}

#[test]
fn ranges_of_the_warm_up_are_left_out_as_stages_are() {
    // Two instances of the stage are left out: the third begins at 2000. Ranges begin at 0, 1000 and so on and last 50:
    // those at 0 and 1000 end before. Of the others the first lasts 900; the rest 50 to 52.
    let lengths = [50, 50, 900, 50, 51, 50, 52, 50, 51, 50];
    let ranges: Vec<(&str, Ns)> = lengths.iter().map(|length| ("step", *length)).collect();
    let found = findings(&[5, 5, 6, 7, 5, 6], 2, &ranges);
    let row = found.datasets[0].rows.last().unwrap();
    assert_eq!(row[0], Cell::Name("step (host)".to_owned()));
    assert_eq!((&row[2], &row[3]), (&Cell::Int(7), &Cell::Int(3)));
    assert_eq!((&row[12], &row[13]), (&Cell::Int(6), &Cell::Int(52)));
    // Without a warm-up nothing but the cold start is left out.
    let found = findings(&[5, 5, 6, 7, 5, 6], 0, &ranges);
    let row = found.datasets[0].rows.last().unwrap();
    assert_eq!(
        (&row[2], &row[3]),
        (&Cell::Int(10), &Cell::Int(0)),
        "the slow one is not the first"
    );
}
