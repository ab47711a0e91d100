//! Small sessions whose figures are computed by hand.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{column, dataset, show, show_keys};
use rooflens_analysis::testing::launch;
use rooflens_document::chart::Plot;
use rooflens_document::{Cell, Dataset};
use rooflens_session::{DeviceSample, Timing};

/// A sample every second from `start` seconds on: (watts, MHz, reasons).
fn sampled(start: i64, samples: &[(u64, u32, u64)]) -> Session {
    let mut session = Session::default();
    let artifact = session.intern("nvml.csv");
    for (second, (watts, mhz, reasons)) in samples.iter().enumerate() {
        session.device_samples.push(DeviceSample {
            utc: Ns((start + second as i64) * 1_000_000_000),
            device: 0,
            power_mw: Some(watts * 1000),
            sm_mhz: Some(*mhz),
            memory_mhz: None,
            gpu_util: None,
            memory_util: None,
            temperature: Some(40 + second as u32),
            memory_used: None,
            throttle_reasons: Some(*reasons),
            artifact,
        });
    }
    session
}

/// Adds a pass whose zero is `origin` seconds after 1970, and one stage of one instance at `window` seconds.
fn add_stage(session: &mut Session, origin: i64, window: (i64, i64)) {
    let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
    session.passes.utc_origin[0] = Some(Ns(origin * 1_000_000_000));
    session.process(pass, 1, 1);
    session.gpu(pass, 0);
    let kernel = session.kernel("gemm", "");
    let time = window.0 * 1_000_000_000..window.1 * 1_000_000_000;
    session.launches.push(launch(pass, kernel, time));
}

fn content(session: &Session) -> SectionContent {
    show(&SECTION, session)
}

fn cell(dataset: &Dataset, row: usize, id: &str) -> Cell {
    column(dataset, id)[row].clone()
}

fn words(content: &SectionContent) -> String {
    let Some(Block::Prose(text)) = content.blocks.first() else {
        panic!("no introduction")
    };
    text.iter().map(Inline::plain).collect()
}

#[test]
fn the_whole_period_has_mean_energy_and_throttled_share() {
    let session = sampled(100, &[(100, 1000, 0), (300, 500, 4), (200, 1500, 1)]);
    let found = content(&session);
    let power = dataset(&found, "power");
    assert_eq!(cell(power, 0, "power_mean_w"), Cell::Float(200.0));
    // (100 + 300) / 2 · 1 s + (300 + 200) / 2 · 1 s = 450 J.
    assert_eq!(cell(power, 0, "energy_j"), Cell::Float(450.0));
    assert_eq!(cell(power, 0, "duration_ns"), Cell::Int(2_000_000_000));
    assert_eq!(cell(power, 0, "sm_clock_mean_hz"), Cell::Float(1e9));
    assert_eq!(cell(power, 0, "temperature_max_c"), Cell::Float(42.0));
    // gpu_idle does not count as throttling: one of three samples.
    assert_eq!(cell(power, 0, "throttled_share"), Cell::Float(1.0 / 3.0));
    let reasons = dataset(&found, "throttle_reasons");
    assert_eq!(reasons.rows.len(), 1, "idling is no reason");
    assert_eq!(
        cell(reasons, 0, "reason"),
        Cell::Name("sw_power_cap".into())
    );
}

#[test]
fn samples_within_a_projection_belong_to_the_stage() {
    let mut session = sampled(100, &[(100, 1000, 0), (300, 500, 4), (200, 1500, 0)]);
    // Zero at 99 s; the projection from 2 s to 4 s is 101 s to 103 s: the last two samples.
    add_stage(&mut session, 99, (2, 4));
    let found = content(&session);
    let power = dataset(&found, "power");
    assert_eq!(power.rows.len(), 2);
    assert_eq!(cell(power, 1, "samples"), Cell::Int(2));
    assert_eq!(cell(power, 1, "power_mean_w"), Cell::Float(250.0));
    // 250 W over the two seconds of the instance.
    assert_eq!(cell(power, 1, "energy_j"), Cell::Float(500.0));
    assert!(words(&show_keys(&SECTION, &session)).ends_with("power.by_stage"));
}

#[test]
fn reasons_are_weighed_by_the_time_in_which_the_gpu_works() {
    let mut session = sampled(100, &[(100, 1000, 0), (300, 500, 4), (200, 1500, 4)]);
    // Nothing tells when the GPU worked.
    let none = content(&session);
    assert_eq!(cell(dataset(&none, "power"), 0, "busy_ns"), Cell::Missing);
    assert_eq!(
        cell(dataset(&none, "throttle_reasons"), 0, "busy_share"),
        Cell::Missing
    );
    // The last two samples lie in a stage: two of three, over two seconds; the cap is set in both.
    add_stage(&mut session, 99, (2, 4));
    let staged = content(&session);
    assert_eq!(
        cell(dataset(&staged, "power"), 0, "busy_ns"),
        Cell::Float(2.0 / 3.0 * 2e9)
    );
    assert_eq!(
        cell(dataset(&staged, "throttle_reasons"), 0, "busy_share"),
        Cell::Float(1.0)
    );
    // Busy for all, half and nothing of the period of a sample: half of two seconds; 0.5 of 1.5 with the cap.
    session.device_samples.gpu_util = vec![Some(100), Some(50), None];
    let used = content(&session);
    assert_eq!(
        cell(dataset(&used, "power"), 0, "busy_ns"),
        Cell::Float(1e9)
    );
    let reasons = dataset(&used, "throttle_reasons");
    assert_eq!(cell(reasons, 0, "share"), Cell::Float(2.0 / 3.0));
    assert_eq!(cell(reasons, 0, "busy_share"), Cell::Float(0.5 / 1.5));
    assert_eq!(cell(reasons, 0, "busy_clock_with_hz"), Cell::Float(5e8));
    assert_eq!(cell(reasons, 0, "busy_clock_without_hz"), Cell::Float(1e9));
}

