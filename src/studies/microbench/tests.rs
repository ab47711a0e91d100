use rooflens_diagnostic::{Diagnostics, Severity};
use rooflens_document::report::Provenance;
use rooflens_document::{Block, Catalogue};
use rooflens_hardware::Hardware;
use rooflens_units::Ratio;

use crate::analysis::{Results, Series};
use crate::fit::Fit;
use crate::import::{Device, File, read};

/// A sweep and the peaks of one H100.
const BENCH: &[u8] = include_bytes!("testdata/bench.json");
const PEAKS: &[u8] = include_bytes!("testdata/peaks.json");

fn devices(files: &[(&str, &[u8])]) -> (Vec<Device>, Diagnostics) {
    let (mut devices, mut diagnostics) = (Vec::new(), Diagnostics::default());
    for (path, bytes) in files {
        read(&File { path, bytes }, &mut devices, &mut diagnostics);
    }
    (devices, diagnostics)
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-4
}

#[test]
fn a_line_is_found_again_and_its_floor() {
    // 2 s + work ÷ 4 per second.
    let exact: Vec<(f64, f64)> = [4.0, 40.0, 400.0]
        .map(|work| (work, 2.0 + work / 4.0))
        .into();
    let fit = Fit::of(&exact).expect("a fit");
    assert!(near(fit.floor.expect("a floor").0, 2.0) && near(fit.rate, 4.0) && near(fit.r2.0, 1.0));
    assert!(fit.residual.0 < 1e-9 && fit.points == 3);
    // Proportional and below: the floor would be negative.
    let below = Fit::of(&[(1.0, 0.9), (2.0, 2.0), (3.0, 3.1)]).expect("a fit");
    assert_eq!(below.floor, None);
    // Two amounts of work are no fit, nor are times that fall.
    assert_eq!(Fit::of(&[(1.0, 1.0), (2.0, 2.0), (2.0, 2.1)]), None);
    assert!(Fit::of(&[(1.0, 9.0), (2.0, 5.0), (3.0, 0.1)]).is_none_or(|fit| fit.rate > 0.0));
}

#[test]
fn a_real_sweep_gives_the_figures_of_numpy() {
    // tests/reference/microbench.py.
    let (devices, diagnostics) = devices(&[("bench.json", BENCH), ("peaks.json", PEAKS)]);
    assert_eq!(
        (
            devices.len(),
            devices[0].cases.len(),
            diagnostics.iter().count()
        ),
        (1, 132, 0)
    );
    let results = Results::of(&devices[0], &Hardware::builtin());
    let bf16 = results.headline().expect("bf16");
    assert!(near(bf16.ridge.expect("a copy").0, 227.056_643), "{bf16:?}");
    assert!(!bf16.from_cases);
    // The specified dense rate of an H100 SXM: 989.4 TFLOP/s, of which 686.59 are 0.6939.
    assert!(
        bf16.efficiency()
            .is_some_and(|share| (share.0 - 0.6939).abs() < 2e-4),
        "{bf16:?}"
    );
    let shares = |operation: &str, dtype: &str| {
        let own = results.cases.iter().filter(|one| {
            one.case.operation == operation && one.case.dtype.as_deref() == Some(dtype)
        });
        let mut shares: Vec<f64> = own.filter_map(|one| Some(one.efficiency()?.0)).collect();
        shares.sort_by(f64::total_cmp);
        [shares[0], shares[shares.len() - 1]]
    };
    let expected = [
        ("linear", "bf16", [0.8882, 1.0144]),
        ("attention_decode", "bf16", [0.1894, 1.0241]),
    ];
    for (operation, dtype, ends) in expected {
        let found = shares(operation, dtype);
        assert!(
            (found[0] - ends[0]).abs() < 1e-4 && (found[1] - ends[1]).abs() < 1e-4,
            "{found:?}"
        );
    }
    let fit = |operation: &str, dtype: Option<&str>, in_flops: bool| {
        let mut all = results.fits.iter();
        let one = all
            .find(|one| (one.operation, one.dtype, one.in_flops) == (operation, dtype, in_flops));
        one.expect(operation).fit
    };
    let linear = fit("linear", Some("bf16"), true);
    assert!(near(linear.floor.expect("a floor").0, 5.0701e-6) && near(linear.rate, 6.808_496e14));
    assert!((linear.r2.0 - 0.998_156).abs() < 1e-6 && (linear.residual.0 - 0.04315).abs() < 1e-5);
    let copy = fit("copy_d2d", None, false);
    assert!(near(copy.floor.expect("a floor").0, 4.9246e-6) && near(copy.rate, 3.144_943e12));
    let through = fit("linear", Some("fp16"), false);
    assert_eq!((through.floor, through.points), (None, 3));
    assert!(near(through.rate, 2.775_390e12) && (through.r2.0 - 0.624_219).abs() < 1e-5);
    assert_eq!(results.fits.len(), 17);
    // The smallest product takes 41 µs and tells no floor of 0.26; the smallest rotary embedding takes 1.78 µs.
    let floor = |operation| {
        let mut all = results
            .fits
            .iter()
            .filter(|one| one.operation == operation && !one.in_flops);
        all.find_map(Series::floor)
    };
    assert_eq!(floor("linear"), None);
    assert!(near(floor("rotary").expect("a floor").0, 1.9327e-6));
    // All but 5 copies within the device and 8 over the bus were replayed from CUDA graphs.
    assert_eq!(
        devices[0].cases.iter().filter(|case| case.in_graph).count(),
        132 - 13
    );
}

