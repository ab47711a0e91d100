//! Rules about matrix products.

use super::*;

const COLUMNS: [&str; 14] = [
    "kernel",
    "name",
    "stage",
    "pass",
    "shape",
    "bound",
    "time_ns",
    "roof_ns",
    "ceiling",
    "tile_efficiency",
    "wave_efficiency",
    "alignment_bytes",
    "waves",
    "recoverable_ns",
];

/// A stage of 1000 ns with 500 ns of GPU operations and these products.
fn made(rows: &[&[&str]]) -> Made {
    decode().with(ids::OPERATION_TIME_SUM, 500.0).rows(ids::GEMMS, &COLUMNS, rows)
}

fn compute<'a>(time: &'a str, roof: &'a str) -> Vec<&'a str> {
    let mut row = vec!["big", "big_kernel", "decode", "nsys", "8 × 8 × 8", "compute"];
    row.extend([time, roof, "specified", "1", "1", "16", "1", ""]);
    row
}

fn memory<'a>(time: &'a str, roof: &'a str, waves: &'a str) -> Vec<&'a str> {
    let mut row = vec!["few", "few_rows", "decode", "nsys", "4 × 8 × 8", "memory"];
    row.extend([time, roof, "specified", "0.5", "0.2", "16", waves, ""]);
    row
}

#[test]
fn only_products_far_above_the_roofline_count_as_waste() {
    // 150 against 100 ns is far (1.5), 140 against 100 is not: 50 of 500 ns.
    let near = compute("140", "100");
    let found = made(&[&compute("150", "100"), &near]).one(&gemm_roofline::RULE);
    assert_eq!(saved(&found), 50.0);
    assert_eq!(found.weight_ns, 500.0, "ten instances");
    let text = words(&found.statement);
    assert!(text.contains("take 150.0 ns of an instance of decode (30.0 % of its GPU time)"));
    assert!(text.contains("The largest waste is 8 × 8 × 8 (big): 150.0 ns against 100.0 ns"));
    assert_eq!(made(&[&near]).outcome(&gemm_roofline::RULE), Outcome::CLEAR);
    // 24 of 500 ns are 4.8 %; products that memory bounds are another rule's.
    assert_eq!(made(&[&compute("60", "36")]).outcome(&gemm_roofline::RULE), Outcome::CLEAR);
    let memory = made(&[&memory("150", "50", "1")]);
    assert_eq!(silent(memory.outcome(&gemm_roofline::RULE)).0, "not applicable");
}

#[test]
fn products_with_few_rows_are_held_against_the_bandwidth() {
    // 300 ns, of which 60 + 90 are needed: 50 %. One whose bytes come from the cache counts up to its time.
    let rows = [memory("100", "60", "0.9"), memory("200", "90", "0.4"), memory("100", "160", "1")];
    let made_of = |rows: &[Vec<&str>]| {
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        made(&rows)
    };
    let found = made_of(&rows[..2]).one(&gemm_bandwidth::RULE);
    let text = words(&found.statement);
    assert!(
        text.contains("(60.0 % of its GPU time) read and write at 50.0 % of the specified memory")
    );
    assert!(text.contains("where its bytes need 90.00 ns, and its blocks fill 0.400 waves."));
    assert_eq!(saved(&found), 150.0);
    // (60 + 90 + 100) ÷ 400.
    let cached = made_of(&rows).one(&gemm_bandwidth::RULE);
    assert!(words(&cached.statement).contains("at 62.5 % of the specified memory bandwidth"));
    // 80 % of the bandwidth is near; 24 of 500 ns are little; compute-bound ones do not count.
    for row in [memory("200", "160", "1"), memory("40", "16", "1")] {
        assert_eq!(made(&[&row]).outcome(&gemm_bandwidth::RULE), Outcome::CLEAR);
    }
    let compute = made(&[&compute("300", "100")]);
    assert_eq!(silent(compute.outcome(&gemm_bandwidth::RULE)).0, "not applicable");
}

