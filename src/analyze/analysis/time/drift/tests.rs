//! The drift of small sessions.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::drift::look;

fn series(times: &[i64], left_out: usize, ranges: &[(&str, i64)]) -> Vec<Series> {
    look(times, left_out, ranges, |context| {
        compute(context).unwrap().series
    })
}

#[test]
fn a_steady_rise_is_a_drift_from_the_first_to_the_last_third() {
    // One excluded, then 100, 110, …, 190: slope 10. Thirds: median of 100, 110, 120 and of 170, 180, 190.
    let times: Vec<i64> = [9_999]
        .into_iter()
        .chain((0..10).map(|n| 100 + 10 * n))
        .collect();
    let found = series(&times, 1, &[]).remove(0);
    assert_eq!(found.drift, Some(Ratio(180.0 / 110.0 - 1.0)));
    assert_eq!((found.instances.len(), found.left_out.len()), (10, 1));
    let trend = found.trend.unwrap();
    assert_eq!(found.thirds, Some((Time(110.0), Time(180.0))));
    assert_eq!(trend.slope, Time(10.0));
    // All 45 pairs rise: (45 − 1) ÷ √(10 · 9 · 25 ÷ 18) = 44 ÷ √125.
    assert_eq!(trend.z, 44.0 / 125.0_f64.sqrt());
    assert_eq!(
        (found.direction(), found.outliers.len()),
        (Some(Direction::Rises), 0)
    );
}

#[test]
fn one_change_of_level_is_a_jump_and_a_slope_is_none() {
    // Eight of 46 and 47, then eight of 70 and 71: medians 46.5 and 70.5.
    let times: Vec<i64> = (0..16)
        .map(|n| if n < 8 { 46 } else { 70 } + n % 2)
        .collect();
    let found = series(&times, 0, &[]).remove(0);
    let jump = found.jump.unwrap();
    assert_eq!(
        (jump.number, jump.before, jump.after),
        (8, Time(46.5), Time(70.5))
    );
    // A line leaves nothing; two levels leave 340 − 256 of 0, 1, …, 15.
    let slope: Vec<i64> = (0..16).map(|n| 100 + n).collect();
    assert_eq!(series(&slope, 0, &[]).remove(0).jump, None);
}

/// 13 of 46, 17 of 75 and 6 of 70: 13 · 23 pairs rise and 17 · 6 fall, at most 197 ÷ √(36 · 35 · 77 ÷ 18) = 2.68 without
/// ties. The last third is faster than the second.
#[test]
fn a_change_of_level_rises_whatever_the_middle_does() {
    let levels = [(46, 13), (75, 17), (70, 6)].into_iter();
    let times: Vec<i64> = levels
        .flat_map(|(time, count)| std::iter::repeat_n(time, count))
        .collect();
    let found = series(&times, 0, &[]).remove(0);
    assert_eq!(found.jump.as_ref().unwrap().number, 13);
    assert_eq!(found.direction(), Some(Direction::Rises));
}

/// Thirds of 8 that rise by 1 from 110, from 100 and from 120: 84 pairs rise within thirds, 64 fall from the first to the
/// second, and 128 rise to the last: 147 ÷ √(24 · 23 · 53 ÷ 18) = 3.6. The second third is the fastest.
#[test]
fn a_fast_middle_is_no_drift() {
    let thirds = [110, 100, 120].into_iter();
    let times: Vec<i64> = thirds
        .flat_map(|first| (0..8).map(move |n| first + n))
        .collect();
    let found = series(&times, 0, &[]).remove(0);
    assert!(found.trend.unwrap().z > TREND_Z);
    assert_eq!(found.direction(), Some(Direction::Neither));
}

#[test]
fn ranges_of_the_warm_up_are_left_out_as_stages_are() {
    // Two instances of the stage are excluded: the third begins at 2000. Ranges begin at 0, 1000 and so on and last 50:
    // those at 0 and 1000 end before. Of the others the first lasts 900; the rest 50 to 52.
    let lengths = [50, 50, 900, 50, 51, 50, 52, 50, 51, 50];
    let ranges: Vec<(&str, i64)> = lengths.iter().map(|length| ("step", *length)).collect();
    let found = series(&[5, 5, 6, 7, 5, 6], 2, &ranges).pop().unwrap();
    assert!(matches!(found.subject, Subject::Range(_)));
    assert_eq!((found.instances.len(), found.left_out.len()), (7, 3));
    assert_eq!(
        found.longest(),
        Some(&Instance {
            number: 6,
            time: Ns(52),
            host: Ns(52),
            sizes: Sizes::default(),
        })
    );
    // Without a warm-up nothing but the cold start is excluded.
    let found = series(&[5, 5, 6, 7, 5, 6], 0, &ranges).pop().unwrap();
    let left_out = found.left_out.len();
    assert_eq!(
        (found.instances.len(), left_out),
        (10, 0),
        "the slow one is not the first"
    );
}
