#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{column, dataset, english, metric, numbers, show_with};
use rooflens_analysis::testing::counters::session;
use rooflens_analysis::{Facts, Options, Results};
use rooflens_document::Cell;
use rooflens_hardware::Hardware;
use rooflens_session::Session;
use rooflens_units::{Flops, Percent, Ratio};

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
        (
            "wide",
            &[
                ("", TIME, "s", 3e-6),
                ("", SM, "%", 30.0),
                ("", DRAM, "%", 80.0),
            ],
        ),
    ])
}

fn content(session: &Session, classifier: Classifier) -> SectionContent {
    let options = Options {
        gpu: None,
        classifier,
    };
    show_with(&SECTION, session, &Hardware::default(), &options)
}

fn share(content: &SectionContent, class: &str) -> Option<f64> {
    metric(content, "bound_share", |scope| {
        scope.class.as_deref() == Some(class)
    })
}

#[test]
fn shares_are_of_profiled_time_by_the_chosen_rule() {
    let session = two_launches();
    let ours = content(&session, Classifier::Rooflens);
    // 1 µs and 3 µs of 4 µs.
    assert!((share(&ours, "latency-bound").unwrap() - 0.25).abs() < 1e-12);
    assert!((share(&ours, "dram-bound").unwrap() - 0.75).abs() < 1e-12);
    assert!((metric(&ours, "profiled_time", |_| true).unwrap() - 4000.0).abs() < 1e-9);
    let seed = content(&session, Classifier::Seed);
    // 20 − 4 > 5 and 30 − 80 < −5.
    assert!((share(&seed, "compute-bound").unwrap() - 0.25).abs() < 1e-12);
    assert!((share(&seed, "memory-bound").unwrap() - 0.75).abs() < 1e-12);
}

#[test]
fn the_table_is_sorted_by_duration_and_holds_both_rules() {
    let content = content(&two_launches(), Classifier::Seed);
    let kernels = dataset(&content, "profiled_kernels");
    let cell = |row: usize, id: &str| column(kernels, id)[row].clone();
    assert_eq!(cell(0, "name"), Cell::Name("wide".into()));
    assert_eq!(cell(0, "bound"), Cell::Text("dram-bound".into()));
    assert_eq!(cell(1, "bound"), Cell::Text("latency-bound".into()));
    assert_eq!(cell(1, "bound_reason"), Cell::Text("small grid".into()));
    assert_eq!(cell(1, "bound_seed"), Cell::Text("compute-bound".into()));
    assert_eq!(cell(0, "waves"), Cell::Missing);
    let view = content.blocks.iter().find_map(|block| match block {
        Block::Table(view) if view.dataset == "profiled_kernels" => Some(view),
        _ => None,
    });
    let exists = |id: &&str| kernels.columns.iter().any(|column| column.id == *id);
    assert!(view.unwrap().columns.iter().all(exists));
}

#[test]
fn all_metrics_are_listed_but_not_the_device() {
    let session = session(&[(
        "k",
        &[
            ("", TIME, "s", 1e-6),
            ("", "device__attribute_warp_size", "", 32.0),
        ],
    )]);
    let (facts, hardware, options) = (
        Facts::new(&session),
        Hardware::default(),
        Options::default(),
    );
    let inputs = rooflens_analysis::Context::new(&session, &facts, &hardware, &options);
    let results = Results::compute(&inputs);
    let context = Context::new(
        inputs.with(&results),
        rooflens_document::Catalogue::english(),
    );
    let parts = ncu_metrics(&context).unwrap();
    assert_eq!(parts.map(|part| part.rows.len()).sum::<usize>(), 1);
}

#[test]
fn launches_without_durations_have_no_profiled_time() {
    let content = content(
        &session(&[("k", &[("", SM, "%", 20.0)])]),
        Classifier::Rooflens,
    );
    let [time] = content.metrics.as_slice() else {
        panic!("one metric")
    };
    assert_eq!(
        (time.id.as_str(), time.value.number()),
        ("profiled_time", None)
    );
}

#[test]
fn without_a_pass_the_reason_names_the_command() {
    let missing = |session: &Session| {
        let (facts, hardware, options) =
            (Facts::new(session), Hardware::default(), Options::default());
        let context = rooflens_analysis::Context::new(session, &facts, &hardware, &options);
        let results = Results::compute(&context);
        let context = english(&context.with(&results));
        show(&context).err().map(|missing| missing.0)
    };
    assert_eq!(missing(&Session::default()), Some("missing.ncu"));
    assert!(missing(&two_launches()).is_none());
}

#[test]
fn classes_are_counted_and_weighted_by_time_by_both_rules() {
    let content = content(&two_launches(), Classifier::Rooflens);
    let classes = dataset(&content, "bound_classes");
    let bounds = column(classes, "bound");
    let cell = |bound: &str, id: &str| {
        let at = bounds
            .iter()
            .position(|own| *own == Cell::Text(bound.into()))
            .unwrap();
        numbers(classes, id)[at]
    };
    // The seed rule calls the small grid compute-bound and the other launch memory-bound.
    let counts = |bound, ids: [&str; 2]| ids.map(|id| cell(bound, id));
    assert_eq!(counts("latency-bound", ["launches", "kernels"]), [1.0, 1.0]);
    assert_eq!(
        counts("latency-bound", ["share", "seed_share"]),
        [0.25, 0.0]
    );
    assert_eq!(
        counts("compute-bound", ["share", "seed_share"]),
        [0.0, 0.25]
    );
    assert_eq!(
        counts("memory-bound", ["seed_launches", "seed_kernels"]),
        [1.0, 1.0]
    );
}

#[test]
fn the_printed_rule_is_made_of_the_thresholds_that_decide() {
    let other = Thresholds {
        busy: Percent(41.5),
        lead: Percent(7.25),
        tie: Percent(2.25),
        small_grid_waves: Ratio(2.5),
        low_occupancy: Percent(12.5),
        flops_per_instruction: Flops(0.125),
        seed_margin: Percent(3.75),
        borderline: Percent(3.0),
    };
    let (session, hardware, options) =
        (Session::default(), Hardware::default(), Options::default());
    let facts = Facts::new(&session);
    let context = rooflens_analysis::Context::new(&session, &facts, &hardware, &options);
    let method = bound_classes(&english(&context), &other);
    let text: String = method.text.iter().map(Inline::plain).collect();
    for number in [
        "41.5 %",
        "7.25 points",
        "2.25 points",
        "2.5 waves",
        "12.5 %",
        "0.125 FLOP",
        "+3.75",
    ] {
        assert!(text.contains(number), "{number}: {text}");
    }
}
