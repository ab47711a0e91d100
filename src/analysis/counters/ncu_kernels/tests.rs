#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::counters::ncu::tests::session;
use crate::analysis::{Facts, Options};
use crate::findings::Cell;
use crate::hardware::Hardware;

const SM: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const DRAM: &str = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed";
const TIME: &str = "gpu__time_duration.sum";
const WAVES: &str = "launch__waves_per_multiprocessor";

/// 1 µs of a small grid and 3 µs bound by DRAM.
fn two_launches() -> Session {
    session(&[
        (
            "small",
            &[
                ("", TIME, "s", 1e-6),
                ("", SM, "%", 20.0),
                ("", DRAM, "%", 4.0),
                ("", WAVES, "", 0.5),
            ],
        ),
        ("wide", &[("", TIME, "s", 3e-6), ("", SM, "%", 30.0), ("", DRAM, "%", 80.0)]),
    ])
}

fn findings(session: &Session, classifier: Classifier) -> Findings {
    let options = Options { gpu: None, classifier };
    let (facts, hardware) = (Facts::default(), Hardware::default());
    run(&Context::new(session, &facts, &hardware, &options))
}

fn share(findings: &Findings, class: &str) -> Option<f64> {
    let metrics = findings.metrics.iter().filter(|metric| metric.id == "bound_share");
    metrics
        .filter(|metric| metric.scope.class.as_deref() == Some(class))
        .find_map(|m| m.value.number())
}

fn cell<'a>(findings: &'a Findings, row: usize, column: &str) -> &'a Cell {
    let dataset = &findings.datasets[0];
    let at = dataset.columns.iter().position(|c| c.id == column).unwrap();
    &dataset.rows[row][at]
}

#[test]
fn shares_are_of_profiled_time_by_the_chosen_rule() {
    let session = two_launches();
    let ours = findings(&session, Classifier::Rooflens);
    // 1 µs and 3 µs of 4 µs.
    assert!((share(&ours, "latency-bound").unwrap() - 0.25).abs() < 1e-12);
    assert!((share(&ours, "dram-bound").unwrap() - 0.75).abs() < 1e-12);
    let time = ours.metrics.iter().find(|m| m.id == "profiled_time").unwrap();
    assert!((time.value.number().unwrap() - 4000.0).abs() < 1e-9);
    let seed = findings(&session, Classifier::Seed);
    // 20 − 4 > 5 and 30 − 80 < −5.
    assert!((share(&seed, "compute-bound").unwrap() - 0.25).abs() < 1e-12);
    assert!((share(&seed, "memory-bound").unwrap() - 0.75).abs() < 1e-12);
}

#[test]
fn the_table_is_sorted_by_duration_and_holds_both_rules() {
    let findings = findings(&two_launches(), Classifier::Seed);
    assert_eq!(cell(&findings, 0, "name"), &Cell::Name("wide".to_owned()));
    assert_eq!(cell(&findings, 0, "bound"), &Cell::Text("dram-bound".to_owned()));
    assert_eq!(cell(&findings, 1, "bound"), &Cell::Text("latency-bound".to_owned()));
    assert_eq!(cell(&findings, 1, "bound_reason"), &Cell::Text("small grid".to_owned()));
    assert_eq!(cell(&findings, 1, "bound_seed"), &Cell::Text("compute-bound".to_owned()));
    assert_eq!(cell(&findings, 0, "waves"), &Cell::Missing);
    let dataset = &findings.datasets[0];
    assert!(dataset.rows.iter().all(|row| row.len() == dataset.columns.len()));
    assert!(table::ESSENTIALS.iter().all(|id| dataset.columns.iter().any(|c| c.id == *id)));
}

#[test]
fn all_metrics_are_listed_but_not_the_device() {
    let session =
        session(&[("k", &[("", TIME, "s", 1e-6), ("", "device__attribute_warp_size", "", 32.0)])]);
    let findings = findings(&session, Classifier::Rooflens);
    assert_eq!(findings.datasets[1].rows.len(), 1);
}

#[test]
fn launches_without_durations_have_no_profiled_time() {
    let findings = findings(&session(&[("k", &[("", SM, "%", 20.0)])]), Classifier::Rooflens);
    let [time] = findings.metrics.as_slice() else { panic!("one metric") };
    assert_eq!((time.id.as_str(), time.value.number()), ("profiled_time", None));
}

#[test]
fn without_a_pass_the_reason_names_the_command() {
    assert!(no_profiles(&Session::default()).unwrap().contains("ncu"));
    assert!(no_profiles(&two_launches()).is_none());
}

#[test]
fn classes_are_counted_and_weighted_by_time_by_both_rules() {
    let findings = findings(&two_launches(), Classifier::Rooflens);
    let classes = findings.datasets.iter().find(|dataset| dataset.id == table::CLASSES).unwrap();
    let rows: Vec<Vec<String>> =
        classes.rows.iter().map(|row| row.iter().map(Cell::plain).collect()).collect();
    let row = |bound: &str| rows.iter().find(|row| row[0] == bound).unwrap();
    // The seed rule calls the small grid compute-bound and the other launch memory-bound.
    assert_eq!(row("latency-bound")[2..4], ["1", "1"]);
    assert_eq!((row("latency-bound")[5].as_str(), row("latency-bound")[9].as_str()), ("0.25", "0"));
    assert_eq!((row("compute-bound")[5].as_str(), row("compute-bound")[9].as_str()), ("0", "0.25"));
    assert_eq!(row("memory-bound")[6..8], ["1", "1"]);
    assert!(classes.rows.iter().all(|row| row.len() == classes.columns.len()));
}