#[test]
fn without_sustained_peaks_the_best_cases_are_the_ceilings() {
    let (devices, _) = devices(&[("bench.json", BENCH)]);
    let results = Results::of(&devices[0], &Hardware::builtin());
    let best = |what: &str| results.ceiling(what).expect(what);
    assert!(best("bf16").from_cases && best("copy").from_cases);
    // None of the cases that they are made from is above them.
    let gemms = results
        .cases
        .iter()
        .filter(|one| one.case.operation == "linear");
    assert!(
        gemms
            .filter_map(|one| one.efficiency())
            .all(|share| share <= Ratio(1.0 + 1e-12))
    );
}

#[test]
fn what_was_not_measured_is_said_and_what_is_broken_costs_itself() {
    let text = r#"{"version": 1, "gpu": "X", "plan": {}, "cases": [
        {"name": "a", "operation": "gelu", "bytes_formula": "", "flops": 1, "bytes": 2, "error": "no"},
        {"name": "b", "operation": "gelu", "bytes_formula": "", "flops": 1, "bytes": 2, "median_s": -1},
        {"name": "c", "operation": "gelu", "bytes_formula": "", "flops": 1, "bytes": 2,
         "median_s": 2, "min_s": 1, "max_s": 3, "p95_s": 3}]}"#;
    let files: [(&str, &[u8]); 4] = [
        ("a.json", text.as_bytes()),
        ("b.json", b"{"),
        ("c.json", br#"{"version": 2, "matmul": {}}"#),
        ("d.json", b"{}"),
    ];
    let (devices, diagnostics) = devices(&files);
    assert_eq!((devices.len(), devices[0].cases.len()), (1, 2));
    let found: Vec<(Severity, &str)> = diagnostics
        .iter()
        .map(|one| (one.severity, one.code))
        .collect();
    let refused = (Severity::Error, "microbench/refused");
    assert_eq!(
        found,
        [
            (Severity::DataLoss, "microbench/case"),
            refused,
            refused,
            refused
        ]
    );
    let results = [Results::of(&devices[0], &Hardware::builtin())];
    let report = crate::report(
        &results,
        Catalogue::english(),
        Provenance::default(),
        &diagnostics,
    );
    let failed = report
        .dataset("microbench_failed")
        .expect("the case without a result");
    assert_eq!(failed.rows.len(), 1);
}

#[test]
fn every_section_has_its_figures() {
    let (devices, diagnostics) = devices(&[("bench.json", BENCH), ("peaks.json", PEAKS)]);
    let results = [Results::of(&devices[0], &Hardware::builtin())];
    for text in [
        Catalogue::english(),
        Catalogue::of(rooflens_document::Lang::Zh),
    ] {
        let report = crate::report(&results, text, Provenance::default(), &diagnostics);
        // The files of the libraries: libcudnn.so.9.14.0, and CUDA 13.0.
        let versions = [("cuDNN", "9.14.0"), ("CUDA (driver)", "13.0")];
        for (name, version) in versions {
            assert!(
                report
                    .meta
                    .facts
                    .contains(&(name.to_owned(), version.to_owned()))
            );
        }
        let ids: Vec<&str> = report.sections.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(
            ids[..3],
            [
                "microbench_roofline",
                "microbench_operations",
                "microbench_fits"
            ]
        );
        let charts = report.sections.iter().flat_map(|one| &one.blocks);
        let charts = charts
            .filter(|block| matches!(block, Block::Chart(_)))
            .count();
        // One roofline, and a chart for each operation and kind of work with a fit: 11 of them.
        assert_eq!(charts, 1 + 11);
        assert_eq!(
            report.dataset("microbench_cases").map(|all| all.rows.len()),
            Some(132)
        );
    }
}