#[test]
fn tiles_and_waves_explain_no_more_than_what_is_lost() {
    let with = |time: &'static str, tiles: &'static str| {
        let mut row = compute(time, "100");
        (row[9], row[10]) = (tiles, "0.8");
        row
    };
    // 100 ÷ (1 × 0.8) − 100 = 25 ns of 500.
    let found = made(&[&with("200", "1")]).one(&gemm_quantization::RULE);
    assert!((saved(&found) - 25.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("tiles are 100.0 % and whose waves are 80.0 % full"));
    // 100 ÷ (0.5 × 0.8) − 100 = 150, of which 60 are lost at all.
    assert!(
        (saved(&made(&[&with("160", "0.5")]).one(&gemm_quantization::RULE)) - 60.0).abs() < 1e-9
    );
    // 9 of 500 ns; and memory-bound products wait for bytes.
    assert_eq!(made(&[&with("109", "1")]).outcome(&gemm_quantization::RULE), Outcome::CLEAR);
    let memory = made(&[&memory("200", "100", "1")]);
    assert_eq!(silent(memory.outcome(&gemm_quantization::RULE)).0, "not applicable");
    // Of kernels whose tiles and waves are not known nothing can be said.
    let mut bare = compute("200", "100");
    (bare[9], bare[10]) = ("", "");
    assert_eq!(silent(made(&[&bare]).outcome(&gemm_quantization::RULE)).0, "abstained");
}

#[test]
fn unaligned_products_need_time_to_matter() {
    let with = |time: &'static str, bytes: &'static str| {
        let mut row = compute(time, "10");
        row[11] = bytes;
        row
    };
    // 50 of 500 ns.
    let found = made(&[&with("50", "2")]).one(&gemm_alignment::RULE);
    assert!(words(&found.statement).contains("take 10.0 % of the GPU time of decode"));
    assert!(words(&found.statement).ends_with("aligned to 2.000 B."), "{:?}", found.statement);
    assert_eq!(saved(&found), 40.0);
    for row in [with("50", "16"), with("4.9", "2")] {
        assert_eq!(made(&[&row]).outcome(&gemm_alignment::RULE), Outcome::CLEAR);
    }
    assert_eq!(silent(made(&[&with("50", "")]).outcome(&gemm_alignment::RULE)).0, "abstained");
}

#[test]
fn products_of_unknown_size_or_of_other_passes_say_nothing() {
    let mut other = compute("150", "100");
    other[3] = "torch";
    let mut unknown = compute("150", "");
    unknown[4] = "";
    let made = made(&[&other, &unknown]);
    for rule in [
        &gemm_roofline::RULE,
        &gemm_bandwidth::RULE,
        &gemm_quantization::RULE,
        &gemm_alignment::RULE,
    ] {
        assert!(matches!(made.outcome(rule), Outcome::Abstained(_)), "{}", rule.id);
    }
}

#[test]
fn sizes_that_are_not_known_are_said() {
    let made = |known: f64, products: f64| {
        let made = decode().with(ids::GEMM_SHAPE_COVERAGE, known);
        made.with(ids::GEMM_TIME_SHARE, products).with(ids::FLOP_COVERAGE, 0.3)
    };
    let text = words(&made(0.6, 0.5).one(&flop_coverage::RULE).statement);
    assert!(text.contains("(50.0 % of its GPU time) only 60.0 % has known sizes"), "{text}");
    assert!(text.contains("of its GPU time 30.0 % has known FLOPs"), "{text}");
    for clear in [made(0.9, 0.5), made(0.6, 0.09)] {
        assert_eq!(clear.outcome(&flop_coverage::RULE), Outcome::CLEAR);
    }
}

#[test]
fn utilization_by_counters_or_sizes_above_the_peak_cannot_be() {
    let made = |id, value| decode().with(id, value);
    for id in [ids::HFU, ids::MIXED_DTYPE_UTILIZATION] {
        let found = made(id, 1.25).one(&utilization_basis::RULE);
        assert_eq!(found.severity, Severity::Critical);
        assert!(words(&found.statement).contains("of decode comes to 125.0 %"));
        assert_eq!(made(id, 0.99).outcome(&utilization_basis::RULE), Outcome::CLEAR);
    }
}

#[test]
fn the_ceiling_is_named() {
    let with = |mut row: Vec<&'static str>, ceiling| {
        row[8] = ceiling;
        row
    };
    let big = |ceiling| with(compute("200", "125"), ceiling);
    let found = made(&[&big("measured")]).one(&gemm_roofline::RULE);
    assert!(words(&found.statement).contains("where the measured rate allows 125.0 ns"));
    assert!(found.gain.unwrap().basis.contains("FLOPs ÷ measured rate"));
    let found = made(&[&big("measured"), &big("specified")]).one(&gemm_roofline::RULE);
    let text = words(&found.statement);
    assert!(text.contains("where the measured or, without that, specified rate allows"), "{text}");
    let few = with(memory("200", "120", "1"), "measured");
    let found = made(&[&few]).one(&gemm_bandwidth::RULE);
    assert!(words(&found.statement).contains("at 60.0 % of the measured memory bandwidth"));
}
