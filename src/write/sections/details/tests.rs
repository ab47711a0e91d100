#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, headings, metric, numbers, show_on};
use rooflens_analysis::testing::counters::session;
use rooflens_document::Cell;
use rooflens_hardware::Hardware;
use rooflens_session::{ProfileId, ProfileRule};
use rooflens_units::Percent;

const LAUNCHES: &str = "deep_dive";

const TIME: &str = "gpu__time_duration.sum";
const ACHIEVED: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
const THEORETICAL: &str = "sm__maximum_warps_per_active_cycle_pct";
const WAVES: &str = "launch__waves_per_multiprocessor";
const REGISTERS: &str = "launch__occupancy_limit_registers";
const SHARED: &str = "launch__occupancy_limit_shared_mem";
const WARPS: &str = "launch__occupancy_limit_warps";

fn content(session: &Session) -> SectionContent {
    show_on(&SECTION, session, &Hardware::builtin())
}

fn cell(content: &SectionContent, id: &str, row: usize, name: &str) -> Cell {
    column(dataset(content, id), name)[row].clone()
}

fn number(content: &SectionContent, id: &str, row: usize, name: &str) -> f64 {
    cell(content, id, row, name).plain().parse().unwrap()
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

fn add_rule(session: &mut Session, launch: usize, rule: &str, speedup: Option<(&str, f64)>) {
    let row = ProfileRule {
        profile: ProfileId::at(launch),
        section: session.intern("LaunchStats"),
        rule: session.intern(rule),
        kind: session.intern("OPT"),
        description: session.intern("Too small, 0.5 waves. Make it larger."),
        speedup_kind: session.intern(speedup.map_or("", |(kind, _)| kind)),
        speedup: speedup.map(|(_, percent)| Percent(percent)),
    };
    session.profile_rules.push(row);
}

#[test]
fn launches_of_one_kernel_and_grid_are_a_group_with_means_by_time() {
    let launch = |seconds, percent| [("", TIME, "s", seconds), ("", ACHIEVED, "%", percent)];
    let session = session(&[
        ("k", &launch(1e-6, 20.0)),
        ("other", &launch(1e-6, 90.0)),
        ("k", &launch(3e-6, 40.0)),
    ]);
    let content = content(&session);
    assert_eq!(dataset(&content, tables::GROUPS).rows.len(), 2);
    // (1 · 20 + 3 · 40) ÷ 4 and 4 µs of 5 µs.
    assert!(near(
        number(&content, tables::GROUPS, 0, "achieved_occupancy_percent"),
        35.0
    ));
    assert!(near(number(&content, tables::GROUPS, 0, "time_share"), 0.8));
    assert!(near(number(&content, tables::GROUPS, 0, "launches"), 2.0));
    // (1 · 20 + 1 · 90 + 3 · 40) ÷ 5.
    assert!(near(
        metric(&content, "profiled_occupancy", |_| true).unwrap(),
        0.46
    ));
    assert_eq!(cell(&content, tables::GROUPS, 0, "limiter"), Cell::Missing);
}

#[test]
fn the_limiter_is_the_least_limit_and_none_at_full_occupancy() {
    let limited = |theoretical: f64, shared: f64| {
        let metrics = [
            ("", THEORETICAL, "%", theoretical),
            ("", REGISTERS, "block", 2.0),
            ("", SHARED, "block", shared),
            ("", WARPS, "block", 5.0),
        ];
        let content = content(&session(&[("k", &metrics)]));
        cell(&content, LAUNCHES, 0, "limiter")
    };
    assert_eq!(limited(37.5, 8.0), Cell::Text("registers".into()));
    assert_eq!(
        limited(37.5, 2.0),
        Cell::Text("registers, shared memory".into())
    );
    assert_eq!(limited(100.0, 8.0), Cell::Text("none".into()));
}

#[test]
fn the_tail_is_the_empty_part_of_all_waves_from_exact_waves() {
    // The launches of these tables have 2 · 64 = 128 blocks.
    let tail = |metrics: &[_]| {
        number(
            &content(&session(&[("k", metrics)])),
            LAUNCHES,
            0,
            "tail_percent",
        )
    };
    assert!(near(
        tail(&[("", WAVES, "", 2.5)]),
        (1.0 - 2.5 / 3.0) * 100.0
    ));
    assert!(near(tail(&[("", WAVES, "", 1.0)]), 0.0));
    assert!(near(tail(&[("", WAVES, "", 0.0)]), 100.0));
    // 128 blocks on 127 SMs are 1.0079 waves, which print as 1.01; two are needed.
    let on = |sms, printed| {
        [
            ("", WAVES, "", printed),
            ("", "launch__sm_count", "SM", sms),
            ("", WARPS, "block", 1.0),
        ]
    };
    assert!(near(
        tail(&on(127.0, 1.01)),
        (1.0 - 128.0 / 127.0 / 2.0) * 100.0
    ));
    // A count that does not agree with what ncu prints (clusters, say) is not believed.
    assert!(near(tail(&on(127.0, 3.0)), 0.0));
}

#[test]
fn warp_states_are_shares_and_unknown_ones_are_other() {
    let state =
        |name: &str| format!("smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio");
    let names = ["selected", "long_scoreboard", "new_reason"].map(state);
    let metrics: Vec<_> = names
        .iter()
        .zip([1.0, 6.0, 3.0])
        .map(|(name, value)| ("", name.as_str(), "inst", value))
        .collect();
    let content = content(&session(&[("k", &metrics)]));
    let share = |column| number(&content, LAUNCHES, 0, column);
    assert!(near(share("issuing_share"), 0.1) && near(share("stall_long_scoreboard_share"), 0.6));
    assert!(near(share("stall_other_share"), 0.3) && near(share("stall_wait_share"), 0.0));
    assert_eq!(
        cell(&content, tables::GROUPS, 0, "top_stall"),
        Cell::Text("long scoreboard".into())
    );
    let plural = [(
        "",
        "smsp__pcsamp_warps_issue_stalled_no_instructions",
        "inst",
        4.0,
    )];
    let content = self::content(&session(&[("k", &plural)]));
    assert!(near(
        number(&content, LAUNCHES, 0, "stall_no_instruction_share"),
        1.0
    ));
}

#[test]
fn a_rule_saves_its_largest_global_estimate_times_the_duration() {
    let time = |seconds| [("", TIME, "s", seconds)];
    let mut session = session(&[("a", &time(1e-6)), ("b", &time(3e-6))]);
    for (launch, rule, speedup) in [
        (0, "Grid", Some(("global", 10.0))),
        (0, "Grid", Some(("global", 50.0))),
        (1, "Grid", Some(("global", 20.0))),
        (0, "Pipe", Some(("local", 10.0))),
        (1, "Pipe", Some(("local", 30.0))),
        (1, "Plain", None),
    ] {
        add_rule(&mut session, launch, rule, speedup);
    }
    let content = content(&session);
    let at = |row, column| number(&content, tables::RULES, row, column);
    // 1 µs · 50 % + 3 µs · 20 %, of 4 µs.
    assert_eq!(
        cell(&content, tables::RULES, 0, "rule"),
        Cell::Text("Grid".into())
    );
    assert!(near(at(0, "saved_ns"), 1100.0) && near(at(0, "saved_share"), 0.275));
    assert!(near(at(0, "launches"), 2.0));
    // (1 · 10 + 3 · 30) ÷ 4.
    assert!(near(at(1, "local_percent"), 25.0));
    assert_eq!(cell(&content, tables::RULES, 1, "saved_ns"), Cell::Missing);
    assert_eq!(dataset(&content, tables::RULES).rows.len(), 3);
    assert_eq!(
        pages::first_sentence("Too small, 0.5 waves. More."),
        "Too small, 0.5 waves"
    );
}

#[test]
fn histograms_count_launches_and_their_time() {
    let launch = |seconds, percent| [("", TIME, "s", seconds), ("", ACHIEVED, "%", percent)];
    let values = [
        (1e-6, 0.0),
        (2e-6, 9.9),
        (4e-6, 10.0),
        (8e-6, 100.0),
        (16e-6, 130.0),
    ];
    let metrics = values.map(|(seconds, percent)| launch(seconds, percent));
    let launches: Vec<(&str, &[_])> = metrics.iter().map(|one| ("k", &one[..])).collect();
    let content = content(&session(&launches));
    let all = dataset(&content, "deep_dive_histograms");
    let (launches, times) = (column(all, "launches"), numbers(all, "time_ns"));
    let figures = column(all, "figure");
    let own = figures.iter().enumerate();
    let own = own.filter(|(_, id)| **id == Cell::Text("achieved_occupancy_percent".into()));
    let bins: Vec<_> = own
        .map(|(row, _)| (launches[row].plain(), times[row].round()))
        .collect();
    assert_eq!(bins.len(), 10);
    let expected = [(0, "2", 3000.0), (1, "1", 4000.0), (9, "2", 24_000.0)];
    for (bin, launches, time) in expected {
        assert_eq!(bins[bin], (launches.to_owned(), time), "{bin}");
    }
    assert_eq!(
        bins.iter().filter(|(launches, _)| launches == "0").count(),
        7
    );
}

#[test]
fn blocks_are_in_the_order_of_the_time_that_they_stand_for_and_named_apart() {
    use rooflens_analysis::testing::represent as made;
    // `add` represents 90 + 110 + 50 ns of the timeline, the product for 110, and `gone`, which is profiled for a
    // second, for none.
    let mut session = made::session();
    session.profile_metrics.value[6] = Some(1.0);
    let content = content(&session);
    let headings = headings(&content.appendix);
    assert_eq!(headings, ["add", "nvjet 64x8x64 2x1 TNT", "gone"]);
    let stands_for = |row| cell(&content, tables::GROUPS, row, "timeline_ns").plain();
    let mut times: Vec<String> = (0..3).map(stands_for).collect();
    times.sort();
    assert_eq!(times, ["", "110", "250"]);
}

#[test]
fn what_is_called_the_same_is_told_apart_by_its_grid() {
    let time = [("", TIME, "s", 1e-6)];
    let mut session = session(&[("k", &time), ("k", &time), ("other", &time)]);
    session.kernel_profiles.grid[1].x = 7;
    let content = content(&session);
    let headings = headings(&content.appendix);
    assert_eq!(headings, ["k, grid 2x64x1", "k, grid 7x64x1", "other"]);
}

#[test]
fn what_was_not_collected_is_said_once_and_many_kernels_stay_readable() {
    assert!(content(&Session::default()).blocks.is_empty());
    let names: Vec<String> = (0..40).map(|n| format!("kernel_{n:02}")).collect();
    let metrics: Vec<_> = (1..=40)
        .map(|n| [("", TIME, "s", f64::from(n) * 1e-6)])
        .collect();
    let launches: Vec<(&str, &[_])> = names
        .iter()
        .zip(&metrics)
        .map(|(name, one)| (name.as_str(), &one[..]))
        .collect();
    let content = content(&session(&launches));
    let missing: Vec<_> = content
        .blocks
        .iter()
        .filter(|b| matches!(b, Block::Missing(_)))
        .collect();
    let [Block::Missing(reason)] = missing.as_slice() else {
        panic!("one line: {missing:?}")
    };
    assert!(reason.contains("SchedulerStats") && reason.contains("WarpStateStats"));
    assert!(
        content
            .metrics
            .iter()
            .all(|one| one.value.number().is_none())
    );
    let headings = headings(&content.appendix);
    // The longest come first.
    assert_eq!((headings.len(), headings[0]), (PAGES, "kernel_39"));
    let Some(Block::Prose(text)) = content.appendix.last() else {
        panic!("what was skipped")
    };
    assert_eq!(text[0], Inline::Quantity(Quantity::count(28)));
}