#[test]
fn samples_of_another_run_are_not_joined_and_the_likely_run_is_named() {
    let mut session = sampled(100, &[(100, 1000, 0), (300, 500, 0), (200, 1500, 0)]);
    add_stage(&mut session, 110, (2, 4));
    let (stage, pass) = (session.intern("decode"), session.intern("baseline"));
    for repeat in 0..2 {
        let (duration, steps) = (1_010_000_000, None);
        let (artifact, profiled) = (pass, Some(false));
        let row = Timing {
            stage,
            repeat,
            duration: Ns(duration),
            steps,
            batch: None,
            tokens: None,
            keys: None,
            artifact,
            pass,
            profiled,
        };
        session.timings.push(row);
    }
    let found = content(&session);
    assert_eq!(dataset(&found, "power").rows.len(), 1);
    // Last sample at 102 s, first operation at 112 s; two repeats of 1.01 s against 2 s of samples.
    let text = words(&show_keys(&SECTION, &session));
    assert!(
        text.contains("place=power.before{gap=10.0 s, pass=nsys}, pass=baseline, total=2.02 s}"),
        "{text}"
    );
}

#[test]
fn what_samples_do_not_state_is_missing_not_zero() {
    let mut session = sampled(100, &[(100, 1000, 0)]);
    session.device_samples.power_mw[0] = None;
    session.device_samples.throttle_reasons[0] = None;
    let found = content(&session);
    let power = dataset(&found, "power");
    for column in ["power_mean_w", "energy_j", "throttled_share"] {
        assert_eq!(cell(power, 0, column), Cell::Missing, "{column}");
    }
}

/// Labels of the panels of the first chart, with its title.
fn chart(content: &SectionContent) -> (String, Vec<String>) {
    let chart = content.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let chart = chart.unwrap();
    let Plot::Series(series) = &chart.plot else {
        panic!("no lines over time")
    };
    (
        chart.title.clone(),
        series
            .panels
            .iter()
            .map(|panel| panel.label.clone())
            .collect(),
    )
}

/// Columns of the table of a data set.
fn shown(content: &SectionContent, id: &str) -> Vec<&'static str> {
    let view = content.blocks.iter().find_map(|block| match block {
        Block::Table(view) if view.dataset == id => Some(view.columns.clone()),
        _ => None,
    });
    view.unwrap()
}

#[test]
fn what_never_changes_has_no_panel_but_power_has() {
    let of = |samples: &[(u64, u32, u64)]| chart(&show_keys(&SECTION, &sampled(100, samples)));
    let all = of(&[(100, 1000, 0), (300, 500, 4)]);
    let panels = ["power.power", "power.clock", "power.throttled"].map(str::to_owned);
    let title = "power.title.of_gpu{what=power.title.power_clock_throttling, gpu=0}";
    assert_eq!(all, (title.to_owned(), panels.to_vec()));
    // Idle and then throttled all the time: neither is a change of what lowers the clock.
    let constant = of(&[(100, 1000, 4), (100, 1000, 5)]);
    let title = "power.title.of_gpu{what=power.title.power, gpu=0}";
    assert_eq!(constant, (title.to_owned(), vec!["power.power".to_owned()]));
}

#[test]
fn the_power_limit_stands_in_the_chart_with_its_value() {
    let mut session = sampled(100, &[(100, 1000, 4), (300, 1000, 4)]);
    session.add_fact("nvidia-smi.xml", "gpu 1", "power limit", "300.00 W");
    session.add_fact("nvidia-smi.xml", "gpu 0", "power limit", "700.00 W");
    let found = show_keys(&SECTION, &session);
    let Some(Block::Chart(chart)) = found.blocks.get(1) else {
        panic!("no chart")
    };
    let Plot::Series(series) = &chart.plot else {
        panic!("no lines over time")
    };
    assert_eq!(
        series.panels[0].limit,
        Some(("power.limit{limit=700 W}".to_owned(), 700.0))
    );
}

#[test]
fn rows_of_several_passes_name_them() {
    let mut session = sampled(100, &[(100, 1000, 4), (300, 500, 4), (200, 1500, 4)]);
    add_stage(&mut session, 99, (2, 4));
    let one = content(&session);
    assert!(shown(&one, "power").contains(&"pass"));
    assert!(!shown(&one, "throttle_reasons").contains(&"samples_of"));
    let mut session = sampled(100, &[(100, 1000, 4), (300, 500, 4), (200, 1500, 4)]);
    let paths = ["baseline/nvml.csv", "nsys/nvml.csv"].map(|path| session.intern(path));
    session.device_samples.artifact[0] = paths[0];
    session.device_samples.artifact[1] = paths[1];
    session.device_samples.artifact[2] = paths[1];
    let found = content(&session);
    assert!(shown(&found, "throttle_reasons").contains(&"samples_of"));
    let reasons = dataset(&found, "throttle_reasons");
    assert_eq!(
        cell(reasons, 0, "samples_of"),
        Cell::Name("baseline".into())
    );
    assert_eq!(cell(reasons, 1, "samples_of"), Cell::Name("nsys".into()));
    assert!(
        !shown(&found, "power").contains(&"pass"),
        "no row of a stage"
    );
}
