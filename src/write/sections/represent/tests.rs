#![allow(clippy::unwrap_used)]

use super::launches::verdict;
use super::*;
use crate::testing::{column, dataset, metric, numbers, show, show_keys};
use rooflens_analysis::counters::represent::Likeness;
use rooflens_analysis::testing::counters::session as profiled;
use rooflens_analysis::testing::represent::session;
use rooflens_document::Cell;
use rooflens_session::Dim3;

#[test]
fn each_profiled_launch_has_a_verdict() {
    let content = show(&SECTION, &session());
    let launches = dataset(&content, "representativeness");
    let cell = |row: usize, id: &str| column(launches, id)[row].plain();
    // 100 ns against the median 100 of 90 and 110.
    assert_eq!(
        (cell(0, "ratio"), cell(0, "verdict")),
        ("1".into(), "representative".into())
    );
    assert_eq!(
        (cell(0, "stands_for"), cell(0, "time_share")),
        ("2".into(), "0.2".into())
    );
    // 100 ns against the 110 of its size.
    assert_eq!(
        (cell(2, "median_ns"), cell(2, "stands_for")),
        ("110".into(), "1".into())
    );
    assert_eq!(
        cell(3, "verdict"),
        verdict(Likeness::NotInTimeline, "not matched", "")
    );
    assert!(matches!(column(launches, "kernel")[0], Cell::Name(_)));
}

#[test]
fn a_grid_that_the_stage_lacks_is_said() {
    let mut session = session();
    session.kernel_profiles.grid[0] = Dim3 { x: 7, y: 1, z: 1 };
    let verdicts = column(
        dataset(&show(&SECTION, &session), "representativeness"),
        "verdict",
    );
    let lacks = Cell::Text(verdict(Likeness::NoGrid, "", "whole capture").into());
    assert!(verdicts.contains(&lacks), "{verdicts:?}");
}

#[test]
fn what_was_not_profiled_is_listed_with_the_command_that_would_profile_it() {
    let content = show(&SECTION, &session());
    // The product's other size and grid with 400 + 90 ns, and the sort with 150.
    assert_eq!(
        numbers(dataset(&content, "unprofiled_kernels"), "share"),
        [0.49, 0.15]
    );
    let Some(Block::Prose(text)) = content.blocks.last() else {
        panic!("prose")
    };
    // 600, 250 and 150 ns: all three are needed for 90 %.
    let command = "rooflens kernels BUNDLE --top 3 --stage 'whole capture' --yaml";
    assert!(text.contains(&Inline::Code(command.to_owned())), "{text:?}");
}

#[test]
fn the_metric_has_the_share_and_the_section_the_control() {
    let mut session = session();
    session.passes.command[0] = session.strings.intern("ncu --clock-control none app");
    let content = show(&SECTION, &session);
    let share = metric(&content, "representative_share", |_| true).unwrap();
    assert!((share - 0.75).abs() < 1e-12);
    let Block::Prose(text) = &show_keys(&SECTION, &session).blocks[1] else {
        panic!("prose")
    };
    let text: String = text.iter().map(Inline::plain).collect();
    let control = "control=represent.control.both{cache=all, cache_meaning=represent.control.cache_all, clock=none, clock_meaning=represent.control.clock_none}";
    assert!(text.contains(control), "{text}");
}

#[test]
fn without_a_timeline_there_is_no_section() {
    assert!(show(&SECTION, &profiled(&[("k", &[])])).blocks.is_empty());
}
